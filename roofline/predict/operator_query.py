"""The query of one operator: its dimensions in the words of kernel engineers, and the operators that they make.

Every registered operator is here with the fields of its class. Some go by other names than in the class: attention has `q_len`
and `kv_len`, a collective the bytes of its tensor. `experts` is the whole kernel of a mixture's routed experts.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, Literal, TypedDict, get_args, get_origin, get_type_hints

from roofline.blocks.base import BlockContext
from roofline.blocks.moe import MixtureOfExperts
from roofline.dtypes import Precision
from roofline.errors import InputError, UnitError, UnknownNameError
from roofline.numeric import ratio
from roofline.operators import OPERATORS
from roofline.operators.base import Operator
from roofline.predict.options import Count, Flag, Number, Text
from roofline.specs.deployment import Conventions
from roofline.units import parse_count, parse_quantity

Kind = Literal["count", "bytes", "flag", "choice", "number"]
Values = dict[str, Any]
"""Values of dimensions by name: numbers, or symbols."""
REQUIRED: Any = ...
"""The default of a dimension that has to be given."""
EXPERTS = "experts"
"""The kernel of the routed experts of a layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """One thing to say of an operator. `field` is its name in the class, where that is another."""

    name: str
    meaning: str = ""
    kind: Kind = "count"
    default: Any = REQUIRED
    minimum: int = 1
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    field: str = ""

    @property
    def required(self) -> bool:
        """Whether it has to be given."""
        return self.default is REQUIRED

    def read(self, value: Any, operator: str) -> Any:
        """The value as given by a user, as a number, a truth value or a name.

        Raises:
            InputError: it is none, or not allowed.
        """
        what = f"{operator}: {self.name}"
        if self.kind == "flag":
            known = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
            if str(value).lower() not in known:
                raise InputError(f"{what} must be true or false, not {value!r}")
            return known[str(value).lower()]
        if self.kind == "choice":
            if value not in self.choices:
                raise UnknownNameError(what, value, self.choices, list_all=True)
            return value
        try:
            if self.kind == "bytes":
                return _bytes(value, what)
            if self.kind == "number":
                return float(value)
            return parse_count(value, what, self.minimum)
        except UnitError as error:
            raise InputError(str(error)) from None
        except (TypeError, ValueError):
            raise InputError(f"{what} must be a number, not {value!r}") from None


def _bytes(value: Any, what: str) -> int:
    """Bytes: text with a unit ("64 MB"), or a whole number, of which 16k are 16,384."""
    if isinstance(value, str) and value.strip()[-1:] in ("B", "s", "e"):
        value = parse_quantity(value, "byte")
    return parse_count(value, f"{what}, in bytes such as '64 MB' or 65536,", 1)


Dimensions = TypedDict(  # noqa: UP013 - one name per line otherwise
    "Dimensions",
    {
        "activation": Flag, "adds": Count, "b": Count, "batch": Count, "batch_size": Count, "bias": Flag, "block": Count,
        "bytes": Count, "cached": Count, "calls": Count, "channels": Count, "choices": Count, "chosen": Count,
        "chosen_blocks": Count, "chunk_size": Count, "chunked": Flag, "context": Count, "context_len": Count,
        "conv_kernel": Count, "d": Count, "d_ff": Count, "d_head": Count, "d_inner": Count, "d_k": Count, "d_model": Count,
        "d_nope": Count, "d_rope": Count, "d_state": Count, "d_v": Count, "devices": Count, "distinct": Count, "e": Count,
        "elements": Count, "entries": Count, "ep": Count, "expert_imbalance": Number, "experts": Count, "function": Text,
        "gated": Flag, "gpus": Count, "h": Count, "h_kv": Count, "head_dim": Count, "head_size": Count, "head_sum": Text,
        "heads": Count, "hidden": Count, "hidden_size": Count, "imbalance": Number, "index_block_size": Count,
        "index_kpool": Count, "index_topk": Count, "index_topk_blocks": Count, "inter": Count, "intermediate": Count,
        "intermediate_size": Count, "k": Count, "kernel": Count, "key_heads": Count, "key_ranks": Count, "kv_heads": Count,
        "kv_len": Count, "kv_length": Count, "kv_lora_rank": Count, "learned": Count, "local_experts": Count,
        "low_latency": Flag, "m": Count, "mixed": Flag, "moe_ep": Count, "moe_intermediate_size": Count, "moe_tp": Count,
        "n": Count, "n_groups": Count, "n_heads": Count, "n_key_heads": Count, "n_kv_heads": Count, "new": Count,
        "num_attention_heads": Count, "num_experts": Count, "num_experts_per_tok": Count, "num_gpus": Count,
        "num_heads": Count, "num_key_value_heads": Count, "num_kv_heads": Count, "num_redundant_experts": Count,
        "overlap": Flag, "parts": Count, "per_channel": Flag, "pool": Count, "q_len": Count, "qk_nope_head_dim": Count,
        "qk_rope_head_dim": Count, "query_len": Count, "query_ranks": Count, "r_kv": Count, "ranks": Count, "ratio": Count,
        "read": Text, "redundant": Count, "resumed": Count, "rotary_dim": Count, "rounds": Count, "rows": Count, "s_kv": Count,
        "s_q": Count, "scales": Count, "scores": Count, "selective": Flag, "seqlen_k": Count, "seqlen_q": Count,
        "sequences": Count, "sink_tokens": Count, "sink_values": Flag, "sinks": Flag, "size": Count, "sliding_window": Count,
        "spread": Count, "state_size": Count, "streams": Count,
        "terms": Count, "tokens": Count, "top_k": Count, "topk": Count, "tp": Count, "v_head_dim": Count,
        "vocab": Count, "vocab_size": Count, "weight": Flag, "width": Count, "window": Count, "world": Count,
        "world_size": Count, "write": Text,
    },
    total=False,
)  # fmt: skip
"""Dimensions of the operators that ship, under all their names, for type checkers: those of a plug-in are given in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorQuery:
    """An operator as a user names it. `dimensions` are in the order in which positional values are taken."""

    name: str
    about: str
    dimensions: tuple[Dimension, ...]
    cls: type[Operator] | None = None
    """The class of the operator; None of the experts' kernel, which is several."""
    conventions: tuple[str, ...] = ()
    """Options of counting that matter to it."""
    role: str = "norm"
    """Of its weights, which decides their format."""
    grows: str = ""
    """The dimension with which an operator with weights becomes compute-bound."""

    def make(self, values: Mapping[str, Any], precision: Precision, conventions: Conventions) -> dict[str, Operator]:
        """The operators of the kernel at a shape, by name: one, but of the experts."""
        if self.cls is None:
            return _make_experts(values, precision, conventions)
        return {"": _make(self.cls, self.dimensions, values, precision, conventions)}

    @property
    def usage(self) -> str:
        """The operator with its dimensions, those in brackets that need not be given."""
        listed = (entry.name if entry.required else f"[{entry.name}]" for entry in self.dimensions)
        return " ".join((self.name, *listed))

    @property
    def example(self) -> str:
        """A command."""
        given = _EXAMPLES.get(self.name) or " ".join(
            f"{entry.name}={_TYPICAL.get(entry.name, 1024)}" for entry in self.dimensions if entry.required
        )
        return f"roofline op {self.name} {given} -H h100-sxm"

    def dimension(self, name: str, others: Iterable[str] = ()) -> Dimension:
        """The dimension of a name, in any of its spellings.

        Args:
            name: with dashes or underscores.
            others: names of options that were possible in its place, for the message.

        Raises:
            UnknownNameError: the operator has none of that name.
        """
        key = name.strip().lower().replace("-", "_")
        by_name = {entry.name: entry for entry in self.dimensions}
        for entry in self.dimensions:
            for alias in (entry.field, *entry.aliases):
                by_name.setdefault(alias, entry)
        if key not in by_name:
            one = f"{self.name} has the dimensions of one device: divide them. " if key in _PARALLEL else ""
            hint = f"{one}Dimensions: {self.usage}. Example: {self.example}"
            raise UnknownNameError(f"dimension or option of {self.name}", name, [*by_name, *others], hint)
        return by_name[key]

    def read(self, positional: Sequence[Any], named: Mapping[str, Any], others: Iterable[str] = ()) -> tuple[Values, set[str]]:
        """Values of all dimensions by name, and the names of those that were given.

        Args:
            positional: values in the order of the dimensions.
            named: values by name.
            others: names of options that were possible instead, for messages.

        Raises:
            InputError: an unknown dimension, a wrong value, one given twice or missing.
        """
        if len(positional) > len(self.dimensions):
            raise InputError(f"{self.name} has {len(self.dimensions)} dimensions, not {len(positional)}: {self.usage}")
        given: dict[str, Any] = {}
        pairs = [
            *((entry, value) for entry, value in zip(self.dimensions, positional, strict=False)),
            *((self.dimension(name, others), value) for name, value in named.items()),
        ]
        for entry, value in pairs:
            if entry.name in given:
                raise InputError(f"{self.name}: {entry.name} is given twice")
            given[entry.name] = entry.read(value, self.name)
        if self.has("context") and "context" in given and "kv_len" not in given:
            given["kv_len"] = given["context"] + given.get("q_len", 1)
        missing = [entry.name for entry in self.dimensions if entry.required and entry.name not in given]
        if missing:
            raise InputError(f"{self.name} needs {', '.join(missing)}. Usage: {self.usage}. Example: {self.example}")
        values = {entry.name: given.get(entry.name, entry.default) for entry in self.dimensions}
        self.check(values)
        return values, set(given)

    def has(self, name: str) -> bool:
        """Whether it has a dimension of that name."""
        return any(entry.name == name for entry in self.dimensions)

    def check(self, values: Values) -> None:
        """Refuse values that contradict each other; fill in those that follow from others.

        Raises:
            InputError: they do.
        """
        if self.has("context"):
            if values["kv_len"] < values["q_len"]:
                raise InputError(f"{self.name}: kv_len counts the new tokens too: {values['kv_len']} is less than q_len")
            values["context"] = values["kv_len"] - values["q_len"]
        if values.get("kv_heads", 0) is None:
            values["kv_heads"] = values["heads"]
        for part, whole in _DIVIDES:
            if values.get(part) and values.get(whole) and values[whole] % values[part]:
                raise InputError(f"{self.name}: {part} {values[part]} must divide {whole} {values[whole]}")
        for small, large in _AT_MOST:
            if values.get(small) and values.get(large) and values[small] > values[large]:
                raise InputError(f"{self.name}: {small} {values[small]} is more than {large} {values[large]}")


def example_values(query: OperatorQuery) -> Values:
    """Values of all dimensions of an operator, as in its example.

    >>> example_values(operator_query("gemm"))["k"]
    28672
    """
    named, left = {}, []
    words = shlex.split(query.example)[3:-2]
    while words:
        name, equals, value = words.pop(0).partition("=")
        if name.startswith("--"):
            named[name.removeprefix("--")] = value if equals else words.pop(0)
        elif equals:
            named[name] = value
        else:
            left.append(name)
    return query.read(left, named)[0]


_PARALLEL = ("tp", "pp", "dp", "ep", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
_DIVIDES = (("kv_heads", "heads"), ("ep", "experts"), ("tp", "intermediate"), ("n_key_heads", "heads"))
_AT_MOST = (("top_k", "experts"),)

_EXAMPLES = {
    "gemm": "512 8192 28672",
    "attention": "--batch 32 --kv-len 8k --heads 32 --kv-heads 8 --head-dim 128",
    EXPERTS: "--tokens 64 --hidden 2048 --intermediate 768 --experts 128 --top-k 8",
    "all-reduce": "'64 MB' --tp 8",
    "norm": "4096 8192",
}
_TYPICAL = {
    "batch": 8, "q_len": 1, "kv_len": 4096, "heads": 32, "kv_heads": 8, "head_dim": 128, "tp": 8, "experts": 128, "top_k": 8,
    "r_kv": 512, "d_nope": 128, "d_rope": 64, "d_v": 128, "d_k": 128, "n_groups": 8, "n_key_heads": 16, "state_size": 16,
    "chunk_size": 64, "kernel": 4, "sequences": 8, "resumed": 1, "streams": 4, "window": 128, "ratio": 4, "parts": 2,
    "terms": 8, "rotary_dim": 128, "choices": 128256, "entries": 128256, "block": 128, "chosen_blocks": 16, "bytes": "'64 MB'",
}  # fmt: skip
"""Values of dimensions in examples."""

_NAMES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    # field of the class: name, meaning, other names
    "m": ("m", "rows of the activations: tokens", ("tokens", "rows")),
    "n": ("n", "columns of the weights: outputs", ()),
    "k": ("k", "length of the dot products: inputs", ()),
    "batch": ("batch", "sequences, or products of a gemm", ("b", "batch_size")),
    "new": ("q_len", "new tokens per sequence: queries", ("s_q", "query_len", "seqlen_q")),
    "n_heads": ("heads", "query heads", ("num_heads", "num_attention_heads", "h")),
    "n_kv_heads": ("kv_heads", "KV heads", ("num_kv_heads", "num_key_value_heads", "h_kv")),
    "head_dim": ("head_dim", "width of a head", ("d", "d_head", "head_size")),
    "v_head_dim": ("v_head_dim", "width of a head's values", ("d_v",)),
    "window": ("window", "tokens that a query sees, itself included", ("sliding_window",)),
    "tokens": ("tokens", "tokens", ("rows", "m")),
    "rows": ("rows", "rows: tokens", ("tokens", "m")),
    "width": ("width", "width of a row", ("hidden", "hidden_size", "d_model", "n")),
    "world": ("tp", "devices in the group", ("world", "world_size", "ranks", "devices", "gpus", "num_gpus", "ep")),
    "experts": ("experts", "routed experts", ("num_experts", "e")),
    "top_k": ("top_k", "experts of a token", ("topk", "num_experts_per_tok")),
    "entries": ("entries", "rows of the table", ("vocab", "vocab_size")),
    "choices": ("choices", "logits of a row", ("vocab", "vocab_size", "n")),
    "heads": ("heads", "heads, of queries and keys", ("num_heads",)),
    "rotary_dim": ("rotary_dim", "rotated width of a head", ("head_dim",)),
    "r_kv": ("r_kv", "rank of the compressed keys and values", ("kv_lora_rank",)),
    "d_nope": ("d_nope", "width of a head's part without rotation", ("qk_nope_head_dim",)),
    "d_rope": ("d_rope", "width of the rotated part", ("qk_rope_head_dim",)),
    "d_v": ("d_v", "width of a head's values", ("v_head_dim",)),
    "size": ("bytes", "bytes of the copy", ("size",)),
    "bias": ("bias", "whether it has biases", ()),
    "chunked": ("chunked", "whether the window is a chunk of the sequence and does not slide", ()),
    "sinks": ("sinks", "whether each head has a learned sink", ()),
    "sink_tokens": ("sink_tokens", "learned keys that every query meets", ()),
    "sink_values": ("sink_values", "whether learned keys have values", ()),
    "query_ranks": ("query_ranks", "devices that share the queries", ()),
    "key_ranks": ("key_ranks", "devices that share the keys", ()),
    "chosen": ("chosen", "keys that a query attends to, at most, where an indexer chooses", ("index_topk",)),
    "block": ("block", "tokens of a block of keys", ("index_block_size",)),
    "chosen_blocks": ("chosen_blocks", "blocks of keys that a query attends to, at most", ("index_topk_blocks",)),
    "pool": ("pool", "tokens of a pool of keys that are chosen together", ("index_kpool",)),
    "mixed": ("mixed", "whether the streams are mixed among themselves", ()),
    "low_latency": ("low_latency", "whether tokens go by kernels of low latency, as in decode", ()),
    "adds": ("adds", "tensors added to the residual stream before", ()),
    "function": ("function", "which norm", ()),
    "weight": ("weight", "whether it has weights", ()),
    "gated": ("gated", "whether there is a gate", ()),
    "activation": ("activation", "whether a SiLU follows", ()),
    "terms": ("terms", "tensors that are added; of combine experts of a token", ()),
    "elements": ("elements", "elements of each tensor", ()),
    "local_experts": ("local_experts", "experts on this device", ()),
    "distinct": ("distinct", "experts that are met, where that is known", ()),
    "imbalance": ("imbalance", "tokens of this device over the mean of all", ("expert_imbalance",)),
    "redundant": ("redundant", "slots for copies of experts", ("num_redundant_experts",)),
    "calls": ("calls", "calls one after another", ()),
    "channels": ("channels", "channels", ("d_inner",)),
    "kernel": ("kernel", "tokens that the convolution sees", ("conv_kernel",)),
    "resumed": ("resumed", "sequences that go on from an earlier step", ()),
    "state_size": ("state_size", "state of a channel", ("d_state",)),
    "n_key_heads": ("n_key_heads", "heads of queries and keys", ("key_heads",)),
    "d_k": ("d_k", "width of a key", ()),
    "chunk_size": ("chunk_size", "tokens of a chunk of a prompt", ()),
}
_OMITTED = (
    "dtypes", "stored", "borrowed", "routing", "copies", "prefix_reads", "decode", "recurrent", "stride", "span", "held",
)  # fmt: skip
"""Fields that are a model's or a deployment's affair."""
_OPTIONAL = {"batch": 1, "q_len": 1, "kv_heads": None, "resumed": 1}
"""Defaults of dimensions that the class has none for."""
_IN_BYTES = ("all_gather", "all_reduce", "all_to_all", "copy", "reduce_scatter", "send_recv")
"""Kinds whose `elements` are given as bytes of the tensor."""
_ROLES = {"gemm": "linear", "embedding": "embedding", "grouped_gemm": "experts"}
_GROWS = {"gemm": "m", "grouped_gemm": "tokens", EXPERTS: "tokens"}
_SPELLINGS = {
    "matmul": "gemm", "linear": "gemm", "mm": "gemm", "bmm": "gemm", "sdpa": "attention", "flash_attention": "attention",
    "gqa": "attention", "mha": "attention", "mla": "latent_attention", "moe": EXPERTS, "fused_moe": EXPERTS,
    "rmsnorm": "norm", "layernorm": "norm", "silu_mul": "activation", "swiglu": "activation", "p2p": "send_recv",
    "sendrecv": "send_recv", "allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all", "a2a": "all_to_all", "h2d": "host_copy", "d2h": "host_copy", "topk": "top_k",
}  # fmt: skip
"""Other names of operators."""


def operator_names() -> list[str]:
    """The names of operators, the commonest first."""
    first = ["gemm", "attention", EXPERTS, "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "norm"]
    return [*first, *(listed for name in OPERATORS if (listed := name.replace("_", "-")) not in first)]


def operator_query(name: str) -> OperatorQuery:
    """The query of an operator by its name, with dashes or underscores.

    Raises:
        UnknownNameError: there is none of that name.

    >>> operator_query("all_reduce").usage, operator_query("matmul").usage
    ('all-reduce bytes tp', 'gemm m n k [batch] [bias]')
    >>> operator_query("attention").usage
    'attention [batch] [q_len] kv_len heads [kv_heads] head_dim [v_head_dim] [window] [chunked] [sinks] [sink_tokens] \
[sink_values] [query_ranks] [key_ranks] [context]'
    """
    key = str(name).strip().lower().replace("-", "_")
    key = _SPELLINGS.get(key, key)
    queries = operator_queries()
    if key not in queries:
        known = operator_names()
        raise UnknownNameError("operator", name, known, f"Example: {queries['gemm'].example}", list_all=True)
    return queries[key]


def operator_queries() -> dict[str, OperatorQuery]:
    """The queries of all operators, by kind: names with underscores."""
    return {EXPERTS: _EXPERTS, **{kind: _query(kind) for kind in OPERATORS}}


@cache
def _query(kind: str) -> OperatorQuery:
    """The query of a registered operator, from the fields of its class."""
    cls = OPERATORS[kind]
    hints = get_type_hints(cls)
    listed = [
        entry
        for field in fields(cls)
        if field.name not in _OMITTED and field.name not in CONVENTIONS.values()
        for entry in _dimensions(cls, field, hints[field.name])
    ]
    listed.sort(key=lambda entry: entry.name == "context")
    return OperatorQuery(
        name=kind.replace("_", "-"),
        about=(cls.__doc__ or "").strip().partition("\n")[0],
        dimensions=tuple(listed),
        cls=cls,
        conventions=tuple(option for option, name in CONVENTIONS.items() if name in hints),
        role=_ROLES.get(kind, "norm"),
        grows=_GROWS.get(kind, ""),
    )


def _dimensions(cls: type[Operator], field: Any, hint: Any) -> list[Dimension]:
    """A field as dimensions: the cached tokens of a sequence as the keys that it attends to."""
    if field.name == "cached":
        meaning = "tokens attended to, the new ones included"
        aliases = ("s_kv", "seqlen_k", "context_len", "kv_length")
        return [
            Dimension(name="kv_len", meaning=meaning, aliases=aliases),
            Dimension(name="context", meaning="instead of kv_len: cached tokens", default=0, minimum=0, field="cached"),
        ]
    if field.name == "elements" and cls.kind in _IN_BYTES:
        return [Dimension(name="bytes", meaning="bytes of the tensor", kind="bytes", field="elements", aliases=("size",))]
    name, meaning, aliases = _NAMES.get(field.name, (field.name, field.name.replace("_", " "), ()))
    default = _OPTIONAL.get(name, REQUIRED) if field.default is MISSING else field.default
    kind: Kind = "bytes" if field.name == "size" else "count"
    if get_origin(hint) is Literal:
        kind = "choice"
    elif hint in (bool, float):
        kind = "flag" if hint is bool else "number"
    return [
        Dimension(
            name=name,
            meaning=meaning,
            kind=kind,
            default=default,
            minimum=2 if field.name == "world" else 0 if default == 0 or name == "resumed" else 1,
            choices=get_args(hint) if kind == "choice" else (),
            aliases=aliases,
            field=field.name,
        )
    ]


CONVENTIONS = {
    "mask": "mask",
    "attention": "eager",
    "mla": "absorbed",
    "routing_skew": "skew",
    "shared_prefix": "shared_prefix",
}
"""Options of counting, and the field of an operator that each decides."""


def _make(
    cls: type[Operator],
    dimensions: Iterable[Dimension],
    values: Mapping[str, Any],
    precision: Precision,
    conventions: Conventions,
) -> Operator:
    """An operator of a class, its fields as a model's blocks would set them."""
    own = {field.name for field in fields(cls)}
    dtypes = precision.dtypes(_ROLES.get(cls.kind, "norm"))
    chosen = {entry.field: values[entry.name] for entry in dimensions if entry.field in own}
    if cls.kind in _IN_BYTES:
        chosen["elements"] = ratio(values["bytes"], dtypes.activation.bytes)
    # as in `parse_segments`: one new token without a past is a prompt
    past = chosen.get("cached", 0)
    generated = (
        "new" in own and isinstance(chosen["new"], int) and chosen["new"] == 1 and not (isinstance(past, int) and past == 0)
    )
    decided = {
        "decode": generated,
        "recurrent": generated,
        "mask": conventions.mask,
        "eager": conventions.attention == "eager",
        # prompts expand keys and values, decode absorbs the projections
        "absorbed": generated if conventions.mla == "auto" else conventions.mla == "absorb",
        "skew": conventions.routing_skew,
        "shared_prefix": conventions.shared_prefix,
    }
    chosen |= {name: value for name, value in decided.items() if name in own}
    return construct_operator(cls, {**chosen, "dtypes": dtypes})


def construct_operator(cls: type[Operator], values: dict[str, Any]) -> Operator:
    """An operator of a class from the values of its fields."""
    return cls(**values)


def _make_experts(values: Mapping[str, Any], precision: Precision, conventions: Conventions) -> dict[str, Operator]:
    """Both products of the routed experts, the activation between them and the weighted sum, as a model's block has them."""
    sizes = {
        "kind": "moe",
        "num_experts": values["experts"],
        "num_experts_per_tok": values["top_k"],
        "moe_intermediate_size": ratio(values["intermediate"], values["tp"]),
        "gated": values["gated"],
    }
    block = construct_block(MixtureOfExperts, sizes)
    context = BlockContext(
        hidden_size=values["hidden"],
        step=(),
        tokens=values["tokens"],
        precision=precision,
        conventions=conventions,
        expert_ranks=values["ep"],
        expert_tokens=values["tokens"],
        combined_tokens=values["tokens"],
    )
    made = block.operators(context)
    names = {"up_proj": "experts/up_proj", "activation": "experts/activation", "down_proj": "experts/down_proj"}
    return {name: made[path] for name, path in {**names, "combine": "combine"}.items()}


def construct_block(cls: type[MixtureOfExperts], values: dict[str, Any]) -> MixtureOfExperts:
    """A block from the values of its fields as they are: sizes may be symbols."""
    return cls.model_construct(**values)


def symbols_of(query: OperatorQuery) -> dict[str, str]:
    """The name in the nomenclature of each dimension that has one."""
    return {entry.name: _SYMBOLS[key] for entry in query.dimensions if (key := entry.field or entry.name) in _SYMBOLS}


_SYMBOLS = {
    "batch": "B", "new": "S_q", "cached": "S_c", "n_heads": "n_q", "n_kv_heads": "n_kv", "head_dim": "d_head",
    "v_head_dim": "d_v", "window": "w", "tokens": "T", "experts": "E", "top_k": "k", "hidden": "d_model",
    "intermediate": "d_e", "r_kv": "r_kv", "d_nope": "d_nope", "d_rope": "d_rope", "d_v": "d_v", "entries": "V", "choices": "V",
}  # fmt: skip

_EXPERTS = OperatorQuery(
    name=EXPERTS,
    about="The routed experts of one layer: up projection, activation, down projection, weighted sum.",
    dimensions=(
        Dimension(name="tokens", meaning="tokens routed, of all devices that share the experts", aliases=("m", "rows")),
        Dimension(name="experts", meaning="routed experts of the layer", aliases=("num_experts", "e")),
        Dimension(name="top_k", meaning="experts of a token", aliases=("topk", "num_experts_per_tok", "k")),
        Dimension(name="hidden", meaning="width of a token", aliases=("hidden_size", "d_model")),
        Dimension(
            name="intermediate",
            meaning="inner width of one expert",
            aliases=("inter", "intermediate_size", "moe_intermediate_size", "d_ff"),
        ),
        Dimension(name="ep", meaning="devices over which whole experts are spread", default=1, aliases=("moe_ep",)),
        Dimension(name="tp", meaning="devices that share each expert", default=1, aliases=("moe_tp",)),
        Dimension(name="gated", meaning="whether there is a gate projection", kind="flag", default=True),
    ),
    conventions=("routing_skew",),
    role="experts",
    grows="tokens",
)


def swept_dimension(query: OperatorQuery, text: Any) -> tuple[str, Any]:
    """The name of a dimension and its values from text such as "m=1:8192:x2".

    Raises:
        InputError: no such text, or no such dimension.
    """
    name, equals, values = str(text).partition("=")
    if not equals or not values:
        raise InputError(f"--sweep must be DIMENSION=VALUES such as {query.dimensions[0].name}=1:8192:x2, not {text!r}")
    return query.dimension(name).name, values
