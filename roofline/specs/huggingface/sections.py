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


def without_absent(**keys: Any) -> Section:
    """The keys as a section, without those that are None or false."""
    return {name: value for name, value in keys.items() if value is not None and value is not False}


def model_keys(
    config: Config, *, tie: Any = REQUIRED, positions: Any = REQUIRED, vocab: Any = REQUIRED, **keys: Any
) -> Section:
    """The keys of a model's file that are not layers: width, vocabulary, longest context, tied embeddings, dtype, and `keys`.

    Args:
        config: of the model.
        tie: whether embeddings are tied where the config does not say; without it the key is required.
        positions: the longest context where the config does not say, in tokens.
        vocab: the vocabulary size where the config does not say.
        keys: further keys, as they are.
    """
    section = {
        "hidden_size": config.whole("hidden_size"),
        "vocab_size": config.whole("vocab_size", default=vocab),
        "max_position_embeddings": config.whole("max_position_embeddings", default=positions, why=_OF_CLASS),
    }
    return {**section, **tied_and_dtype(config, tie=tie), **keys}


def tied_and_dtype(config: Config, *, tie: Any = REQUIRED) -> Section:
    """The keys `tie_word_embeddings` and `dtype` of a model's file; `tie` as in `model_keys`."""
    return {"tie_word_embeddings": tied(config, tie), **dtype(config)}


def tied(config: Config, default: Any = REQUIRED) -> bool:
    """Whether the LM head is the embedding table.

    Raises:
        SpecError: the key is missing without a default, or a nested language model and the file around it disagree.
    """
    why = f"the default of {config.data.get('model_type', 'the class')} configs, where the key is absent"
    name = "tie_word_embeddings"
    value = bool(config.flag(name, default=default, why=why))
    around = config.document.data.get(name, value)
    if config.place and name not in config.document.data and written_since(config.document.data, (5, 0)):
        config.note(name, value, "as the part that is the language model has it: the file around it says nothing")
    if config.place and (around != value or not isinstance(around, bool)):
        if isinstance(around, bool) and written_since(config.document.data, (5, 0)):
            config.note(name, around, "as the file around the language model says: transformers 5 looks there alone")
            return around
        config.refuse(name, "the file around it says otherwise: versions of transformers differ on which of the two counts")
    return value


def dtype(config: Config) -> Section:
    """The `dtype` key of a model's file: that of the published weights; empty (bf16) where the config does not say.

    Raises:
        SpecError: the dtype is unknown.
    """
    name = config.text("torch_dtype", "dtype", default=None)
    if name is None:
        config.note("dtype", "bf16", "config.json names none")
        return {}
    try:
        return {"dtype": parse_dtype(name).name}
    except RooflineError as error:
        given = next(key for key in ("torch_dtype", "dtype") if config.data.get(key) == name or config.outer.get(key) == name)
        config.refuse(given, str(error))


def of_class(config: Config, name: str) -> bool:
    """Whether a config names a class among its `architectures`."""
    classes = config.raw("architectures")
    return isinstance(classes, list) and name in classes


def layers_of(config: Config) -> int:
    """The number of layers, `num_hidden_layers`."""
    return int(config.whole("num_hidden_layers"))


def heads(
    config: Config, *, kv: Any = REQUIRED, head_dim: int | None = None, widths: tuple[str, ...] = ("head_dim",)
) -> tuple[int, int, int]:
    """The numbers of query heads and KV heads, and the width of a head in elements.

    Args:
        config: of the model.
        kv: the number of KV heads where the config does not say (default: it has to, unless it was written before there were
            fewer KV heads than query heads); None: as many as query heads.
        head_dim: the default of the class in elements; None: hidden_size over the heads.
        widths: the names that the width of a head has.

    Raises:
        SpecError: a key is missing or wrong, KV heads do not divide query heads, or there is no whole width.
    """
    n_q = config.whole("num_attention_heads")
    if kv is REQUIRED and written_before(config, _GROUPED_SINCE):
        kv = None
    n_kv = config.whole("num_key_value_heads", default=kv)
    if n_kv is None:
        n_kv = n_q
        config.note("num_key_value_heads", n_q, "config.json has none: as many as query heads")
    if n_q % n_kv:
        config.refuse("num_key_value_heads", f"{n_kv} must divide num_attention_heads ({n_q})")
    return n_q, n_kv, width_of_head(config, n_q, head_dim, *widths)


def explicit_kv_heads(config: Config) -> Any:
    """The `kv` of `heads` for families that require the number of KV heads; null there means as many as query heads."""
    return None if config.data.get("num_key_value_heads", 0) is None else REQUIRED


def head_dim_from_hidden(config: Config, heads: tuple[str, int], width: tuple[str, int]) -> int:
    """The width of a head in elements: the hidden size over the number of heads.

    Args:
        config: of the model.
        heads: the key and value of the number of heads.
        width: the key and value of the hidden size.

    Raises:
        SpecError: there is a remainder.
    """
    config.divides(heads, width)
    return width[1] // heads[1]


def width_of_head(config: Config, n_q: int, default: int | None = None, *names: str) -> int:
    """The width of a head in elements: as the config says, or the default of the class, or hidden_size over the heads.

    Args:
        config: of the model.
        n_q: number of query heads.
        default: of the class.
        names: of the key (default: `head_dim`).

    Raises:
        SpecError: the key is null where the class has a default, or there is no whole width.
    """
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


def written_before(config: Config, version: tuple[int, int]) -> bool:
    """Whether a config says that it was written by a version of transformers older than (major, minor)."""
    written = _version(config.data)
    return written is not None and written < version


def written_since(data: dict[str, Any], version: tuple[int, int]) -> bool:
    """Whether a config says that it was written by transformers (major, minor) or a newer version."""
    written = _version(data)
    return written is not None and written >= version


def _version(data: dict[str, Any]) -> tuple[int, ...] | None:
    written = data.get("transformers_version")
    if not isinstance(written, str):
        return None
    numbers = written.split(".")[:2]
    return tuple(map(int, numbers)) if all(number.isdigit() for number in numbers) else None


def rotary(config: Config, head_dim: int, default: float | None = None, *names: str) -> Section:
    """The key `rotary_dim` of a mixer, in elements; empty where all of a head is rotated.

    Args:
        config: of the model.
        head_dim: elements of a head.
        default: rotated share of a head where the config does not say; None: all.
        names: other names of `partial_rotary_factor`.
    """
    parameters = config.part("rope_parameters", default=None, looked_at=False)
    inside = None if parameters is None else parameters.fraction("partial_rotary_factor", default=None)
    share = config.fraction("partial_rotary_factor", *names, default=None)
    if share is None and inside is None and default not in (None, 1):
        config.note("partial_rotary_factor", default, _OF_CLASS)
    return _rotated(head_dim, share or inside or default)


def rotary_of(config: Config, kind: str, head_dim: int, default: float | None = None) -> Section:
    """The key `rotary_dim` of a mixer, for one kind of layer, where `rope_parameters` are given by kind.

    Args:
        config: of the model.
        kind: of the layer, as in `layer_types`.
        head_dim: elements of a head.
        default: rotated share of a head where the config does not say; None: all.
    """
    parameters = config.part("rope_parameters", default=None, looked_at=False)
    of_kind = None if parameters is None else parameters.part(kind, default=None, looked_at=False)
    share = None if of_kind is None else of_kind.fraction("partial_rotary_factor", default=None)
    if share is None and default is not None:
        config.note(f"rope_parameters.{kind}.partial_rotary_factor", default, _OF_CLASS)
    return _rotated(head_dim, share or default)


def _rotated(head_dim: int, share: float | None) -> Section:
    return {} if share is None or share == 1 else {"rotary_dim": int(head_dim * share)}


def gqa(n_q: int, n_kv: int, head_dim: int, **keys: Any) -> Section:
    """The section of softmax attention (`kind: gqa`): heads, their width in elements, and further keys that are on."""
    sizes = {"num_attention_heads": n_q, "num_key_value_heads": n_kv, "head_dim": head_dim}
    return {"kind": "gqa", **sizes, **without_absent(**keys)}


def gated_mlp(width: int, **keys: Any) -> Section:
    """The section of a gated feed-forward block, down(act(gate(x)) * up(x)), `width` elements wide inside."""
    return {"kind": "gated_mlp", "intermediate_size": width, **without_absent(**keys)}


def mlp(width: int, **keys: Any) -> Section:
    """The section of a plain feed-forward block, down(act(up(x))), `width` elements wide inside."""
    return {"kind": "mlp", "intermediate_size": width, **without_absent(**keys)}


def moe(experts: int, top_k: int, width: int, **keys: Any) -> Section:
    """The section of a mixture of experts, from numbers of experts and of those per token, and the inner width of one."""
    sizes = {"num_experts": experts, "num_experts_per_tok": top_k, "moe_intermediate_size": width}
    return {"kind": "moe", **sizes, **without_absent(**{key: value for key, value in keys.items() if value != 0})}


def experts_of(config: Config, experts: tuple[str, ...], top_k: tuple[str, ...] = ("num_experts_per_tok",)) -> tuple[int, int]:
    """The numbers of routed experts and of those that a token uses.

    Args:
        config: of the model.
        experts: names of the former's key.
        top_k: names of the latter's key.

    Raises:
        SpecError: a key is missing or wrong, or a token uses more experts than there are.
    """
    count, chosen = config.whole(*experts), config.whole(*top_k)
    if chosen > count:
        config.refuse(top_k[0], f"{chosen} is more than the {count} experts")
    return int(count), int(chosen)


def flat_notes(config: Config) -> list[str]:
    """Notes for a config in which the keys of the language model are next to those of other parts, which are not counted."""
    parts = [key for key, value in config.data.items() if key.endswith("_config") and isinstance(value, dict)]
    others = ", ".join(key for key in parts if key != "quantization_config")
    return [f"What is counted is the language model alone, not {others}."] if others else []


def mtp(config: Config, *names: str) -> None:
    """Record that layers for multi-token prediction are not counted, if one of the keys `names` is above 0."""
    for name in names:
        if config.whole(name, default=0, low=0):
            config.note(name, config.data[name], "layers for multi-token prediction are not counted")


# Names of layers by what works on each token: as `mlp_layer_types` has them, and as ours are called.
_KINDS = {"dense": "dense", "sparse": "moe"}


def mla(
    config: Config,
    *,
    biases: bool = True,
    any_share: bool = False,
    compressed_queries: bool = True,
    rotated: int | None = None,
    **keys: object,
) -> Section:
    """The section of multi-head latent attention (`kind: mla`).

    There are no KV heads: the latent is cached, whatever num_key_value_heads and head_dim are.

    Args:
        config: of the model.
        biases: whether the family's class reads `attention_bias`.
        compressed_queries: whether the family's class reads `q_lora_rank`.
        rotated: elements that are rotated, where the family's class has a number of its own.
        any_share: whether the caller has looked at `partial_rotary_factor`.
        keys: further keys of the section.
    """
    config.harmless("num_key_value_heads", "head_dim", "qk_head_dim")
    if not any_share:
        config.only("partial_rotary_factor", 1, "what is rotated is qk_rope_head_dim, all of it")
    biased = config.flag("attention_bias", default=False) if biases else False
    return {
        "kind": "mla",
        "num_attention_heads": config.whole("num_attention_heads"),
        **without_absent(q_lora_rank=_rank_of_queries(config) if compressed_queries else None),
        "kv_lora_rank": config.whole("kv_lora_rank"),
        "qk_nope_head_dim": config.whole("qk_nope_head_dim"),
        "qk_rope_head_dim": config.whole("qk_rope_head_dim") if rotated is None else rotated,
        **({} if "v_head_dim" in keys else {"v_head_dim": config.whole("v_head_dim")}),
        **without_absent(attention_bias=biased, **keys),
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


def _latent_experts(config: Config, names: ExpertKeys) -> Section:
    """Routed experts of moe_intermediate_size, and shared ones that are one block of their joint width."""
    count, chosen = experts_of(config, _EXPERTS, names["chosen"])
    width = config.whole("moe_intermediate_size")
    keys = {"n_group": config.whole("n_group", default=None), "topk_group": config.whole("topk_group", default=None)}
    limited: dict[str, int] = {}
    if None not in keys.values() and keys["topk_group"] < keys["n_group"] and config.raw("topk_method") != "greedy":
        limited = keys
    elif list(keys.values()).count(None) == 1:
        absent = next(key for key, value in keys.items() if value is None)
        config.note(absent, 1, "absent: experts of all groups can be chosen")
    return moe(count, chosen, width, shared_intermediate_size=config.whole(*names["shared"]) * width, **limited)


def dual_chunks(config: Config) -> None:
    """Check `dual_chunk_attention_config` of Qwen's models for a million tokens: positions are counted by chunks, and each
    query meets all keys before it as elsewhere.

    Raises:
        SpecError: it says more than sizes of chunks, such as a sparse attention.
    """
    given = config.raw("dual_chunk_attention_config", default={})
    if not isinstance(given, dict) or not given.keys() <= {"chunk_size", "local_size", "original_max_position_embeddings"}:
        config.refuse("dual_chunk_attention_config", "only chunk_size and local_size are known: keys may be left out")


def kinds_of_mlp(config: Config, count: int) -> list[str]:
    """One of "dense" and "moe" for each of `count` layers: the first `first_k_dense_replace` are dense.

    Raises:
        SpecError: a key is missing or wrong, or `moe_layer_freq` is not 1.
    """
    # NB: the class of transformers does not look at the step, older code does; there is no model with another one.
    config.only("moe_layer_freq", 1, "code of different age reads another step in different ways")
    dense = config.whole("first_k_dense_replace", low=0)
    return ["dense" if index < dense else "moe" for index in range(count)]


def listed_kinds_of_mlp(config: Config, count: int) -> list[str]:
    """One of "dense" and "moe" for each of `count` layers: `mlp_layer_types` where it is given, else as `kinds_of_mlp`.

    Raises:
        SpecError: the list is wrong, or `first_k_dense_replace` disagrees with it.
    """
    listed = config.words("mlp_layer_types", count, _KINDS, default=None)
    if listed is None:
        return kinds_of_mlp(config, count)
    kinds = [_KINDS[word] for word in listed]
    if config.has("first_k_dense_replace") and kinds != kinds_of_mlp(config, count):
        config.needs("has other dense layers than first_k_dense_replace", "mlp_layer_types")
    config.harmless("first_k_dense_replace", "moe_layer_freq")
    return kinds


def dense_and_moe(config: Config, kinds: list[str], mixers: list[Section], names: ExpertKeys = DEEPSEEK) -> list[Layer]:
    """Layers with a dense feed-forward block or experts, as `kinds` says, and a mixer each.

    Args:
        config: of the model.
        kinds: "dense" or "moe", one per layer.
        mixers: sections, one per layer.
        names: keys for the numbers of chosen and of shared experts.
    """
    blocks = {"dense": gated_mlp(config.whole("intermediate_size")), "moe": _latent_experts(config, names)}
    return [Layer(kind, mixer, blocks[kind]) for kind, mixer in zip(kinds, mixers, strict=True)]


def correction_biases(layers: list[Layer]) -> dict[str, Section]:
    """The key `apart` of a model's file for the router's correction biases, one per expert; empty without experts.

    The router adds them to choose experts and not to weigh them: they are a buffer, not parameters.
    """
    sizes = [layer.mlp["num_experts"] for layer in layers if layer.mlp and layer.mlp["kind"] == "moe"]
    return {"apart": {"router_correction_bias": sum(sizes)}} if sizes else {}


# What Bamba and its relatives say of their state-space layers.
KEYS_OF_BAMBA = (
    "mamba_expand", "mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state", "mamba_d_conv", "mamba_conv_bias",
    "mamba_chunk_size", "mamba_proj_bias",
)  # fmt: skip


def state_dtype(config: Config, key: str) -> Section:
    """The key `state_dtype` of a model's file, where the config has `key`; else empty.

    Raises:
        SpecError: the dtype is unknown.
    """
    name = config.text(key, default=None)
    if name is None:
        return {}
    try:
        return {"state_dtype": parse_dtype(name).name}
    except RooflineError as error:
        config.refuse(key, str(error))


def mamba2(
    config: Config, heads: int, head_dim: int, groups: int, state: int, *, conv_kernel: int, conv_bias: bool,
    chunk_size: int, **keys: object,
) -> Section:  # fmt: skip
    """The section of a Mamba-2 mixer (`kind: mamba2`) of the given sizes.

    Args:
        config: of the model, for messages.
        heads: number of heads.
        head_dim: elements of a head.
        groups: groups of heads that share B and C.
        state: elements of state per channel.
        conv_kernel: tokens that the convolution sees.
        conv_bias: whether the convolution has a bias.
        chunk_size: tokens of a chunk in the scan of a prompt.
        keys: further keys of the section.

    Raises:
        SpecError: groups do not divide heads.
    """
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
        **without_absent(**keys),
    }


def mamba2_of_bamba(config: Config) -> Section:
    """The section of a Mamba-2 mixer from the keys of Bamba, which Granite 4 has too.

    Raises:
        SpecError: a key is missing or wrong, or heads and their width do not make the inner width.
    """
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


def _rank_of_steps(config: Config, name: str) -> int:
    """Rank of the step Delta: a number, or "auto": a sixteenth of hidden_size, rounded up."""
    if config.data.get(name) == "auto":
        config.harmless(name)
        return int(-(-config.whole("hidden_size") // 16))
    return int(config.whole(name))


def mamba(
    config: Config, inner: int, *, state: str, rank: str, kernel: str, conv_bias: str, bias: str, **keys: object
) -> Section:
    """The section of a Mamba-1 mixer (`kind: mamba`).

    Args:
        config: of the model.
        inner: channels.
        state: the name of the key for elements of state per channel.
        rank: the name of the key for the rank of the step Delta.
        kernel: the name of the key for tokens that the convolution sees.
        conv_bias: the name of the key for a bias of the convolution.
        bias: the name of the key for biases of the projections.
        keys: further keys of the section.
    """
    return {
        "kind": "mamba",
        "mamba_d_inner": inner,
        "ssm_state_size": config.whole(state),
        "time_step_rank": _rank_of_steps(config, rank),
        "conv_kernel": config.whole(kernel),
        "use_conv_bias": config.flag(conv_bias),
        **without_absent(use_bias=config.flag(bias), **keys),
    }
