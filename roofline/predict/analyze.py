"""`analyze`: times, memory and limits of a model on hardware under a workload, and what would fit where it does not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from os import PathLike
from typing import Any, Unpack

from roofline.blocks.model import Model
from roofline.blocks.precision import resolve_precision
from roofline.cost import ZERO
from roofline.errors import InputError
from roofline.graph.build import Graph, build
from roofline.graph.sharding import check_parallel, communication_groups
from roofline.predict import assumptions
from roofline.predict.batch_limits import Limits
from roofline.predict.bounds import Times, matrix_dtype, times
from roofline.predict.drafts import resolve
from roofline.predict.duration import Duration
from roofline.predict.efficiency.estimate import CERTAINTY, Basis, Interval
from roofline.predict.efficiency.fits import DEFAULT
from roofline.predict.efficiency.kernels import Kernel, kernels
from roofline.predict.floor import graph_floor, stage_floor
from roofline.predict.memory import UNLIMITED, largest
from roofline.predict.options import ALL, AnalyzeOptions, keywords
from roofline.predict.parameters import count_parameters
from roofline.predict.request import PhaseName, ResolvedRequest
from roofline.predict.result import Analysis, Encoder, Memory, OperatorResult, Phase, RequestTimes
from roofline.predict.timing import (
    Parts,
    encoder,
    pipeline,
    replica,
    request_times,
    stage_bound,
    stage_estimate,
    with_engine,
    with_estimate,
)
from roofline.specs.hardware import Hardware
from roofline.specs.source import Assumption
from roofline.specs.workload import Step, sequences, tokens


@keywords(*ALL)
def analyze(
    model: str | PathLike[str] | Model, hardware: str | PathLike[str] | Hardware, **options: Unpack[AnalyzeOptions]
) -> Analysis:
    """Analyse a model on hardware: times, memory and limits.

    Args:
        model: a shipped id, the path of a YAML file, or a loaded model.
        hardware: a shipped id of an accelerator or node, the path of a YAML file, or loaded hardware.
        **options: those of `roofline analyze`, with underscores: `batch`, `input_len`, `context`, `dtype`, `tp`, ...

    Returns:
        The result, in base units (seconds, bytes, FLOP); `.to_dict()` has the layout of `roofline analyze --json`.

    Raises:
        roofline.errors.RooflineError: an unknown name, a wrong value, a file that is not what it should be.
    """
    return answer(model, hardware, **options)[1]


def answer(
    model: str | PathLike[str] | Model, hardware: str | PathLike[str] | Hardware, **options: Any
) -> tuple[ResolvedRequest, Analysis]:
    """Return the request that the options make, and its analysis; arguments and errors as of `analyze`."""
    request, speculation = resolve(model, hardware, **options)
    result = run(request)
    return request, result if speculation is None else speculation.added_to(result)


def run(request: ResolvedRequest) -> Analysis:
    """Analyse a resolved request. Of speculative decoding it knows the memory only; `Speculation.added_to` adds the rounds."""
    return with_request_times(request, of_steps(request))


def with_request_times(request: ResolvedRequest, result: Analysis) -> Analysis:
    """Return the analysis of the steps of a request with the times of a whole request, which are means over many steps."""
    timed = result.memory.fits or request.ignore_capacity
    served = request_times(request, timed=timed)
    times = None if served is None else RequestTimes(served["ttft_s"], served["tpot_s"], served["e2e_s"])
    return replace(result, request=times)


def of_steps(request: ResolvedRequest) -> Analysis:
    """Analyse the steps of a resolved request: as `run`, but without `Analysis.request`, which takes as long as all else."""
    memory = _memory(request)
    show_times = memory.fits or request.ignore_capacity
    phases = tuple(phase_of(request, name, step, timed=show_times) for name, step in request.workload.steps)
    assumptions = (*request.assumptions, *estimate_notes(request, [step for _, step in request.workload.steps]))
    used = (*request.inputs, *request.estimator.fits.inputs.values())
    return Analysis(
        inputs={entry.role: {"name": entry.name, "path": entry.path, "sha256": entry.sha256} for entry in used},
        model=_model(request),
        hardware=_hardware(request),
        deployment=_deployment(request),
        memory=memory,
        phases=phases,
        request=None,
        limits=Limits(request.memory, request.hardware, request.workload.context),
        assumptions=assumptions,
        query=request.query,
        encoder=encoder_of(request, timed=show_times),
    )


def encoder_of(request: ResolvedRequest, *, timed: bool = True) -> Encoder | None:
    """Return the vision tower's work on the images of a replica's prompts; None where no prompt with images is computed.

    Args:
        request: the model on its deployment; its workload has the number of images in each prompt.
        timed: whether it has times: the deployment fits, or its capacity is ignored.
    """
    tower, workload = request.model.vision, request.workload
    prompts = [step for name, step in workload.steps if name == "prefill"]
    if tower is None or not workload.images or len(prompts) == 0:
        return None
    step, hardware = prompts[0], request.hardware
    graph = encoder(request, step)
    estimate, parts = stage_estimate(request, step, graph)
    operators = _operators(graph, hardware, parts if timed else None)
    bound, total = stage_bound(request, step, graph), sum([op.times.sum for op in operators])
    time = Duration(None, None)
    if timed:
        time = with_estimate(bound, total, estimate, graph_floor(graph, step, hardware).seconds)
    images = workload.images * sequences(step)
    took, matrix = time.estimate or time.bound, sum([op.times.matrix for op in operators])
    cost = sum([op.cost for op in operators], ZERO)
    return Encoder(
        images=workload.images,
        tokens_per_image=tower.tokens,
        step=Phase(
            name="encoder",
            batch=images,
            new_tokens=images * tower.tokens,
            cached_tokens=0,
            cost=cost,
            produced_tokens=images * tower.tokens,
            bound_by=bound_by(operators) if timed else None,
            time=time,
            pipeline=time,
            mfu=matrix / took if took else None,
            mbu=cost.bytes / hardware.bandwidth / took if took else None,
            operators=operators,
            estimate_basis=request.estimator.basis(kernels(graph)) if timed and request.estimator.applies else None,
        ),
    )


def bound_by(operators: Iterable[OperatorResult]) -> str:
    """Return the resource with the largest share of the operators' bounds: "compute", "memory" or "link"."""
    share = {"compute": 0.0, "memory": 0.0, "link": 0.0}
    for op in operators:
        share[op.times.bound_by] += op.times.bound
    return max(share, key=lambda kind: share[kind])


def _model(request: ResolvedRequest) -> dict[str, Any]:
    model, counted = request.model, count_parameters(request.model)
    return {
        "name": model.name,
        "title": model.title,
        "parameters": {
            "total": counted.total,
            "active": counted.active,
            "embedding": counted.embedding,
            "apart": counted.apart,
        },
        "layers": model.num_hidden_layers,
        "context_length": model.max_position_embeddings,
        "source": [source.url or source.title for source in model.sources.values()],
    }


def _hardware(request: ResolvedRequest) -> dict[str, Any]:
    hardware = request.hardware
    activation = request.precision.activation.name
    return {
        "name": hardware.name,
        "title": hardware.title,
        "accelerator": hardware.accelerator.name,
        "accelerator_title": hardware.accelerator.title,
        "devices": request.deployment.devices,
        **({"devices_per_node": hardware.node.count} if hardware.node is not None else {}),
        "peak_flops": hardware.peaks,
        "vector_flops": hardware.vector_peak,
        "bandwidth": hardware.bandwidth,
        "memory_bytes": hardware.memory_bytes,
        "ridge_point": hardware.peak(activation) / hardware.bandwidth,
    }


def _deployment(request: ResolvedRequest) -> dict[str, Any]:
    deployment, precision = request.deployment, request.precision
    return {
        "weight_dtype": precision.dtypes("linear").weight.name,
        "activation_dtype": precision.activation.name,
        "kv_dtype": precision.kv.name,
        "quantization": {role: format.name for role, format in precision.roles} or None,
        "tensor_parallel": deployment.tensor_parallel_size,
        "pipeline_parallel": deployment.pipeline_parallel_size,
        "data_parallel": deployment.data_parallel_size,
        "expert_parallel": deployment.expert_parallel_size,
        "context_parallel": deployment.context_parallel_size,
        "decode_context_parallel": deployment.decode_context_parallel_size,
        "expert_tensor_parallel": deployment.expert_tensor_size,
        "redundant_experts": deployment.num_redundant_experts,
        "dispatch_dtype": deployment.dispatch_dtype or precision.activation.name,
        "combine_dtype": deployment.combine_dtype or precision.activation.name,
        "sequence_parallel": deployment.sequence_parallel,
        "microbatch_overlap": deployment.microbatch_overlap,
        "engine": f"{request.engine.name}@{request.engine.version}",
        "backend": deployment.backend or (DEFAULT if request.estimator.applies and request.estimator.given is None else None),
    }


def estimate_basis(request: ResolvedRequest, steps: Iterable[Step]) -> Basis | None:
    """Return what the estimates of some steps rest on, the least certain of them; None without estimates.

    Args:
        request: gives the fits and the deployment.
        steps: segments with counts of the whole deployment.
    """
    if not request.estimator.applies:
        return None
    graphs = (build(request.model, request.deployment, request.precision, step, request.memory.stage) for step in steps)
    bases = [request.estimator.basis(kernels(graph)) for graph in graphs]
    return min(bases, key=CERTAINTY.index, default=None)


def estimate_notes(request: ResolvedRequest, steps: Iterable[Step]) -> list[Assumption]:
    """Return the assumptions of the estimates of some steps: the fits that their kernels use, and what the engine adds.

    Args:
        request: gives the fits and the deployment.
        steps: segments with counts of the whole deployment.
    """
    if not request.estimator.applies:
        return assumptions.no_estimate(request.deployment.backend)
    launched: list[Kernel] = []
    for step in steps:
        launched += kernels(build(request.model, request.deployment, request.precision, step, request.memory.stage))
        if request.workload.images and step == request.workload.prompts:
            launched += kernels(encoder(request, step))
    return [
        *assumptions.estimates(request.estimator, launched),
        *assumptions.engine_steps(request.steps, request.deployment.pipeline_parallel_size),
    ]


def _memory(request: ResolvedRequest) -> Memory:
    model, workload = request.memory, request.workload
    steps = request.memory_steps()
    # The step and the stage with the least memory left decide.
    parts = [(name, step, model.tightest(step)) for name, step in steps]
    name, step, part = max(parts, key=lambda entry: entry[2].needed_bytes(entry[1]) - entry[2].usable_bytes(entry[1]))
    usable, needed = part.usable_bytes(step), part.needed_bytes(step)
    length = max(segment.cached + segment.new for _, step in steps for segment in step)
    most = model.max_batch(workload.context)
    result = Memory(
        capacity_bytes=model.capacity,
        budget_bytes=part.budget_of(step),
        weights_bytes=part.weights_bytes,
        tower_bytes=part.tower_bytes,
        kv_bytes_per_token=part.kv_bytes_per_token,
        kv_bytes_per_sequence={
            "mathematical": part.kv_bytes(length, allocated=False),
            "allocated": part.kv_bytes(length, allocated=True),
        },
        state_bytes_per_sequence={
            "mathematical": part.state_bytes(allocated=False),
            "allocated": part.state_bytes(allocated=True),
        },
        activation_bytes=part.activation_bytes(step),
        reserved_bytes=request.deployment.reserve,
        usable_bytes=max(usable, 0.0),
        needed_bytes=needed,
        missing_bytes=max(needed - usable, 0.0),
        fits=request.all_fit(),
        max_batch=most,
        max_batch_of_steps=None if workload.segmented else largest(request.all_fit, _most_sequences(request), most),
        max_context=model.max_context(workload.batch),
        kv_capacity_tokens=part.kv_capacity_tokens(step),
        step=name,
        sequences=-(-sequences(step) // request.deployment.data_parallel_size),
        tokens_per_sequence=max(segment.cached + segment.new for segment in step),
    )
    if result.fits:
        return result

    return replace(result, would_fit=tuple(_what_would_fit(request, result)))


def _most_sequences(request: ResolvedRequest) -> int:
    """Sequences that the engine takes at once in the whole deployment."""
    limit = request.deployment.max_num_seqs
    return UNLIMITED if limit is None else limit * request.deployment.data_parallel_size


def phase_of(request: ResolvedRequest, name: PhaseName, step: Step, *, timed: bool = True) -> Phase:
    """Return one of `Analysis.phases`, without the rest of an analysis.

    Args:
        request: the model on its deployment.
        name: of the step.
        step: segments with counts of the whole deployment.
        timed: whether it has times: the deployment fits, or its capacity is ignored.
    """
    graph = build(request.model, request.deployment, request.precision, step, request.memory.stage)
    time, parts = stage_estimate(request, step, graph)
    operators = _operators(graph, request.hardware, parts if timed else None)
    bound = stage_bound(request, step, graph)
    if timed and request.deployment.microbatch_overlap:
        operators = (*operators, _overlap(operators, bound, time, request))
    if timed and time is not None and request.steps is not None:
        whole = with_engine(request, time, replica(request, step), 1)
        if (added := whole.seconds - time.seconds) > 0:
            operators = (*operators, _term("engine", 0.0, added, request))
        time = whole
    cost = sum((op.cost for op in operators), ZERO)
    total = sum(op.times.sum for op in operators)
    floor = stage_floor(request, step, request.memory.stage).seconds if timed else None
    through = pipeline(request, step) if timed else Duration(None, None)
    produced = sequences(step) if name == "decode" else tokens(step)
    peak_times = sum(op.times.matrix for op in operators)
    took = through.estimate or through.bound
    return Phase(
        name=name,
        batch=sequences(step),
        new_tokens=tokens(step),
        cached_tokens=sum(segment.count * segment.cached for segment in step),
        cost=cost,
        produced_tokens=produced,
        bound_by=bound_by(operators) if timed else None,
        time=with_estimate(bound, total, time, floor) if timed else Duration(None, None),
        pipeline=through,
        mfu=peak_times / took if took else None,
        mbu=cost.bytes / request.hardware.bandwidth / took if took else None,
        operators=operators,
        estimate_basis=request.estimator.basis(kernels(graph)) if timed and request.estimator.applies else None,
    )


def _overlap(
    operators: tuple[OperatorResult, ...], bound: float, time: Interval | None, request: ResolvedRequest
) -> OperatorResult:
    """What microbatches that overlap hide, below 0, and in the estimate the second reading of weights, above: the step less its
    operators one after another."""
    shorter = _less(bound, sum(op.times.bound for op in operators))
    known = None if time is None else _less(time.seconds, sum(op.time.estimate or 0.0 for op in operators))
    return _term("microbatch_overlap", shorter, known, request)


def _less(whole: float, parts: float) -> float:
    """A whole less its parts; 0 where only their rounding differs."""
    difference = whole - parts
    return 0.0 if abs(difference) < 1e-12 * whole else difference


def _term(path: str, bound: float, seconds: float | None, request: ResolvedRequest) -> OperatorResult:
    """A part of a step's time that is no kernel's, such as what the engine adds, as an operator without work."""
    idle, took = Times(matrix=0.0, vector=0.0, memory=0.0, link=0.0), Duration(bound, 0.0, seconds, seconds, seconds)
    return OperatorResult(path, "overhead", {}, request.precision.activation.name, 1, ZERO, idle, took)


def _operators(graph: Graph, hardware: Hardware, parts: Parts | None) -> tuple[OperatorResult, ...]:
    """The operators of a stage; without times where they have no meaning (`parts` is None)."""
    results = []
    for path, (operator, repeat) in graph.items():
        cost = operator.cost() * repeat
        resources = times(operator, cost, hardware)
        results.append(
            OperatorResult(
                path=path,
                kind=operator.kind,
                dims=operator.dims(),
                dtype=matrix_dtype(operator, hardware) if cost.matrix_flops else operator.dtypes.activation.name,
                repeat=repeat,
                cost=cost,
                times=resources,
                time=Duration(None, None) if parts is None else with_estimate(resources.bound, resources.sum, parts[path]),
            )
        )
    return tuple(results)


def facts(request: ResolvedRequest) -> dict[str, dict[str, Any]]:
    """Return the head of a result as plain data: `model`, `hardware` and `deployment`, in the layout of `analyze --json`."""
    return {"model": _model(request), "hardware": _hardware(request), "deployment": _deployment(request)}


def _what_would_fit(request: ResolvedRequest, result: Memory) -> Iterator[str]:
    """Flags any one of which makes the deployment fit, smallest change first; each is tried."""
    workload = request.workload
    if result.max_batch_of_steps:
        yield f"--batch {result.max_batch_of_steps}"
    decodes = any(name == "decode" for name, _ in workload.steps) and workload.output_len is None
    if decodes and not workload.segmented and workload.context > 1:
        context = largest(lambda length: _fits_after(request, length), workload.context - 1)
        if context:
            yield f"--context {context}"
    for name, change in (("kv_cache_dtype", "fp8"), ("quantization", "fp8"), ("quantization", "awq")):
        if getattr(request.deployment, name) is None and _changed_fits(request, {name: change}):
            yield f"--{name.replace('_', '-')} {change}"
    size = request.deployment.tensor_parallel_size
    for bigger in (2 * size, 4 * size, 8 * size, 16 * size):
        if _changed_fits(request, {"tensor_parallel_size": bigger}):
            yield f"--tensor-parallel-size {bigger}"
            break


def _fits_after(request: ResolvedRequest, length: int) -> bool:
    """Whether every step fits if sequences are decoded after a number of tokens."""
    steps = (
        tuple(replace(segment, cached=length) if segment.decode else segment for segment in step)
        for _, step in request.memory_steps()
    )
    return all(request.memory.fits(step) for step in steps)


def _changed_fits(request: ResolvedRequest, change: dict[str, object]) -> bool:
    deployment = request.deployment.model_copy(update=change)
    try:
        check_parallel(request.model, deployment)
        for group in communication_groups(deployment):
            request.hardware.connection(group)
        precision, _ = resolve_precision(
            request.model,
            deployment,
            request.hardware.accelerator.peak_flops,
            request.engine,
        )
    except InputError:
        return False
    memory = replace(request.memory, deployment=deployment, precision=precision)
    return replace(request, memory=memory).all_fit()
