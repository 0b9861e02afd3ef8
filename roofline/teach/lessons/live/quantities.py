"""The numbers that a lesson shows of a run. Pages run a translation of this module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from roofline import formatting
from roofline.cost import Cost
from roofline.errors import UnknownNameError
from roofline.operators.grouped_gemm import expected_distinct
from roofline.predict.result import OperatorResult, Phase
from roofline.report.cells import amount, figure, seconds, share, whole
from roofline.report.figure import Cell, Tile
from roofline.teach.lessons.live.evicted import moved, needed_link, recompute_seconds, swap_seconds
from roofline.teach.lessons.live.run import Run, kv_bytes_per_sequence, streamed
from roofline.teach.lessons.live.service import cost_per_million, seats, service


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number: what it is called, how it is found, its unit ("" for a plain count), and what stands under it."""

    label: str
    value: Callable[[Run], float | None]
    unit: str
    note: str = ""


def _parameters(run: Run) -> float | None:
    return float(run.result.model["parameters"]["total"])


def _weights(run: Run) -> float | None:
    return run.result.memory.weights_bytes


def _kv_token(run: Run) -> float | None:
    return run.result.memory.kv_bytes_per_token


def _kv_sequence(run: Run) -> float | None:
    return kv_bytes_per_sequence(run)


def _kv_batch(run: Run) -> float | None:
    return kv_bytes_per_sequence(run) * run.request.workload.batch


def _kv_share(run: Run) -> float | None:
    return kv_bytes_per_sequence(run) * run.request.workload.batch / run.result.memory.weights_bytes


def _cost(run: Run) -> Cost:
    return run.decode.cost


def _flops(run: Run) -> float | None:
    return float(_cost(run).flops)


def _bytes(run: Run) -> float | None:
    return float(_cost(run).bytes)


def _intensity(run: Run) -> float | None:
    return float(_cost(run).flops) / float(_cost(run).bytes)


def _attention_intensity(run: Run) -> float | None:
    cost = next(op.cost for op in run.decode.operators if op.path.endswith("attention/core"))
    return float(cost.flops) / float(cost.bytes)


def _linear_intensity(run: Run) -> float | None:
    costs = [op.cost for op in run.decode.operators if op.kind == "gemm"]
    return sum(float(cost.flops) for cost in costs) / sum(float(cost.bytes) for cost in costs)


def _prefill_intensity(run: Run) -> float | None:
    found = [phase.cost for phase in run.result.phases if phase.name == "prefill"]
    return float(found[0].flops) / float(found[0].bytes) if found else None


def _ridge(run: Run) -> float | None:
    request = run.request
    return request.hardware.peak(request.precision.activation.name) / request.hardware.bandwidth


def _critical(run: Run) -> float | None:
    return run.result.limits.critical_batch_linear


def _floor(run: Run) -> float | None:
    return streamed(run) / run.request.hardware.bandwidth


def _step(run: Run) -> float | None:
    return best(run.decode)


def _prefill(run: Run) -> float | None:
    found = [phase for phase in run.result.phases if phase.name == "prefill"]
    return best(found[0]) if found else None


def best(phase: Phase) -> float | None:
    """The estimate where efficiencies are asked for, else the bound."""
    return phase.pipeline.bound if phase.pipeline.estimate is None else phase.pipeline.estimate


def _rate(run: Run) -> float | None:
    took = best(run.decode)
    return None if not took else run.request.workload.batch / took


def _largest(run: Run) -> float | None:
    return run.result.memory.max_batch


def _active(run: Run) -> float | None:
    return float(run.result.model["parameters"]["active"])


def _experts_met(run: Run) -> float | None:
    for layer in run.request.model.layer_types.values():
        experts = getattr(layer.mlp, "num_experts", 0)
        if experts > 0:
            each = getattr(layer.mlp, "num_experts_per_tok", 0)
            return float(expected_distinct(experts, each, run.request.workload.batch))
    return 0.0


def _expert_bytes(run: Run) -> float | None:
    return float(sum(op.cost.weight_bytes for op in run.decode.operators if "/experts/" in op.path))


def _link_share(run: Run) -> float | None:
    took = [(_slot(op), op.cost.link_bytes > 0) for op in run.decode.operators]
    return sum(seconds for seconds, links in took if links) / sum(seconds for seconds, _ in took)


def _slot(op: OperatorResult) -> float:
    took = op.time.bound if op.time.estimate is None else op.time.estimate
    return took or 0.0


def _bound(run: Run) -> float | None:
    return run.decode.pipeline.bound


def _estimate(run: Run) -> float | None:
    return run.decode.pipeline.estimate


def _low(run: Run) -> float | None:
    return run.decode.pipeline.low


def _high(run: Run) -> float | None:
    return run.decode.pipeline.high


def _over_bound(run: Run) -> float | None:
    took = run.decode.pipeline
    return None if took.estimate is None or took.bound is None else took.estimate / took.bound


def _of_bandwidth(run: Run) -> float | None:
    return float(_cost(run).bytes) / (best(run.decode) or 1.0) / run.request.hardware.bandwidth


def _of_peak(run: Run) -> float | None:
    request = run.request
    return float(_cost(run).matrix_flops) / (best(run.decode) or 1.0) / request.hardware.peak(request.precision.activation.name)


def _recompute(run: Run) -> float | None:
    return recompute_seconds(run, run.request.workload.input_len)


def _swap(run: Run) -> float | None:
    return swap_seconds(run, run.request.workload.input_len)


def _swap_calls(run: Run) -> float | None:
    return moved(run, run.request.workload.input_len).calls


def _swap_bytes(run: Run) -> float | None:
    return moved(run, run.request.workload.input_len).bytes


def _needed_link(run: Run) -> float | None:
    return needed_link(run, run.request.workload.input_len)


def _ttft(run: Run) -> float | None:
    return service(run, run.request.workload.batch).ttft


def _tpot(run: Run) -> float | None:
    return service(run, run.request.workload.batch).tpot


def _prompts(run: Run) -> float | None:
    return service(run, run.request.workload.batch).prompts


def _requests(run: Run) -> float | None:
    return service(run, run.request.workload.batch).requests


def _output_rate(run: Run) -> float | None:
    return service(run, run.request.workload.batch).tokens


KNOWN: dict[str, Quantity] = {
    "parameters": Quantity("parameters", _parameters, "parameters"),
    "weights": Quantity("weights", _weights, "bytes"),
    "kv_bytes_per_token": Quantity("KV cache a token", _kv_token, "bytes"),
    "kv_bytes_per_sequence": Quantity("KV cache a sequence", _kv_sequence, "bytes", "after the step"),
    "kv_bytes": Quantity("KV cache, all sequences", _kv_batch, "bytes"),
    "kv_share": Quantity("KV cache over weights", _kv_share, "%"),
    "flops": Quantity("work of a decode step", _flops, "FLOP"),
    "bytes": Quantity("traffic of a decode step", _bytes, "B"),
    "intensity": Quantity("intensity of a decode step", _intensity, "FLOP/byte"),
    "linear_intensity": Quantity(
        "intensity of linear layers", _linear_intensity, "FLOP/byte", "at decode, activations included"
    ),
    "prefill_intensity": Quantity("intensity of the prefill", _prefill_intensity, "FLOP/byte", "of all prompts together"),
    "attention_intensity": Quantity("intensity of attention", _attention_intensity, "FLOP/byte", "at decode, softmax included"),
    "ridge_point": Quantity("ridge point", _ridge, "FLOP/byte"),
    "critical_batch": Quantity("critical batch", _critical, "sequences", "of the linear layers"),
    "decode_floor": Quantity("shortest decode step", _floor, "s", "one sequence, nothing cached"),
    "step": Quantity("decode step", _step, "s", "at least"),
    "prefill": Quantity("prefill", _prefill, "s", "at least"),
    "active_parameters": Quantity("active parameters", _active, "parameters", "of one token"),
    "experts_met": Quantity("experts that a step reads", _experts_met, "", "of a layer, on average"),
    "expert_bytes": Quantity("weights of experts read", _expert_bytes, "B", "in a step, all layers"),
    "link_share": Quantity("share of collectives", _link_share, "%", "of the time of a decode step"),
    "bound": Quantity("bound", _bound, "s", "of a decode step"),
    "estimate": Quantity("estimate", _estimate, "s", "as kernels like these were measured"),
    "low": Quantity("from", _low, "s", "of 10 measurements 1 is faster"),
    "high": Quantity("to", _high, "s", "of 10 measurements 1 is slower"),
    "over_bound": Quantity("estimate over bound", _over_bound, ""),
    "mbu": Quantity("share of the bandwidth", _of_bandwidth, "%", "MBU"),
    "mfu": Quantity("share of the peak", _of_peak, "%", "MFU, matrix products"),
    "rate": Quantity("tokens/s", _rate, "", "of all sequences, at most"),
    "max_batch": Quantity("largest batch", _largest, "sequences", "that fits at this context"),
    "ttft": Quantity("a prompt alone", _ttft, "s", "TTFT where nobody waits"),
    "tpot": Quantity("TPOT", _tpot, "s", "with the others' prompts in it"),
    "prompts_share": Quantity("share of prompts", _prompts, "%", "of the time between tokens"),
    "requests_per_s": Quantity("requests/s", _requests, "", "of all clients"),
    "output_rate": Quantity("tokens/s", _output_rate, "", "of answers, all clients"),
    "cost_per_million": Quantity("a million tokens", cost_per_million, "USD", "of answers, by the price of a device"),
    "seats": Quantity("seats", seats, "sequences", "that memory holds, at the last token"),
    "recompute": Quantity("compute again", _recompute, "s", "all sequences, as prompts"),
    "swap": Quantity("swap", _swap, "s", "all sequences, out and in"),
    "swap_bytes": Quantity("copied", _swap_bytes, "bytes", "one way"),
    "swap_calls": Quantity("calls", _swap_calls, "", "one way"),
    "needed_link": Quantity("break-even link", _needed_link, "B/s", "what large copies have to reach"),
}


def quantity(name: str) -> Quantity:
    """A quantity by its name.

    Raises:
        UnknownNameError: there is none.
    """
    if name not in KNOWN:
        raise UnknownNameError("quantity", name, list(KNOWN), list_all=True)
    return KNOWN[name]


def tile(name: str, run: Run) -> Tile:
    """A quantity in large type."""
    known = quantity(name)
    return Tile(label=known.label, cell=cell(known.value(run), known.unit), note=known.note)


def cell(value: float | None, unit: str) -> Cell:
    """A number of a unit, in few digits."""
    if value is None:
        return Cell(text="–")
    if unit == "s":
        return seconds(value)
    if unit == "%":
        return share(value)
    if unit == "bytes":
        return Cell(text=formatting.binary(value), value=value)
    if unit in ("FLOP", "B", "B/s"):
        return amount(value, unit)
    if unit == "parameters":
        return Cell(text=f"{value / 1e9:,.2f} billion", value=value)
    if unit == "sequences":
        return whole(value)
    return Cell(text=f"{figure(value).text} {unit}".strip(), value=value)


def operator_value(part: str, path: str, run: Run) -> float:
    """What a formula of an operator of the decode step comes to: a field of its cost, its traffic, its intensity."""
    cost = run.operator(path).cost
    if part == "bytes":
        return float(cost.bytes)
    if part == "arithmetic_intensity":
        return float(cost.flops) / float(cost.bytes)
    return float(getattr(cost, part))
