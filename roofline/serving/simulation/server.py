"""The server that is simulated: replicas of a deployment, their limits, and how each of them schedules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from roofline import formatting
from roofline.errors import InputError, RooflineError, UnknownNameError
from roofline.predict.drafts import resolve
from roofline.predict.memory import StageMemory
from roofline.predict.request import ResolvedRequest
from roofline.predict.speculation import Speculation
from roofline.serving.preemption.copies import HostCopyOptions
from roofline.serving.queueing.replica import HOLD_STEPS
from roofline.serving.queueing.rounds import RoundLengths
from roofline.serving.simulation.admission import ADMISSION, ADMIT_ALL, Admission, parse_admission
from roofline.serving.simulation.autoscaling import parse_autoscale, start_up
from roofline.serving.simulation.candidates import CANDIDATES
from roofline.serving.simulation.failures import parse_failures
from roofline.serving.simulation.fleet import FleetConfig
from roofline.serving.simulation.kv_cache import EngineConfig, SpeculativeRounds
from roofline.serving.simulation.kv_offload import OffloadConfig, resolve_offload
from roofline.serving.simulation.lora import LoraConfig, resolve_lora
from roofline.serving.simulation.preemption import PreemptionPolicy, preemption_policy
from roofline.serving.simulation.queues import Aged, ShortestFirst
from roofline.serving.simulation.router import ROUTERS
from roofline.serving.simulation.scheduler import SchedulingPolicy
from roofline.serving.simulation.schedulers import SCHEDULERS
from roofline.serving.simulation.speculative_tables import SpeculativeTables
from roofline.serving.simulation.step_tables import StepTables, tables_of
from roofline.serving.simulation.step_time import Basis
from roofline.serving.simulation.workload import MAX_UNFINISHED
from roofline.serving.traffic.scalars import number, parse_seconds
from roofline.specs.library import Input
from roofline.specs.source import Assumption, Origin
from roofline.specs.workload import Segment
from roofline.units import parse_count

if TYPE_CHECKING:
    from roofline.serving.simulation.pools import CacheTransfer

DEFAULT_SCHEDULER = "vllm-v1"
MAX_NUM_SEQS = 256
"""vLLM's default (its server has 1,024 on GPUs of 70 GiB and more)."""
_MAX_LENGTH_ERROR = 5.0
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
        replicas: their number; of a fleet that changes, at the start.
        router: name of what deals requests to them.
        stepwise: form every step on its own.
        attention_dp_balance: prompts are held until every data-parallel rank can start one.
        fleet: how the replicas change; None: they do not.
        offload: tiers of the KV cache beside the device's; None: none.
        speculation: the model with its draft; None: no tokens are drafted.
        admission: which requests may wait.
        lora: adapters of the requests; None: they have none.
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
    fleet: FleetConfig | None = None
    offload: OffloadConfig | None = None
    lora: LoraConfig | None = None
    speculation: Speculation | None = None
    admission: Admission = ADMIT_ALL
    pools: tuple[Pool, ...] = ()
    transfer: CacheTransfer | None = None
    inputs: tuple[Input, ...] = ()

    @property
    def parts(self) -> Sequence[ServerConfig]:
        """The configuration of each pool; this one, where there are none."""
        return [pool.server for pool in self.pools] or [self]

    @property
    def devices(self) -> int:
        """Devices of all replicas."""
        return sum(part.replicas * part.request.deployment.devices for part in self.parts)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOptions:
    """Options of `simulate` that change a scheduler, as the user gave them; None: as the scheduler has it.

    Args:
        length_error: of predicted output lengths, by which requests are ordered.
        max_wait: seconds after which a request goes first.
        preemption_candidate: name of the way to choose the request that is preempted.
        admission: spelling of the way to admit requests.
        objective: whether some class has an objective for TTFT.
        retries_at_once: whether clients send their next request as soon as one is turned away.
    """

    length_error: Any = None
    max_wait: Any = None
    preemption_candidate: str | None = None
    admission: Any = None
    objective: bool = False
    retries_at_once: bool = False

    def applied(self, policy: SchedulingPolicy, notes: list[Assumption]) -> SchedulingPolicy:
        """Return a scheduler with these options.

        Raises:
            InputError: a wrong value, or an option that means nothing to the scheduler.
        """
        queue: Any = policy.queue
        if self.length_error is not None:
            error = _flag("--length-error", lambda: number(self.length_error, "a number from 0 to 5, such as 0.5"))
            if not 0 <= error <= _MAX_LENGTH_ERROR:
                raise InputError(f"--length-error: must be from 0 to {_MAX_LENGTH_ERROR:g}, not {error:g}")
            if not isinstance(queue, ShortestFirst):
                raise InputError(f"--length-error: {policy.name} does not order requests by their length; give --scheduler sjf")
            queue = replace(queue, length_error=error)
            why = "standard deviation of the logarithm of predicted over true output tokens, drawn by request and seed"
            notes.append(Assumption("length_error", error, "given", why))
        elif isinstance(queue, ShortestFirst):
            notes.append(Assumption("length_error", 0.0, "default", "the scheduler knows how long outputs will be"))
        if self.max_wait is not None:
            seconds = _flag("--max-wait", lambda: parse_seconds(self.max_wait))
            if policy.queue().fifo:
                raise InputError(
                    f"--max-wait: {policy.name} is first come, first served: no request is passed by a later one; it is of "
                    "schedulers with another order, such as sjf, priority and fair"
                )
            queue = Aged(queue, seconds)
            notes.append(
                Assumption("max_wait", seconds, "given", "s from arrival, after which a request goes before all others")
            )
        if self.preemption_candidate is not None:
            candidate = CANDIDATES[self.preemption_candidate]
            if policy.reserves_output:
                raise InputError(f"--preemption-candidate: {policy.name} reserves all blocks of a request: none is preempted")
            policy = replace(policy, preemption_candidate=candidate.choose)
            notes.append(Assumption("preemption_candidate", candidate.name, "given", candidate.about))
        return policy if queue is policy.queue else replace(policy, queue=queue)

    def parsed_admission(self, notes: list[Assumption]) -> Admission:
        """Return the way to admit requests.

        Raises:
            InputError: a wrong spelling, no objective that it needs, clients that would send again and again.
        """
        if self.admission is None:
            return ADMIT_ALL
        admission = parse_admission(str(self.admission))
        if admission.needs_objective and not self.objective:
            raise InputError(f"--admission {admission.text}: within which TTFT? Give --ttft, or ttft of a class of the traffic")
        if self.retries_at_once and (admission.control or admission.gate):
            raise InputError(
                f"--admission {admission.text}: clients that are turned away would send their next request at the same moment: "
                "give them a pause, such as --workload closed:32:1s, or a rate"
            )
        notes.append(
            Assumption("admission", admission.text, "given", ADMISSION[admission.text.partition(":")[0].strip()].about)
        )
        return admission


def _flag(name: str, parse: Callable[[], float]) -> float:
    try:
        return parse()
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def resolve_replica(model: Any, hardware: Any, deployment: dict[str, Any]) -> ResolvedRequest:
    """Return the deployment of each replica, as `resolve_speculative_replica`, of which no tokens are drafted.

    Raises:
        roofline.errors.RooflineError: as there, and options of speculative decoding.
    """
    request, speculation = resolve_speculative_replica(model, hardware, deployment)
    if speculation is not None:
        raise InputError("speculative decoding is simulated by `simulate`, not here: leave out its options")
    return request


def resolve_speculative_replica(
    model: Any, hardware: Any, deployment: dict[str, Any]
) -> tuple[ResolvedRequest, Speculation | None]:
    """Return the deployment of each replica, and its speculative decoding.

    Args:
        model: a shipped id, the path of a file, or a loaded model.
        hardware: likewise.
        deployment: the options of `roofline analyze` that describe a deployment.

    Raises:
        roofline.errors.RooflineError: an unknown name, a wrong value, an option that is not simulated (a shared prefix,
            data-parallel ranks that do not share experts, or in a pipeline).
    """
    request, speculation = resolve(model, hardware, **deployment, batch=1, input_len=1, context=1)
    sizes = request.deployment
    if (ranks := sizes.data_parallel_size) > 1:
        if sizes.expert_parallel_size <= sizes.tensor_parallel_size:
            raise InputError("--data-parallel-size: ranks that share no experts are independent of each other; give --replicas")
        if sizes.pipeline_parallel_size > 1:
            raise InputError("--data-parallel-size: ranks that step together are not simulated in a pipeline")
        request, speculation = resolve(model, hardware, **deployment, batch=ranks, input_len=1, context=1)
    if request.deployment.conventions.shared_prefix:
        raise InputError("--shared-prefix is of one step: give --system-prompt, the tokens that requests have in common")
    if speculation is not None and not speculation.options.tokens:
        speculation = None  # no drafts: the model alone
    return request, speculation


def resolve_server(
    request: ResolvedRequest, *, scheduler: str | None, preemption: str | None, basis: str | None,
    replicas: Any, router: str | None, stepwise: bool, notes: list[Assumption], num_gpu_blocks_override: Any = None,
    host_options: HostCopyOptions | None = None, enable_prefix_caching: bool | None = None, attention_dp_balance: bool = False,
    shares: bool = False, autoscale: Any = None, failures: Any = None, kv_offload: Any = None,
    speculation: Speculation | None = None, policies: PolicyOptions | None = None, lora_adapters: Any = None,
    max_loras: Any = None, max_cpu_loras: Any = None, max_lora_rank: Any = None, adapters: Sequence[str | None] = (),
) -> ServerConfig:  # fmt: skip
    """Return the configuration of a server from the options of `simulate`.

    Args:
        request: the deployment of each replica.
        scheduler: name of a policy; None: the engine's, else `vllm-v1`.
        preemption: `recompute`, `swap` or `cheaper`; None: `recompute`.
        basis: `estimate` or `bound` of step times; None: the estimate where kernels were measured.
        replicas: number of replicas; None: 1, or as many as `autoscale` keeps at least.
        router: name of a router; None: `round-robin`.
        stepwise: form every step on its own.
        notes: gets what is assumed.
        num_gpu_blocks_override: KV cache blocks of a replica; None: those that fit in memory.
        host_options: of copies to the host.
        enable_prefix_caching: blocks stay cached until they are taken for others; None: where prompts have something in common.
        attention_dp_balance: hold prompts until every data-parallel rank can start one.
        shares: whether prompts have something in common.
        autoscale: settings of `parse_autoscale`; None: the number of replicas is fixed.
        failures: settings of `parse_failures`; None: no replica fails.
        kv_offload: size of a host tier per replica, or a file of KV cache tiers; None: none.
        speculation: the model with its draft.
        policies: order, admission and preemption candidate where they are not the scheduler's.
        lora_adapters: of `parse_adapters`; None: requests have none. The next three are of `resolve_lora`.
        max_loras: different adapters in a batch.
        max_cpu_loras: adapters in the host's memory.
        max_lora_rank: of every adapter.
        adapters: of each class of requests.

    Raises:
        OutOfKVBlocksError: not one KV cache block fits beside the weights.
        InputError: an unknown name, a wrong value.
    """
    policy = SCHEDULERS[scheduler or request.engine.scheduler or DEFAULT_SCHEDULER]
    notes.append(Assumption("scheduler", policy.name, "given" if scheduler else "default", policy.about))
    policies = policies or PolicyOptions()
    policy, admission = policies.applied(policy, notes), policies.parsed_admission(notes)
    caching = shares or kv_offload is not None if enable_prefix_caching is None else enable_prefix_caching
    host = host_options or HostCopyOptions()
    lora = resolve_lora(
        request, lora_adapters, max_loras=max_loras, max_cpu_loras=max_cpu_loras, max_lora_rank=max_lora_rank, host=host,
        notes=notes, names=adapters,
    )  # fmt: skip
    if lora is not None:
        host_options = _of_adapters(host, preemption)
    config = engine_config(
        request, policy, notes, num_gpu_blocks_override, enable_prefix_caching=caching, speculation=speculation,
        slot_bytes=0.0 if lora is None else lora.slot_bytes,
    )  # fmt: skip
    step_basis = _basis(basis, request, notes)
    num_replicas = 1 if replicas is None else parse_count(replicas, "--replicas", minimum=1)
    if num_replicas > MAX_REPLICAS:
        raise InputError(
            f"--replicas must be at most {MAX_REPLICAS:,}, not {num_replicas:,}: all are the same, so simulate a part of them "
            "under its part of the load"
        )
    fleet = resolve_fleet(request, autoscale, failures, None if replicas is None else num_replicas, notes)
    num_replicas = num_replicas if fleet is None else fleet.replicas
    dealt = ROUTERS[router or "round-robin"].name
    if dealt == "lora-aware" and lora is None:
        raise InputError("--router lora-aware: requests have no adapters; give --lora-adapters")
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
    if (num_replicas * ranks > 1 or autoscale is not None) and router is None:
        notes.append(Assumption("router", dealt, "default", "requests are dealt to the replicas in turn"))
    notes.append(_prefix_caching(enable_prefix_caching, config, shares=shares))
    longest = max_model_len(request)
    offload = None
    if kv_offload is not None:
        offload = resolve_offload(kv_offload, request, config, policy, host_options or HostCopyOptions(), notes)
        host_options = None
    return ServerConfig(
        request=request,
        scheduler=policy,
        config=config,
        max_model_len=longest,
        # a sequence that runs has a block at least
        tables=_tables(
            request, step_basis, longest, min(config.max_num_seqs, config.num_gpu_blocks, MAX_UNFINISHED), speculation
        ),
        preemption=preemption_policy(request, preemption, notes, host_options),
        replicas=num_replicas,
        router=dealt,
        stepwise=stepwise,
        attention_dp_balance=attention_dp_balance,
        fleet=fleet,
        offload=offload,
        speculation=speculation,
        admission=admission,
        lora=lora,
    )


def _of_adapters(host: HostCopyOptions, preemption: str | None) -> HostCopyOptions | None:
    """Options of copies of caches, where those to the host are of adapters."""
    if preemption not in (None, "recompute"):
        raise InputError(f"--preemption {preemption}: adapters of requests that come back from the host are not modeled")
    return replace(host, host_link=None, pinned=True, gpus_per_link=1)


def resolve_fleet(
    request: ResolvedRequest, autoscale: Any, failures: Any, replicas: int | None, notes: list[Assumption]
) -> FleetConfig | None:
    """Return how the replicas of a deployment change; None if they do not.

    Args:
        request: the deployment of a replica.
        autoscale: settings of `parse_autoscale`, or None.
        failures: settings of `parse_failures`, or None.
        replicas: at the start; None: the fewest of `autoscale`, else 1.
        notes: gets what is assumed.

    Raises:
        InputError: a wrong value; replicas outside the limits of the autoscaler; a failure of a replica that does not exist.
    """
    if autoscale is None and failures is None:
        return None
    scale = None if autoscale is None else parse_autoscale(autoscale, request, notes)
    if scale is not None and replicas is not None and not scale.min <= replicas <= scale.max:
        limits = f"from {scale.min:,} to {scale.max:,}"
        raise InputError(f"--replicas {replicas:,}: with --autoscale it is the number at the start, {limits}")
    num_replicas = replicas if replicas is not None else 1 if scale is None else scale.min
    fail = None
    if failures is not None:

        def repair() -> float:
            seconds = scale.start_up if scale is not None else start_up(request, {}, notes)
            notes.append(Assumption("failures.repair", f"{seconds:.3g} s", "default", "as a replica takes to start"))
            return seconds

        fail = parse_failures(failures, repair)
        if scale is None and (absent := [index for _, index in fail.at if index >= num_replicas]):
            raise InputError(f"--failures: there is no replica {absent[0]:,}; they are numbered from 0 to {num_replicas - 1:,}")
        why = "a retried request computes its tokens so far with its prompt, and goes on after them"
        if fail.resume == "restart":
            why = "a retried request generates all its tokens again; TTFT counts up to the first that the client saw"
        notes.append(Assumption("failures.resume", fail.resume, "default" if fail.resume == "restart" else "given", why))
    return FleetConfig(replicas=num_replicas, autoscale=scale, failures=fail)


def _tables(
    request: ResolvedRequest, basis: Basis, max_model_len: int, max_num_seqs: int, speculation: Speculation | None
) -> StepTables:
    """The tables of a deployment; in `shared_tables` those of an earlier run of the same."""
    if speculation is None:
        return tables_of(request, basis, max_model_len, max_num_seqs)
    return tables_of(
        request, basis, max_model_len, max_num_seqs, lambda *args: SpeculativeTables(*args, speculation=speculation)
    )


def _rounds(speculation: Speculation, notes: list[Assumption]) -> SpeculativeRounds:
    """The rounds of a replica. NB: vLLM looks ahead for drafts of a model, not for n-grams."""
    options = speculation.options
    ahead = 0 if options.method == "ngram" else options.tokens
    why = "slots of a sequence in a round beyond its next token: the drafted ones, and as many that the draft writes"
    notes.append(Assumption("lookahead_slots", options.tokens + ahead, "default", why if ahead else "the drafted tokens"))
    why = "rounds until the last token are drawn per request, its tokens spread evenly over them; ITL is between rounds"
    notes.append(Assumption("speculative_rounds", "drawn", "default", why))
    return SpeculativeRounds(RoundLengths(options.tokens, options.acceptance), ahead)


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
    enable_prefix_caching: bool = False, speculation: Speculation | None = None, slot_bytes: float = 0.0,
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
        speculation: the model with its draft, which `request` has the memory of.
        slot_bytes: of each device, for adapters.

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
    rounds = None if speculation is None else _rounds(speculation, notes)
    num_tokens = 1 if rounds is None else rounds.num_step_tokens
    if budget * deployment.pipeline_parallel_size < max_num_seqs * num_tokens:
        if num_tokens > 1:
            raise InputError(
                f"--max-num-batched-tokens {budget:,} is less than the {max_num_seqs * num_tokens:,} tokens that rounds of "
                f"{max_num_seqs:,} sequences (--max-num-seqs) verify, {num_tokens} each: raise it, or lower --max-num-seqs"
            )
        msg = f"--max-num-batched-tokens {budget:,} is less than the {max_num_seqs:,} sequences that may run (--max-num-seqs)"
        raise InputError(f"{msg}: each of them takes a token per step")
    longest = max_model_len(request)
    step = (Segment(deployment.data_parallel_size, min(budget, longest), 0),)
    usable = [stage.usable_bytes(step) - slot_bytes for stage in request.memory.stages]
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
            kv_cache_blocks(stage, stage.capacity - stage.loaded_bytes - slot_bytes, longest) for stage in request.memory.stages
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
        uncached_first=request.engine.name == "sglang", speculation=rounds,
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

    Where all layers cache all tokens, the block is the engine's; it holds the draft's tokens too. Else it has the bytes of the
    layers that cache all tokens, and windows, chunks and states count as fixed blocks. Without a layer that caches all tokens,
    one block holds a sequence.

    Args:
        stage: the device's pipeline stage.
        usable_bytes: memory for the KV cache, bytes; may be negative, then no block fits.
        max_model_len: tokens of the longest sequence, prompt and output.
    """
    kinds = [kind for layout in stage.layouts for kind in layout.kinds]
    growing = [kind for kind in kinds if kind.window is kind.chunk is None]
    others = [kind for kind in kinds if kind not in growing]
    # a window or chunk, once it is full, on the way to a step of one token
    fixed = sum(layout.state_bytes for layout in stage.layouts) + sum(
        kind.blocks(max_model_len, 1) * kind.block_bytes for kind in others
    )
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
