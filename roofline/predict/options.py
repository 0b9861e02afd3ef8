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
from typing import Annotated, Any, Literal, TypedDict, TypeVar, get_args, get_type_hints

from roofline.errors import InputError, UnitError
from roofline.units import parse_count, parse_quantity

F = TypeVar("F", bound=Callable[..., Any])

Count = int | str | None
"""A whole number, or text such as "8k" (8192); None of any option: its default."""
Number = float | str | None
Quantity = float | str | None
"""A number in base units, or text with a unit such as "2039 GB/s"."""
Text = str | None
Flag = bool | None
Axis = float | str | Iterable[float | str | None] | None
"""Values of an axis of a sweep: one, several, or text with commas and ranges such as "1:512:x2"."""

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
    elsewhere: tuple[str, ...] = ()
    """Names of the same thing in other tools, which an error answers with this one."""
    letter: str = ""
    """The one-letter flag."""
    off: str = ""
    """The name of the flag that switches it off, if it is on by default, or `undecided`."""
    undecided: bool = False
    """Whether a flag that is not given is neither on nor off: the engine decides."""
    repeated: bool = False
    """Whether the flag may be given several times."""
    axis: bool = True
    """Whether a sweep can range over it."""
    completes: Literal["", "models", "hardware", "engines", "backends", "dtypes", "schemes"] = ""
    """The kind of names that a shell offers for it."""
    common: bool = False
    """Whether help lists it among the common options, before those of its group."""
    draft: bool = True
    """Whether a draft model takes it over from the model that it drafts for."""
    name: str = ""
    group: str = ""
    annotation: str = "Any"
    """The type of its value in Python."""

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


def _choice(help: str, **more: Any) -> Option:
    return Option(kind="choice", help=help, **more)


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

    batch: Annotated[
        Count,
        _count(
            "Number of sequences in the whole deployment.",
            default="1",
            letter="b",
            common=True,
            elsewhere=("batch_size", "bs", "num_seqs", "users"),
        ),
    ]
    input_len: Annotated[
        Count,
        _count(
            "Number of prompt tokens per sequence; 8k is 8192.",
            default="1024",
            common=True,
            aliases=("isl", "input_length", "prompt_len"),
            elsewhere=("input_tokens", "prompt_tokens", "prompt_length", "random_input_len"),
        ),
    ]
    images: Annotated[
        Count,
        _count(
            "Number of images per prompt, each of the size that the vision tower is made for: its work comes before prefill, "
            "and its tokens are added to --input-len.",
            default="0",
            minimum=0,
            axis=False,
            draft=False,
        ),
    ]
    output_len: Annotated[
        Count,
        _count(
            "Number of output tokens per sequence. If given, end-to-end latency (E2E) is reported too.",
            axis=False,
            common=True,
            aliases=("osl", "output_length"),
            elsewhere=("output_tokens", "max_tokens", "max_new_tokens", "random_output_len"),
        ),
    ]
    context: Annotated[
        Count,
        _count(
            "Number of tokens cached before the decode step.",
            minimum=0,
            default="same as --input-len",
            common=True,
            aliases=("seq_len",),
            elsewhere=("context_len", "context_length", "ctx_size", "kv_len"),
        ),
    ]
    prefix_hit: Annotated[
        Number,
        _number(
            "Fraction of each prompt that is in the prefix cache; prefill skips it.",
            "FRACTION",
            default="0",
            minimum=0,
            maximum=1,
            common=True,
        ),
    ]
    cached_prefix: Annotated[
        Count, _count("Number of prompt tokens in the prefix cache; replaces --prefix-hit.", default="0", minimum=0)
    ]
    phase: Annotated[Literal["prefill", "decode", "both"] | None, _choice("Phases to predict.", default="both")]
    segments: Annotated[
        Text,
        _text(
            "Predict one mixed prefill and decode step, as COUNTxNEW@CACHED,...; 32x1@4096 is 32 sequences with 1 new and "
            "4096 cached tokens each.",
            "LIST",
            axis=False,
        ),
    ]


class PrecisionOptions(TypedDict, total=False):
    """Formats of numbers."""

    dtype: Annotated[
        Text,
        _text(
            "Data type of weights, such as fp8.",
            "DTYPE",
            completes="dtypes",
            default="set by the model",
            draft=False,
            common=True,
            elsewhere=("precision", "weight_dtype"),
        ),
    ]
    activation_dtype: Annotated[
        Text,
        _text(
            "Data type of activations and of matrix-product inputs.",
            "DTYPE",
            completes="dtypes",
            default="same as weights, but at least 16 bits",
            elsewhere=("act_dtype", "compute_dtype"),
        ),
    ]
    kv_cache_dtype: Annotated[
        Text,
        _text(
            "Data type of the KV cache.",
            "DTYPE",
            completes="dtypes",
            default="same as activations, unless the model sets it",
            common=True,
            elsewhere=("kv_dtype",),
        ),
    ]
    mamba_ssm_cache_dtype: Annotated[
        Text, _text("Data type of recurrent state.", "DTYPE", completes="dtypes", default="set by the model or the engine")
    ]
    dispatch_dtype: Annotated[
        Text, _text("Data type of tokens dispatched to experts.", "DTYPE", completes="dtypes", default="same as activations")
    ]
    combine_dtype: Annotated[
        Text, _text("Data type of tokens returned by experts.", "DTYPE", completes="dtypes", default="same as activations")
    ]
    quantization: Annotated[
        Text,
        _text(
            "Quantization of linear layers and experts, such as fp8, awq or none.",
            "NAME",
            default="set by the model; none if --dtype is given",
            completes="schemes",
            draft=False,
            common=True,
            elsewhere=("quant", "weight_bits"),
        ),
    ]
    bits_per_weight: Annotated[
        Number,
        _number(
            "Mean bits per weight, including scales: for example 4.85; replaces --dtype and --quantization.", "X",
            minimum=1, maximum=32, draft=False, elsewhere=("bpw",),
        ),
    ]  # fmt: skip


class ParallelismOptions(TypedDict, total=False):
    """How devices share the work."""

    tensor_parallel_size: Annotated[
        Count,
        _count(
            "Number of devices that split each layer.",
            default="1",
            aliases=("tp", "num_gpus", "gpus"),
            draft=False,
            common=True,
            elsewhere=("world_size", "num_devices", "n_gpus"),
        ),
    ]
    pipeline_parallel_size: Annotated[
        Count,
        _count("Number of pipeline stages.", default="1", aliases=("pp",), draft=False, common=True),
    ]
    data_parallel_size: Annotated[Count, _count("Number of data-parallel replicas.", default="1", aliases=("dp",), common=True)]
    expert_parallel_size: Annotated[
        Count, _count("Number of devices that split the experts.", default="1", aliases=("ep",), draft=False, common=True)
    ]
    moe_tp: Annotated[
        Count,
        _count(
            "Tensor-parallel size within each expert.",
            default="TP size / EP size, at least 1",
            aliases=("moe_tp_size",),
            draft=False,
        ),
    ]
    num_redundant_experts: Annotated[
        Count,
        _count(
            "Number of extra expert slots per layer for replicated experts.",
            default="0",
            minimum=0,
            aliases=("ep_num_redundant_experts",),
            draft=False,
        ),
    ]
    deepep_mode: Annotated[
        Literal["auto", "normal", "low_latency"] | None,
        _choice("DeepEP kernels for dispatch across nodes; auto uses low_latency for decode.", default="auto"),
    ]
    context_parallel_size: Annotated[
        Count,
        _count(
            "Number of devices that split the tokens of each sequence.",
            default="1",
            aliases=("cp", "prefill_context_parallel_size"),
        ),
    ]
    decode_context_parallel_size: Annotated[
        Count,
        _count(
            "Number of ranks that divide the cached tokens among them; they hold the same KV heads.",
            default="1",
            aliases=("dcp",),
            draft=False,
        ),
    ]
    sequence_parallel: Annotated[
        Flag, _flag("Split the activations of norms and residuals across tensor-parallel ranks.", draft=False)
    ]
    microbatch_overlap: Annotated[
        Flag,
        _flag("Overlap two microbatches: one communicates while the other computes.", aliases=("enable_dbo",)),
    ]
    expert_imbalance: Annotated[
        Number, _number("Ratio of the busiest expert-parallel device's tokens to the mean.", "RATIO", default="1", minimum=1)
    ]


class EngineOptions(TypedDict, total=False):
    """The engine and its limits."""

    engine: Annotated[
        Text,
        _text(
            "Engine: vllm, sglang or trtllm, or NAME@VERSION.",
            "NAME",
            default="vllm",
            common=True,
            completes="engines",
        ),
    ]
    backend: Annotated[
        Text,
        _text(
            "Measured kernels that the estimate uses: of an engine, such as sglang, or of a file written by `calibrate`.",
            "NAME",
            completes="backends",
            default="that of the engine",
        ),
    ]
    max_model_len: Annotated[
        Count,
        _count(
            "Maximum sequence length that the engine accepts, in tokens.",
            draft=False,
            elsewhere=("max_seq_len", "max_position_embeddings"),
        ),
    ]
    max_num_seqs: Annotated[
        Count,
        _count(
            "Maximum number of sequences per step of each replica.",
            draft=False,
            elsewhere=("max_batch_size", "max_running_requests", "max_concurrency"),
        ),
    ]
    max_num_batched_tokens: Annotated[
        Count,
        _count(
            "Maximum number of tokens per step.",
            default="set by the engine",
            elsewhere=("max_num_tokens", "chunked_prefill_size"),
        ),
    ]
    gpu_memory_utilization: Annotated[
        Number,
        _number(
            "Fraction of device memory to use.",
            "FRACTION",
            default="set by the engine",
            minimum=0,
            maximum=1,
            common=True,
            elsewhere=("mem_fraction", "gpu_mem"),
        ),
    ]
    mem_fraction_static: Annotated[
        Number, _number("SGLang: fraction of device memory for weights and KV cache.", "FRACTION", minimum=0, maximum=1)
    ]
    kv_cache_free_gpu_memory_fraction: Annotated[
        Number,
        _number(
            "TensorRT-LLM: KV cache as a fraction of the memory left after weights and activations.",
            "FRACTION",
            minimum=0,
            maximum=1,
            aliases=("kv_cache_free_gpu_mem_fraction", "kv_cache_free_fraction"),
        ),
    ]
    reserve: Annotated[
        Quantity,
        _quantity('Memory to leave unused on each device, such as "2 GiB".', "byte", "BYTES", default="0", draft=False),
    ]
    block_size: Annotated[Count, _count("Number of tokens per KV cache block.", default="set by the engine")]
    enable_prefix_caching: Annotated[
        Flag,
        _flag(
            "Copies of recurrent state that prefix caching needs; in simulations, cached blocks of preempted requests. "
            "For cached prompts, see --prefix-hit. Default: set by the engine.",
            off="no-enable-prefix-caching", undecided=True, axis=False, draft=False,
        ),
    ]  # fmt: skip


class HardwareOptions(TypedDict, total=False):
    """Figures that replace the hardware's own."""

    peak_flops: Annotated[
        Quantity,
        _quantity(
            'Peak matrix throughput, applied to every data type, such as "312 TFLOP/s".',
            "FLOP/s",
            "RATE",
            default="set by the hardware",
            elsewhere=("flops", "tflops"),
        ),
    ]
    bandwidth: Annotated[
        Quantity,
        _quantity(
            'Memory bandwidth, such as "2039 GB/s".',
            "byte/s",
            "RATE",
            default="set by the hardware",
            elsewhere=("memory_bandwidth", "hbm_bandwidth"),
        ),
    ]
    memory: Annotated[
        Quantity,
        _quantity(
            'Memory per device, such as "80 GiB".',
            "byte",
            "BYTES",
            default="set by the hardware",
            elsewhere=("vram", "gpu_memory"),
        ),
    ]
    link_bandwidth: Annotated[
        Quantity,
        _quantity(
            'Total bandwidth of a device to the others, per direction, such as "16 GB/s".',
            "byte/s",
            "RATE",
            default="set by the hardware",
        ),
    ]
    allreduce_bandwidth: Annotated[
        Quantity,
        _quantity("Bus bandwidth of all-reduce, all-gather and reduce-scatter that the estimate assumes.", "byte/s", "RATE"),
    ]
    mfu: Annotated[
        Number,
        _number(
            "Fraction of the peak FLOP/s that the estimate assumes, instead of fitted efficiencies.",
            "FRACTION",
            default="1 if --mbu is given",
            minimum=0,
            maximum=1,
        ),
    ]
    mbu: Annotated[
        Number,
        _number(
            "Fraction of the memory bandwidth that the estimate assumes, instead of fitted efficiencies.",
            "FRACTION",
            default="1 if --mfu is given",
            minimum=0,
            maximum=1,
        ),
    ]


class CountingOptions(TypedDict, total=False):
    """What is counted, where there is a choice."""

    mask: Annotated[
        Literal["causal", "full"] | None, _choice("Attention mask; full counts all query-key pairs.", default="causal")
    ]
    attention: Annotated[
        Literal["fused", "eager"] | None, _choice("Attention kernel; eager writes the scores to memory.", default="fused")
    ]
    logits: Annotated[
        Literal["last", "all"] | None, _choice("Positions for which logits are computed.", default="last", draft=False)
    ]
    mla: Annotated[
        Literal["auto", "expand", "absorb"] | None,
        _choice("Form of MLA; auto expands in prefill and absorbs in decode.", default="auto"),
    ]
    routing_skew: Annotated[
        Number, _number("Zipf exponent of expert popularity; 0 is uniform.", "EXPONENT", default="0", minimum=0, maximum=10)
    ]
    shared_prefix: Annotated[
        Count,
        _count("Number of cached tokens common to all sequences of the batch, stored and read once.", minimum=0, default="0"),
    ]
    ignore_capacity: Annotated[Flag, _flag("Predict times even if the model does not fit in memory.", axis=False, draft=False)]


class SpeculationOptions(TypedDict, total=False):
    """Speculative decoding."""

    speculative_model: Annotated[
        Any,
        _text("Draft model: id, YAML file, config.json, or Hugging Face repository.", "MODEL", completes="models", axis=False),
    ]
    speculative_method: Annotated[
        Text, _text("Speculation method: draft_model, mtp (the model's own prediction layer) or ngram.", "NAME", axis=False)
    ]
    num_speculative_tokens: Annotated[Count, _count("Number of draft tokens per round.", metavar="K", minimum=0, axis=False)]
    acceptance: Annotated[Number, _number("Probability that a draft token is accepted.", "P", minimum=0, maximum=1, axis=False)]
    speculative_draft_tensor_parallel_size: Annotated[
        Count, _count("Tensor-parallel size of the draft model.", default="same as the target model", axis=False)
    ]
    speculative_config: Annotated[
        Any, _text("All speculative decoding options as one JSON object, in vLLM's format.", "JSON", axis=False)
    ]


class ReadingOptions(TypedDict, total=False):
    """How a model's file is read."""

    assume: Annotated[
        Text,
        _text(
            "Read config.json as a model of FAMILY, ignoring its model_type. Whether the family is right is not checked.",
            "FAMILY",
            axis=False,
        ),
    ]


class _Short(TypedDict, total=False):
    """Other names of options."""

    isl: Count
    input_length: Count
    prompt_len: Count
    osl: Count
    output_length: Count
    seq_len: Count
    num_gpus: Count
    gpus: Count
    tp: Count
    pp: Count
    dp: Count
    ep: Count
    cp: Count
    dcp: Count
    enable_dbo: Flag
    moe_tp_size: Count
    ep_num_redundant_experts: Count
    prefill_context_parallel_size: Count
    kv_cache_free_gpu_mem_fraction: Number
    kv_cache_free_fraction: Number


class DeploymentOptions(
    ReadingOptions, PrecisionOptions, ParallelismOptions, EngineOptions, HardwareOptions, CountingOptions, _Short, total=False
):
    """All but the workload and speculation."""


SweepAxes = TypedDict(  # noqa: UP013 - one name per line otherwise
    "SweepAxes",
    {
        "phase": Axis, "batch": Axis, "input_len": Axis, "isl": Axis, "input_length": Axis, "prompt_len": Axis, "context": Axis,
        "seq_len": Axis, "prefix_hit": Axis, "cached_prefix": Axis, "dtype": Axis, "kv_cache_dtype": Axis,
        "activation_dtype": Axis, "mamba_ssm_cache_dtype": Axis, "dispatch_dtype": Axis, "combine_dtype": Axis,
        "quantization": Axis, "bits_per_weight": Axis, "tensor_parallel_size": Axis, "tp": Axis, "num_gpus": Axis, "gpus": Axis,
        "pipeline_parallel_size": Axis, "pp": Axis,
        "data_parallel_size": Axis, "dp": Axis, "expert_parallel_size": Axis, "ep": Axis, "moe_tp": Axis, "moe_tp_size": Axis,
        "num_redundant_experts": Axis, "ep_num_redundant_experts": Axis, "deepep_mode": Axis, "context_parallel_size": Axis,
        "cp": Axis, "prefill_context_parallel_size": Axis, "decode_context_parallel_size": Axis, "dcp": Axis,
        "sequence_parallel": Axis, "microbatch_overlap": Axis, "enable_dbo": Axis, "expert_imbalance": Axis, "engine": Axis,
        "backend": Axis, "max_model_len": Axis, "max_num_seqs": Axis, "max_num_batched_tokens": Axis,
        "gpu_memory_utilization": Axis, "mem_fraction_static": Axis, "kv_cache_free_gpu_memory_fraction": Axis,
        "kv_cache_free_gpu_mem_fraction": Axis, "kv_cache_free_fraction": Axis, "reserve": Axis, "block_size": Axis,
        "peak_flops": Axis, "bandwidth": Axis, "memory": Axis, "link_bandwidth": Axis, "allreduce_bandwidth": Axis, "mfu": Axis,
        "mbu": Axis, "mask": Axis, "attention": Axis, "logits": Axis, "mla": Axis, "routing_skew": Axis, "shared_prefix": Axis,
    },
    total=False,
)  # fmt: skip
"""Axes of a sweep besides model and hardware: each option that may be one, under all its names."""


class LimitsOptions(DeploymentOptions, SpeculationOptions, total=False):
    """All options of `limits` but its own."""


class AnalyzeOptions(WorkloadOptions, LimitsOptions, total=False):
    """All options of `analyze`."""


WORKLOAD, PRECISION, PARALLELISM, ENGINE = "Workload", "Precision", "Parallelism", "Engine"
HARDWARE, COUNTING, SPECULATION, READING = "Hardware overrides", "Modeling assumptions", "Speculative decoding", "Model file"
DEPLOYMENT = (READING, PRECISION, PARALLELISM, ENGINE, HARDWARE, COUNTING)
"""Groups that say on what something runs, and how it is counted."""
ALL = (WORKLOAD, *DEPLOYMENT, SPECULATION)
PREFIX = ("prefix_hit", "cached_prefix")
"""Options that say how much of a prompt is in the prefix cache."""

_SECTIONS: dict[str, type] = {
    WORKLOAD: WorkloadOptions, READING: ReadingOptions, PRECISION: PrecisionOptions, PARALLELISM: ParallelismOptions,
    ENGINE: EngineOptions, HARDWARE: HardwareOptions, COUNTING: CountingOptions, SPECULATION: SpeculationOptions,
}  # fmt: skip


def entries(sections: Mapping[str, type]) -> list[Option]:
    """The options of some sections (a `TypedDict` by the name of its group), in order."""
    return [
        _entry(hint.__metadata__[0], name, group, hint.__origin__)
        for group, section in sections.items()
        for name, hint in get_type_hints(section, include_extras=True).items()
    ]


def _entry(option: Option, name: str, group: str, hint: Any) -> Option:
    """The option of a key; choices are those of its type."""
    annotation = "Any" if hint is Any else str(hint).replace("typing.", "")
    named = replace(option, name=name, group=group, annotation=annotation)
    if option.kind != "choice":
        return named
    choices = tuple(value for part in get_args(hint) for value in get_args(part))
    return replace(named, choices=choices, metavar=option.metavar or "|".join(choices))


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
    """Give a function that takes `**options` a signature that lists them, and their help texts, for `help()` and notebooks.

    Args:
        groups: of the schema.
        without: options of these groups that it does not take.
        first: options of other schemas, before these.
    """
    listed = [*first, *of_groups(groups, without)]

    def decorate(function: F) -> F:
        own = inspect.signature(function)
        rest = [entry for entry in own.parameters.values() if entry.kind is not inspect.Parameter.VAR_KEYWORD]
        more = [entry for entry in listed if entry.name not in own.parameters]
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = [inspect.Parameter(entry.name, keyword, default=None, annotation=entry.annotation) for entry in more]
        function.__signature__ = own.replace(parameters=[*rest, *parameters])  # type: ignore[attr-defined]
        if function.__doc__:
            before, returns, after = inspect.cleandoc(function.__doc__).partition("\nReturns:")
            function.__doc__ = f"{before}\n{described(more)}{returns}{after}"
        return function

    return decorate


def described(options: Iterable[Option]) -> str:
    """Return options as sections of a docstring, one for each group.

    >>> print(described([OPTIONS["mla"]]), end="")
    Options (modeling assumptions):
        mla (auto|expand|absorb): Form of MLA; auto expands in prefill and absorbs in decode. Default: auto.
    """
    lines: list[str] = []
    group = None
    for option in options:
        if option.group != group:
            group = option.group
            lines.append(f"{chr(10) if lines else ''}Options ({group[:1].lower()}{group[1:]}):")
        names = ", ".join((option.name, *option.aliases))
        lines.append(f"    {names}{f' ({option.metavar})' if option.metavar else ''}: {option.text}")
    return "".join(f"{line}\n" for line in lines)


def json_schema(groups: Iterable[str] = ALL) -> dict[str, Any]:
    """JSON Schema of an object of options."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Options of roofline analyze",
        "type": "object",
        "properties": {entry.name: entry.json_schema() for entry in of_groups(groups)},
        "additionalProperties": False,
    }
