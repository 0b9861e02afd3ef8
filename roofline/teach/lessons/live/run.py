"""The model behind the controls of a lesson: edits of a model, the analysis, evictions, service. Pages run a translation.

Service is that of a server with a fixed number of clients, each of which sends its next prompt when it has its response: the
closed form of `roofline.serving.queueing.closed_loop`, at the mean context of a response. With C clients and n output tokens
a share f = (C - 1)/n of the steps contains another client's prompt, so that a step takes d + f w: d without a prompt, w what a
prompt adds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from roofline.blocks.gqa import GroupedQueryAttention
from roofline.blocks.mla import LatentAttentionBlock
from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.errors import InputError
from roofline.graph.build import build
from roofline.graph.sharding import caches
from roofline.numeric import Expr, ceil_div
from roofline.operators.sampling import Sampling
from roofline.predict.analyze import run as analysed
from roofline.predict.duration import Duration
from roofline.predict.request import ResolvedRequest, prepare
from roofline.predict.result import Analysis, OperatorResult, Phase
from roofline.predict.speculation import tokens_per_round
from roofline.predict.timing import pipeline, timed
from roofline.report.analysis.view import WEIGHTS
from roofline.serving.preemption.copies import Curve
from roofline.serving.preemption.crossover import needed_rate
from roofline.specs.library import load_hardware
from roofline.specs.workload import Segment, Step, decode, prefill
from roofline.symbols import TABLE

_COUNTS = ("batch", "input_len", "cached_prefix", "context", "tp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The values of the controls, the request that they describe, and its analysis."""

    values: Values
    request: ResolvedRequest
    result: Analysis

    @property
    def decode(self) -> Phase:
        """The decode step."""
        return next(phase for phase in self.result.phases if phase.name == "decode")

    def operator(self, path: str) -> OperatorResult:
        """The operator of the decode step with this path; StopIteration if there is none."""
        return next(op for op in self.decode.operators if op.path == path)


def evaluate(values: Values) -> Run:
    """Analyze what the controls describe. Times are bounds unless `efficiency` is on; memory limits are ignored.

    Raises:
        InputError: dimensions that contradict each other.
    """
    options: Values = {key: int(values[key]) for key in _COUNTS if key in values}
    if "cached_prefix" in options:  # of a prompt its last token is always computed
        options["cached_prefix"] = min(options["cached_prefix"], options["input_len"] - 1)
    if values.get("weights", "") in WEIGHTS:
        name, value = WEIGHTS[values["weights"]]
        options[name] = value
    if values.get("kv", "") != "":
        options["kv_cache_dtype"] = values["kv"]
    if values.get("bandwidth_gbs", 0) > 0:
        options["bandwidth"] = values["bandwidth_gbs"] * 1e9
    if values.get("peak_tflops", 0) > 0:
        options["peak_flops"] = values["peak_tflops"] * 1e12
    if values.get("memory_gb", 0) > 0:
        options["memory"] = values["memory_gb"] * 1e9
    model = edited(load_model(values["model"])[0], values)
    request = prepare(model, load_hardware(values["hardware"])[0], ignore_capacity=True, **options)
    if not values.get("efficiency", False):
        request = replace(request, estimator=replace(request.estimator, wanted=False), steps=None)
    return Run(values=values, request=request, result=analysed(request))


def shape(run: Run) -> str:
    """Return a text of what the form of the formulas depends on: model, kind of attention, window, devices."""
    model, devices = run.request.model, run.request.deployment.tensor_parallel_size
    first = next(iter(model.layer_types.values())).mixer
    window = getattr(first, "sliding_window", None)
    shared = "" if devices == 1 else f" on {devices}"
    return f"{model.name} {getattr(first, 'kind', '')}{'' if window is None else ' window'}{shared}"


def symbols(run: Run) -> dict[str, float]:
    """Return the values of symbols of the nomenclature in its units, by their names in code ("β" for beta)."""
    request = run.request
    model, workload, precision = request.model, request.workload, request.precision
    memory = run.result.memory
    values: dict[str, float] = {
        "B": workload.batch,
        "S_q": workload.input_len,
        "S_c": workload.context,
        "L": sum(len(group.pattern) * group.repeat for group in model.layers),
        "b_w": precision.weight.bytes,
        "b_a": precision.activation.bytes,
        "b_kv": precision.kv.bytes,
        "P": request.hardware.peak(precision.activation.name),
        "β": request.hardware.bandwidth,
        "W_streamed": streamed(run),
        "M_free": memory.budget_bytes - memory.weights_bytes - memory.reserved_bytes,
        "A": memory.activation_bytes / workload.batch,
        "b_block": request.memory.block_tokens,
    }
    first = next(iter(model.layer_types.values()))
    for entry in TABLE:
        for block in (model, first.mixer, first.mlp):
            value = getattr(block, entry.hf_key, None) if entry.hf_key != "" else None
            if isinstance(value, int) and entry.name not in values:
                values[entry.name] = value
    return values


def streamed(run: Run) -> float:
    """Return the bytes of weights that a decode step of one sequence reads."""
    request = run.request
    graph = build(request.model, request.deployment, request.precision, decode(1, 0), request.memory.stage)
    total: float = sum(operator.cost().weight_bytes * repeat for operator, repeat in graph.values())
    return total


def kv_bytes_per_sequence(run: Run) -> float:
    """Return the bytes of the KV cache of a sequence after a decode step: S_c tokens and the new one."""
    layers = caches(run.request.model, run.request.deployment, run.request.memory.stage)
    size: float = cache_bytes(layers, run.request.precision.kv.bytes, run.request.workload.context + 1)
    return size


def cache_bytes(layers: list[tuple[Expr, Expr]], size: Expr, length: Expr) -> Expr:
    """Return the bytes of the caches of all layers of a sequence; numbers and symbols work.

    Args:
        layers: caches, each with the number of layers that have it.
        size: bytes per element.
        length: tokens of the sequence.

    >>> from roofline.blocks.base import Cache
    >>> cache_bytes([(Cache(2048), 32)], 2, 4096), cache_bytes([(Cache(2048, window=4096), 32)], 2, 32768)
    (536870912, 536870912)
    """
    return sum(cache.retained(length) * cache.elements * size * count for cache, count in layers)


Values = dict[str, Any]
"""The values of the controls, by key. For a dimension 0 means the model's own."""

# The dimensions of DeepSeek-V2, for models that get latent attention here.
LATENT, ROTATED = 512, 64

_WIDTHS = {"d_model": "hidden_size", "vocab": "vocab_size"}


def edited(model: Model, values: Values) -> Model:
    """Return the model with the dimensions that the controls set; 0 leaves a dimension as it is.

    Raises:
        InputError: dimensions that contradict each other, or a number of layers for a model with several kinds of them.
    """
    layers = {
        name: layer.model_copy(update={"mixer": _mixer(layer.mixer, values), "mlp": _mlp(layer.mlp, values)})
        for name, layer in model.layer_types.items()
    }
    changed: Values = {"layer_types": layers}
    for key, field in _WIDTHS.items():
        if _number(values, key) > 0:
            changed[field] = _number(values, key)
    if _number(values, "layers") > 0:
        if len(model.layers) != 1 or len(model.layers[0].pattern) != 1:
            raise InputError(f"{model.title} has layers of several kinds: leave their number as it is")
        changed["layers"] = (model.layers[0].model_copy(update={"repeat": _number(values, "layers")}),)
    return model.model_copy(update=changed)


def _number(values: Values, key: str) -> int:
    """Return the value of a control, 0 if there is none."""
    return int(values.get(key, 0) or 0)


def _mixer(block: Any, values: Values) -> Any:
    """Return the attention of a layer with other heads, window or latent, or latent attention instead."""
    if isinstance(block, GroupedQueryAttention):
        return _latent(block, values) if values.get("attention", "") == "mla" else _grouped(block, values)
    if isinstance(block, LatentAttentionBlock) and _number(values, "latent") > 0:
        return block.model_copy(update={"kv_lora_rank": _number(values, "latent")})
    return block


def _grouped(block: GroupedQueryAttention, values: Values) -> Any:
    heads = _number(values, "heads") or block.num_attention_heads
    kv_heads = _number(values, "kv_heads") or block.num_key_value_heads
    if kv_heads > heads or heads % kv_heads != 0:
        raise InputError(f"{heads} query heads cannot share {kv_heads} KV heads evenly: choose a number that divides {heads}")
    window = _number(values, "window")
    return block.model_copy(
        update={
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "sliding_window": window if window > 0 else None if window < 0 else block.sliding_window,
        }
    )


def _latent(block: GroupedQueryAttention, values: Values) -> Any:
    return LatentAttentionBlock(
        kind="mla",
        num_attention_heads=_number(values, "heads") or block.num_attention_heads,
        q_lora_rank=None,
        kv_lora_rank=_number(values, "latent") or LATENT,
        qk_nope_head_dim=block.head_dim,
        qk_rope_head_dim=ROTATED,
        v_head_dim=block.head_dim,
    )


def _mlp(block: Any, values: Values) -> Any:
    """Return the feed-forward block of a layer with another inner width or other experts."""
    if getattr(block, "num_experts", None) is not None:
        return _experts(block, _number(values, "experts"), _number(values, "top_k"))
    width = _number(values, "d_ff")
    if width > 0 and getattr(block, "intermediate_size", None) is not None:
        return block.model_copy(update={"intermediate_size": width})
    return block


def _experts(block: Any, experts: int, chosen: int) -> Any:
    experts = experts or block.num_experts
    chosen = chosen or block.num_experts_per_tok
    if chosen > experts:
        raise InputError(f"a token cannot use {chosen} of {experts} experts")
    return block.model_copy(update={"num_experts": experts, "num_experts_per_tok": chosen})


@dataclass(frozen=True, slots=True)
class Service:
    """The service of a number of clients.

    Attributes:
        ttft: seconds of a prompt alone.
        tpot: seconds per output token after the first.
        prompts: the share of `tpot` that the prompts of other clients take.
        requests: per second, of all clients.
        tokens: output tokens per second, of all clients.
    """

    ttft: float
    tpot: float
    prompts: float
    requests: float
    tokens: float


def service(run: Run, clients: float) -> Service:
    """Return the service of `clients`, if no request waits for a slot or another prompt before its first token.

    Source: the module's docstring.
    """
    prompt, outputs = run.request.workload.input_len, _output_tokens(run)
    cached = run.request.workload.cached_prefix
    decodes = Segment(clients, 1, prompt + outputs // 2, decode=True)
    alone = seconds_of(run, (Segment(1, prompt - cached, cached),))
    step = seconds_of(run, (decodes,))
    added = seconds_of(run, (decodes, Segment(1, prompt - cached, cached))) - step
    wait = (clients - 1) / outputs * added
    tpot = step + wait
    rate = clients / (alone + (outputs - 1) * tpot)
    return Service(ttft=alone, tpot=tpot, prompts=wait / tpot, requests=rate, tokens=rate * outputs)


def _output_tokens(run: Run) -> int:
    """Return the number of output tokens of a request."""
    return int(run.values.get("output_len", 256))


def slots(run: Run) -> float | None:
    """Return the number of requests that fit in memory, each at its last token."""
    return run.request.memory.max_batch(run.request.workload.input_len + _output_tokens(run) - 1)


def cost_per_million(run: Run) -> float | None:
    """Return the price of a million output tokens in USD, from the price of all devices per hour."""
    served = service(run, run.request.workload.batch)
    hour = float(run.values.get("price", 2.0)) * run.request.deployment.tensor_parallel_size
    return hour / 3600 / served.tokens * 1e6


def prefill_per_decode(run: Run) -> float:
    """Return how many devices that compute prompts one at a time keep a device that decodes the batch at work."""
    prompt, outputs = run.request.workload.input_len, _output_tokens(run)
    clients = run.request.workload.batch
    step = seconds_of(run, (Segment(clients, 1, prompt + outputs // 2, decode=True),))
    return seconds_of(run, (Segment(1, prompt, 0),)) * clients / (outputs * step)


def transfer_seconds(run: Run) -> float:
    """Return the seconds in which each device sends its part of a prompt's KV cache to another node."""
    layers = caches(run.request.model, run.request.deployment, run.request.memory.stage)
    size: float = cache_bytes(layers, run.request.precision.kv.bytes, run.request.workload.input_len)
    return size / (float(run.values.get("network_gbs", NETWORK)) * 1e9)


def joules_per_token(run: Run) -> float | None:
    """Return the energy of an output token in J, prompts included, if every board draws its full power; None if unknown."""
    power = run.request.hardware.accelerator.power
    devices = run.request.deployment.tensor_parallel_size
    return None if power is None else power.value * devices / service(run, run.request.workload.batch).tokens


def seconds_of(run: Run, step: Step) -> float:
    """Return the seconds of a step: the estimate if `efficiency` is on, else the bound."""
    return _best(pipeline(run.request, step))


def _best(time: Duration) -> float:
    """Return the estimate, or the bound where there is none."""
    took = time.bound if time.estimate is None else time.estimate
    return 0.0 if took is None else took


@dataclass(frozen=True, slots=True)
class Rounds:
    """A round of speculative decoding.

    Attributes:
        tokens: expected tokens of a sequence.
        drafting: seconds of the draft's steps.
        verifying: seconds of the model's step that verifies the draft.
        plain: seconds of a decode step without a draft.
    """

    tokens: float
    drafting: float
    verifying: float
    plain: float

    @property
    def seconds(self) -> float:
        """Of the whole round."""
        return self.drafting + self.verifying

    @property
    def tpot(self) -> float:
        """Seconds per token of a sequence."""
        return self.seconds / self.tokens

    @property
    def speed_up(self) -> float:
        """Plain TPOT over that of rounds."""
        return self.plain / self.tpot


def rounds(run: Run, batch: float) -> Rounds:
    """Return a round of a batch: the controls give the drafted tokens, their acceptance and the draft model, if any."""
    request, drafted = run.request, int(run.values.get("drafted", 4))
    context = request.workload.context
    plain = seconds_of(run, decode(batch, context))
    verifying = plain
    if drafted > 0:
        segments = (Segment(batch, 1 + drafted, context, decode=True),)
        conventions = request.deployment.conventions.model_copy(update={"logits": "all"})
        verifier = replace(request, deployment=request.deployment.model_copy(update={"conventions": conventions}))
        choice = Sampling(rows=batch * drafted, choices=request.model.vocab_size, dtypes=request.precision.dtypes("norm"))
        compared = timed(request, {"rejection": (choice, 1)}, segments)
        verified = _best(pipeline(verifier, segments)) + _best(compared)
        # attention over several tokens is estimated by another form, which can be a little faster
        verifying = max(verified, plain) if run.values.get("efficiency", False) else verified
    return Rounds(
        tokens=tokens_per_round(float(run.values.get("acceptance", 0.7)), drafted),
        drafting=_drafting(run, batch, drafted),
        verifying=verifying,
        plain=plain,
    )


def _drafting(run: Run, batch: float, drafted: int) -> float:
    """Seconds of the steps of the draft model: as many as tokens, at the mean of the first context and the last."""
    name = run.values.get("draft", "")
    if name == "" or drafted == 0:
        return 0.0
    request, context = run.request, run.request.workload.context
    small = prepare(
        load_model(name)[0],
        request.hardware,
        tensor_parallel_size=request.deployment.tensor_parallel_size,
        kv_cache_dtype=request.precision.kv.name,
        ignore_capacity=True,
    )
    # what the engine adds to a step, it adds once per round
    small = replace(small, estimator=replace(small.estimator, wanted=run.values.get("efficiency", False)), steps=None)
    first, last = (_best(pipeline(small, decode(batch, context + ahead))) for ahead in (0, drafted - 1))
    return drafted * (first + last) / 2


CALL = 5e-6
"""Seconds per copy call: the typical value of `hardware/_host_copies.yaml`."""
LINK = 25.6
"""GB/s of large copies over PCIe 4.0 x16, whose peak is 32 GB/s, from the same file."""

NETWORK = 50.0
"""GB/s of an accelerator of a DGX H100 to other nodes: a port of 400 Gbit/s."""


@dataclass(frozen=True, slots=True)
class SwapTraffic:
    """Bytes and calls of one device in one direction, and the seconds of device memory to gather blocks."""

    bytes: float
    calls: float
    gathered: float


def swap_traffic(run: Run, length: float) -> SwapTraffic:
    """Return the copies of all sequences of the batch to the host: block by block, or gathered and in one call each.

    Args:
        run: gives the model, the batch and the control `block` (tokens per block; 0: gathered).
        length: tokens of each sequence.

    NB: for models whose layers retain every token; a window would release blocks.
    """
    request, block = run.request, int(run.values.get("block", "16"))
    tensors = 1 if getattr(next(iter(request.model.layer_types.values())).mixer, "kind", "") == "mla" else 2
    size, pieces = 0.0, 0.0
    for cache, layers in caches(request.model, request.deployment, request.memory.stage):
        tokens = cache.retained(length)
        if block > 0:
            blocks = ceil_div(tokens, block)
            tokens, pieces = blocks * block, pieces + blocks * layers * tensors
        size = size + tokens * cache.elements * request.precision.kv.bytes * layers
    batch = request.workload.batch
    if block > 0:
        return SwapTraffic(bytes=size * batch, calls=pieces * batch, gathered=0.0)
    return SwapTraffic(bytes=size * batch, calls=float(batch), gathered=2 * size * batch / request.hardware.bandwidth)


def swap_seconds(run: Run, length: float) -> float:
    """Return the seconds of swapping the batch out and in, one after the other, `length` tokens per sequence."""
    copies = swap_traffic(run, length)
    one_way: float = Curve(CALL, _link(run)).seconds(copies.bytes, copies.calls) + copies.gathered
    return 2 * one_way


def _link(run: Run) -> float:
    """Return the bytes/s of large copies in one direction."""
    return float(run.values.get("link_gbs", LINK)) * 1e9


def recompute_seconds(run: Run, length: float) -> float:
    """Return the seconds of computing the batch again as prompts of one step, `length` tokens per sequence."""
    return seconds_of(run, prefill(run.request.workload.batch, int(length)))


def needed_link(run: Run, length: float) -> float | None:
    """Return the byte/s of large copies at which swap and recompute take equally long; None if calls alone take longer.

    `length` is the number of tokens of each sequence.
    """
    copies = swap_traffic(run, length)
    fixed = 2 * (copies.calls * CALL + copies.gathered)
    return needed_rate(2 * copies.bytes, recompute_seconds(run, length), fixed)
