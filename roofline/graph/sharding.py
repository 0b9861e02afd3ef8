"""What one device has: its layers, its part of each block, its tokens, and what it caches; sizes that do not work are
refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from roofline.blocks.base import Block, Cache, MixerBlock, Sharding, State
from roofline.blocks.model import Model
from roofline.errors import InputError
from roofline.numeric import Expr, ceil_div, ratio
from roofline.specs.deployment import Deployment
from roofline.specs.engine import CacheKind
from roofline.specs.workload import Step, tokens

B = TypeVar("B", bound=Block)


@dataclass(frozen=True, slots=True)
class Stage:
    """Consecutive layers on the devices of one pipeline stage; `index` from 0, `first` and `last` of the pipeline."""

    index: int
    layers: tuple[tuple[str, int], ...]
    """How many layers of each type, in the order in which the types first appear."""
    first: bool
    last: bool


def stages(model: Model, size: int) -> tuple[Stage, ...]:
    """The pipeline stages of a model, first to last.

    All have the same number of layers; what is left over goes one each to the stages before the last, as vLLM does (the last
    stage has the LM head).

    Args:
        model: its layers.
        size: number of stages.

    Raises:
        InputError: there are more stages than layers.
    """
    sequence = model.layer_sequence
    if size > len(sequence):
        msg = f"pipeline-parallel size {size} is more than the layers of {model.name}; allowed: 1 to {len(sequence)}"
        raise InputError(msg)
    lengths = [len(sequence) // size] * size
    for extra in range(len(sequence) % size):
        lengths[-2 - extra] += 1
    pieces, start = [], 0
    for index, length in enumerate(lengths):
        counts = Counter(sequence[start : start + length])
        pieces.append(Stage(index, tuple(counts.items()), first=index == 0, last=index == size - 1))
        start += length
    return tuple(pieces)


def check_parallel(model: Model, deployment: Deployment) -> None:
    """Refuse parallel sizes that no engine could run.

    Raises:
        InputError: a size does not divide what it has to, or is not modelled for the model; it lists those that work.
    """
    tp = deployment.tensor_parallel_size
    if deployment.sequence_parallel and tp == 1:
        raise InputError("sequence parallelism divides tokens over tensor-parallel devices: use a tensor-parallel size above 1")
    if deployment.context_parallel_size > 1:
        _check_context(model, deployment)
    if deployment.decode_context_parallel_size > 1:
        _check_decode_context(model, deployment)
    if deployment.pipeline_parallel_size > 1 and any(mixer.reads_earlier_cache for mixer in model.mixers):
        msg = f"layers of {model.name} read an earlier layer's cache, maybe another stage's: use pipeline-parallel size 1"
        raise InputError(msg)
    if deployment.pipeline_parallel_size > 1 and any(layer.shared_weights for layer in model.layer_types.values()):
        msg = f"layers of {model.name} run several times, and with the weights of another stage: use pipeline-parallel size 1"
        raise InputError(msg)
    blocks = model.blocks
    if bad := next((problem for block in blocks if (problem := _tensor_problem(block, tp))), None):
        limit = max(
            getattr(block, name) for block in blocks
            for name, rule in block.sharding.items() if rule in ("exact", "replicate")
        )  # fmt: skip
        works = [size for size in range(1, limit + 1) if not any(_tensor_problem(block, size) for block in blocks)]
        msg = f"tensor-parallel size {tp} does not work for {model.name}: {bad}. Sizes that work: {_listed(works)}"
        raise InputError(msg)
    _check_experts(model, deployment)


def _check_experts(model: Model, deployment: Deployment) -> None:
    """Refuse sizes over which the experts of a model cannot be divided."""
    tp, dp, ep = deployment.tensor_parallel_size, deployment.data_parallel_size, deployment.expert_parallel_size
    if deployment.moe_tp is not None:
        _check_expert_tensor(model, deployment)
    if ep > 1:
        counts = {block.experts[0] for block in model.blocks if block.experts is not None}
        if not counts:
            msg = f"expert-parallel size {ep} needs experts, and {model.name} has none: use 1"
            raise InputError(msg)
        group, copies, each = tp * dp, deployment.num_redundant_experts, deployment.moe_tp or 1
        works = [
            size for size in range(1, group + 1)
            if group % (size * each) == 0 and (tp % (size * each) == 0 or size * each % tp == 0)
            and all((count + copies) % size == 0 for count in counts)
        ]  # fmt: skip
        if ep * each > tp and any(layer.parallel for layer in model.layer_types.values()):
            msg = f"expert-parallel size {ep} over several replicas is not modelled for parallel layers: use at most {tp}"
            raise InputError(msg)
        if ep not in works:
            what = "/".join(str(count + copies) for count in sorted(counts))
            slots = "experts and copies" if copies else "experts"
            msg = (
                f"expert-parallel size {ep} does not work: it must divide the {what} {slots} and the {group} devices of "
                f"tensor x data parallelism, whole replicas or parts of one. Sizes that work here: {_listed(works)}"
            )
            if not copies and group % (ep * each) == 0 and (tp % (ep * each) == 0 or ep * each % tp == 0):
                msg += f"; or --num-redundant-experts {min(-count % ep for count in counts)}"
            raise InputError(msg)
    elif deployment.num_redundant_experts:
        raise InputError("copies of experts are on devices that share the experts: use an expert-parallel size above 1")


def _check_expert_tensor(model: Model, deployment: Deployment) -> None:
    """Refuse a number of devices for each expert that leaves devices without experts."""
    tp, dp, ep = deployment.tensor_parallel_size, deployment.data_parallel_size, deployment.expert_parallel_size
    if not any(block.experts is not None for block in model.blocks):
        raise InputError(f"--moe-tp {deployment.moe_tp} divides experts, and {model.name} has none: leave it out")
    works = [size for size in range(1, tp * dp + 1) if size * ep % tp == 0 and tp * dp % (size * ep) == 0]
    if deployment.moe_tp not in works:
        msg = f"--moe-tp {deployment.moe_tp} does not work: moe-tp x ep {ep} must be whole replicas of tp {tp}, and divide the "
        raise InputError(
            f"{msg}{tp * dp} devices of tensor x data parallelism. Sizes that work here: {_listed(works) or 'none'}"
        )


def _check_context(model: Model, deployment: Deployment) -> None:
    """Refuse to divide the tokens of sequences where that is not modelled."""
    size = deployment.context_parallel_size
    why = next((why for mixer in model.mixers if (why := mixer.why_undivided())), None)
    if why is not None:
        raise InputError(f"context-parallel size {size} is not modelled for {model.name}: {why}. Use 1")
    if deployment.conventions.shared_prefix:
        raise InputError(f"context-parallel size {size} is not modelled with a shared prefix: use 1, or no --shared-prefix")
    if deployment.expert_devices > deployment.tensor_parallel_size:
        at_most = f"use an expert-parallel size of at most {deployment.tensor_parallel_size}"
        msg = f"context-parallel size {size} is not modelled with experts exchanged between replicas: {at_most}"
        raise InputError(msg)


def _check_decode_context(model: Model, deployment: Deployment) -> None:
    """Refuse to divide the cached tokens over tensor-parallel devices that do not have the same KV heads, or where that is not
    modelled."""
    size, tp = deployment.decode_context_parallel_size, deployment.tensor_parallel_size
    what = f"decode-context-parallel size {size}"
    why = next((why for mixer in model.mixers if (why := mixer.why_undivided())), None)
    if why is not None:
        raise InputError(f"{what} is not modelled for {model.name}: {why}. Use 1")
    if deployment.context_parallel_size > 1 or deployment.conventions.shared_prefix:
        other = "context parallelism of prompts" if deployment.context_parallel_size > 1 else "a shared prefix"
        raise InputError(f"{what} is not modelled with {other}: use 1, or leave that out")
    if deployment.conventions.mla == "expand" and any(mixer.cache_replicated for mixer in model.mixers):
        raise InputError(f"{what} needs absorbed attention of decoded tokens: leave out --mla expand")
    copies = [_cache_copies(mixer, tp) for mixer in model.mixers]
    works = [number for number in range(1, tp + 1) if all(count % number == 0 for count in copies)]
    if size not in works:
        msg = f"{what} does not work: it must divide the {min(copies)} tensor-parallel devices that hold the same KV heads. "
        raise InputError(f"{msg}Sizes that work here: {_listed(works)}")


def _cache_copies(mixer: MixerBlock, tp: int) -> int:
    """Tensor-parallel devices that have the same part of the KV cache."""
    if mixer.cache_replicated:
        return tp
    replicated = [getattr(mixer, name) for name, rule in mixer.sharding.items() if rule == "replicate"]
    return min((max(tp // value, 1) for value in replicated), default=1)


def communication_groups(deployment: Deployment) -> list[int]:
    """Sizes of the groups of devices that exchange data, above 1: tensor, context, expert and pipeline parallelism.

    Of groups whose members are apart (pipeline and context parallelism) the devices in between are counted too.
    """
    tp, group = deployment.tensor_parallel_size, deployment.expert_devices
    stage = tp * deployment.context_parallel_size
    pipeline = [2 * stage] if deployment.pipeline_parallel_size > 1 else []
    context = [stage] if stage > tp else []
    return [size for size in (tp, *context, group if group > tp else 1, *pipeline) if size > 1]


def device_tokens(step: Step, deployment: Deployment) -> Expr:
    """New tokens that a device of one replica works on.

    Context parallelism divides the tokens of a prompt; a decoded token is computed on every device of the group.

    Args:
        step: segments of one replica.
        deployment: its parallel sizes.
    """
    ranks = deployment.context_parallel_size
    if ranks == 1:
        return tokens(step)
    return sum(segment.tokens if segment.decode else ratio(segment.tokens, ranks) for segment in step)


def stream_tokens(step: Step, deployment: Deployment) -> Expr:
    """Tokens whose residual stream a device has: `device_tokens`, with sequence parallelism its share of them."""
    count = device_tokens(step, deployment)
    return ratio(count, deployment.tensor_parallel_size) if deployment.sequence_parallel else count


def _tensor_problem(block: Block, size: int) -> str | None:
    for name, rule in block.sharding.items():
        value = getattr(block, name)
        if rule == "exact" and value % size:
            return f"it must divide {name} ({value})"
        if rule == "replicate" and value % size and size % value:
            return f"it must divide, or be a multiple of, {name} ({value})"
    return None


def _listed(sizes: list[int]) -> str:
    return ", ".join(map(str, sizes))


def shard_block(block: B, deployment: Deployment) -> B:
    """A block as one tensor-parallel device sees it: the dimensions in `sharding` divided, rounded up where uneven."""
    tp, of_expert = deployment.tensor_parallel_size, deployment.expert_tensor_size
    if tp == of_expert == 1:
        return block
    sizes: dict[Sharding, int] = {"exact": tp, "replicate": tp, "split": tp, "experts": of_expert}
    divided = {name: ceil_div(getattr(block, name), sizes[rule]) for name, rule in block.sharding.items()}
    return block.model_copy(update=divided)


def replicated_dimensions(model: Model, deployment: Deployment) -> list[tuple[str, str]]:
    """Layer types and keys of dimensions smaller than the tensor-parallel size (KV heads), of which devices hold copies."""
    tp = deployment.tensor_parallel_size
    mixers = ((name, layer.mixer) for name, layer in model.layer_types.items() if layer.mixer is not None)
    return [
        (name, key) for name, mixer in mixers
        for key, rule in mixer.sharding.items() if rule == "replicate" and getattr(mixer, key) < tp
    ]  # fmt: skip


def caches(model: Model, deployment: Deployment, stage: Stage | None = None) -> list[tuple[Cache, int]]:
    """The KV caches of the layers of a stage on one device, each with the number of layers that have it.

    Context-parallel devices, and tensor-parallel ones with the same KV heads, may divide the tokens of a sequence: each cache
    then has its share of every token's elements, on average.

    Args:
        model: its layers.
        deployment: parallel sizes.
        stage: default: the whole model as one stage.
    """
    ranks = deployment.context_parallel_size * deployment.decode_context_parallel_size
    layers = [(cache, count) for block, count in _mixers(model, deployment, stage) for cache in block.caches()]
    if ranks == 1:
        return layers
    return [(replace(cache, elements=ratio(cache.elements, ranks)), count) for cache, count in layers]


def cache_kinds(model: Model) -> set[CacheKind]:
    """The kinds of cache in the layers of a model ("full", "window", "state", ...), as the rules of engines name them."""
    return {word for block, _ in _mixers(model, Deployment(), None) for word in block.cache_kinds()}


def states(model: Model, deployment: Deployment, stage: Stage | None = None) -> list[tuple[State, int]]:
    """The recurrent states of the layers of a stage on one device, each with the number of layers that have it.

    Args:
        model: its layers.
        deployment: parallel sizes.
        stage: default: the whole model as one stage.
    """
    mixers = _mixers(model, deployment, stage)
    return [(state, count) for block, count in mixers if (state := block.state()) is not None]


def _mixers(model: Model, deployment: Deployment, stage: Stage | None) -> Iterator[tuple[MixerBlock, int]]:
    for name, count in (stage or stages(model, 1)[0]).layers:
        mixer = model.layer_types[name].mixer
        if mixer is not None:
            yield shard_block(mixer, deployment), count
