"""State-space mixers, as several families write them."""

from __future__ import annotations

from roofline.dtypes import parse_dtype
from roofline.errors import RooflineError
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Section
from roofline.specs.huggingface.parts import lean

# What Bamba and its relatives say of their state-space layers.
KEYS_OF_BAMBA = (
    "mamba_expand", "mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state", "mamba_d_conv", "mamba_conv_bias",
    "mamba_chunk_size", "mamba_proj_bias",
)  # fmt: skip


def state_dtype(config: Config, key: str) -> Section:
    """The dtype of recurrent state that a config asks for, where it does."""
    name = config.text(key, default=None)
    if name is None:
        return {}
    try:
        return {"state_dtype": parse_dtype(name).name}
    except RooflineError as error:
        config.refuse(key, str(error))


def mamba2(
    config: Config, heads: int, head_dim: int, groups: int, state: int, *, conv_kernel: int, conv_bias: bool,
    chunk_size: int, **rest_of_it: object,
) -> Section:  # fmt: skip
    """Mamba-2 of the given sizes."""
    if heads % groups:
        name = next((name for name in ("mamba_n_groups", "n_groups") if config.has(name)), "n_groups")
        config.refuse(name, f"{groups} groups do not divide the {heads} heads of the state-space layers")
    return {
        "kind": "mamba2",
        "mamba_num_heads": heads,
        "mamba_head_dim": head_dim,
        "n_groups": groups,
        "ssm_state_size": state,
        "conv_kernel": conv_kernel,
        "chunk_size": chunk_size,
        "use_conv_bias": conv_bias,
        **lean(**rest_of_it),
    }


def mamba2_of_bamba(config: Config) -> Section:
    """Mamba-2 in the keys of Bamba, which Granite 4 took over."""
    inner = config.whole("mamba_expand") * config.whole("hidden_size")
    heads = config.whole("mamba_n_heads")
    config.divides(("mamba_n_heads", heads), ("the state-space layers' width", inner))
    if config.data.get("mamba_d_head") == "auto":
        config.harmless("mamba_d_head")
    elif (given := config.whole("mamba_d_head")) != inner // heads:
        config.refuse("mamba_d_head", f"{given} times mamba_n_heads ({heads}) is not the state-space layers' width ({inner})")
    return mamba2(
        config,
        heads,
        inner // heads,
        config.whole("mamba_n_groups"),
        config.whole("mamba_d_state"),
        conv_kernel=config.whole("mamba_d_conv"),
        conv_bias=config.flag("mamba_conv_bias"),
        chunk_size=config.whole("mamba_chunk_size"),
        use_bias=config.flag("mamba_proj_bias"),
    )


def rank_of_steps(config: Config, name: str) -> int:
    """Rank of the step Delta: a number, or "auto": a sixteenth of hidden_size, rounded up."""
    if config.data.get(name) == "auto":
        config.harmless(name)
        return int(-(-config.whole("hidden_size") // 16))
    return int(config.whole(name))


def mamba(
    config: Config, inner: int, *, state: str, rank: str, kernel: str, conv_bias: str, bias: str, **rest_of_it: object
) -> Section:
    """Mamba-1 of `inner` channels; the other arguments are the names under which a family has its sizes."""
    return {
        "kind": "mamba",
        "mamba_d_inner": inner,
        "ssm_state_size": config.whole(state),
        "time_step_rank": rank_of_steps(config, rank),
        "conv_kernel": config.whole(kernel),
        "use_conv_bias": config.flag(conv_bias),
        **lean(use_bias=config.flag(bias), **rest_of_it),
    }
