"""The search: parallel sizes that a model and its hardware allow, and the rate that a replica of each serves.

In disaggregated serving one pool computes a prompt, its keys and values are sent to the other, and that decodes the output:
neither waits for the other's steps. The first token counts when the cache has arrived: KV bytes of the prompt over the links of
the devices of a replica, each of which sends its part. Sending does not occupy a step.

Source: Splitwise, arXiv:2311.18677, section 4; DistServe, arXiv:2401.09670, section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from roofline.blocks.model import Model
from roofline.errors import RooflineError
from roofline.graph.sharding import check_parallel, communication_groups
from roofline.predict.drafts import resolve
from roofline.predict.efficiency.estimate import Estimator
from roofline.predict.memory import largest
from roofline.predict.request import PhaseName, ResolvedRequest, Workload
from roofline.predict.speculation import Speculation
from roofline.serving.kv_transfer import cache_bytes, cache_link
from roofline.serving.planning.batch import size_for_batch
from roofline.serving.planning.load import MAX_DEVICES, Load, Query
from roofline.serving.planning.prefix_cache import PrefixCacheModel, distinct, prefix_cache_model
from roofline.serving.planning.sizing import Role, SizedReplica, size_replica
from roofline.serving.queueing.replica import Replica
from roofline.specs.deployment import Deployment
from roofline.specs.hardware import Hardware
from roofline.specs.workload import Segment, Step, decode, prefill

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


Layout = dict[str, int]
SIZES = {
    "tp": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "dp": "data_parallel_size",
    "ep": "expert_parallel_size",
    "cp": "context_parallel_size",
}
_POWERS = (1, 2, 4, 8, 16)
_IN_A_NODE = 8
_RANKS = (8, 16, 32, 64, 128)
"""Data-parallel ranks that share the experts; DeepSeek serves with 32 and 144, of which 144 takes redundant experts."""


def layouts(model: Model, hardware: Hardware, fixed: dict[str, Any], most: int) -> Iterator[Layout]:
    """Yield the parallel sizes of up to `most` devices that the model and the links allow, smallest first.

    * tensor parallelism within a node;
    * pipelines of 2 and 4 stages of devices without a link (pipelines communicate least), or of whole nodes;
    * MoE models: experts divided over the tensor-parallel devices;
    * MoE models: data-parallel attention with the experts over all devices (`dp` = `ep` = 8 to 128).

    Context parallelism is only used if it is given.

    Args:
        model: the model.
        hardware: an accelerator or node.
        fixed: options of `analyze`; parallel sizes among them are not searched.
        most: maximum devices of a replica.

    Yields:
        Sizes above 1 by short name: `tp`, `pp`, `dp`, `ep`, `cp`.
    """
    given = {short: int(fixed[long]) for short, long in SIZES.items() if fixed.get(long) is not None}
    experts = any(
        block.experts is not None for block in model.blocks
    )  # fmt: skip
    node = hardware.node.count if hardware.node is not None else _IN_A_NODE
    linked = bool(hardware.node.links if hardware.node is not None else hardware.accelerator.links)
    seen: set[tuple[int, ...]] = set()
    wanted: list[Layout] = []
    for sizes in _wanted(experts, linked, node, given):
        layout = sizes | given
        if "dp" in given and "ep" not in given and sizes["ep"] > 1:
            layout["ep"] = layout["tp"] * layout["dp"]
        wanted.append(layout)
    for layout in sorted(wanted, key=lambda one: (_devices(one), one["pp"], one["dp"], one["ep"])):
        key = tuple(layout.get(name, 1) for name in SIZES)
        if key not in seen and _devices(layout) <= most and _works(model, hardware, layout):
            seen.add(key)
            yield {name: size for name, size in layout.items() if size > 1}


def _wanted(experts: bool, linked: bool, node: int, given: Layout) -> Iterator[Layout]:
    for tp in (given["tp"],) if "tp" in given else (size for size in _POWERS if size <= node):
        stages = (1, 2, 4) if not linked or tp == node else (1,)
        for pp in stages:
            if linked or tp * pp <= node:
                for ep in {1, tp} if experts else {1}:
                    yield {"tp": tp, "pp": pp, "dp": 1, "ep": ep}
    if experts and given.get("tp", 1) == 1:
        for ranks in _RANKS:
            yield {"tp": 1, "pp": 1, "dp": ranks, "ep": ranks}


def _devices(sizes: Layout) -> int:
    return sizes["tp"] * sizes["pp"] * sizes["dp"] * sizes.get("cp", 1)


def _works(model: Model, hardware: Hardware, sizes: Layout) -> bool:
    """Whether the model can be divided into these sizes, and links join the devices of each group."""
    fields = {SIZES[name]: size for name, size in sizes.items() if size > 1}
    try:
        deployment = Deployment(**fields)
        check_parallel(model, deployment)
        for group in communication_groups(deployment):
            hardware.connection(group)
    except RooflineError:
        return False
    return True


BUDGETS = (2048, 8192, 512)
"""Token budgets per step: the engines' defaults on smaller and larger devices, and a small one for short steps."""
BATCH_LIMITS = (128, 32)
"""Batch limits that are tried below what memory holds."""
_OFFLINE_LIMITS = (*BATCH_LIMITS, 8, 1)
"""Likewise for offline work with an objective for TPOT."""
MAX_SLOTS = 1024
"""The largest `max_num_seqs` that is planned: the engines' default."""
_TRANSFER_LENGTHS = 12


@dataclass(frozen=True)
class Option:
    """A deployment that fits, with its replica in each role that is searched.

    Args:
        hardware: the hardware.
        precision: name of the precision.
        layout: parallel sizes above 1.
        sized: the replica by role.
        after_s: per class, seconds to transfer the cache of each prompt; () if colocated.
        longest: tokens of the longest sequence.
        fixed: the options that it was made from, as keywords of `analyze`.
    """

    hardware: Hardware
    precision: str
    layout: Layout
    sized: dict[Role, SizedReplica]
    after_s: tuple[Any, ...]
    longest: int
    fixed: dict[str, Any]

    @property
    def devices(self) -> int:
        """Devices of one replica."""
        return next(iter(self.sized.values())).replica.request.deployment.devices


@dataclass(frozen=True)
class RejectedLayout:
    """A deployment that holds no request, or that was refused; `error`: what was wrong with a given option; `fits`: memory
    holds it."""

    hardware: Hardware
    precision: str
    layout: Layout
    why: str
    weights_bytes: float | None = None
    budget_bytes: float | None = None
    error: RooflineError | None = None
    fits: bool = False


def search(query: Query) -> Iterator[Option | RejectedLayout]:
    """Yield every deployment of a query, hardware by precision by layout: sized if it fits, else with the reason.

    Options that contradict each other are no exception here: each deployment with them is a `RejectedLayout` with its `error`.
    """
    for hardware in query.hardware:
        known: dict[str, Estimator] = {}  # fits are looked up once for each kind of hardware
        most = min(query.devices(hardware), MAX_DEVICES)
        tried = list(layouts(query.model, hardware, query.fixed, most))
        for precision in _precisions(query, hardware):
            for layout in tried:
                fixed = {**query.fixed, **precision.options, **{SIZES[name]: size for name, size in layout.items()}}
                yield _option(query, hardware, precision, fixed, layout, known)
            if not tried:
                yield _no_layout(query, hardware, precision.name, most)


def _no_layout(query: Query, hardware: Hardware, precision: str, most: int) -> RejectedLayout:
    """Why no layout is left to try."""
    if most < 1:
        return RejectedLayout(hardware, precision, {}, f"there are none of {hardware.name}")
    try:
        devices = resolve(query.model, hardware, **query.fixed, input_len=1, phase="decode")[0].deployment.devices
    except RooflineError as error:
        return RejectedLayout(hardware, precision, {}, str(error), error=error)
    return RejectedLayout(hardware, precision, {}, f"a replica as given takes {devices} devices, and {most} are allowed")


class _Precision(NamedTuple):
    """Formats to try: their name, the model with them (or a checkpoint of it), and what options say of them."""

    name: str
    model: Model
    options: dict[str, Any]


def _precisions(query: Query, hardware: Hardware) -> Iterator[_Precision]:
    """As in the model's file, and where the hardware multiplies them the published checkpoints that the file names.

    Without one in a byte also weights that are converted to fp8 when they are loaded. With `fp8_kv_cache` each of these with a
    cache in fp8 too.
    """
    for one in _weight_formats(query, hardware):
        yield one
        if query.fp8_kv_cache and _kv_dtype(one.model) != "fp8":
            yield one._replace(name=f"{one.name}, fp8 KV", options={**one.options, "kv_cache_dtype": "fp8"})


def _kv_dtype(model: Model) -> str | None:
    return next((scheme.kv_cache_dtype for scheme in model.quantization if scheme.kv_cache_dtype is not None), None)


def _weight_formats(query: Query, hardware: Hardware) -> Iterator[_Precision]:
    fixed, model = query.fixed, query.model
    given = [str(fixed[name]) for name in ("dtype", "quantization") if fixed.get(name) is not None]
    if (bits := fixed.get("bits_per_weight")) is not None:
        given.append(f"{float(bits):g}-bit")
    if given:
        yield _Precision("/".join(name for name in given if name != "none") or model.dtype, model, {})
        return
    multiplied = hardware.accelerator.peak_flops
    published = model.quantization
    yield _Precision(published[0].name if published else model.dtype, model, {})
    one_byte = bool(published)
    for checkpoint in model.checkpoints:
        multiply = {scheme.format.multiply for scheme in checkpoint.quantization}
        if multiply <= multiplied.keys():
            one_byte = one_byte or multiply == {"fp8"}
            yield _Precision(checkpoint.quantization[0].name, model.as_checkpoint(checkpoint), {})
    if not one_byte and "fp8" in multiplied:
        yield _Precision("fp8", model, {"quantization": "fp8"})


def _option(
    query: Query, hardware: Hardware, formats: _Precision, fixed: dict[str, Any], layout: Layout, known: dict[str, Estimator]
) -> Option | RejectedLayout:
    load, precision = query.load, formats.name
    ranks = int(fixed.get("data_parallel_size") or 1)
    try:
        request, speculation = resolve_replica(
            formats.model, hardware, {**fixed, "batch": ranks, "input_len": 1, "phase": "decode"}
        )
    except RooflineError as error:
        return RejectedLayout(hardware, precision, layout, str(error), error=error)
    request = replace(request, estimator=known.setdefault(hardware.name, request.estimator))
    wanted = int(fixed.get("max_model_len") or min(load.longest, query.model.max_position_embeddings))
    budgets = [request.memory.max_num_batched_tokens] if fixed.get("max_num_batched_tokens") else list(BUDGETS)
    step_tokens = 1 if speculation is None else 1 + speculation.options.tokens
    held = [
        (budget, min(slots, budget // step_tokens)) for budget in budgets
        if (slots := slots_in_memory(_with_settings(request, None, budget), load)) and budget >= step_tokens
    ]  # fmt: skip
    if not held or longest_held(_with_settings(request, None, held[0][0]), wanted) < wanted:
        return _unfit(request, hardware, precision, layout, load, wanted, fits=bool(held))
    limit = fixed.get("max_num_seqs")
    settings = [(min(slots, int(limit)) if limit else slots, budget) for budget, slots in held]
    first, budget = settings[0]
    if not limit and load.concurrency is None:
        settings += [(slots, budget) for slots in BATCH_LIMITS if slots < first]
    if query.batch is not None and not limit and any(service.tpot for service in load.services):
        settings += [(slots, budget) for slots in _OFFLINE_LIMITS if slots < first]
    replica = Replica(
        request, max(slots for slots, _ in settings), tuple(dict.fromkeys(budget for _, budget in settings)),
        query.attention_dp_balance, speculation,
    )  # fmt: skip
    memory_slots = max(slots for _, slots in held)
    sized: dict[Role, SizedReplica] = {}
    after: tuple[Any, ...] = ()
    caches = prefix_cache(request, load, wanted)
    if query.batch is not None:
        sized["both"] = size_for_batch(replica, load, settings, memory_slots, caches)
    elif "colocated" in query.modes:
        tried = settings[:1] if load.concurrency is not None else settings
        sized["both"] = size_replica(replica, load, tried, memory_slots, prefix_cache=caches)
    link = cache_link(hardware) if "disaggregated" in query.modes and load.concurrency is None else None
    if link is not None and load.mean_output > 1:
        after = _transfer_s(request, load, link[1])
        largest = max(settings[: len(held)], key=lambda setting: setting[1])
        sized["prefill"] = size_replica(replica, load, [largest], memory_slots, "prefill", after)
        sized["decode"] = size_replica(replica, load, settings[:1], memory_slots, "decode")
    if not sized:
        why = "outputs of one token leave a decode pool nothing to do: --mode colocated has none"
        if link is None:
            why = (
                "its prefill and decode pools have no known link between them: --mode colocated needs none, or give a file of "
            )
            why += "a node with its network"
        return RejectedLayout(hardware, precision, layout, why, fits=True)
    return Option(hardware, precision, layout, {role: with_chosen(one) for role, one in sized.items()}, after, wanted, fixed)


def resolve_replica(model: Model, hardware: Hardware, options: dict[str, Any]) -> tuple[ResolvedRequest, Speculation | None]:
    """Return a deployment with its speculative decoding; None where no tokens are drafted.

    Raises:
        RooflineError: options that are wrong for the model or the hardware.
    """
    request, speculation = resolve(model, hardware, **options)
    return request, speculation if speculation is not None and speculation.options.tokens else None


def with_chosen(sized: SizedReplica) -> SizedReplica:
    """The replica with its slots and token budget in its request, for engine flags and `analyze`."""
    replica = replace(sized.replica, request=_with_settings(sized.replica.request, sized.slots, sized.budget))
    return replace(sized, replica=replica)


def _with_settings(request: ResolvedRequest, slots: int | None, budget: int) -> ResolvedRequest:
    """The request with `slots` slots per rank (None: no limit) and `budget` tokens per step."""
    deployment = request.deployment.model_copy(update={"max_num_batched_tokens": budget, "max_num_seqs": slots})
    memory = replace(request.memory, deployment=deployment, max_num_batched_tokens=budget)
    return replace(request, deployment=deployment, memory=memory)


def _unfit(
    request: ResolvedRequest, hardware: Hardware, precision: str, layout: Layout, load: Load, wanted: int, *, fits: bool
) -> RejectedLayout:
    part = request.memory.fullest_stage
    gib = 2**30
    why = f"weights take {part.loaded_bytes / gib:.1f} GiB of the {part.budget_bytes / gib:.1f} GiB that a device has for it"
    if fits:
        why = f"one request of {wanted:,} tokens does not fit beside the weights"
    elif part.loaded_bytes < part.budget_bytes:
        why += f", and no request of {load.mean_input + load.mean_output:,.0f} tokens fits beside them"
    return RejectedLayout(hardware, precision, layout, why, part.loaded_bytes, part.budget_bytes)


def prefix_cache(request: ResolvedRequest, load: Load, longest: int) -> Callable[[int], PrefixCacheModel] | None:
    """What makes the KV cache of a replica at a token budget; None where requests have no prompts that it retains, or a model
    has layers whose blocks are not found again.

    Args:
        request: the deployment.
        load: the requests.
        longest: tokens of the longest sequence.
    """
    if not load.retained or not caches_prefixes(request):
        return None
    from roofline.serving.preemption.costs import replica_bytes
    from roofline.serving.simulation.server import kv_cache_blocks  # takes time to load

    def model(budget: int) -> PrefixCacheModel:
        memory, ranks = _with_settings(request, None, budget).memory, request.deployment.data_parallel_size
        step = (Segment(ranks, min(budget, longest), 0),)
        blocks = min(kv_cache_blocks(stage, float(stage.usable_bytes(step)), longest) for stage in memory.stages)
        return prefix_cache_model(
            load.retained, blocks.num_gpu_blocks, blocks.block_size, replica_bytes(request, blocks.block_size), ranks
        )

    return model


def caches_prefixes(request: ResolvedRequest) -> bool:
    """Whether prompts find cached blocks: of layers that keep all tokens. Windows and states have rules of their own."""
    layouts = [layout for stage in request.memory.stages for layout in stage.layouts]
    return all(not layout.state_bytes and all(kind.window is kind.chunk is None for kind in layout.kinds) for layout in layouts)


def slots_in_memory(request: ResolvedRequest, load: Load) -> int:
    """Requests of mean length, each at its last token, that memory holds per rank, as `analyze` computes; 0: none.

    Blocks of a system prompt exist once, however many of them run.

    NB: most running requests are not at their last token; what they leave free serves those longer than the mean.
    """
    ranks = request.deployment.data_parallel_size
    if any(turns.conversation.system_prompt for _, turns in load.retained) and caches_prefixes(request):
        return largest(lambda slots: _sharing_requests_fit(request, load, slots), MAX_SLOTS)
    context = round(load.mean_input + load.mean_output) - 1
    slots = min(MAX_SLOTS * ranks, request.memory.max_batch(context)) // ranks
    while slots and not _mean_requests(request, load, slots).all_fit():
        slots = int(slots * 0.98)
    return slots


def _sharing_requests_fit(request: ResolvedRequest, load: Load, slots: int) -> bool:
    """Whether memory holds `slots` requests of mean lengths per rank, of which those with the same system prompt share it."""
    context = round(load.mean_input + load.mean_output) - 1
    for part in request.memory.stages:
        shared = 0.0
        for mix, turns in load.retained:
            running, one = slots * mix.share, turns.conversation
            size = sum(float(layout.shared(one.system_prompt, context)) for layout in part.layouts)
            shared += max(running - distinct(running, one.system_prompts), 0.0) * size
        for _, step in _mean_requests(request, load, slots).memory_steps():
            if float(part.needed_bytes(step)) - shared > float(part.usable_bytes(step)):
                return False
    return True


def _mean_requests(request: ResolvedRequest, load: Load, slots: int) -> ResolvedRequest:
    """The analysis of `slots` requests of mean lengths per rank, from the prompt to the last token."""
    batch = slots * request.deployment.data_parallel_size
    prompt, output = round(load.mean_input), round(load.mean_output)
    steps: tuple[tuple[PhaseName, Step], ...] = (("prefill", prefill(batch, prompt)), ("decode", decode(batch, prompt)))
    return replace(request, workload=Workload(batch, prompt, output, prompt, steps))


def longest_held(request: ResolvedRequest, wanted: int) -> int:
    """Tokens of the longest sequence, up to `wanted`, that every rank holds alone: engines refuse to start with more."""
    most = request.memory.max_context(request.deployment.data_parallel_size)
    return wanted if most is None else min(wanted, most + 1)


def _transfer_s(request: ResolvedRequest, load: Load, rate: float) -> tuple[Array, ...]:
    """Seconds to send the cache of each prompt, (K,) per class: the part of the fullest device at `rate` bytes/s."""
    import numpy as np

    seconds = []
    for service in load.services:
        lengths = np.unique(service.mix.prompts)
        some = lengths[np.unique(np.linspace(0, len(lengths) - 1, _TRANSFER_LENGTHS).round().astype(int))]
        size = [cache_bytes(request, int(length)) for length in some]
        seconds.append(np.interp(service.mix.prompts, some, size) / rate)
    return tuple(seconds)
