"""Assumptions: the conventions and the gaps in the data that shape a result, in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from roofline import formatting
from roofline.blocks.model import Model
from roofline.dtypes import Precision
from roofline.formatting import percent
from roofline.graph.sharding import communication_groups, replicated_dimensions, states
from roofline.operators.grouped_gemm import expert_load_imbalance
from roofline.predict.efficiency.estimate import Estimator, beyond, from_measured_world, weights_alone
from roofline.predict.efficiency.fits import DEFAULT, Fitted
from roofline.predict.efficiency.kernels import Kernel
from roofline.predict.memory import MemoryModel
from roofline.specs.deployment import Conventions, Deployment
from roofline.specs.engine import Engine, EngineSteps
from roofline.specs.hardware import Hardware
from roofline.specs.library import Input, shadowed
from roofline.specs.source import Assumption, Origin

MODEL = "model."
"""What the names of assumptions about the model itself begin with."""

PARTS = f"{MODEL}parts"
"""The assumption that parts of a multimodal model are not counted."""

_WHY = {
    ("mask", "causal"): "attention computes only the pairs that the mask lets through",
    ("mask", "full"): "attention computes every query against every key that is read",
    ("attention", "fused"): "scores stay on chip",
    ("attention", "eager"): "scores are written to memory and read back",
    ("mla", "auto"): "prefill expands K and V, decode absorbs the projections",
    ("mla", "expand"): "K and V are expanded in every phase",
    ("mla", "absorb"): "projections are absorbed in every phase",
    ("logits", "last"): "the LM head runs on the last position of each sequence",
    ("logits", "all"): "the LM head runs on every position",
    ("shared_prefix", 0): "no cached tokens are common to the sequences",
}
_OF_SOME_BLOCKS = ("mla", "routing_skew")
"""Conventions that are noted where a block of the model names them (`Block.conventions`), or the user."""
_FUSION = (
    "projections that share an input are one product; adding to the residual stream is part of the norm that follows; "
    "every other operator reads its inputs from memory and writes its outputs to it"
)


def reading(model: Model, *, encoded: bool) -> list[Assumption]:
    """Return the choices that a model's config.json leaves open, and the parts of a multimodal model that are not counted.

    Args:
        model: the model.
        encoded: whether the work of its vision tower is counted (`--images`).
    """
    notes = [Assumption(f"{MODEL}{choice.name}", choice.value, choice.origin, choice.why) for choice in model.assumptions]
    towers = (
        []
        if encoded
        else [f"{name.replace('_', ' ')} ({formatting.fixed(size, '', 3)} parameters)" for name, size in model.towers.items()]
    )
    if towers:
        why = f"not counted: the time of the {' and the '.join(towers)}; their weights are in memory"
        if model.vision is not None:
            why += " (--images N counts their work)"
        notes.append(Assumption(PARTS, "language model alone", "assumed", why))
    return notes


def shadowing(inputs: Iterable[Input]) -> list[Assumption]:
    """Return the files on `ROOFLINE_PATH` that replace a shipped one of the same id."""
    shadows = ((entry, shadowed(entry.path)) for entry in inputs)
    why = "of ROOFLINE_PATH, instead of the shipped file of that id"
    return [Assumption(f"{entry.role}.file", entry.path, "given", why) for entry, name in shadows if name is not None]


def allocated(memory: MemoryModel, engine: Engine) -> list[Assumption]:
    """Return a note if the engine's rules do not say how it lays out this model's caches."""
    if not (why := memory.fullest_stage.layout.unknown):
        return []
    name = f"{engine.name}@{engine.version}"
    why = f"the rules of {name} are not known for this model: {why}; every layer is given whole blocks of its own"
    return [Assumption("allocated", "blocks of each layer", "assumed", why)]


def conventions(model: Model, deployment: Deployment, options: dict[str, Any]) -> list[Assumption]:
    """Return the conventions of counting that matter to the model or were given."""
    matters = {name for block in model.blocks for name in block.conventions}
    notes = [Assumption("fusion", "qkv, gate+up, residual+norm", "default", _FUSION)]
    for name in Conventions.model_fields:
        value = getattr(deployment.conventions, name)
        given = options.get(name) is not None
        if not given and name in _OF_SOME_BLOCKS and name not in matters:
            continue
        if name == "expert_imbalance":
            notes += [Assumption(name, value, "given", _imbalance(model, deployment))] if given else []
            continue
        if name == "routing_skew":
            popularity = f"popularity falls as rank^-{value:g}" if value else "all experts equally likely"
            why = f"expected distinct experts under independent routing, {popularity}"
        elif (name, value) == ("mla", "auto") and any(mixer.selected is not None for mixer in model.mixers):
            why = "sparse attention gathers latents: every phase absorbs the projections"
        else:
            why = _WHY.get((name, value), "cached tokens that all sequences share are read and held once")
        notes.append(Assumption(name, value, "given" if given else "default", why))
    return notes + _sparse(model, deployment.conventions)


def _imbalance(model: Model, deployment: Deployment) -> str:
    """What the busiest device of those that share the experts has."""
    wanted, ranks = deployment.conventions.expert_imbalance, deployment.expert_parallel_size
    counts = [block.experts for block in model.blocks if block.experts is not None]
    most = max((float(expert_load_imbalance(wanted, experts, top_k, ranks)) for experts, top_k in counts), default=1.0)
    if not counts or ranks == 1:
        return "experts are not spread over devices: no device has more tokens than another"
    what = (
        "of the device shown: its experts' rows, what is sent to it and back; its experts are chosen that many times as often"
    )
    return what if most == wanted else f"{what}. More than {most:g} is not possible, and taken as that"


def _sparse(model: Model, chosen: Conventions) -> list[Assumption]:
    """How the choice of keys by an indexer was counted."""
    notes = []
    for what in ("keys", "entries"):
        mixers = [mixer for mixer in model.mixers if mixer.selected is not None and mixer.selected[1] == what]
        limits = sorted({mixer.selected[0] for mixer in mixers if mixer.selected is not None})
        if not limits:
            continue
        if chosen.mask == "full":
            why = f"the mask is full: every query meets every one of the {what}, chosen or not"
        elif chosen.mla == "expand" and any("mla" in mixer.conventions for mixer in mixers):
            why = "expanded attention is dense, and the choice a mask over it: all pairs are counted"
        else:
            why = (
                f"a query attends to the {what} that an indexer chose, at most this number; those of a prompt differ in theirs"
            )
        notes.append(Assumption("index_topk", ", ".join(map(str, limits)), "default", why))
    return notes


def state(model: Model, deployment: Deployment, precision: Precision, engine: Engine) -> list[Assumption]:
    """Return the format of recurrent state, where the model has any or the user gave one."""
    given = deployment.mamba_ssm_cache_dtype is not None
    has_state = bool(states(model, Deployment()))
    if not given and not has_state:
        return []
    why = "recurrent state is kept in it between steps; " if has_state else "the model keeps no recurrent state; "
    why += (
        "what short convolutions keep is in the activations' dtype"
        if given
        else f"the default of {engine.name}@{engine.version}"
    )
    if not given and model.state_dtype is not None:
        why = "the model's file"
    return [Assumption("mamba_ssm_cache_dtype", precision.state.name, "given" if given else "default", why)]


def no_estimate(backend: str | None) -> list[Assumption]:
    """Return a note on the backend that was given, where no accelerator has a fit."""
    if backend is None:
        return []
    return [Assumption("backend", backend, "given", "no fit of matrix products is known: there is no estimate")]


NOTED_DOUBLINGS = 0.007
"""Doublings beyond what was measured from which it is noted: a factor of 1.005."""


_WIDENED = "; weights that are widened first are of another format than any that was measured: the interval is wider"


def estimates(estimator: Estimator, kernels: Iterable[Kernel]) -> list[Assumption]:
    """Return the fits that the estimates of a step's kernels use, with their error where it was measured."""
    if estimator.given is not None:
        return []  # what was given is noted as given
    backend = estimator.fits.backend
    why = "whose kernels the estimates are of"
    if backend is None:
        why += "; the interval holds those of other backends too"
    notes = [Assumption("backend", backend or DEFAULT, "given" if backend else "default", why)]
    outside: dict[str, dict[str, float]] = {}
    ranks: dict[str, set[int]] = {}
    used: dict[str, Fitted] = {}
    pairs: list[tuple[Kernel, Fitted]] = []
    unmeasured: list[str] = []
    for kernel in kernels:
        fitted = estimator.fitted(kernel)
        if fitted is None:
            unmeasured += [operator.kind for operator in kernel.operators.values()]
            continue
        used[kernel.op] = fitted
        pairs.append((kernel, fitted))
        if from_measured_world(fitted, kernel.operators):
            ranks.setdefault(kernel.op, set()).add(int(next(iter(kernel.operators.values())).dims()["world"]))
        for name, doublings in beyond(fitted, kernel.operators).items():
            if doublings > NOTED_DOUBLINGS:
                most = outside.setdefault(kernel.op, {})
                most[name] = max(most.get(name, 0.0), doublings)
    other_hosts = {kernel.op for kernel, fitted in pairs if estimator.another_host(kernel, fitted)}
    widened = {kernel.op for kernel, fitted in pairs if weights_alone(kernel.op, fitted, kernel.operators)[1]}
    for op, fitted in sorted(used.items()):
        origin = "transferred" if op in other_hosts else _ORIGINS.get(fitted.origin, "default")
        why = _fit_quality(op, fitted, outside.get(op), ranks.get(op, set()), another_host=op in other_hosts)
        why += _WIDENED if op in widened else ""
        held = fitted.family.held_out if origin == "default" else None
        notes.append(Assumption(f"fit.{op}", fitted.source, origin, why, held.median_ape if held else None))
    if unmeasured:
        why = "no kernel like it was measured: a launch, then compute, memory and link times in turn; within a factor of 3"
        notes.append(Assumption("fit", ", ".join(sorted(set(unmeasured))), "assumed", why))
    return notes


def engine_steps(steps: EngineSteps | None, pipeline_stages: int = 1) -> list[Assumption]:
    """Return what the engine adds to the kernels of a step, with the measured error of TPOT."""
    if steps is None:
        return []
    parts = (
        (steps.step, "step"), (steps.sequence, "sequence"), (steps.rank, "doubling of tensor-parallel devices"),
        (steps.experts, "layer with routed experts"),
        (steps.stage if pipeline_stages > 1 else 0.0, "sequence of a microbatch in each pipeline stage"),
    )  # fmt: skip
    added = ", ".join(f"{formatting.seconds(value, 4)} per {what}" for value, what in parts if value) or "nothing"
    why = f"a share of {steps.hidden:.2g} of each kernel's launch, of 2 us at most, is hidden; beside the kernels {added}"
    if (held := steps.held_out) is not None:
        why += f"; TPOT of {held.rows} serving points, each model left out in turn: median error {percent(held.median_ape, 1)}"
    error = None if held is None else held.median_ape
    return [Assumption("engine_steps", f"{steps.engine} {', '.join(steps.versions)}".strip(), "default", why, error)]


_FEW_ROWS = 50
_ORIGINS: dict[str, Origin] = {"assumed": "assumed", "prior": "assumed", "transferred": "transferred"}


def _prior_quality(fitted: Fitted) -> str:
    """What the prior of an op is, and how far it was off where it could be judged."""
    values, unknown = fitted.values, fitted.family.undetermined
    peaks = (("compute", "the matrix peak"), ("memory", "the memory bandwidth"), ("link", "the link"))
    shares = " or ".join(f"{percent(float(values[name]))} of {peak}" for name, peak in peaks if name not in unknown)
    held = fitted.family.held_out
    off = (
        "hosts differ by a factor of five"
        if held is None
        else f"median error {percent(held.median_ape)} on {'machines' if fitted.published else 'architectures'} left out"
    )
    if fitted.published:
        widen = values.get("widen")
        work = f"; {widen:g} FLOP of the vector units for each widened weight" if widen else ""
        return f"speeds of whole steps that were published for this vendor's machines: {shares}{work}; {off}"
    scaled = "compute" not in unknown and values["compute"] != fitted.family.parameters.get("compute")
    where = ", as elsewhere of the best product measured on a card" if scaled else ", as elsewhere"
    return f"nothing like it was measured on this vendor's hardware: {shares}{where}; {off}"


def _fit_quality(
    op: str, fitted: Fitted, outside: dict[str, float] | None, ranks: set[int], *, another_host: bool = False
) -> str:
    """How good a fit is, and in what way it is used beyond what it was measured on."""
    if fitted.origin == "prior":
        return _prior_quality(fitted)
    if fitted.origin == "assumed":
        return "nothing like it was measured: typical values, within a factor of 2"
    held = fitted.family.held_out
    parts = [
        f"median error {percent(held.median_ape, 1)} on {held.shapes} shape{'s' * (held.shapes != 1)} that it had not seen"
        if held
        else "no shape was held out"
    ]
    if fitted.origin == "transferred":
        parts.append("another accelerator's, with this one's datasheet figures: the interval is wider")
    if another_host:
        parts.append("over PCIe with a way of its own for each device; hosts without take up to five times as long")
    if fitted.family.undetermined and fitted.family.rows < _FEW_ROWS:
        few = f"{fitted.family.rows} record{'s' * (fitted.family.rows != 1)}"
        parts.append(f"{few}, which do not determine {', '.join(fitted.family.undetermined)}")
    if fitted.origin not in ("fitted", "transferred"):
        other = fitted.origin if fitted.key.partition("/")[0] == op else "another kernel that moves its data alike"
        parts.append(f"of {other}: the interval is wider")
    if ranks:
        unmeasured, measured = (", ".join(map(str, sorted(some))) for some in (ranks, fitted.family.worlds))
        parts.append(f"{unmeasured} ranks, of which only {measured} were measured: the interval is wider")
    if outside:
        # a half is rounded as on a page, whose logarithm may differ in the last bit
        factors = {name: 2**doublings * (1 + 1e-9) for name, doublings in sorted(outside.items())}
        listed = ", ".join(f"{name} by a factor of {factor:.3g}" for name, factor in factors.items())
        parts.append(f"extrapolated: {listed} outside what was measured")
    return "; ".join(parts)


def gaps(hardware: Hardware) -> list[Assumption]:
    """Return the figures that the hardware's file lacks, or that are not checked against a source."""
    notes, accelerator = [], hardware.accelerator
    if "memory_bytes" not in hardware.overrides and accelerator.memory.reported is None:
        why = "no source for what the driver reports: the label is read as decimal"
        notes.append(Assumption("memory", hardware.memory_bytes, "assumed", why))
    if hardware.vector_peak is None:
        why = "no source: vector FLOP are counted, and take no time in the bound"
        notes.append(Assumption("vector_flops", None, "assumed", why))
    if accelerator.devices > 1:
        why = "the figures are those of the whole package, of which each device that software sees has an equal part"
        notes.append(Assumption("devices_in_package", accelerator.devices, "assumed", why))
    memory = accelerator.memory
    headline = [("bandwidth", "bandwidth", memory.bandwidth), ("memory_bytes", "memory", memory.reported or memory.label)]
    unchanged = [(word, fact) for key, word, fact in headline if key not in hardware.overrides]
    if recalled := [word for word, fact in unchanged if fact.grade == "C"]:
        why = f"figures of {accelerator.name} are from memory, not checked against a source"
        notes.append(Assumption("recalled", ", ".join(recalled), "assumed", why))
    return notes


def _exchange(model: Model, deployment: Deployment) -> list[Assumption]:
    """How tokens are sent to experts of other replicas and back."""
    if deployment.expert_devices <= deployment.tensor_parallel_size:
        return []
    limited = any(block.routing is not None and block.routing.limited for block in model.blocks)
    gathered = deployment.expert_exchange == "all_gather"
    once = "to another node once per token, inside nodes to each device that has one of its experts"
    sent = (
        "every token to all ranks, and sums back; --deepep-mode: to its experts alone"
        if gathered
        else once
        if limited
        else "one copy for each expert of a token; the floor has each token once per node and device"
    )
    notes = []
    for name, dtype in (("dispatch_dtype", deployment.dispatch_dtype), ("combine_dtype", deployment.combine_dtype)):
        value, origin = (dtype, "given") if dtype else ("as activations", "default")
        notes.append(Assumption(name, value, origin, sent))  # type: ignore[arg-type]  # a literal of two
    if (mode := deployment.deepep_mode) != "auto":
        notes.append(Assumption("deepep_mode", mode, "given", "kernels that send tokens to experts over nodes, in every step"))
    return notes


def _tokens_and_microbatches(deployment: Deployment) -> list[Assumption]:
    """How cached tokens are divided in a tensor-parallel group, and what overlaps."""
    notes = []
    if (ranks := deployment.decode_context_parallel_size) > 1:
        why = (
            "tensor-parallel devices with the same KV heads each have a part of the cached tokens; decoded queries are "
            "gathered among them, outputs joined and scattered; what is cached of a prompt is gathered in each layer"
        )
        notes.append(Assumption("decode_context_parallel_size", ranks, "given", why))
    if deployment.microbatch_overlap:
        why = (
            "two microbatches in turn: collectives hide behind all else of a step or the other way round, where a replica "
            "has two sequences; operators are shown one after another. The estimate hides 60 % of the shorter, as published "
            "runs do, and reads weights twice; the interval begins where all is hidden, and ends where nothing is"
        )
        notes.append(Assumption("microbatch_overlap", True, "given", why))
    return notes


def parallelism(model: Model, deployment: Deployment, hardware: Hardware) -> list[Assumption]:
    """Return what is replicated over devices, and what parallelism leaves out of the model."""
    notes = []
    for name, key in replicated_dimensions(model, deployment):
        note, what = ("kv_heads", "KV heads") if key == "num_key_value_heads" else (key, key)
        why = f"{name}: fewer {what} than tensor-parallel devices, so several devices hold the same ones"
        notes.append(Assumption(note, "replicated", "default", why))
    if deployment.tensor_parallel_size > 1:
        why = "norms, routers and biases of output projections are on every tensor-parallel device"
        notes.append(Assumption("replicated", "norms, routers", "default", why))
        if any(mixer.cache_replicated for mixer in model.mixers):
            why = "what is cached has no heads to divide: every tensor-parallel device computes and holds all of it"
            notes.append(Assumption("latent_cache", "replicated", "default", why))
    if deployment.sequence_parallel:
        why = (
            "norms, additions and the stream between blocks are 1/t of the tokens on each tensor-parallel device; all-reduces "
            "at the end of blocks are a reduce-scatter there and an all-gather before the next: as many link bytes"
        )
        notes.append(Assumption("sequence_parallel", True, "given", why))
    notes += [*_exchange(model, deployment), *_tokens_and_microbatches(deployment)]
    if (ranks := deployment.context_parallel_size) > 1:
        why = (
            "tokens of a prompt are divided so that all devices have as many pairs, keys and values of the whole sequence "
            "gathered in each layer; of a decoded token the keys alone are divided and outputs joined; the cache is divided by "
            "tokens; the device with the last tokens is shown, which computes the LM head"
        )
        notes.append(Assumption("context_parallel_size", ranks, "given", why))
    if deployment.pipeline_parallel_size > 1:
        why = (
            "a batch passes the stages in turn, and token rates and latencies are those of it alone; what further batches "
            "(microbatches) in flight would give: roofline.predict.timing"
        )
        notes.append(Assumption("pipeline", "one batch in flight", "default", why))
    notes += [
        Assumption("link", str(hardware.connection(group)), "default", f"joins groups of {group} devices")
        for group in communication_groups(deployment)
    ]
    if deployment.data_parallel_size > 1:
        why = "sequences are dealt to the replicas, each segment's on its own; the fullest replica is shown"
        notes.append(Assumption("data_parallel", "dealt round", "default", why))
    if deployment.devices > 1:
        why = (
            "bytes of ring algorithms over the link's bandwidth, in and between nodes at once; the latency of messages is not "
            "in the bound, and a switch that sums what passes through it would send less"
        )
        notes.append(Assumption("collectives", "ring", "default", why))
    return notes
