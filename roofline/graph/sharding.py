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
    """Consecutive layers on the devices of one pipeline stage."""

    index: int
    layers: tuple[tuple[str, int], ...]
    """How many layers of each type, in the order in which the types first appear."""
    first: bool
    last: bool


def stages(model: Model, size: int) -> tuple[Stage, ...]:
    """Layers cut into `size` stages of equal length; what is left over goes one each to the last stages but one, as
    vLLM does (the last stage has the LM head)."""
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
    tp, dp, ep = deployment.tensor_parallel_size, deployment.data_parallel_size, deployment.expert_parallel_size
    if deployment.sequence_parallel and tp == 1:
        raise InputError("sequence parallelism divides tokens over tensor-parallel devices: use a tensor-parallel size above 1")
    if deployment.context_parallel_size > 1:
        _check_context(model, deployment)
    if deployment.pipeline_parallel_size > 1 and any(mixer.reads_earlier_cache for mixer in model.mixers):
        msg = f"layers of {model.name} read an earlier layer's cache, maybe another stage's: use pipeline-parallel size 1"
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
    if ep > 1:
        counts = {block.experts[0] for block in blocks if block.experts is not None}
        if not counts:
            msg = f"expert-parallel size {ep} needs experts, and {model.name} has none: use 1"
            raise InputError(msg)
        group = tp * dp
        works = [
            size for size in range(1, group + 1)
            if group % size == 0 and (tp % size == 0 or size % tp == 0) and all(count % size == 0 for count in counts)
        ]  # fmt: skip
        if ep > tp and any(layer.parallel for layer in model.layer_types.values()):
            msg = f"expert-parallel size {ep} over several replicas is not modelled for parallel layers: use at most {tp}"
            raise InputError(msg)
        if ep not in works:
            what = "/".join(str(count) for count in sorted(counts))
            msg = (
                f"expert-parallel size {ep} does not work: it must divide the {what} experts and the {group} devices of "
                f"tensor x data parallelism, whole replicas or parts of one. Sizes that work here: {_listed(works)}"
            )
            raise InputError(msg)


def _check_context(model: Model, deployment: Deployment) -> None:
    """Refuse to divide the tokens of sequences where that is not modelled."""
    size = deployment.context_parallel_size
    why = next((why for mixer in model.mixers if (why := mixer.why_undivided())), None)
    if why is not None:
        raise InputError(f"context-parallel size {size} is not modelled for {model.name}: {why}. Use 1")
    if deployment.conventions.shared_prefix:
        raise InputError(f"context-parallel size {size} is not modelled with a shared prefix: use 1, or no --shared-prefix")
    if deployment.expert_parallel_size > deployment.tensor_parallel_size:
        at_most = f"use an expert-parallel size of at most {deployment.tensor_parallel_size}"
        msg = f"context-parallel size {size} is not modelled with experts exchanged between replicas: {at_most}"
        raise InputError(msg)


def communicating(deployment: Deployment) -> list[int]:
    """Sizes of the groups of devices that exchange data; of groups whose members lie apart, with those in between."""
    tp, ep = deployment.tensor_parallel_size, deployment.expert_parallel_size
    stage = tp * deployment.context_parallel_size
    pipeline = [2 * stage] if deployment.pipeline_parallel_size > 1 else []
    context = [stage] if stage > tp else []
    return [size for size in (tp, *context, ep if ep > tp else 1, *pipeline) if size > 1]


def device_tokens(step: Step, deployment: Deployment) -> Expr:
    """New tokens that a device of one replica works on: a prompt is divided by context parallelism, a decoded token is not."""
    ranks = deployment.context_parallel_size
    if ranks == 1:
        return tokens(step)
    return sum(segment.tokens if segment.decode else ratio(segment.tokens, ranks) for segment in step)


def stream_tokens(step: Step, deployment: Deployment) -> Expr:
    """Those of them whose residual stream it has: a part, with sequence parallelism."""
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
    """A block as one tensor-parallel device sees it: the dimensions of `sharding` divided, the largest part where uneven."""
    tp, ep = deployment.tensor_parallel_size, deployment.expert_parallel_size
    if tp == 1:
        return block
    sizes: dict[Sharding, int] = {"exact": tp, "replicate": tp, "split": tp, "experts": max(tp // ep, 1)}
    divided = {name: ceil_div(getattr(block, name), sizes[rule]) for name, rule in block.sharding.items()}
    return block.model_copy(update=divided)


def replicated(model: Model, deployment: Deployment) -> list[tuple[str, str]]:
    """Layer types, and the key of what they have fewer of than tensor-parallel devices, so that each is held several times."""
    tp = deployment.tensor_parallel_size
    mixers = ((name, layer.mixer) for name, layer in model.layer_types.items() if layer.mixer is not None)
    return [
        (name, key) for name, mixer in mixers
        for key, rule in mixer.sharding.items() if rule == "replicate" and getattr(mixer, key) < tp
    ]  # fmt: skip


def caches(model: Model, deployment: Deployment, stage: Stage | None = None) -> list[tuple[Cache, int]]:
    """What the layers of a stage keep of each token on one device, and how many layers keep that. Where devices divide the
    tokens of a sequence, each keeps its share of every token, on average."""
    ranks = deployment.context_parallel_size
    layers = [(cache, count) for block, count in _mixers(model, deployment, stage) for cache in block.caches()]
    if ranks == 1:
        return layers
    return [(replace(cache, elements=ratio(cache.elements, ranks)), count) for cache, count in layers]


def cache_kinds(model: Model) -> set[CacheKind]:
    """What the layers of a model keep of sequences, in the words of engines' rules."""
    return {word for block, _ in _mixers(model, Deployment(), None) for word in block.cache_kinds()}


def states(model: Model, deployment: Deployment, stage: Stage | None = None) -> list[tuple[State, int]]:
    """What the layers of a stage keep of each sequence on one device, and how many layers keep that."""
    mixers = _mixers(model, deployment, stage)
    return [(state, count) for block, count in mixers if (state := block.state()) is not None]


def _mixers(model: Model, deployment: Deployment, stage: Stage | None) -> Iterator[tuple[MixerBlock, int]]:
    for name, count in (stage or stages(model, 1)[0]).layers:
        mixer = model.layer_types[name].mixer
        if mixer is not None:
            yield shard_block(mixer, deployment), count
