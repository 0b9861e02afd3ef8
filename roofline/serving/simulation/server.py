"""The server that is simulated: replicas of a deployment, their limits, and how each of them schedules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roofline import formatting
from roofline.errors import InputError, RooflineError, UnknownNameError
from roofline.predict.memory import StageMemory
from roofline.predict.request import ResolvedRequest, prepare
from roofline.serving.preemption.copies import HostCopyOptions
from roofline.serving.simulation.kv_cache import EngineConfig
from roofline.serving.simulation.preemption import PreemptionPolicy, preemption_policy
from roofline.serving.simulation.router import ROUTERS
from roofline.serving.simulation.scheduler import SchedulingPolicy
from roofline.serving.simulation.schedulers import SCHEDULERS
from roofline.serving.simulation.step_tables import StepTables
from roofline.serving.simulation.step_time import Basis
from roofline.serving.simulation.workload import MAX_UNFINISHED
from roofline.specs.source import Assumption
from roofline.specs.workload import Segment
from roofline.units import parse_count

DEFAULT_SCHEDULER = "vllm-v1"
MAX_NUM_SEQS = 256
"""vLLM's default (its server has 1,024 on GPUs of 70 GiB and more)."""
MAX_REPLICAS = 10_000
"""Replicas of a run: each has a state of its own."""


class OutOfKVBlocksError(RooflineError):
    """Not one KV block fits beside the weights."""


@dataclass(frozen=True)
class Server:
    """Replicas of a deployment: all that a run needs of them."""

    request: ResolvedRequest
    scheduler: SchedulingPolicy
    config: EngineConfig
    max_model_len: int
    tables: StepTables
    preemption: PreemptionPolicy
    replicas: int
    router: str
    stepwise: bool = False


def resolve_replica(model: Any, hardware: Any, deployment: dict[str, Any]) -> ResolvedRequest:
    """Return the deployment of each replica.

    Args:
        model: a shipped id, the path of a file, or a loaded model.
        hardware: likewise.
        deployment: the options of `roofline analyze` that describe a deployment.

    Raises:
        roofline.errors.RooflineError: an unknown name, a wrong value, an option that is not simulated.
    """
    request = prepare(model, hardware, **deployment, batch=1, input_len=1, context=1)
    if request.deployment.data_parallel_size > 1:
        raise InputError("--data-parallel-size: replicas here are independent of each other; give --replicas")
    if request.deployment.conventions.shared_prefix:
        raise InputError("--shared-prefix is not simulated: leave it out")
    return request


def make_server(
    request: ResolvedRequest, *, scheduler: str | None, preemption: str | None, basis: str | None,
    replicas: Any, balancer: str | None, stepwise: bool, notes: list[Assumption], num_gpu_blocks_override: Any = None,
    host_options: HostCopyOptions | None = None, enable_prefix_caching: bool = False,
) -> Server:  # fmt: skip
    """Return a server from the options of `simulate`.

    Raises:
        OutOfKVBlocksError: the model does not fit.
        InputError: an unknown name, a wrong value.
    """
    policy = SCHEDULERS[scheduler or DEFAULT_SCHEDULER]
    notes.append(Assumption("scheduler", policy.name, "given" if scheduler else "default", policy.about))
    config = engine_config(request, policy, notes, num_gpu_blocks_override, enable_prefix_caching=enable_prefix_caching)
    step_basis = _basis(basis, request, notes)
    num_replicas = 1 if replicas is None else parse_count(replicas, "--replicas", minimum=1)
    if num_replicas > MAX_REPLICAS:
        raise InputError(
            f"--replicas must be at most {MAX_REPLICAS:,}, not {num_replicas:,}: all are the same, so simulate a part of them "
            "under its part of the load"
        )
    router = ROUTERS[balancer or "round-robin"].name
    if num_replicas > 1 and balancer is None:
        notes.append(Assumption("balancer", router, "default", "requests are dealt to the replicas in turn"))
    if enable_prefix_caching:
        why = "a preempted request finds those of its blocks that were not reallocated; prompts have nothing in common"
        notes.append(Assumption("prefix_caching", True, "given", why))
    else:
        why = "no prompt finds its tokens cached, nor does one that is computed again"
        notes.append(Assumption("prefix_caching", False, "default", why))
    longest = max_model_len(request)
    return Server(
        request=request,
        scheduler=policy,
        config=config,
        max_model_len=longest,
        # a sequence that runs has a block at least
        tables=StepTables(request, step_basis, longest, min(config.max_num_seqs, config.num_blocks, MAX_UNFINISHED)),
        preemption=preemption_policy(request, preemption, notes, host_options),
        replicas=num_replicas,
        router=router,
        stepwise=stepwise,
    )


def max_model_len(request: ResolvedRequest) -> int:
    """Return the tokens of the longest sequence, prompt and output."""
    return request.deployment.max_model_len or request.model.max_position_embeddings


def engine_config(
    request: ResolvedRequest, policy: SchedulingPolicy, notes: list[Assumption], num_gpu_blocks_override: Any = None, *,
    enable_prefix_caching: bool = False,
) -> EngineConfig:  # fmt: skip
    """Return the limits of a replica; its KV blocks are those of the pipeline stage with the fewest.

    Activations are those of the largest step, as engines measure them before they start. Where all layers cache all tokens a
    block is the engine's. Else it has as many bytes of the layers that cache all tokens, and what a sequence has beside them (a
    state; the blocks of a window once it is full) counts as fixed blocks from its first token, which is more than a short
    sequence takes.

    Args:
        request: the deployment.
        policy: its `max_num_batched_tokens` counts unless the deployment has one.
        notes: gets what is assumed.
        num_gpu_blocks_override: blocks instead of those that fit, such as an engine's log has.
        enable_prefix_caching: see `EngineConfig`.

    Raises:
        OutOfKVBlocksError: not one block fits.
        InputError: more blocks than the memory holds beside the weights; fewer tokens per step than sequences.
    """
    deployment = request.deployment
    max_num_seqs = deployment.max_num_seqs or MAX_NUM_SEQS
    if deployment.max_num_seqs is None:
        notes.append(
            Assumption("max_num_seqs", MAX_NUM_SEQS, "assumed", "requests that run at a time; engines have 256 to 1,024")
        )
    budget = deployment.max_num_batched_tokens or policy.max_num_batched_tokens or request.memory.max_num_batched_tokens
    if deployment.max_num_batched_tokens is None and policy.max_num_batched_tokens is not None:
        notes.append(Assumption("budget", budget, "default", f"new tokens per step, of the scheduler {policy.name}"))
    if budget < max_num_seqs:
        msg = f"--max-num-batched-tokens {budget:,} is less than the {max_num_seqs:,} sequences that may run (--max-num-seqs)"
        raise InputError(f"{msg}: each of them takes a token per step")
    longest = max_model_len(request)
    step = (Segment(1, min(budget, longest), 0),)
    usable = [stage.usable_bytes(step) for stage in request.memory.stages]
    stages = zip(request.memory.stages, usable, strict=True)
    num_blocks, size, num_fixed = min(_blocks(stage, num_bytes, longest) for stage, num_bytes in stages)
    if num_blocks < 1:
        left = min(usable)
        why = f"{formatting.binary(max(left, 0))} are left for the KV cache" if left > 0 else "the weights alone do not fit"
        raise OutOfKVBlocksError(
            f"{request.model.name} does not run on {request.hardware.name}: {why}; roofline analyze says what would fit"
        )
    if num_gpu_blocks_override is not None:
        without_activations = (_blocks(stage, stage.capacity - stage.weights_bytes, longest) for stage in request.memory.stages)
        num_blocks = _override(num_gpu_blocks_override, min(without_activations)[0], size)
        notes.append(Assumption("blocks", num_blocks, "given", f"of {size} tokens, in a replica"))
    elif num_fixed:
        why = f"of {size} tokens, {num_fixed} of them for what a sequence has beside its tokens (state, full windows)"
        notes.append(Assumption("blocks", num_blocks, "assumed", why))
    else:
        notes.append(Assumption("blocks", num_blocks, "default", f"of {size} tokens, in a replica"))
    tokens_per_step = budget * deployment.pipeline_parallel_size
    return EngineConfig(num_blocks, size, max_num_seqs, tokens_per_step, num_fixed, enable_prefix_caching)


def _override(override: Any, max_blocks: int, size: int) -> int:
    """The blocks given by the user; `max_blocks` fill the memory beside the weights."""
    num_blocks = parse_count(override, "--num-gpu-blocks-override", minimum=1)
    if num_blocks > max_blocks:
        raise InputError(
            f"--num-gpu-blocks-override {num_blocks:,}: at most {max_blocks:,} blocks of {size} tokens fit beside the weights"
        )
    return num_blocks


def _blocks(stage: StageMemory, usable: float, longest: int) -> tuple[int, int, int]:
    """Number of blocks in usable bytes, tokens per block, and fixed blocks per sequence."""
    layout = stage.layout
    growing = [kind for kind in layout.kinds if kind.window is kind.chunk is None]
    others = [kind for kind in layout.kinds if kind not in growing]
    # a window or chunk, once it is full, on the way to a step of one token
    fixed = layout.state_bytes + sum(kind.blocks(longest, 1) * kind.block_bytes for kind in others)
    if not growing:  # a sequence takes the same, however long it is: one block holds it
        return int(usable // fixed) if fixed else 2**40, longest, 0
    size = growing[0].block * (growing[0].ratio or 1)
    block = sum(kind.block_bytes * size / (kind.block * (kind.ratio or 1)) for kind in growing)
    return int(usable // block), size, -int(-fixed // block)


def _basis(name: str | None, request: ResolvedRequest, notes: list[Assumption]) -> Basis:
    """Which step times are simulated: the estimate where kernels were measured, else the bound."""
    if name not in (None, "estimate", "bound"):
        raise UnknownNameError("basis", name, ("estimate", "bound"), list_all=True)
    measured = request.estimator.applies
    if name == "estimate" and not measured:
        raise InputError(f"--basis estimate: no kernels of {request.hardware.name} were measured; the bound is known")
    if name == "bound" or not measured:
        why = "no kernel is faster than the hardware, and the engine adds nothing: no server is as quick"
        notes.append(Assumption("basis", "bound", "given" if name else "assumed", why))
        return "bound"
    notes.append(Assumption("basis", "estimate", "given" if name else "default", "estimated step times of kernels and engine"))
    return "estimate"
