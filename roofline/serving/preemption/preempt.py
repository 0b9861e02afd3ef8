"""`preempt`: the cost of an evicted sequence on one deployment: recompute its cache, or swap it out and in."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any, Unpack

from roofline import formatting
from roofline.blocks.model import Model
from roofline.documents import dump_json, envelope
from roofline.errors import InputError
from roofline.predict.analyze import estimate_basis, estimate_notes, facts, run
from roofline.predict.options import DEPLOYMENT, Count, DeploymentOptions, Number, keywords
from roofline.predict.request import cached_prefix as prefix_tokens
from roofline.predict.request import prepare
from roofline.predict.result import Analysis
from roofline.registry import Displayed
from roofline.serving.preemption import crossover
from roofline.serving.preemption.copies import Basis, parse_host_copy
from roofline.serving.preemption.costs import Cheaper, Choice, Preemption, devices
from roofline.serving.preemption.crossover import Asymptote, HeatMap, Partial, Point, VariantRow
from roofline.serving.preemption.recompute import Recompute, Recomputed
from roofline.serving.queueing.replica import BOUND
from roofline.specs.hardware import Hardware
from roofline.specs.source import Assumption
from roofline.specs.workload import Segment, Step
from roofline.units import parse_count

# Options of `analyze` that describe the workload: here it is a sequence of `tokens` tokens.
_WORKLOAD = ("input_len", "output_len", "segments", "phase")
_SPECULATIVE = "speculative_"


@keywords(*DEPLOYMENT)
def preempt(
    model: str | PathLike[str] | Model,
    hardware: str | PathLike[str] | Hardware,
    *,
    tokens: int | str,
    host_link: str | float | None = None,
    pinned: bool = True,
    coalesced: bool = False,
    overlapped: bool = False,
    gpus_per_link: int | str = 1,
    host_memory: str | float | None = None,
    batch: int | str = 0,
    context: int | str | None = None,
    prefix_hit: Number = None,
    cached_prefix: Count = None,
    **options: Unpack[DeploymentOptions],
) -> Preempted:
    """Compute the cost of restoring an evicted sequence: recomputed, swapped out and in, or split between both.

    Args:
        model: a shipped id, the path of a file, or a loaded model.
        hardware: a shipped id of an accelerator or node, the path of a file, or loaded hardware.
        tokens: evicted tokens of the sequence; with `shared_prefix` those after the prefix, which stays.
        host_link: bytes/s that large copies reach over the link to the host in one direction, or a text with a unit; default:
            as fitted to records, else a typical share of the link's rate.
        pinned: whether the host's memory is page-locked.
        coalesced: blocks are gathered and copied in one call each way, not in one per block, layer and tensor.
        overlapped: copies overlap with the kernels of other sequences, which lose the time of device memory alone.
        gpus_per_link: devices that share one link to the host; those of a replica copy at the same time.
        host_memory: for the evicted sequences of a replica, bytes or a text with a unit; default: its share of the node's.
        batch: sequences of the whole deployment that run while this one is recomputed; 0: none.
        context: cached tokens of each of these; default: those of the evicted sequence.
        prefix_hit: share of `tokens` that other sequences hold too, which therefore stays on the device; or
        cached_prefix: the same in tokens: as `shared_prefix`, of which `tokens` are those after it.
        **options: those of `roofline analyze` that describe the deployment, with underscores; `block_size` among them.

    Returns:
        The result, in base units; `.to_dict()` has the layout of `roofline preempt --json`.

    Raises:
        roofline.errors.RooflineError: an unknown name, a wrong value, an invalid file.
    """
    for name, value in options.items():
        if value not in (None, False) and (name in _WORKLOAD or name.startswith(_SPECULATIVE)):
            what = "drafts are not part of it" if name.startswith(_SPECULATIVE) else "--tokens says how long the sequence is"
            raise InputError(f"{name} is no option of preempt: {what}")
    number, running = parse_count(tokens, "tokens", minimum=1), parse_count(batch, "batch")
    host = parse_host_copy(
        host_link=host_link, pinned=pinned, coalesced=coalesced, gpus_per_link=gpus_per_link, host_memory=host_memory
    )
    held = prefix_tokens(number, prefix_hit, cached_prefix)
    if held and options.get("shared_prefix"):
        raise InputError("--shared-prefix stays besides --tokens, --cached-prefix is part of them: give one of them")
    if held:
        number, options["shared_prefix"] = number - held, held
    prefix = parse_count(options.get("shared_prefix") or 0, "shared-prefix")
    if context is not None and not running:
        raise InputError("--context is of the sequences that run meanwhile: give their number with --batch")
    cached = parse_count(context, "context", minimum=prefix) if context is not None else prefix + number
    # The decode step with which the sequence goes on: checked against the limits of deployment and model, and has to fit.
    request = prepare(model, hardware, **{**options, "context": prefix + number - 1, "batch": 1, "phase": "decode"})
    query = Query(
        number, prefix, running, cached, request.memory.block_size, pinned, coalesced, overlapped,
        min(host.gpus_per_link, devices(request)),
    )  # fmt: skip
    costs = Preemption.of(request, **asdict(host), batch=running, context=cached)
    fits = request.all_fit()
    comparison = _costs_of(costs, query, host.host_link) if fits or options.get("ignore_capacity") else None
    used = (*request.inputs, *request.estimator.fits.inputs.values(), *costs.swap.copies.inputs)
    return Preempted(
        inputs={entry.role: {"name": entry.name, "path": entry.path, "sha256": entry.sha256} for entry in used},
        **facts(request),
        query=query,
        basis=costs.recompute.basis,
        comparison=comparison,
        assumptions=(*_assumptions(costs, query, host.host_memory), *estimate_notes(request, _steps(costs, query))),
        estimate_basis=estimate_basis(request, _steps(costs, query)),
        unfit=None if fits else run(request),
    )


def _costs_of(costs: Preemption, query: Query, host_link: float | None) -> Comparison:
    """The costs of all ways, and what follows from them."""
    tokens, request = query.tokens, costs.request
    recompute = costs.recompute.estimate(tokens)
    alone = Recompute(request, prefix=query.prefix).estimate(tokens) if query.batch else recompute
    swap = _swapped(costs, tokens)
    host = HostMemory(costs.host_bytes(tokens), costs.host_memory)
    choice = Choice(recompute.seconds, swap.out_s, swap.in_s, fits=host.fits)
    return Comparison(
        recompute=recompute,
        alone=alone,
        swap=swap,
        cheaper=choice.cheaper,
        break_even_link=crossover.exact_link(costs.swap, recompute.seconds, tokens, query.prefix),
        asymptote=crossover.asymptote(request, recompute.seconds, tokens, costs.swap.share),
        crossover_tokens=tuple(crossover.crossover_tokens(costs, tokens)),
        crossover_block_size=crossover.crossover_block(costs, tokens, recompute.seconds),
        partial=crossover.split(costs, tokens, hidden=query.overlapped),
        stolen=_stolen(costs, query, recompute, swap),
        host=host,
        variants=tuple(crossover.swap_variants(costs, tokens, recompute.seconds, pinned=query.pinned, host_link=host_link)),
        curves=tuple(crossover.curve_points(costs, crossover.curve_lengths(costs, tokens), hidden=query.overlapped)),
        heat=crossover.heat_map(costs, tokens),
    )


def _swapped(costs: Preemption, tokens: int) -> Swapped:
    """The copies, of the device with most to copy."""
    swap, prefix = costs.swap, costs.prefix
    out, back = costs.swap_seconds(tokens)
    ends = [sum(map(float, swap.seconds(tokens, prefix, curves))) for curves in (swap.copies.fast, swap.copies.slow)]
    fullest = max(swap.stages, key=lambda stage: float(stage.bytes(tokens, prefix)))
    size, calls = float(fullest.bytes(tokens, prefix)), round(float(swap.calls(fullest, tokens, prefix)))
    curves = swap.copies.curves
    return Swapped(
        out_s=out,
        in_s=back,
        low_s=max(ends[0], float(swap.bound(tokens, prefix))),
        high_s=ends[1],
        bound_s=float(swap.bound(tokens, prefix)),
        bytes=size,
        calls=calls,
        chunk_bytes=size / calls if swap.coalesced else fullest.chunk or size / calls,
        link=curves.rate * swap.share,
        attained=2 * size / (out + back),
        curve=((curves.out.call + curves.back.call) / 2, curves.rate),
        basis=swap.copies.basis,
    )


def _stolen(costs: Preemption, query: Query, recompute: Recomputed, swap: Swapped) -> DeviceTimeLost:
    """Time that other sequences lose. Copies that are not overlapped block the device, as vLLM's did at first."""
    lost = float(costs.swap.overlapped_cost(query.tokens, query.prefix)) if query.overlapped else swap.seconds
    if not query.batch:
        return DeviceTimeLost(recompute.seconds, lost, None, None)
    step = costs.recompute.alone[costs.recompute.basis]
    return DeviceTimeLost(recompute.seconds, lost, query.batch * recompute.seconds / step, query.batch * lost / step)


def _assumptions(costs: Preemption, query: Query, host_memory: float | None) -> list[Assumption]:
    """The assumptions of the request that matter here, and those of the query."""
    request = costs.request
    notes = [note for note in request.assumptions if note.name not in ("batch", "input_len", "context")]
    notes.append(Assumption("tokens", query.tokens, "given", "of the evicted sequence"))
    if query.prefix:
        notes.append(Assumption("kept_tokens", query.prefix, "given", "the shared prefix stays on the device"))
    why = f"chunks of at most {costs.recompute.budget:,} tokens, one after the other through all stages"
    if query.batch:
        why += f", with {query.batch:,} running sequences of {query.context:,} cached tokens: what they add to its steps"
    notes.append(
        Assumption("recompute", "with a batch" if query.batch else "alone", "given" if query.batch else "default", why)
    )
    way = (
        "one call each way, blocks gathered before" if query.coalesced else "a call per block, layer and tensor (K, V), in turn"
    )
    notes.append(Assumption("copies", "coalesced" if query.coalesced else "block by block", "default", way))
    if query.gpus_per_link > 1:
        why = "devices of a replica that copy over one link at the same time, each as much as the fullest"
        notes.append(Assumption("gpus_per_link", query.gpus_per_link, "given", why))
    if host_memory is not None:
        notes.append(Assumption("host_memory", host_memory, "given", "bytes for evicted sequences of a replica"))
    elif costs.host_memory is not None:
        why = f"{formatting.binary(costs.host_memory)}: the node's, by the replica's share of its accelerators, all of it free"
        notes.append(Assumption("host_memory", costs.host_memory, "default", why))
    else:
        notes.append(Assumption("host_memory", None, "assumed", "the host's memory is unknown: no limit"))
    if costs.recompute.basis == BOUND:
        call = formatting.seconds(costs.swap.copies.curves.out.call)
        why = f"recomputing is at its bound, while a copy takes {call} per call: the comparison favours recomputing"
        notes.append(Assumption("basis", BOUND, "assumed", why))
    return [*notes, *costs.swap.copies.notes]


def _steps(costs: Preemption, query: Query) -> list[Step]:
    """The steps of a recomputation that differ."""
    whole = (query.tokens - 1) // costs.recompute.budget
    chunks = [query.tokens - whole * costs.recompute.budget, *([costs.recompute.budget] if whole else [])]
    return [(Segment(1, new, query.prefix),) for new in chunks]


@dataclass(frozen=True, slots=True)
class Query:
    """The query.

    Args:
        tokens: evicted tokens.
        prefix: tokens before them that stay on the device.
        batch: sequences that run meanwhile.
        context: cached tokens of each of these.
        block_size: tokens per block.
        pinned: whether the host's memory is page-locked.
        coalesced: whether blocks are gathered into one call.
        overlapped: whether copies overlap with kernels.
        gpus_per_link: devices that share one link to the host.
    """

    tokens: int
    prefix: int
    batch: int
    context: int
    block_size: int
    pinned: bool
    coalesced: bool
    overlapped: bool
    gpus_per_link: int


@dataclass(frozen=True, slots=True)
class Swapped:
    """Copies of a device.

    Args:
        out_s: seconds out.
        in_s: seconds in.
        low_s: low end of the interval of both together.
        high_s: high end.
        bound_s: lower bound of both together.
        bytes: one way.
        calls: one way.
        chunk_bytes: bytes per call.
        link: rate of large copies over the link, bytes/s.
        attained: rate of these copies, bytes/s.
        curve: seconds per call, and bytes/s of large copies, of one device.
        basis: fitted ("estimate") or typical ("assumed").
    """

    out_s: float
    in_s: float
    low_s: float
    high_s: float
    bound_s: float
    basis: Basis
    bytes: float
    calls: int
    chunk_bytes: float
    link: float
    attained: float
    curve: tuple[float, float]

    @property
    def seconds(self) -> float:
        """Seconds to copy out and back in."""
        return self.out_s + self.in_s

    @property
    def time_s(self) -> float:
        """Seconds to copy out and back in."""
        return self.seconds


@dataclass(frozen=True, slots=True)
class DeviceTimeLost:
    """Seconds in which the device does not work for other sequences, either way; the tokens that they lose (None if none
    runs)."""

    recompute_s: float
    swap_s: float
    recompute_tokens: float | None
    swap_tokens: float | None


@dataclass(frozen=True, slots=True)
class HostMemory:
    """Bytes of the evicted sequence in the host's memory, and those available to a replica (None: no limit)."""

    bytes: float
    memory: float | None

    @property
    def fits(self) -> bool:
        """Whether the sequence fits in the host's memory; true without a limit."""
        return self.memory is None or self.bytes <= self.memory

    @property
    def sequences(self) -> int | None:
        """Number of such sequences that fit in the host's memory; None: no limit."""
        return None if self.memory is None else int(self.memory // self.bytes)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Costs of recomputing (beside the running batch, if there is one; `alone`: without), swapping and splitting."""

    recompute: Recomputed
    alone: Recomputed
    swap: Swapped
    cheaper: Cheaper
    break_even_link: float | None
    asymptote: Asymptote
    crossover_tokens: tuple[int, ...]
    crossover_block_size: int | None
    partial: tuple[Partial, ...]
    stolen: DeviceTimeLost
    host: HostMemory
    variants: tuple[VariantRow, ...]
    curves: tuple[Point, ...]
    heat: HeatMap

    @property
    def ratio(self) -> float:
        """Seconds of recomputing over seconds of swapping: above 1 swapping is faster."""
        return self.recompute.seconds / self.swap.seconds

    @property
    def certain(self) -> bool:
        """Whether the intervals of recomputing and swapping do not overlap."""
        low, high = self.recompute.low or self.recompute.bound, self.recompute.high
        return self.swap.high_s < low or (high is not None and high < self.swap.low_s)


@dataclass(frozen=True, slots=True, repr=False)
class Preempted(Displayed):
    """The result of `roofline preempt`. `comparison` has the costs; None if the device cannot hold the sequence."""

    inputs: dict[str, Any]
    model: dict[str, Any]
    hardware: dict[str, Any]
    deployment: dict[str, Any]
    query: Query
    basis: str
    comparison: Comparison | None
    assumptions: tuple[Assumption, ...]
    estimate_basis: str | None = None
    """What the estimate of recomputing rests on: "measured", "transferred", "published", "prior", "given"; None without."""
    unfit: Analysis | None = None

    @property
    def tokens(self) -> int:
        """Number of evicted tokens."""
        return self.query.tokens

    @property
    def recompute(self) -> Recomputed | None:
        """The cost of recomputing; None if the device cannot hold the sequence."""
        return None if self.comparison is None else self.comparison.recompute

    @property
    def swap(self) -> Swapped | None:
        """The cost of swapping; None likewise."""
        return None if self.comparison is None else self.comparison.swap

    @property
    def cheaper(self) -> Cheaper | None:
        """What is cheaper; None likewise."""
        return None if self.comparison is None else self.comparison.cheaper

    @property
    def break_even_link(self) -> float | None:
        """Rate of large copies (bytes/s) at which swapping takes as long as recomputing; None if there is none."""
        return None if self.comparison is None else self.comparison.break_even_link

    @property
    def crossover_tokens(self) -> tuple[int, ...]:
        """Numbers of tokens at which what is cheaper changes."""
        return () if self.comparison is None else self.comparison.crossover_tokens

    @property
    def crossover_block_size(self) -> int | None:
        """Block size from which swapping is cheaper; None if there is none."""
        return None if self.comparison is None else self.comparison.crossover_block_size

    @property
    def fits(self) -> bool:
        """Whether the device holds the sequence."""
        return self.unfit is None

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the layout of `roofline preempt --json`, in base units."""
        query = self.query
        return {
            **envelope(self.inputs),
            "model": self.model,
            "hardware": self.hardware,
            "deployment": self.deployment,
            "tokens": query.tokens,
            "kept_tokens": query.prefix,
            "block_size": query.block_size,
            "fits": self.fits,
            "basis": self.basis,
            "estimate_basis": self.estimate_basis,
            **_comparison_dict(self.comparison, query, self.basis),
            "assumptions": [
                {"name": note.name, "value": note.value, "origin": note.origin, "why": note.why} for note in self.assumptions
            ],
        }

    def to_json(self, indent: int | None = 2) -> str:
        """JSON text of `to_dict`; no NaN and no infinity."""
        return dump_json(self.to_dict(), indent)

    def flat(self) -> list[dict[str, Any]]:
        """One flat row per number of tokens, with units in the names; none if there is no comparison."""
        return [] if self.comparison is None else [_point_dict(point) for point in self.comparison.curves]


def _comparison_dict(comparison: Comparison | None, query: Query, basis: str) -> dict[str, Any]:
    if comparison is None:
        nothing = ("cheaper", "certain", "ratio", "break_even_link", "break_even", "crossover_block_size", "steals", "host")
        empty: dict[str, Any] = dict.fromkeys(nothing)
        lists: dict[str, list[Any]] = {"crossover_tokens": [], "partial": [], "variants": [], "curves": []}
        times = {"recompute": {"time_s": None}, "swap": {"time_s": None, "out_s": None, "in_s": None}}
        return {**times, **empty, **lists, "heatmap": None}
    swap, terms = comparison.swap, comparison.asymptote
    return {
        "recompute": {
            **_recomputed_dict(comparison.recompute),
            "basis": basis,
            "batch": query.batch,
            "context": query.context if query.batch else None,
            "alone": _recomputed_dict(comparison.alone),
        },
        "swap": {
            "time_s": swap.seconds,
            **{name: value for name, value in asdict(swap).items() if name != "curve"},
            "pinned": query.pinned,
            "coalesced": query.coalesced,
            "overlapped": query.overlapped,
            "gpus_per_link": query.gpus_per_link,
        },
        "cheaper": comparison.cheaper,
        "certain": comparison.certain,
        "ratio": comparison.ratio,
        "break_even_link": comparison.break_even_link,
        "break_even": {
            "exact": comparison.break_even_link,
            "asymptotic": terms.link,
            "kv_bytes_per_token": terms.kv_bytes,
            "peak_flops": terms.peak,
            "efficiency": terms.efficiency,
            "parameters": terms.parameters,
        },
        "crossover_tokens": list(comparison.crossover_tokens),
        "crossover_block_size": comparison.crossover_block_size,
        "partial": [
            {
                "order": part.order,
                "recomputed_tokens": part.recomputed,
                "swapped_tokens": part.swapped,
                "time_s": part.seconds,
                "recompute_s": part.recompute_s,
                "out_s": part.out_s,
                "in_s": part.in_s,
            }
            for part in comparison.partial
        ],
        "steals": asdict(comparison.stolen),
        "host": {
            "bytes": comparison.host.bytes,
            "memory_bytes": comparison.host.memory,
            "fits": comparison.host.fits,
            "sequences": comparison.host.sequences,
        },
        "variants": [asdict(row) for row in comparison.variants],
        "curves": [_point_dict(point) for point in comparison.curves],
        "heatmap": {
            "tokens": list(comparison.heat.tokens),
            "block_sizes": list(comparison.heat.blocks),
            "recompute_over_swap": [list(row) for row in comparison.heat.ratios],
        },
    }


def _recomputed_dict(cost: Recomputed) -> dict[str, Any]:
    return {
        "time_s": cost.seconds,
        "bound_s": cost.bound,
        "low_s": cost.low,
        "high_s": cost.high,
        "steps": cost.steps,
    }


def _point_dict(point: Point) -> dict[str, Any]:
    return {
        "tokens": point.tokens,
        "recompute_s": point.recompute_s,
        "swap_s": point.swap_s,
        "swap_coalesced_s": point.coalesced_s,
        "partial_s": point.partial_s,
    }
