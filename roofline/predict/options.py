"""Every option of a prediction, once: its name, type, unit and range, what it means, its default, and the other names it has.

The flags of the commands, the keyword arguments of the Python API, the axes of a sweep, the JSON Schema and the reference page
are made from these entries, so that commands cannot drift apart. A new option is one entry here, and the place where it acts.

Each section is a `TypedDict`, so that an editor completes `analyze(model, hardware, tp=2, ...)` and a type checker checks it;
the entry of an option is the annotation of its key.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypedDict, TypeVar, get_type_hints

from roofline.errors import InputError, UnitError
from roofline.units import parse_count, parse_quantity

F = TypeVar("F", bound=Callable[..., Any])

Count = int | str
"""A whole number, or text such as "8k" (8192)."""
Number = float | str
Quantity = float | str
"""A number in base units, or text with a unit such as "2039 GB/s"."""

_TYPES = {
    "count": "int | str", "number": "float | str", "quantity": "float | str", "choice": "str", "text": "str", "flag": "bool",
}  # fmt: skip
"""What each kind of option may be given as."""

Kind = Literal["count", "number", "quantity", "choice", "text", "flag"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option. `name` is the keyword of the Python API; the flag is the same with dashes."""

    kind: Kind
    help: str
    """What it says, as one sentence without its default."""
    default: str = ""
    """The rule for what holds where it is not given, in words; empty where that is nothing."""
    metavar: str = ""
    unit: str = ""
    """The base unit of a quantity."""
    minimum: float = -math.inf
    maximum: float = math.inf
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    """Other names, in the spelling of Python: short ones, and an engine's."""
    letter: str = ""
    """The one-letter flag."""
    off: str = ""
    """The name of the flag that switches it off, if it is on by default."""
    repeated: bool = False
    """Whether the flag may be given several times."""
    axis: bool = True
    """Whether a sweep can range over it."""
    completes: Literal["", "models", "hardware"] = ""
    """The kind of ids that a shell offers for it."""
    draft: bool = True
    """Whether a draft model takes it over from the model that it drafts for."""
    name: str = ""
    group: str = ""

    @property
    def flag(self) -> str:
        """The long flag."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def flags(self) -> tuple[str, ...]:
        """All flags, the long one first."""
        return (
            self.flag,
            *(f"--{name.replace('_', '-')}" for name in self.aliases),
            *([f"-{self.letter}"] if self.letter else []),
        )

    @property
    def text(self) -> str:
        """The help text with the default."""
        return f"{self.help} Default: {self.default}." if self.default else self.help

    def read(self, value: Any) -> Any:
        """The value of a count, a number or a quantity that was given: a number in base units, in its range.

        Raises:
            InputError: it is none, or out of range; the message names the flag and what is allowed.
        """
        if self.kind == "count":
            try:
                return parse_count(value, self.flag, int(max(self.minimum, 0)))
            except UnitError as error:
                raise InputError(str(error)) from None
        if self.unit:
            number = read_quantity(self.name, value, self.unit)
        else:
            try:
                number = float(value)
            except (TypeError, ValueError):
                raise InputError(f"{self.flag} must be a number, not {value!r}") from None
        if not self.minimum <= number <= self.maximum:
            low, high = (f"{end:g}" for end in (self.minimum, self.maximum))
            raise InputError(f"{self.flag} must be from {low} to {high}, not {value}")
        return number

    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of its value."""
        types: dict[str, list[str]] = {
            "count": ["integer", "string"], "number": ["number", "string"], "quantity": ["number", "string"],
            "choice": ["string"], "text": ["string"], "flag": ["boolean"],
        }  # fmt: skip
        schema: dict[str, Any] = {"type": types[self.kind], "description": self.text}
        if self.choices:
            schema["enum"] = list(self.choices)
        if self.minimum > -math.inf:
            schema["minimum"] = self.minimum
        if self.maximum < math.inf:
            schema["maximum"] = self.maximum
        return schema


def read_quantity(name: str, value: Any, unit: str) -> float:
    """The value of a quantity in base units.

    Args:
        name: of the option, with underscores.
        value: text with a unit ("2039 GB/s"), or a number in base units.
        unit: the base unit: "byte", "s", "byte/s", "FLOP/s".

    Raises:
        InputError: the text is no such quantity, or it is not more than 0.
    """
    flag = f"--{name.replace('_', '-')}"
    try:
        number = parse_quantity(value, unit) if isinstance(value, str) else float(value)
    except (UnitError, TypeError, ValueError) as error:
        raise InputError(f"{flag}: {error}") from None
    if not 0 < number < math.inf:
        raise InputError(f"{flag} must be more than 0, not {value}")
    return number


def read_share(name: str, value: Any) -> float:
    """The value of a share: more than 0, at most 1.

    Raises:
        InputError: it is none.
    """
    flag = f"--{name.replace('_', '-')}"
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{flag} must be a share such as 0.4, not {value!r}") from None
    if not 0 < number <= 1:
        raise InputError(f"{flag} must be more than 0 and at most 1, not {value}")
    return number


def _count(help: str, *, minimum: float = 1, metavar: str = "N", **more: Any) -> Option:
    return Option(kind="count", help=help, minimum=minimum, metavar=metavar, **more)


def _choice(help: str, *choices: str, **more: Any) -> Option:
    return Option(kind="choice", help=help, choices=choices, **{"metavar": "|".join(choices), **more})


def _text(help: str, metavar: str, **more: Any) -> Option:
    return Option(kind="text", help=help, metavar=metavar, **more)


def _flag(help: str, **more: Any) -> Option:
    return Option(kind="flag", help=help, **more)


def _quantity(help: str, unit: str, metavar: str, **more: Any) -> Option:
    return Option(kind="quantity", help=help, unit=unit, metavar=metavar, **more)


def _number(help: str, metavar: str, **more: Any) -> Option:
    return Option(kind="number", help=help, metavar=metavar, **more)


class WorkloadOptions(TypedDict, total=False):
    """What is run."""

    batch: Annotated[Count, _count("Sequences in the whole deployment.", default="1", letter="b")]
    input_len: Annotated[Count, _count("Prompt tokens per sequence; 8k = 8192.", default="1024")]
    output_len: Annotated[Count, _count("Generated tokens per sequence; adds TTFT, TPOT and E2E.", axis=False)]
    context: Annotated[Count, _count("Tokens cached before the decode step.", minimum=0, default="input-len")]
    phase: Annotated[str, _choice("Steps to look at.", "prefill", "decode", "both", default="both")]
    segments: Annotated[str, _text("One mixed step: COUNTxNEW@CACHED,...", "LIST", axis=False)]


class PrecisionOptions(TypedDict, total=False):
    """Formats of numbers."""

    dtype: Annotated[str, _text("Of all weights.", "DTYPE", default="the model's", draft=False)]
    activation_dtype: Annotated[str, _text("Of activations, and then of products.", "DTYPE", default="the model's")]
    kv_cache_dtype: Annotated[str, _text("Of the KV cache.", "DTYPE", default="as activations")]
    mamba_ssm_cache_dtype: Annotated[str, _text("Of recurrent state.", "DTYPE", default="the model's")]
    dispatch_dtype: Annotated[str, _text("Of tokens sent to their experts.", "DTYPE", default="as activations")]
    combine_dtype: Annotated[str, _text("Of what experts send back.", "DTYPE", default="as activations")]
    quantization: Annotated[
        str,
        _text(
            "Scheme of linear layers and experts: fp8, int8, w8a16, w4a16, awq, gptq, mxfp4, nvfp4, none, ...",
            "NAME",
            draft=False,
        ),
    ]


class ParallelismOptions(TypedDict, total=False):
    """How devices share the work."""

    tensor_parallel_size: Annotated[Count, _count("Devices that share each layer.", default="1", aliases=("tp",), draft=False)]
    pipeline_parallel_size: Annotated[Count, _count("Stages of layers.", default="1", aliases=("pp",), draft=False)]
    data_parallel_size: Annotated[Count, _count("Copies that share the batch.", default="1", aliases=("dp",))]
    expert_parallel_size: Annotated[Count, _count("Devices that share the experts.", default="1", aliases=("ep",), draft=False)]
    moe_tp: Annotated[
        Count,
        _count(
            "Devices that share each expert, beside --ep.", default="tp/ep, at least 1", aliases=("moe_tp_size",), draft=False
        ),
    ]
    num_redundant_experts: Annotated[
        Count,
        _count(
            "Slots for copies of experts, in each layer, beside the experts.",
            default="0",
            minimum=0,
            aliases=("ep_num_redundant_experts",),
            draft=False,
        ),
    ]
    context_parallel_size: Annotated[
        Count,
        _count("Devices that share the tokens of a sequence.", default="1", aliases=("prefill_context_parallel_size", "cp")),
    ]
    decode_context_parallel_size: Annotated[
        Count,
        _count(
            "Tensor-parallel devices with the same KV heads that share the cached tokens.",
            default="1",
            aliases=("dcp",),
            draft=False,
        ),
    ]
    sequence_parallel: Annotated[bool, _flag("Tensor-parallel devices share the tokens between the blocks.", draft=False)]
    microbatch_overlap: Annotated[
        bool, _flag("Two microbatches in turn: collectives of one while the other computes.", aliases=("enable_dbo",))
    ]
    expert_imbalance: Annotated[
        Number, _number("Tokens of the busiest expert-parallel device over the mean.", "X", default="1", minimum=1)
    ]


class EngineOptions(TypedDict, total=False):
    """The engine and its limits."""

    engine: Annotated[str, _text("vllm, sglang or trtllm, or NAME@VERSION.", "NAME", default="vllm")]
    backend: Annotated[str, _text("Whose kernels the estimate is for.", "NAME", default="the engine's")]
    max_model_len: Annotated[Count, _count("Longest sequence that the engine accepts.", draft=False)]
    max_num_seqs: Annotated[Count, _count("Maximum number of sequences in one step of a replica.", draft=False)]
    max_num_batched_tokens: Annotated[Count, _count("Maximum number of tokens in one step.", default="the engine's")]
    gpu_memory_utilization: Annotated[
        Number, _number("Share of memory that the engine uses.", "SHARE", default="the engine's", minimum=0, maximum=1)
    ]
    mem_fraction_static: Annotated[
        Number, _number("SGLang's share of memory, for weights and cache alone.", "SHARE", minimum=0, maximum=1)
    ]
    kv_cache_free_gpu_memory_fraction: Annotated[
        Number,
        _number(
            "TensorRT-LLM's share of the memory that weights and activations leave, for the cache.",
            "SHARE",
            minimum=0,
            maximum=1,
            aliases=("kv_cache_free_gpu_mem_fraction", "kv_cache_free_fraction"),
        ),
    ]
    reserve: Annotated[Quantity, _quantity('Memory kept free, such as "2 GiB".', "byte", "BYTES", default="0", draft=False)]
    block_size: Annotated[Count, _count("Tokens in a block of the KV cache.", default="the engine's")]
    enable_prefix_caching: Annotated[
        bool, _flag("Accepted for compatibility; --shared-prefix says how much is shared.", axis=False, draft=False)
    ]


class HardwareOptions(TypedDict, total=False):
    """Figures that replace the hardware's own."""

    peak_flops: Annotated[Quantity, _quantity('"312 TFLOP/s", for every dtype.', "FLOP/s", "RATE")]
    bandwidth: Annotated[Quantity, _quantity('"2039 GB/s".', "byte/s", "RATE")]
    memory: Annotated[Quantity, _quantity('"80 GiB".', "byte", "BYTES")]
    link_bandwidth: Annotated[
        Quantity, _quantity('Of the links between devices, one direction: "16 GB/s".', "byte/s", "RATE", default="the file's")
    ]
    allreduce_bandwidth: Annotated[
        Quantity,
        _quantity("Bus bandwidth that all-reduces, all-gathers and reduce-scatters reach in the estimate.", "byte/s", "RATE"),
    ]
    mfu: Annotated[
        Number,
        _number(
            "Share of the matrix peak in the estimate, instead of fitted kernels.",
            "SHARE",
            default="1 with --mbu",
            minimum=0,
            maximum=1,
        ),
    ]
    mbu: Annotated[
        Number,
        _number("Share of the bandwidth, likewise.", "SHARE", default="1 with --mfu", minimum=0, maximum=1),
    ]


class CountingOptions(TypedDict, total=False):
    """What is counted, where there is a choice."""

    mask: Annotated[str, _choice("Pairs that attention computes.", "causal", "full", default="causal")]
    attention: Annotated[str, _choice("Eager attention writes its scores to memory.", "fused", "eager", default="fused")]
    logits: Annotated[str, _choice("Positions that the LM head computes.", "last", "all", default="last", draft=False)]
    mla: Annotated[
        str,
        _choice("How MLA computes; auto expands prompts and absorbs in decode.", "auto", "expand", "absorb", default="auto"),
    ]
    routing_skew: Annotated[
        Number, _number("Zipf exponent of expert popularity.", "A", default="0 (uniform)", minimum=0, maximum=10)
    ]
    shared_prefix: Annotated[Count, _count("Cached tokens common to the batch.", minimum=0, default="0")]
    ignore_capacity: Annotated[bool, _flag("Give times even if it does not fit.", axis=False, draft=False)]


class SpeculationOptions(TypedDict, total=False):
    """Speculative decoding."""

    speculative_model: Annotated[
        Any, _text("Draft model: id, YAML file, config.json, ...", "MODEL", completes="models", axis=False)
    ]
    speculative_method: Annotated[str, _text("draft_model, mtp (the model's own layer) or ngram.", "NAME", axis=False)]
    num_speculative_tokens: Annotated[Count, _count("Tokens drafted per round.", metavar="K", minimum=0, axis=False)]
    acceptance: Annotated[
        Number, _number("Probability that a drafted token is accepted.", "A", minimum=0, maximum=1, axis=False)
    ]
    speculative_draft_tensor_parallel_size: Annotated[
        Count, _count("Of the draft model.", default="as the model's", axis=False)
    ]
    speculative_config: Annotated[Any, _text("The same as JSON, as vLLM takes it.", "JSON", axis=False)]


class ReadingOptions(TypedDict, total=False):
    """How a model's file is read."""

    assume: Annotated[str, _text("Read a config.json as one of this FAMILY, at your own risk.", "FAMILY", axis=False)]


class _Short(TypedDict, total=False):
    """Other names of options."""

    tp: Count
    pp: Count
    dp: Count
    ep: Count
    cp: Count
    dcp: Count
    enable_dbo: bool
    moe_tp_size: Count
    ep_num_redundant_experts: Count
    prefill_context_parallel_size: Count
    kv_cache_free_gpu_mem_fraction: Number
    kv_cache_free_fraction: Number


class DeploymentOptions(
    ReadingOptions, PrecisionOptions, ParallelismOptions, EngineOptions, HardwareOptions, CountingOptions, _Short, total=False
):
    """All but the workload and speculation."""


class AnalyzeOptions(WorkloadOptions, DeploymentOptions, SpeculationOptions, total=False):
    """All options of `analyze`."""


WORKLOAD, PRECISION, PARALLELISM, ENGINE = "Workload", "Precision", "Parallelism", "Engine"
HARDWARE, COUNTING, SPECULATION, READING = "Hardware overrides", "Counting", "Speculative decoding", "Reading"
DEPLOYMENT = (READING, PRECISION, PARALLELISM, ENGINE, HARDWARE, COUNTING)
"""Groups that say on what something runs, and how it is counted."""
ALL = (WORKLOAD, *DEPLOYMENT, SPECULATION)

_SECTIONS: dict[str, type] = {
    WORKLOAD: WorkloadOptions, READING: ReadingOptions, PRECISION: PrecisionOptions, PARALLELISM: ParallelismOptions,
    ENGINE: EngineOptions, HARDWARE: HardwareOptions, COUNTING: CountingOptions, SPECULATION: SpeculationOptions,
}  # fmt: skip


def entries(sections: Mapping[str, type]) -> list[Option]:
    """The options of some sections (a `TypedDict` by the name of its group), in order."""
    return [
        replace(hint.__metadata__[0], name=name, group=group)
        for group, section in sections.items()
        for name, hint in get_type_hints(section, include_extras=True).items()
    ]


OPTIONS: dict[str, Option] = {}
"""Every option by name."""
ALIASES: dict[str, str] = {}
"""The name of the option that each other name stands for."""


def add(option: Option) -> None:
    """Make an option known.

    Raises:
        TypeError: its name, or one of its other names, is taken.
    """
    for name in (option.name, *option.aliases):
        if name in OPTIONS or name in ALIASES:
            msg = f"the option name {name!r} is taken"
            raise TypeError(msg)
    OPTIONS[option.name] = option
    ALIASES.update(dict.fromkeys(option.aliases, option.name))


for _option in entries(_SECTIONS):
    add(_option)


def of_groups(groups: Iterable[str], without: Iterable[str] = ()) -> list[Option]:
    """The options of some groups, in order."""
    wanted, left_out = set(groups), set(without)
    return [option for option in OPTIONS.values() if option.group in wanted and option.name not in left_out]


def flags(options: Mapping[str, Any]) -> tuple[str, ...]:
    """The command-line flags of some options, with their values, in the order of the schema.

    >>> flags({"kv_cache_dtype": "fp8", "tp": 2, "sequence_parallel": True, "phase": None, "batch": 8})
    ('--batch', '8', '--kv-cache-dtype', 'fp8', '--tensor-parallel-size', '2', '--sequence-parallel')
    """
    given = {ALIASES.get(name, name): value for name, value in options.items() if value is not None and value is not False}
    line: list[str] = []
    for name in (name for name in OPTIONS if name in given):
        line += [OPTIONS[name].flag] if given[name] is True else [OPTIONS[name].flag, str(given[name])]
    return tuple(line)


def keywords(*groups: str, without: Iterable[str] = (), first: Iterable[Option] = ()) -> Callable[[F], F]:
    """Give a function that takes `**options` a signature that lists them, for `help()` and notebooks.

    Args:
        groups: of the schema.
        without: options of these groups that it does not take.
        first: options of other schemas, before these.
    """
    listed = [*first, *of_groups(groups, without)]

    def decorate(function: F) -> F:
        own = inspect.signature(function)
        rest = [entry for entry in own.parameters.values() if entry.kind is not inspect.Parameter.VAR_KEYWORD]
        more = [
            inspect.Parameter(
                entry.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=f"{_TYPES[entry.kind]} | None"
            )
            for entry in listed
            if entry.name not in own.parameters
        ]
        function.__signature__ = own.replace(parameters=[*rest, *more])  # type: ignore[attr-defined]
        return function

    return decorate


def json_schema(groups: Iterable[str] = ALL) -> dict[str, Any]:
    """JSON Schema of an object of options."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Options of roofline analyze",
        "type": "object",
        "properties": {entry.name: entry.json_schema() for entry in of_groups(groups)},
        "additionalProperties": False,
    }
