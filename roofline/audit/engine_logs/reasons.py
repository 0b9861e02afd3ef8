"""Likely reasons for a gap between measurement and prediction, as a table of rules."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from roofline.audit.engine_logs.bench_result import BenchResult
from roofline.audit.engine_logs.budgets import memory_budget
from roofline.audit.engine_logs.capacity import AIDED
from roofline.audit.engine_logs.deployment import LoggedDeployment
from roofline.audit.engine_logs.engine_log import EngineLog, flag
from roofline.audit.engine_logs.load_prediction import LoadPrediction
from roofline.audit.engine_logs.names import Row
from roofline.formatting import percent, plural
from roofline.predict.request import ResolvedRequest
from roofline.specs.library import fit_files

CACHE = ("kv_cache_bytes", "kv_capacity_tokens", "max_concurrency")
"""Rows that say how large the cache is, from model and hardware alone."""
LATENCIES = ("ttft_s", "tpot_s", "itl_s", "e2e_s")
RATES = ("requests_per_s", "output_tokens_per_s", "total_tokens_per_s")
GIB = 2**30
_MAX_REASONS = 3


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a rule decides by: the deployment, what was measured, and the rows of the comparison without their reasons."""

    request: ResolvedRequest
    deployment: LoggedDeployment
    log: EngineLog | None
    bench: BenchResult | None
    load: LoadPrediction | None
    rows: tuple[Row, ...]

    def row(self, quantity: str) -> Row | None:
        """The row of a quantity; None where it was not measured."""
        return next((row for row in self.rows if row.quantity == quantity), None)

    def argument(self, name: str) -> str | None:
        """The text of an argument of the engine; None without a log or where it does not print it."""
        return None if self.log is None else self.log.argument(name)

    @property
    def drafted(self) -> bool:
        """Whether the prediction is of speculative decoding."""
        return any(note.name == "num_speculative_tokens" for note in self.request.assumptions)

    def assumed(self, name: str) -> bool:
        """Whether an option is assumed or a default: neither the log nor the user gives it."""
        return any(
            note.name == name and note.origin in ("assumed", "default")
            for note in (*self.deployment.notes, *self.request.assumptions)
        )


@dataclass(frozen=True, slots=True)
class Reason:
    """A rule that explains a gap.

    Attributes:
        quantities: names of the rows that it may explain.
        sentence: the reason for a row; "" where the rule does not apply.
    """

    quantities: tuple[str, ...]
    sentence: Callable[[Row, Evidence], str]


def why(row: Row, evidence: Evidence) -> str:
    """Likely reasons for the gap of a row, the most certain first, at most three; "" where there is no gap.

    Where no rule applies to a gap, the text says so.
    """
    if row.within or row.ratio is None:
        return ""
    sentences = [text for reason in REASONS if row.quantity in reason.quantities and (text := reason.sentence(row, evidence))]
    return "; ".join(sentences[:_MAX_REASONS]) or "no rule explains it"


def _slower(row: Row) -> bool:
    """Whether a server was slower than predicted: its times longer, or its rates lower."""
    if row.ratio is None:
        return False
    return row.ratio < 1 if row.quantity in LATENCIES else row.ratio > 1


def _beneath_bound(row: Row, evidence: Evidence) -> str:
    """Faster than any kernel can be: something is not as the files say."""
    if row.bound is None or not (row.measured < row.bound if row.quantity in LATENCIES else row.measured > row.bound):
        return ""
    if evidence.argument("speculative_config") is not None and not evidence.drafted:
        return "speculative decoding gives several tokens per step"
    return (
        "faster than the hardware allows: fewer requests in flight than the load says, shorter outputs, speculative "
        "decoding, or another card"
    )


def _failed_requests(row: Row, evidence: Evidence) -> str:
    """Some requests failed."""
    if evidence.bench is None or not evidence.bench.failed:
        return ""
    are = "is" if evidence.bench.failed == 1 else "are"
    return f"{evidence.bench.failed:,} of {evidence.bench.load.requests:,} requests failed, and {are} in no figure"


_SAME_DEVICE = 0.05
_MIN_DEVICE_SHARE, _MAX_DEVICE_SHARE = 0.8, 1.08
"""Of the card's memory. Where no line says it, engines are seldom given a share that is as far from the default as this;
the share cannot be above 1."""


def _other_card(row: Row, evidence: Evidence) -> str:
    """The log is of another card than the given hardware, or of a slice of it."""
    device = evidence.row("device_bytes")
    if device is None:
        return _by_cache(evidence)
    if device.within or device.ratio is None or abs(device.ratio - 1) < _SAME_DEVICE:
        return ""
    name = evidence.request.hardware.accelerator.name
    if evidence.log is not None and evidence.log.engine == "sglang" and device.ratio > 1:
        return f"{device.measured / GIB:.1f} GiB were free at the start: other processes held memory, or it is no {name}"
    return f"the log's device has {device.measured / GIB:.1f} GiB: it is no {name}, or a slice of one"


def _by_cache(evidence: Evidence) -> str:
    """The memory that the log's cache and its weights stand for, at the share that the engine takes."""
    cache = evidence.row("kv_cache_bytes")
    if cache is None or evidence.log is None or evidence.log.engine != "vllm":
        return ""
    stage = evidence.request.memory.fullest_stage
    expected = memory_budget(
        evidence.deployment.engine, evidence.request, stage, evidence.log.release, eager=evidence.deployment.eager
    )
    weights = evidence.row("weights_bytes")
    more = 0.0 if weights is None or weights.predicted is None else weights.measured - weights.predicted
    size = (cache.measured + sum(entry.size for entry in expected.taken) + more) / stage.utilization
    if _MIN_DEVICE_SHARE < size / expected.device.size < _MAX_DEVICE_SHARE:
        return ""
    name = evidence.request.hardware.accelerator.name
    other = ", or memory that other processes held" if size < expected.device.size else ""
    comes_to = f"the log's memory comes to a device of about {size / GIB:.0f} GiB"
    return f"{comes_to}, and {name} has {expected.device.size / GIB:.0f}: another card{other}"


def _option_name(name: str) -> str:
    """An option as a command line has it."""
    return "MODEL" if name == "model" else f"--{name.replace('_', '-')}"


def _overridden_options(row: Row, evidence: Evidence) -> str:
    """Options were given that contradict the log."""
    flags = [f"{_option_name(note.name)} {note.value} was given {note.why}" for note in evidence.deployment.notes
             if note.origin == "given" and note.why.startswith("in place of")]  # fmt: skip
    return ", ".join(flags)


_SIGMAS = 3.0


def _random_arrivals(row: Row, evidence: Evidence) -> str:
    """A gap that this number of random arrivals may have.

    Times between them are exponential, as benchmarks draw them: n take n / rate, give or take one part in the root of n.
    """
    if evidence.bench is None or evidence.load is None or evidence.load.saturated or row.ratio is None:
        return ""
    load = evidence.bench.load
    part = 1 / math.sqrt(load.requests)
    if math.isinf(load.rate) or abs(row.ratio - 1) > _SIGMAS * part:
        return ""
    return (
        f"{load.requests:,} random arrivals take {percent(part, 0)} more or less time than the rate says (standard deviation)"
    )


_NEAR_FACTOR = 0.1


def _cache_dtype(row: Row, evidence: Evidence) -> str:
    """The tokens that the log's memory holds are half of those predicted, or twice: the cache has another format."""
    aided = evidence.row(AIDED)
    if aided is None or aided.within or aided.ratio is None:
        return ""
    weights = evidence.row("weights_bytes")
    if weights is not None and not weights.within:
        return ""  # then it is the model, or how it is split
    kv = evidence.request.precision.kv.name
    if abs(aided.ratio - 0.5) < 0.5 * _NEAR_FACTOR:
        return f"the cache holds twice the tokens of {kv}: it is kept in half the bytes (--kv-cache-dtype fp8)"
    if abs(aided.ratio - 2) < 2 * _NEAR_FACTOR:
        return f"the cache holds half the tokens of {kv}: it is kept in twice the bytes (--kv-cache-dtype)"
    return ""


def _eager_mode(row: Row, evidence: Evidence) -> str:
    """The engine was started without CUDA graphs, and was slower."""
    if not evidence.deployment.eager or not _slower(row):
        return ""
    return "eager mode: without CUDA graphs the host launches every kernel, which the prediction takes to be hidden"


def _fewer_weights(row: Row, evidence: Evidence) -> str:
    """Less was loaded than the model in its format."""
    weights = evidence.row("weights_bytes")
    if weights is None or weights.within or weights.predicted is None or weights.predicted < weights.measured + _SMALL_BYTES:
        return ""
    less = f"{(weights.predicted - weights.measured) / GIB:.2f} GiB less were loaded than predicted"
    if row.quantity != "weights_bytes":
        return less
    offload = evidence.argument("cpu_offload_gb")
    if offload not in (None, "0", "0.0"):
        return f"{less}: cpu_offload_gb {offload} leaves some with the host"
    return f"{less}: a smaller format (--quantization), a larger --tp, or a model of other dimensions"


_SMALL_BYTES = 0.1 * GIB


def _more_weights(row: Row, evidence: Evidence) -> str:
    """More was loaded than the language model in its format."""
    weights = evidence.row("weights_bytes")
    if weights is None or weights.within or weights.predicted is None or weights.measured < weights.predicted + _SMALL_BYTES:
        return ""
    more = f"{(weights.measured - weights.predicted) / GIB:.2f} GiB more were loaded than the language model"
    if row.quantity != "weights_bytes":
        return more
    if evidence.argument("speculative_config") is not None and not evidence.drafted:
        return f"{more}: the draft model of speculative decoding"
    if evidence.request.precision.roles or evidence.request.deployment.quantization:
        return f"{more}: layers that are not quantised, a vision tower, or weights repacked for their kernels"
    if evidence.log is not None and evidence.log.engine == "sglang":
        return f"{more}: SGLang counts all memory that went while it loaded, workspaces of libraries included"
    return f"{more}: a vision tower, layers for several tokens at a time, or a model of other dimensions"


def _prefix_cache(row: Row, evidence: Evidence) -> str:
    """Where a server was faster, and prefix caching may have been on (the default of vLLM from 0.8 on, and of SGLang)."""
    faster = row.ratio is not None and (row.ratio > 1 if row.unit == "s" else row.ratio < 1)
    option = evidence.argument("enable_prefix_caching")
    off = (option is not None and not flag(option)) or flag(evidence.argument("disable_prefix_caching"))
    arriving = row.unit == "1/s" and evidence.bench is not None and not math.isinf(evidence.bench.load.rate)
    if not faster or off or (arriving and evidence.load is not None and not evidence.load.saturated):
        return ""
    return "prompts that share a prefix are computed once (prefix caching); here each is computed whole"


def _speculative_decoding(row: Row, evidence: Evidence) -> str:
    """The engine generates several tokens per step."""
    if evidence.argument("speculative_config") is None or _slower(row) or evidence.drafted:
        return ""
    if row.quantity == "itl_s":
        return "ITL is of steps, each with several tokens; the prediction is one step per token"
    return "speculative decoding is on; the prediction is one step per token"


def _queueing(row: Row, evidence: Evidence) -> str:
    """TTFT is mostly waiting."""
    if evidence.load is None:
        return ""
    if evidence.load.saturated:
        return (
            "TTFT is the time in the queue, which grows with every request that arrives: a small gap in throughput is a "
            "large one here"
        )
    return "TTFT depends on how the prompts arrive together, and on the order in which the engine takes them"


_SAME_SHARE = 0.005


def _assumed_utilization(row: Row, evidence: Evidence) -> str:
    """The share of memory is a default: the share that would explain the cache of the log."""
    cache = evidence.row("kv_cache_bytes")
    if not evidence.assumed("gpu_memory_utilization") or cache is None or evidence.log is None:
        return ""
    stage = evidence.request.memory.fullest_stage
    expected = memory_budget(
        evidence.deployment.engine, evidence.request, stage, evidence.log.release, eager=evidence.deployment.eager
    )
    share = expected.share_for(cache.measured)
    if not 0 < share < 1 or abs(share - stage.utilization) < _SAME_SHARE:
        return ""
    text = f"no line says the share of memory: {share:.2f} instead of {stage.utilization:g} would explain it"
    return f"{text} (--gpu-memory-utilization)"


def _graphs_and_collectives(row: Row, evidence: Evidence) -> str:
    """CUDA graphs far from the estimate, or less memory left where devices share layers."""
    graphs = evidence.row("graphs_bytes")
    if graphs is not None and graphs.within is False:
        size = f"{graphs.measured / GIB:.2f} GiB for CUDA graphs"
        return f"{size}: vLLM estimates them from two of them, and for some models by far too many"
    if row.ratio is not None and row.ratio > 1 and evidence.request.deployment.devices > 1 and row.quantity != "graphs_bytes":
        return "buffers of collectives (NCCL, custom all-reduce) take more than the 0.3 GiB that are counted"
    return ""


_MIN_WAVES = 5


def _short_run(row: Row, evidence: Evidence) -> str:
    """Each slot serves few requests, so that beginning and end weigh, and the server was slower."""
    if (
        evidence.bench is None
        or evidence.load is None
        or not _slower(row)
        or evidence.bench.load.requests >= _MIN_WAVES * evidence.load.concurrency
    ):
        return ""
    each = evidence.bench.load.requests / evidence.load.concurrency
    return f"a short run: {each:.1f} requests per slot, so that start and end weigh; the prediction is of the middle"


_SAME_CONCURRENCY = 1.2


def _requests_in_flight(row: Row, evidence: Evidence) -> str:
    """At a rate: Little's law on the measured figures gives another number of requests in flight than is predicted."""
    if evidence.bench is None or evidence.load is None or evidence.load.saturated or math.isinf(evidence.bench.load.rate):
        return ""
    rate, first, rest = (evidence.bench.measured.get(name) for name in ("requests_per_s", "ttft_s", "tpot_s"))
    if rate is None or first is None or rest is None:
        return ""
    under_way = rate * (first + max(evidence.bench.load.output_len - 1, 0.0) * rest)
    if 1 / _SAME_CONCURRENCY < evidence.load.concurrency / under_way < _SAME_CONCURRENCY:
        return ""
    return (
        f"{under_way:.1f} requests were in flight by Little's law, and {evidence.load.concurrency:.1f} are predicted: "
        "at a rate, longer steps bring more requests in flight, and those make steps longer still"
    )


def _cache_limits_batch(row: Row, evidence: Evidence) -> str:
    """The cache limits the batch, and with it every time."""
    if evidence.load is None or "the cache" not in evidence.load.description:
        return ""
    held = plural(evidence.load.concurrency, "request")
    return f"the cache holds {held} by the mean of their lengths; preemptions are not modelled"


_SHORT_STEP_S = 0.015


def _host_overhead(row: Row, evidence: Evidence) -> str:
    """Steps are so short that they do not hide work on the host, and the server was slower."""
    step = evidence.row("tpot_s") or evidence.row("itl_s")
    if step is None or step.measured > _SHORT_STEP_S or not _slower(row):
        return ""
    return f"steps of {step.measured * 1e3:.1f} ms: scheduling, detokenising and streaming on the host are not modelled apart"


def _assumed_max_num_seqs(row: Row, evidence: Evidence) -> str:
    """The number of sequences, which decides what sampling takes, is a default."""
    if evidence.deployment.engine != "vllm" or not evidence.assumed("max_num_seqs"):
        return ""
    seqs = evidence.request.deployment.max_num_seqs
    depends = "sampling, and so the memory for the cache, depends on it (--max-num-seqs)"
    return f"no line says max_num_seqs, {seqs} by default; {depends}"


def _cache_layout(row: Row, evidence: Evidence) -> str:
    """The same bytes hold another number of tokens: the layout differs, or the model."""
    engine = evidence.request.engine
    rules = f"the rules of {engine.name} {engine.version}, by which the cache is laid out here"
    if evidence.log is not None and evidence.log.engine != engine.name:
        rules += f", for {evidence.log.engine} has none"
    mixed = any(part.layout.block is None for part in evidence.request.memory.stages)
    kinds = (
        "layers keep different things, and the engine groups and pads them otherwise than "
        if mixed
        else "the model has another cache per token, or "
    )
    return f"{kinds}{rules}" if mixed else f"{kinds}the engine another layout than {rules}"


_HIGH_VARIATION = 0.3


def _length_variance(row: Row, evidence: Evidence) -> str:
    """Outputs differ in length: the prediction has their mean alone."""
    variation = evidence.bench.load.output_variation if evidence.bench is not None else None
    if variation is None or variation < _HIGH_VARIATION:
        return ""
    return f"outputs differ in length (standard deviation {percent(variation, 0)} of the mean): the last ones run nearly alone"


def _no_measured_kernels(row: Row, evidence: Evidence) -> str:
    """The estimate was transferred from another card, or there is none."""
    name = evidence.request.hardware.accelerator.name
    if not row.basis.startswith("estimate"):
        return "there is no estimate, only the bound, which no kernel reaches"
    if name not in fit_files():
        return f"no kernels were measured on {name}: the estimate is transferred from other accelerators"
    return ""


def _median(row: Row, evidence: Evidence) -> str:
    """The file has a median, the prediction is a mean."""
    if evidence.bench is None or row.quantity not in evidence.bench.medians:
        return ""
    return "the file has the median; the prediction is of the mean"


def _other_memory(row: Row, evidence: Evidence) -> str:
    """What else may hold memory, where there is less of it, or what may be smaller, where there is more."""
    if row.ratio is None:
        return ""
    if row.predicted == 0:
        return "by what is counted nothing is left for a cache: it is another card, format or split than the log's"
    if row.ratio > 1:
        return (
            "something else holds memory: another process, a vision tower's activations, adapters, a compiled model's buffers"
        )
    if evidence.request.deployment.max_num_seqs and evidence.deployment.engine == "vllm":
        return "the step that the engine tried took less than is counted"
    return ""


_PLAUSIBLE_ERROR = 2.0


def _estimate_accuracy(row: Row, evidence: Evidence) -> str:
    """A gap that the estimate may well have: its band does not always hold."""
    steps = evidence.request.steps
    if steps is None or steps.held_out is None or row.ratio is None or not row.basis.startswith("estimate"):
        return ""
    missed = 1 - steps.held_out.coverage
    if not 1 / _PLAUSIBLE_ERROR < row.ratio < _PLAUSIBLE_ERROR or round(missed, 2) <= 0:
        return ""
    return f"the band missed {percent(missed, 0)} of the runs that the estimate of TPOT was tested on"


# The surest first.
REASONS = (
    Reason(("tpot_s", "itl_s", *RATES), _beneath_bound),
    Reason((*LATENCIES, *RATES), _failed_requests),
    Reason(("device_bytes", *CACHE), _other_card),
    Reason(("weights_bytes", "activations_bytes", "graphs_bytes", AIDED, *CACHE, *LATENCIES, *RATES), _overridden_options),
    Reason(RATES, _random_arrivals),
    Reason((AIDED, *CACHE), _cache_dtype),
    Reason((*LATENCIES, *RATES), _eager_mode),
    Reason(("weights_bytes", *CACHE), _fewer_weights),
    Reason(("weights_bytes", *CACHE), _more_weights),
    Reason(("ttft_s", "e2e_s", "requests_per_s", "total_tokens_per_s"), _prefix_cache),
    Reason((*LATENCIES, *RATES), _speculative_decoding),
    Reason(("ttft_s", "e2e_s"), _queueing),
    Reason(CACHE, _assumed_utilization),
    Reason(("graphs_bytes", *CACHE), _graphs_and_collectives),
    Reason(RATES, _short_run),
    Reason(LATENCIES, _requests_in_flight),
    Reason(("tpot_s", "itl_s", *LATENCIES, *RATES), _cache_limits_batch),
    Reason(("tpot_s", "itl_s", *RATES), _host_overhead),
    Reason(("activations_bytes", *CACHE), _assumed_max_num_seqs),
    Reason((AIDED,), _cache_layout),
    Reason((*LATENCIES, *RATES), _length_variance),
    Reason((*LATENCIES, *RATES), _no_measured_kernels),
    Reason(LATENCIES, _median),
    Reason(CACHE, _other_memory),
    Reason(("tpot_s", "itl_s"), _estimate_accuracy),
)
