"""The server that is simulated: replicas of a deployment, their limits, and how each of them schedules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from roofline import formatting
from roofline.errors import InputError, RooflineError, UnknownNameError
from roofline.predict.memory import StageMemory
from roofline.predict.request import ResolvedRequest, prepare
from roofline.serving.preemption.copies import HostCopyOptions
from roofline.serving.queueing.replica import HOLD_STEPS
from roofline.serving.simulation.kv_cache import EngineConfig
from roofline.serving.simulation.preemption import PreemptionPolicy, preemption_policy
from roofline.serving.simulation.router import ROUTERS
from roofline.serving.simulation.scheduler import SchedulingPolicy
from roofline.serving.simulation.schedulers import SCHEDULERS
from roofline.serving.simulation.step_tables import StepTables, tables_of
from roofline.serving.simulation.step_time import Basis
from roofline.serving.simulation.workload import MAX_UNFINISHED
from roofline.specs.library import Input
from roofline.specs.source import Assumption, Origin
from roofline.specs.workload import Segment
from roofline.units import parse_count

if TYPE_CHECKING:
    from roofline.serving.simulation.pools import CacheTransfer

DEFAULT_SCHEDULER = "vllm-v1"
MAX_NUM_SEQS = 256
"""vLLM's default (its server has 1,024 on GPUs of 70 GiB and more)."""
MAX_REPLICAS = 10_000
"""Replicas of a run: each has a state of its own."""


Role = Literal["both", "prefill", "decode"]


class OutOfKVBlocksError(RooflineError):
    """Not one KV cache block fits beside the weights."""


@dataclass(frozen=True)
class ServerConfig:
    """Configuration of the simulated server: replicas of one deployment behind a router.

    Args:
        request: the deployment of each replica.
        scheduler: how each replica forms its steps.
        config: limits of each replica, its KV capacity (`num_gpu_blocks`) among them.
        max_model_len: tokens of the longest sequence, prompt and output.
        tables: seconds of the steps of a replica.
        preemption: what preempting does with a cache.
        replicas: their number.
        router: name of what deals requests to them.
        stepwise: form every step on its own.
        attention_dp_balance: prompts are held until every data-parallel rank can start one.
        pools: of replicas that are not all alike; the rest is of the last of them then, but for `replicas`. None: all are.
        transfer: how caches move from the prefill pool to the decode pool; None: there are no such pools.
        inputs: files of the pools besides those of `request`.
    """

    request: ResolvedRequest
    scheduler: SchedulingPolicy
    config: EngineConfig
    max_model_len: int
    tables: StepTables
    preemption: PreemptionPolicy
    replicas: int
    router: str
    stepwise: bool = False
    attention_dp_balance: bool = False
    pools: tuple[Pool, ...] = ()
    transfer: CacheTransfer | None = None
    inputs: tuple[Input, ...] = ()

    @property
    def devices(self) -> int:
        """Devices of all replicas."""
        parts = [pool.server for pool in self.pools] or [self]
        return sum(part.replicas * part.request.deployment.devices for part in parts)


@dataclass(frozen=True)
class Pool:
    """Replicas of one deployment among others.

    Args:
        name: of the pool.
        role: whether they compute prompts, decode, or do both.
        server: their configuration.
    """

    name: str
    role: Role
    server: ServerConfig


def resolve_replica(model: Any, hardware: Any, deployment: dict[str, Any]) -> ResolvedRequest:
    """Return the deployment of each replica.

    Args:
        model: a shipped id, the path of a file, or a loaded model.
        hardware: likewise.
        deployment: the options of `roofline analyze` that describe a deployment.

    Raises:
        roofline.errors.RooflineError: an unknown name, a wrong value, an option that is not simulated (a shared prefix,
            data-parallel ranks that do not share experts, or in a pipeline).
    """
    request = prepare(model, hardware, **deployment, batch=1, input_len=1, context=1)
    sizes = request.deployment
    if (ranks := sizes.data_parallel_size) > 1:
        if sizes.expert_parallel_size <= sizes.tensor_parallel_size:
            raise InputError("--data-parallel-size: ranks that share no experts are independent of each other; give --replicas")
        if sizes.pipeline_parallel_size > 1:
            raise InputError("--data-parallel-size: ranks that step together are not simulated in a pipeline")
        request = prepare(model, hardware, **deployment, batch=ranks, input_len=1, context=1)
    if request.deployment.conventions.shared_prefix:
        raise InputError("--shared-prefix is of one step: give --system-prompt, the tokens that requests have in common")
    return request


def resolve_server(
    request: ResolvedRequest, *, scheduler: str | None, preemption: str | None, basis: str | None,
    replicas: Any, router: str | None, stepwise: bool, notes: list[Assumption], num_gpu_blocks_override: Any = None,
    host_options: HostCopyOptions | None = None, enable_prefix_caching: bool | None = None, attention_dp_balance: bool = False,
    shares: bool = False,
) -> ServerConfig:  # fmt: skip
    """Return the configuration of a server from the options of `simulate`.

    Args:
        request: the deployment of each replica.
        scheduler: name of a policy; None: the engine's, else `vllm-v1`.
        preemption: `recompute`, `swap` or `cheaper`; None: `recompute`.
        basis: `estimate` or `bound` of step times; None: the estimate where kernels were measured.
        replicas: number of replicas; None: 1.
        router: name of a router; None: `round-robin`.
        stepwise: form every step on its own.
        notes: gets what is assumed.
        num_gpu_blocks_override: KV cache blocks of a replica; None: those that fit in memory.
        host_options: of copies to the host.
        enable_prefix_caching: blocks stay cached until they are taken for others; None: where prompts have something in common.
        attention_dp_balance: hold prompts until every data-parallel rank can start one.
        shares: whether prompts have something in common.

    Raises:
        OutOfKVBlocksError: not one KV cache block fits beside the weights.
        InputError: an unknown name, a wrong value.
    """
    policy = SCHEDULERS[scheduler or request.engine.scheduler or DEFAULT_SCHEDULER]
    notes.append(Assumption("scheduler", policy.name, "given" if scheduler else "default", policy.about))
    caching = shares if enable_prefix_caching is None else enable_prefix_caching
    config = engine_config(request, policy, notes, num_gpu_blocks_override, enable_prefix_caching=caching)
    step_basis = _basis(basis, request, notes)
    num_replicas = 1 if replicas is None else parse_count(replicas, "--replicas", minimum=1)
    if num_replicas > MAX_REPLICAS:
        raise InputError(
            f"--replicas must be at most {MAX_REPLICAS:,}, not {num_replicas:,}: all are the same, so simulate a part of them "
            "under its part of the load"
        )
    dealt = ROUTERS[router or "round-robin"].name
    ranks = request.deployment.data_parallel_size
    if attention_dp_balance and ranks == 1:
        raise InputError("--attention-dp-balance: there is one data-parallel rank; give --data-parallel-size")
    if ranks > 1:
        why = (
            f"prompts are held until every rank can start one, for at most {HOLD_STEPS} steps" if attention_dp_balance
            else "a rank starts a prompt when it has one, and all ranks wait for it"
        )  # fmt: skip
        origin: Origin = "given" if attention_dp_balance else "default"
        notes.append(Assumption("attention_dp_balance", attention_dp_balance, origin, why))
    if num_replicas * ranks > 1 and router is None:
        notes.append(Assumption("router", dealt, "default", "requests are dealt to the replicas in turn"))
    notes.append(_prefix_caching(enable_prefix_caching, config, shares=shares))
    longest = max_model_len(request)
    return ServerConfig(
        request=request,
        scheduler=policy,
        config=config,
        max_model_len=longest,
        # a sequence that runs has a block at least
        tables=tables_of(request, step_basis, longest, min(config.max_num_seqs, config.num_gpu_blocks, MAX_UNFINISHED)),
        preemption=preemption_policy(request, preemption, notes, host_options),
        replicas=num_replicas,
        router=dealt,
        stepwise=stepwise,
        attention_dp_balance=attention_dp_balance,
    )


def _prefix_caching(given: bool | None, config: EngineConfig, *, shares: bool) -> Assumption:
    """What is assumed of the prefix cache."""
    if not config.enable_prefix_caching:
        why = "no prompt finds its tokens cached (but for --prefix-hit), nor does one that is computed again"
        return Assumption("prefix_caching", False, "default" if given is None else "given", why)
    if config.num_fixed_blocks:
        why = "not simulated for layers with a state or a window, whose blocks are found by rules of their own"
        return Assumption("prefix_caching", False, "assumed", why)
    why = "blocks stay cached until they are taken, the least recently used first"
    why += "" if shares else "; a preempted request finds its own, and prompts have nothing in common"
    return Assumption("prefix_caching", True, "default" if given is None else "given", why)


def max_model_len(request: ResolvedRequest) -> int:
    """Return the tokens of the longest sequence, prompt and output: the deployment's limit, else the model's."""
    return request.deployment.max_model_len or request.model.max_position_embeddings


def engine_config(
    request: ResolvedRequest, policy: SchedulingPolicy, notes: list[Assumption], num_gpu_blocks_override: Any = None, *,
    enable_prefix_caching: bool = False,
) -> EngineConfig:  # fmt: skip
    """Return the limits of a replica; its KV cache blocks are those of the pipeline stage with the fewest.

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
    if budget * deployment.pipeline_parallel_size < max_num_seqs:
        msg = f"--max-num-batched-tokens {budget:,} is less than the {max_num_seqs:,} sequences that may run (--max-num-seqs)"
        raise InputError(f"{msg}: each of them takes a token per step")
    longest = max_model_len(request)
    step = (Segment(deployment.data_parallel_size, min(budget, longest), 0),)
    usable = [stage.usable_bytes(step) for stage in request.memory.stages]
    stages = zip(request.memory.stages, usable, strict=True)
    num_gpu_blocks, size, num_fixed = min(kv_cache_blocks(stage, num_bytes, longest) for stage, num_bytes in stages)
    if num_gpu_blocks < 1:
        left = min(usable)
        why = f"{formatting.binary(max(left, 0))} are left for the KV cache" if left > 0 else "the weights alone do not fit"
        raise OutOfKVBlocksError(
            f"{request.model.name} does not run on {request.hardware.name}: {why}; roofline analyze says what would fit"
        )
    if num_gpu_blocks_override is not None:
        without_activations = (
            kv_cache_blocks(stage, stage.capacity - stage.loaded_bytes, longest) for stage in request.memory.stages
        )
        num_gpu_blocks = _override(num_gpu_blocks_override, min(without_activations).num_gpu_blocks, size)
        notes.append(Assumption("blocks", num_gpu_blocks, "given", f"of {size} tokens, in a replica"))
    elif num_fixed:
        why = f"of {size} tokens, {num_fixed} of them for what a sequence has beside its tokens (state, full windows)"
        notes.append(Assumption("blocks", num_gpu_blocks, "assumed", why))
    else:
        notes.append(Assumption("blocks", num_gpu_blocks, "default", f"of {size} tokens, in a replica"))
    microbatches = deployment.pipeline_parallel_size
    return EngineConfig(
        num_gpu_blocks, size, max_num_seqs, budget * microbatches, num_fixed, enable_prefix_caching, microbatches,
        uncached_first=request.engine.name == "sglang",
    )  # fmt: skip


def _override(override: Any, max_blocks: int, size: int) -> int:
    """The blocks given by the user; `max_blocks` fill the memory beside the weights."""
    num_blocks = parse_count(override, "--num-gpu-blocks-override", minimum=1)
    if num_blocks > max_blocks:
        raise InputError(
            f"--num-gpu-blocks-override {num_blocks:,}: at most {max_blocks:,} blocks of {size} tokens fit beside the weights"
        )
    return num_blocks


class KVCacheBlocks(NamedTuple):
    """KV capacity of a device in blocks, as vLLM counts them.

    Args:
        num_gpu_blocks: blocks that fit in its memory.
        block_size: tokens per block.
        num_fixed_blocks: blocks of each sequence for what does not grow with its tokens (a state, full windows).
    """

    num_gpu_blocks: int
    block_size: int
    num_fixed_blocks: int


def kv_cache_blocks(stage: StageMemory, usable_bytes: float, max_model_len: int) -> KVCacheBlocks:
    """The KV cache blocks that fit in some bytes of a device.

    Where all layers cache all tokens, the block is the engine's. Else it has the bytes of the layers that cache all tokens, and
    windows, chunks and states count as fixed blocks. Without a layer that caches all tokens, one block holds a sequence.

    Args:
        stage: the device's pipeline stage.
        usable_bytes: memory for the KV cache, bytes; may be negative, then no block fits.
        max_model_len: tokens of the longest sequence, prompt and output.
    """
    layout = stage.layout
    growing = [kind for kind in layout.kinds if kind.window is kind.chunk is None]
    others = [kind for kind in layout.kinds if kind not in growing]
    # a window or chunk, once it is full, on the way to a step of one token
    fixed = layout.state_bytes + sum(kind.blocks(max_model_len, 1) * kind.block_bytes for kind in others)
    if not growing:  # a sequence takes the same, however long it is
        return KVCacheBlocks(int(usable_bytes // fixed) if fixed else 2**40, max_model_len, 0)
    size = growing[0].block * (growing[0].ratio or 1)
    block = sum(kind.block_bytes * size / (kind.block * (kind.ratio or 1)) for kind in growing)
    return KVCacheBlocks(int(usable_bytes // block), size, -int(-fixed // block))


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
