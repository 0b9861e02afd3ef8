"""The quantities that a lesson can put on a tile or into a formula. Pages run a translation of this module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from roofline import formatting
from roofline.cost import Cost
from roofline.errors import UnknownNameError
from roofline.operators.grouped_gemm import expected_distinct
from roofline.predict.result import OperatorResult, Phase
from roofline.report.cells import amount, number_cell, seconds, share, whole
from roofline.report.figure import Cell, Tile
from roofline.teach.lessons.live.run import (
    Rounds,
    Run,
    Service,
    cost_per_million,
    joules_per_token,
    kv_bytes_per_sequence,
    needed_link,
    prefill_per_decode,
    recompute_seconds,
    rounds,
    service,
    slots,
    streamed,
    swap_seconds,
    swap_traffic,
    transfer_seconds,
)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity: its label, its value for a run (None: no limit, or not known), its unit, and a note below it.

    The unit is "s", "bytes" (binary prefixes), "B", "B/s", "FLOP", "FLOP/byte", "%" (of a fraction), "parameters",
    "sequences", "USD", or "" for a plain count.
    """

    label: str
    value: Callable[[Run], float | None]
    unit: str
    note: str = ""


def _step_time(phase: Phase) -> float | None:
    """Return the time of a step: the estimate if `efficiency` is on, else the bound."""
    return phase.pipeline.bound if phase.pipeline.estimate is None else phase.pipeline.estimate


def _prefill(run: Run) -> list[Phase]:
    """The prefill phase, if the run has one."""
    return [phase for phase in run.result.phases if phase.name == "prefill"]


def _kv_batch(run: Run) -> float:
    return kv_bytes_per_sequence(run) * run.request.workload.batch


def _intensity(costs: list[Cost]) -> float:
    return sum(float(cost.flops) for cost in costs) / sum(float(cost.bytes) for cost in costs)


def _attention(run: Run) -> list[Cost]:
    """The cost of the first attention core of the decode step."""
    return [op.cost for op in run.decode.operators if op.path.endswith("attention/core")][:1]


def _peak(run: Run) -> float:
    return run.request.hardware.peak(run.request.precision.activation.name)


def _rate(run: Run) -> float | None:
    took = _step_time(run.decode)
    return None if not took else run.request.workload.batch / took


def _distinct_experts(run: Run) -> float | None:
    for layer in run.request.model.layer_types.values():
        experts = getattr(layer.mlp, "num_experts", 0)
        if experts > 0:
            each = getattr(layer.mlp, "num_experts_per_tok", 0)
            return float(expected_distinct(experts, each, run.request.workload.batch))
    return 0.0


def _link_share(run: Run) -> float | None:
    took = [(_operator_time(op), op.cost.link_bytes > 0) for op in run.decode.operators]
    return sum(seconds for seconds, links in took if links) / sum(seconds for seconds, _ in took)


def _operator_time(op: OperatorResult) -> float:
    took = op.time.bound if op.time.estimate is None else op.time.estimate
    return took or 0.0


def _over_bound(run: Run) -> float | None:
    took = run.decode.pipeline
    return None if took.estimate is None or took.bound is None else took.estimate / took.bound


def _at_batch(run: Run) -> Service:
    """The service of a number of clients equal to the batch."""
    return service(run, run.request.workload.batch)


def _rounds(run: Run) -> Rounds:
    """Rounds of the batch that is set."""
    return rounds(run, run.request.workload.batch)


# NB: one lambda per line, because the translator finds them by line
KNOWN: dict[str, Quantity] = {
    "parameters": Quantity("parameters", lambda run: float(run.result.model["parameters"]["total"]), "parameters"),
    "weights": Quantity("weights", lambda run: run.result.memory.weights_bytes, "bytes"),
    "kv_bytes_per_token": Quantity("KV cache per token", lambda run: run.result.memory.kv_bytes_per_token, "bytes"),
    "kv_bytes_per_sequence": Quantity("KV cache per sequence", kv_bytes_per_sequence, "bytes", "after the step"),
    "kv_bytes": Quantity("KV cache, all sequences", _kv_batch, "bytes"),
    "kv_share": Quantity("KV cache over weights", lambda run: _kv_batch(run) / run.result.memory.weights_bytes, "%"),
    "flops": Quantity("work of a decode step", lambda run: float(run.decode.cost.flops), "FLOP"),
    "bytes": Quantity("traffic of a decode step", lambda run: float(run.decode.cost.bytes), "B"),
    "intensity": Quantity("intensity of a decode step", lambda run: _intensity([run.decode.cost]), "FLOP/byte"),
    "linear_intensity": Quantity(
        "intensity of linear layers",
        lambda run: _intensity([op.cost for op in run.decode.operators if op.kind == "gemm"]),
        "FLOP/byte",
        "at decode, activations included",
    ),
    "prefill_intensity": Quantity(
        "intensity of the prefill",
        lambda run: _intensity([_prefill(run)[0].cost]) if len(_prefill(run)) > 0 else None,
        "FLOP/byte",
        "of all prompts together",
    ),
    "attention_intensity": Quantity(
        "intensity of attention", lambda run: _intensity(_attention(run)), "FLOP/byte", "at decode, softmax included"
    ),
    "ridge_point": Quantity("ridge point", lambda run: _peak(run) / run.request.hardware.bandwidth, "FLOP/byte"),
    "critical_batch": Quantity(
        "critical batch", lambda run: run.result.limits.critical_batch_linear, "sequences", "of the linear layers"
    ),
    "decode_floor": Quantity(
        "shortest decode step", lambda run: streamed(run) / run.request.hardware.bandwidth, "s", "one sequence, nothing cached"
    ),
    "step": Quantity("decode step", lambda run: _step_time(run.decode), "s", "at least"),
    "prefill": Quantity(
        "prefill", lambda run: _step_time(_prefill(run)[0]) if len(_prefill(run)) > 0 else None, "s", "at least"
    ),
    "active_parameters": Quantity(
        "active parameters", lambda run: float(run.result.model["parameters"]["active"]), "parameters", "of one token"
    ),
    "experts_met": Quantity("experts that a step reads", _distinct_experts, "", "of a layer, on average"),
    "expert_bytes": Quantity(
        "weights of experts read",
        lambda run: float(sum(op.cost.weight_bytes for op in run.decode.operators if "/experts/" in op.path)),
        "B",
        "in a step, all layers",
    ),
    "link_share": Quantity("share of collectives", _link_share, "%", "of the time of a decode step"),
    "bound": Quantity("bound", lambda run: run.decode.pipeline.bound, "s", "of a decode step"),
    "estimate": Quantity("estimate", lambda run: run.decode.pipeline.estimate, "s", "from measurements of such kernels"),
    "low": Quantity("from", lambda run: run.decode.pipeline.low, "s", "of 10 measurements 1 is faster"),
    "high": Quantity("to", lambda run: run.decode.pipeline.high, "s", "of 10 measurements 1 is slower"),
    "over_bound": Quantity("estimate over bound", _over_bound, ""),
    "mbu": Quantity(
        "share of the bandwidth",
        lambda run: float(run.decode.cost.bytes) / (_step_time(run.decode) or 1.0) / run.request.hardware.bandwidth,
        "%",
        "MBU",
    ),
    "mfu": Quantity(
        "share of the peak",
        lambda run: float(run.decode.cost.matrix_flops) / (_step_time(run.decode) or 1.0) / _peak(run),
        "%",
        "MFU, matrix products",
    ),
    "rate": Quantity("tokens/s", _rate, "", "of all sequences, at most"),
    "max_batch": Quantity("max batch", lambda run: run.result.memory.max_batch, "sequences", "that fits at this context"),
    "ttft": Quantity("a prompt alone", lambda run: _at_batch(run).ttft, "s", "TTFT without a queue"),
    "tpot": Quantity("TPOT", lambda run: _at_batch(run).tpot, "s", "with the prompts of others in it"),
    "prompts_share": Quantity("share of prompts", lambda run: _at_batch(run).prompts, "%", "of the time between tokens"),
    "requests_per_s": Quantity("requests/s", lambda run: _at_batch(run).requests, "", "of all clients"),
    "output_rate": Quantity("tokens/s", lambda run: _at_batch(run).tokens, "", "of output, all clients"),
    "cost_per_million": Quantity("a million tokens", cost_per_million, "USD", "of output, by the price of a device"),
    "joules": Quantity("energy of a token", joules_per_token, "J", "of output, prompts included, at most"),
    "kv_transfer": Quantity("KV transfer", transfer_seconds, "s", "of a prompt, over the network"),
    "prefill_per_decode": Quantity("prefill devices", prefill_per_decode, "", "for each one that decodes"),
    "slots": Quantity("slots", slots, "sequences", "that memory holds, at the last token"),
    "tokens_per_round": Quantity("tokens per round", lambda run: _rounds(run).tokens, "", "of a sequence, expected"),
    "verifying": Quantity("verification", lambda run: _rounds(run).verifying, "s", "of the drafted tokens and one more"),
    "round": Quantity("round", lambda run: _rounds(run).seconds, "s", "draft and verification"),
    "speculative_tpot": Quantity("TPOT with a draft", lambda run: _rounds(run).tpot, "s", "a round over its tokens"),
    "speculative_gain": Quantity("times faster", lambda run: _rounds(run).speed_up, "", "than a decode step without a draft"),
    "recompute": Quantity(
        "recompute", lambda run: recompute_seconds(run, run.request.workload.input_len), "s", "all sequences, as prompts"
    ),
    "swap": Quantity("swap", lambda run: swap_seconds(run, run.request.workload.input_len), "s", "all sequences, out and in"),
    "swap_bytes": Quantity(
        "copied", lambda run: swap_traffic(run, run.request.workload.input_len).bytes, "bytes", "in one direction"
    ),
    "swap_calls": Quantity("calls", lambda run: swap_traffic(run, run.request.workload.input_len).calls, "", "one direction"),
    "needed_link": Quantity(
        "break-even link", lambda run: needed_link(run, run.request.workload.input_len), "B/s", "needed for large copies"
    ),
}


def quantity(name: str) -> Quantity:
    """Return a quantity by its name.

    Raises:
        UnknownNameError: there is none.
    """
    if name not in KNOWN:
        raise UnknownNameError("quantity", name, list(KNOWN), list_all=True)
    return KNOWN[name]


def tile(name: str, run: Run) -> Tile:
    """Return the tile of a quantity for a run.

    Raises:
        UnknownNameError: there is no such quantity.
    """
    known = quantity(name)
    estimated = known.note == "at least" and run.values.get("efficiency", False)
    return Tile(label=known.label, cell=_cell(known.value(run), known.unit), note="estimate" if estimated else known.note)


def _cell(value: float | None, unit: str) -> Cell:
    """Return a number with its unit, in few digits."""
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
    return Cell(text=f"{number_cell(value).text} {unit}".strip(), value=value)


def operator_value(part: str, path: str, run: Run) -> float:
    """Return a part of the cost of an operator of the decode step, in FLOP, bytes or FLOP/byte.

    Args:
        part: a field of `roofline.cost.Cost`, "bytes" or "arithmetic_intensity".
        path: of the operator.
        run: which has the step.

    Raises:
        StopIteration: the step has no such operator.
        AttributeError: the cost has no such field.
    """
    cost = run.operator(path).cost
    if part == "bytes":
        return float(cost.bytes)
    if part == "arithmetic_intensity":
        return float(cost.flops) / float(cost.bytes)
    return float(getattr(cost, part))
