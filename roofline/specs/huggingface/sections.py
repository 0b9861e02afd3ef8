"""Sections of a model's file that several families share: the stream, attention, feed-forward blocks, experts, state-space
mixers."""

from __future__ import annotations

from typing import Any

from roofline.dtypes import parse_dtype
from roofline.errors import RooflineError
from roofline.specs.huggingface.config import REQUIRED, Config
from roofline.specs.huggingface.draft import Layer, Section

# The first version of transformers whose LlamaConfig has num_key_value_heads: what older ones wrote is multi-head.
_GROUPED_SINCE = (4, 31)


_OF_CLASS = "the default of the class, where the key is absent"


def lean(**keys: Any) -> Section:
    """A section without what is absent or off."""
    return {name: value for name, value in keys.items() if value is not None and value is not False}


def stream(config: Config, *, tie: Any = REQUIRED, positions: Any = REQUIRED, vocab: Any = REQUIRED, **keys: Any) -> Section:
    """Width, vocabulary, longest context, tied embeddings and dtype: the keys of a model that are not layers.

    `tie`, `positions` and `vocab` are for files without those keys.
    """
    section = {
        "hidden_size": config.whole("hidden_size"),
        "vocab_size": config.whole("vocab_size", default=vocab),
        "max_position_embeddings": config.whole("max_position_embeddings", default=positions, why=_OF_CLASS),
    }
    return {**section, **rest(config, tie=tie), **keys}


def rest(config: Config, *, tie: Any = REQUIRED) -> Section:
    """Tied embeddings and the dtype of the published weights."""
    return {"tie_word_embeddings": tied(config, tie), **dtype(config)}


def tied(config: Config, default: Any = REQUIRED) -> bool:
    """Whether the LM head is the embedding table. A nested language model and the file around it have to agree."""
    why = f"the default of {config.data.get('model_type', 'the class')} configs, where the key is absent"
    name = "tie_word_embeddings"
    value = bool(config.flag(name, default=default, why=why))
    around = config.document.data.get(name, value)
    if config.place and around != value:
        config.refuse(name, "the file around it says otherwise: versions of transformers differ on which of the two counts")
    return value


def dtype(config: Config) -> Section:
    """The dtype of the published weights; bf16 where nothing is said."""
    name = config.text("torch_dtype", "dtype", default=None)
    if name is None:
        config.note("dtype", "bf16", "config.json names none")
        return {}
    try:
        return {"dtype": parse_dtype(name).name}
    except RooflineError as error:
        given = next(key for key in ("torch_dtype", "dtype") if config.data.get(key) == name or config.outer.get(key) == name)
        config.refuse(given, str(error))


def layers_of(config: Config) -> int:
    """How many layers there are."""
    return int(config.whole("num_hidden_layers"))


def heads(
    config: Config, *, kv: Any = REQUIRED, head_dim: int | None = None, widths: tuple[str, ...] = ("head_dim",)
) -> tuple[int, int, int]:
    """Query heads, KV heads and the width of a head.

    `kv`: the number of KV heads where the config says nothing (default: it has to, unless it was written before there
    were fewer of them than query heads). `head_dim`: the default of the class; none: hidden_size over the heads.
    `widths`: the names that the width of a head has.
    """
    n_q = config.whole("num_attention_heads")
    if kv is REQUIRED and older(config, _GROUPED_SINCE):
        kv = None
    n_kv = config.whole("num_key_value_heads", default=kv)
    if n_kv is None:
        n_kv = n_q
        config.note("num_key_value_heads", n_q, "config.json has none: as many as query heads")
    if n_q % n_kv:
        config.refuse("num_key_value_heads", f"{n_kv} must divide num_attention_heads ({n_q})")
    return n_q, n_kv, width_of_head(config, n_q, head_dim, *widths)


def grouped(config: Config) -> Any:
    """For `heads`: the number of KV heads has to be said, and null says that there are as many as query heads."""
    return None if config.data.get("num_key_value_heads", 0) is None else REQUIRED


def divided(config: Config, heads: tuple[str, int], width: tuple[str, int]) -> int:
    """The width of a head where it is the hidden size over the heads and nothing else."""
    config.divides(heads, width)
    return width[1] // heads[1]


def width_of_head(config: Config, n_q: int, default: int | None = None, *names: str) -> int:
    """head_dim as the config says, or the default of the class, or hidden_size over the heads."""
    width = config.whole(*(names or ("head_dim",)), default=None)
    if width is not None:
        return int(width)
    if default is not None:
        if "head_dim" in config.data:
            config.refuse(
                "head_dim", "null is no width, and classes of this family differ on what it means: say how wide a head is"
            )
        config.note("head_dim", default, _OF_CLASS)
        return default
    hidden = config.whole("hidden_size")
    if hidden % n_q:
        config.refuse("num_attention_heads", f"{n_q} does not divide hidden_size ({hidden}), and there is no head_dim")
    return int(hidden // n_q)


def older(config: Config, version: tuple[int, int]) -> bool:
    """Whether a config was written by a transformers older than a version."""
    written = config.data.get("transformers_version")
    if not isinstance(written, str):
        return False
    numbers = written.split(".")[:2]
    return all(number.isdigit() for number in numbers) and tuple(map(int, numbers)) < version


def rotary(config: Config, head_dim: int, default: float | None = None, *names: str) -> Section:
    """`rotary_dim`, where not all of a head is rotated.

    `names` are those that the share had before it was partial_rotary_factor.
    """
    parameters = config.part("rope_parameters", default=None, looked_at=False)
    inside = None if parameters is None else parameters.fraction("partial_rotary_factor", default=None)
    share = config.fraction("partial_rotary_factor", *names, default=None)
    if share is None and inside is None and default not in (None, 1):
        config.note("partial_rotary_factor", default, _OF_CLASS)
    return _rotated(head_dim, share or inside or default)


def rotary_of(config: Config, kind: str, head_dim: int, default: float | None = None) -> Section:
    """`rotary_dim` of one kind of layer, where `rope_parameters` are given kind by kind."""
    parameters = config.part("rope_parameters", default=None, looked_at=False)
    of_kind = None if parameters is None else parameters.part(kind, default=None, looked_at=False)
    share = None if of_kind is None else of_kind.fraction("partial_rotary_factor", default=None)
    if share is None and default is not None:
        config.note(f"rope_parameters.{kind}.partial_rotary_factor", default, _OF_CLASS)
    return _rotated(head_dim, share or default)


def _rotated(head_dim: int, share: float | None) -> Section:
    return {} if share is None or share == 1 else {"rotary_dim": int(head_dim * share)}


def gqa(n_q: int, n_kv: int, head_dim: int, **rest_of_it: Any) -> Section:
    """Softmax attention."""
    sizes = {"num_attention_heads": n_q, "num_key_value_heads": n_kv, "head_dim": head_dim}
    return {"kind": "gqa", **sizes, **lean(**rest_of_it)}


def gated_mlp(width: int, **rest_of_it: Any) -> Section:
    """down(act(gate) * up)."""
    return {"kind": "gated_mlp", "intermediate_size": width, **lean(**rest_of_it)}


def mlp(width: int, **rest_of_it: Any) -> Section:
    """down(act(up))."""
    return {"kind": "mlp", "intermediate_size": width, **lean(**rest_of_it)}


def moe(experts: int, top_k: int, width: int, **rest_of_it: Any) -> Section:
    """A mixture of experts."""
    sizes = {"num_experts": experts, "num_experts_per_tok": top_k, "moe_intermediate_size": width}
    return {"kind": "moe", **sizes, **lean(**{key: value for key, value in rest_of_it.items() if value != 0})}


def experts_of(config: Config, experts: tuple[str, ...], top_k: tuple[str, ...] = ("num_experts_per_tok",)) -> tuple[int, int]:
    """Routed experts, and how many a token goes to."""
    count, chosen = config.whole(*experts), config.whole(*top_k)
    if chosen > count:
        config.refuse(top_k[0], f"{chosen} is more than the {count} experts")
    return int(count), int(chosen)


def flat_notes(config: Config) -> list[str]:
    """What to say of a file in which the keys of the language model stand beside those of other parts."""
    parts = [key for key, value in config.data.items() if key.endswith("_config") and isinstance(value, dict)]
    others = ", ".join(key for key in parts if key != "quantization_config")
    return [f"What is counted is the language model alone, not {others}."] if others else []


def mtp(config: Config, *names: str) -> None:
    """Layers for multi-token prediction: they stand apart, and the result says so."""
    for name in names:
        if config.whole(name, default=0, low=0):
            config.note(name, config.data[name], "layers for multi-token prediction are not counted")


# Names of layers by what works on each token: as `mlp_layer_types` has them, and as ours are called.
_KINDS = {"dense": "dense", "sparse": "moe"}


def mla(config: Config, *, biases: bool = True, **rest_of_it: object) -> Section:
    """Multi-head latent attention. `biases`: whether the family's class heeds `attention_bias`.

    There are no KV heads: what is cached is the latent, whatever num_key_value_heads and head_dim say.
    """
    config.harmless("num_key_value_heads", "head_dim", "qk_head_dim")
    config.only("partial_rotary_factor", 1, "what is rotated is qk_rope_head_dim, all of it")
    biased = config.flag("attention_bias", default=False) if biases else False
    return {
        "kind": "mla",
        "num_attention_heads": config.whole("num_attention_heads"),
        **lean(q_lora_rank=_rank_of_queries(config)),
        "kv_lora_rank": config.whole("kv_lora_rank"),
        "qk_nope_head_dim": config.whole("qk_nope_head_dim"),
        "qk_rope_head_dim": config.whole("qk_rope_head_dim"),
        "v_head_dim": config.whole("v_head_dim"),
        **lean(attention_bias=biased, **rest_of_it),
    }


def _rank_of_queries(config: Config) -> int | None:
    """Null says that queries are not compressed; an absent key says nothing: classes have a rank as their default."""
    if "q_lora_rank" in config.data and config.data["q_lora_rank"] is None:
        config.harmless("q_lora_rank")
        config.note("q_lora_rank", None, "null in config.json: queries are not compressed")
        return None
    return int(config.whole("q_lora_rank"))


# Names that a number has in DeepSeek's configs; and in Kimi Linear's, which has all of both.
_EXPERTS = ("n_routed_experts", "num_local_experts", "num_experts")
ExpertKeys = dict[str, tuple[str, ...]]
DEEPSEEK: ExpertKeys = {"chosen": ("num_experts_per_tok",), "shared": ("n_shared_experts",)}
KIMI_LINEAR: ExpertKeys = {
    "chosen": ("num_experts_per_token", "num_experts_per_tok"), "shared": ("num_shared_experts", "n_shared_experts"),
}  # fmt: skip


def latent_experts(config: Config, names: ExpertKeys) -> Section:
    """Routed experts of moe_intermediate_size, and shared ones that are one block of their joint width."""
    count, chosen = experts_of(config, _EXPERTS, names["chosen"])
    width = config.whole("moe_intermediate_size")
    return moe(count, chosen, width, shared_intermediate_size=config.whole(*names["shared"]) * width)


def kinds_of_mlp(config: Config, count: int) -> list[str]:
    """`dense` or `moe` for each layer: the first ones are dense."""
    # NB: the class of transformers does not look at the step, older code does; there is no model with another one.
    config.only("moe_layer_freq", 1, "code of different age reads another step in different ways")
    dense = config.whole("first_k_dense_replace", low=0)
    return ["dense" if index < dense else "moe" for index in range(count)]


def listed_kinds_of_mlp(config: Config, count: int) -> list[str]:
    """As `mlp_layer_types` lists them, where it is there; else as before it was."""
    listed = config.words("mlp_layer_types", count, _KINDS, default=None)
    if listed is None:
        return kinds_of_mlp(config, count)
    kinds = [_KINDS[word] for word in listed]
    if config.has("first_k_dense_replace") and kinds != kinds_of_mlp(config, count):
        config.needs("has other dense layers than first_k_dense_replace", "mlp_layer_types")
    config.harmless("first_k_dense_replace", "moe_layer_freq")
    return kinds


def dense_and_moe(config: Config, kinds: list[str], mixers: list[Section], names: ExpertKeys = DEEPSEEK) -> list[Layer]:
    """Layers whose feed-forward blocks are dense or of experts; each with its mixer."""
    blocks = {"dense": gated_mlp(config.whole("intermediate_size")), "moe": latent_experts(config, names)}
    return [Layer(kind, mixer, blocks[kind]) for kind, mixer in zip(kinds, mixers, strict=True)]


def correction_biases(layers: list[Layer]) -> dict[str, Section]:
    """One number for each expert, which the router adds to choose and not to weigh: a buffer, no parameter."""
    sizes = [layer.mlp["num_experts"] for layer in layers if layer.mlp and layer.mlp["kind"] == "moe"]
    return {"apart": {"router_correction_bias": sum(sizes)}} if sizes else {}


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
