"""The tensors of a checkpoint beside those that its model should have: which match, which are missing, which are left over."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod

from roofline.blocks.checkpoint import Tensor, tensors
from roofline.blocks.gguf import separate_part
from roofline.blocks.model import Model
from roofline.blocks.precision import resolve_precision
from roofline.dtypes import FORMATS, Precision, parse_dtype
from roofline.graph.build import CANONICAL, build
from roofline.predict.memory import weights_by_path
from roofline.predict.parameters import count_parameters
from roofline.specs.deployment import Deployment
from roofline.specs.gguf.header import Gguf
from roofline.specs.huggingface.names import names
from roofline.specs.huggingface.safetensors import QUANTIZATION_TENSORS, Checkpoint, Stored

# What stands in checkpoints and is not of the language model's parameters, by what it is.
_NOT_LANGUAGE = {
    "vision and audio": re.compile(
        r"(^|\.)(\w*vision\w*|visual|\w*image\w*|\w*audio\w*|\w*speech\w*|vit\w*|sam\w*|resampler|perceive)\."
        r"|projector|(^|\.)(mm_|connector\.)"
    ),
    "multi-token prediction": re.compile(r"(^|\.)(mtp|nextn|model_mtp)\w*\.|\.(eh_proj|enorm|hnorm)\."),
    "buffers": re.compile(
        r"inv_freq$|\.(masked_bias|position_ids|slope_rate|layer_scalar|tid2eid)$|\.attn(\.attention)?\.bias$|\.attention\.bias$"
        r"|_decay$|rotary_emb\.|act_fn\.(beta|eps)$|_extra_state$"
    ),
    "router corrections": re.compile(
        r"(?<!moe_statics\.)(?<!mlp\.experts\.)e_score_correction_bias$|\.router_bias$|\.ffn\.gate\.bias$|\.expert_bias$"
    ),
}
_LAYER = re.compile(r"^(.*?)(?P<list>layers|h|blocks)\.(?P<index>\d+)\.")
# Scales of a quantised KV cache. No config says whether a checkpoint has them: ModelOpt writes them since some release.
_KV_SCALES = re.compile(r"[._](k|v)_scale$")
_KV_SCALES_ARE = "scales of the KV cache"
# Names under which packed weights stand instead of NAME.weight, or of NAME.
_PACKED = (".qweight", ".weight_packed", "_blocks", "_packed")


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of comparing a checkpoint with its model.

    `known` says whether the names of the family are known: without them only totals are compared. `matched`, `packed` and
    `beside`
    count tensors: plain ones, packed ones, and scales and the like. `apart` counts tensors outside the language model by what
    they
    are. `predicted_bytes`, `stored_bytes` and `total_size` (of the index) are bytes. `problems` are sentences; none if all is
    well.
    """

    known: bool
    matched: int = 0
    packed: int = 0
    beside: int = 0
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    wrong_shape: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...] = ()
    apart: dict[str, int] = field(default_factory=dict)
    predicted_bytes: float = 0
    stored_bytes: int | None = None
    total_size: int | None = None
    other_dtypes: dict[str, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Return whether everything matches."""
        return not self.problems


def compare(model: Model, checkpoint: Checkpoint) -> Comparison:
    """Compare the tensors of a checkpoint with those that its model should have, under the naming scheme that fits best.

    Args:
        model: as the repository's file describes it.
        checkpoint: names, shapes and dtypes of stored tensors.
    """
    precision, _ = resolve_precision(model, Deployment(), FORMATS)
    ways = [_Matching(model, precision, checkpoint, list(tensors(model, way))) for way in names(model.family)]
    best = (
        min(ways, key=lambda way: len(way.missing) + len(way.extra)) if ways else _Matching(model, precision, checkpoint, None)
    )
    return best.comparison()


@dataclass(frozen=True, slots=True)
class GgufComparison:
    """A GGUF file beside the model that was read from it.

    `tensors` and `matched` are numbers of tensors, in all and of the language model's weights; `apart` counts the others by
    what they are; sizes are of the language model's weights, in bytes.
    """

    tensors: int
    matched: int
    parts: int
    apart: dict[str, int]
    predicted_bytes: float
    stored_bytes: int
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Return whether the sizes are equal."""
        return not self.problems


def compare_gguf(model: Model, file: Gguf) -> GgufComparison:
    """Compare the bytes of a GGUF file's tensors with those that the operators of its model hold.

    Args:
        model: as it was read from the file, which has matched every tensor with a weight.
        file: its header.
    """
    precision, _ = resolve_precision(model, Deployment(), FORMATS)
    predicted = float(sum(weights_by_path(build(model, Deployment(), precision, CANONICAL)).values()))
    separate = {name: what for name in file.tensors if (what := separate_part(name, model)) is not None}
    stored = sum(tensor.bytes for name, tensor in file.tensors.items() if name not in separate)
    problems = []
    if abs(stored - predicted) > 0.5:
        problems.append(f"{predicted:,.0f} bytes are predicted, {stored:,} are stored ({stored - predicted:+,.0f})")
    counts = dict(Counter(separate.values()))
    return GgufComparison(
        len(file.tensors), len(file.tensors) - len(separate), file.parts, counts, predicted, stored, tuple(problems)
    )


class _Matching:
    """A checkpoint matched with the tensors that a model should have; None: their names are not known."""

    def __init__(self, model: Model, precision: Precision, checkpoint: Checkpoint, wanted: list[Tensor] | None) -> None:
        self.model, self.precision, self.checkpoint = model, precision, checkpoint
        self.known = wanted is not None
        named = {tensor.name for tensor in wanted or []}
        self.separate = {
            name: what for name in checkpoint.tensors if name not in named and (what := _not_language(name, model)) is not None
        }
        left = {name for name in checkpoint.tensors if name not in self.separate}
        self.matched: list[tuple[Tensor, str]] = []
        self.packed: list[tuple[Tensor, str]] = []
        self.missing: list[str] = []
        self.wrong: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = []
        for tensor, name in _aligned(wanted or [], left, model.num_hidden_layers):
            self._place(tensor, name, left)
        if model.tie_word_embeddings:
            copies = {name for name in left if name.rpartition("lm_head.weight")[1] or name == "output.weight"}
            self.separate |= dict.fromkeys(copies, "LM head of a model whose embeddings are tied")
            left -= copies
        cache = {name for name in left if self.known and _KV_SCALES.search(name)}
        self.separate |= dict.fromkeys(cache, _KV_SCALES_ARE)
        left -= cache
        self.scales = {name for name in left if self.known and QUANTIZATION_TENSORS.search(name)}
        self.extra = sorted(left - self.scales) if self.known else []
        self.unnamed = set() if self.known else left

    def _place(self, tensor: Tensor, name: str, left: set[str]) -> None:
        base = name.removesuffix(".weight")
        packed = next((base + ending for ending in _PACKED if base + ending in left), None)
        if packed is not None:
            left.discard(packed)
            self._packed(tensor, packed)
        elif name not in left:
            self.missing.append(name)
        else:
            left.discard(name)
            stored = self.checkpoint.tensors[name]
            if stored is None or _same(tensor.shape, stored.shape):
                self.matched.append((tensor, name))
            elif tensor.role and self._format(tensor) != self.model.dtype:
                self._packed(tensor, name)  # as bitsandbytes and ModelOpt write packed weights
            else:
                self.wrong.append((name, tensor.shape, stored.shape))

    def _format(self, tensor: Tensor) -> str:
        return self.precision.dtypes(tensor.role).weight.name

    def _packed(self, tensor: Tensor, name: str) -> None:
        """A tensor of packed elements: its bytes say whether they are as many as they should be."""
        stored = self.checkpoint.tensors[name]
        size = tensor.elements * self.precision.dtypes(tensor.role).weight.bytes
        if stored is None or stored.bytes == size:
            self.packed.append((tensor, name))
        else:
            self.wrong.append((name, tensor.shape, stored.shape))

    def comparison(self) -> Comparison:
        """The result, with everything that is wrong in words."""
        of_model = [*(name for _, name in (*self.matched, *self.packed)), *self.scales, *self.unnamed]
        other = self._other_dtypes()
        stored = _bytes(self.checkpoint, of_model) if self.checkpoint.complete else None
        graph = build(self.model, Deployment(), self.precision, CANONICAL)
        predicted = float(sum(weights_by_path(graph).values()))
        return Comparison(
            known=self.known,
            matched=len(self.matched),
            packed=len(self.packed),
            beside=len(self.scales),
            missing=tuple(self.missing),
            extra=tuple(self.extra),
            wrong_shape=tuple(self.wrong),
            apart=dict(Counter(self.separate.values())),
            predicted_bytes=predicted,
            stored_bytes=stored,
            total_size=self.checkpoint.total_size,
            other_dtypes=dict(Counter(dtype for dtype, _ in other)),
            problems=tuple(self._problems(predicted, stored, sum(more for _, more in other))),
        )

    def _other_dtypes(self) -> list[tuple[str, float]]:
        """Tensors that are stored in another dtype than the model says, and how many bytes more that is."""
        others = []
        for tensor, name in self.matched:
            stored = self.checkpoint.tensors[name]
            if stored is not None:
                weight = self.precision.dtypes(tensor.role).weight if tensor.role else parse_dtype(self.model.dtype)
                if more := stored.bytes - tensor.elements * weight.bytes:
                    others.append((stored.dtype, float(more)))
        return others

    def _problems(self, predicted: float, stored: int | None, more: float) -> Iterable[str]:
        for what, listed in (("missing", self.missing), ("not of the model", self.extra), ("of another shape", self.wrong)):
            if listed:
                yield f"{len(listed):,} tensors are {what}" if len(listed) > 1 else f"1 tensor is {what}"
        total, held = self.checkpoint.total_size, self.checkpoint.bytes
        if total is not None and self.checkpoint.complete and total != held:
            yield f"the index says {total:,} bytes, the files hold {held:,} ({held - total:+,})"
        if not self.known:
            yield from self._totals()
        elif self.missing or self.extra or self.wrong:
            return  # why sizes differ has been said
        elif stored is not None and abs(stored - predicted - more) > 0.5:
            yield f"{predicted + more:,.0f} bytes are predicted, {stored:,} are stored ({stored - predicted - more:+,.0f})"
        elif stored is None and total is not None and not self._index_fits(total - predicted):
            yield f"{predicted:,.0f} bytes are predicted, the index says {total:,} ({total - predicted:+,.0f})"

    def _index_fits(self, more: float) -> bool:
        """Whether the index's total may have this many bytes more: those of scales of the cache, in 32 or in 16 bits each. With
        other parts beside the language model it says nothing."""
        if not set(self.separate.values()) <= {_KV_SCALES_ARE}:
            return True
        return more in {4 * len(self.separate), 2 * len(self.separate)}

    def _totals(self) -> Iterable[str]:
        """Where no name is known: as many elements as the model has, if they are all stored as such."""
        if not self.checkpoint.complete or self.model.quantization:
            yield "names of this family are not known, and without them there is nothing to compare here"
            return
        held = sum(_elements(self.checkpoint.tensors[name]) for name in self.unnamed)
        counted = count_parameters(self.model).total
        if held != counted:
            yield f"the model has {counted:,} parameters, the files hold {held:,} elements ({held - counted:+,})"


def _bytes(checkpoint: Checkpoint, listed: Iterable[str]) -> int:
    return sum(stored.bytes for name in listed if (stored := checkpoint.tensors[name]) is not None)


def _elements(stored: Stored | None) -> int:
    return 0 if stored is None else prod(stored.shape)


def _not_language(name: str, model: Model) -> str | None:
    """What a tensor is that is not of the language model; None for all others."""
    for what, pattern in _NOT_LANGUAGE.items():
        if pattern.search(name):
            return what
    layer = _LAYER.match(name)
    more = {choice.name: choice.value for choice in model.assumptions if "multi-token" in choice.why}
    behind = sum(value for value in more.values() if isinstance(value, int))
    if layer is not None and 0 <= int(layer["index"]) - model.num_hidden_layers < behind:
        return "multi-token prediction"  # stored as layers behind the last
    return None


def _same(wanted: tuple[int, ...], stored: tuple[int, ...]) -> bool:
    """The same axes but for those of one entry; vectors by their length alone."""
    if len(wanted) == 1:
        return prod(wanted) == prod(stored)
    return [size for size in wanted if size != 1] == [size for size in stored if size != 1]


def _aligned(wanted: list[Tensor], stored: set[str], layers: int) -> Iterable[tuple[Tensor, str]]:
    """Tensors under the names that they have here: checkpoints of several parts, and some others, put something before
    them or leave it out, and number what is left where layers are empty."""
    if not wanted:
        return
    before, _, leaf = wanted[0].name.removesuffix(".weight").rpartition(".")  # the embedding comes first
    prefix = f"{before}." if before else ""
    here = sorted((name for name in stored if re.search(rf"(^|\.){re.escape(leaf)}(\.|$)", name)), key=len)
    stored_prefix = re.split(rf"(?:(?<=\.)|^){re.escape(leaf)}(?:\.|$)", here[0])[0] if here else prefix
    heads = {name.rpartition(".")[0].rpartition(".")[2]: name for name in sorted(stored, key=len, reverse=True)}
    numbers = sorted(
        {int(match["index"]) for name in stored if name.startswith(stored_prefix) and (match := _LAYER.match(name))}
    )
    renumbered = dict(enumerate(numbers)) if len(numbers) == layers and numbers != list(range(layers)) else {}
    for tensor in wanted:
        name = tensor.name
        if name.startswith(prefix):
            name = stored_prefix + name.removeprefix(prefix)
        if tensor.role == "lm_head" and name not in stored:
            head = heads.get(tensor.name.rpartition(".")[0].rpartition(".")[2], name)
            name = head.rpartition(".")[0] + ".weight"
        if tensor.layer is not None and tensor.layer in renumbered:
            name = name.replace(f".{tensor.layer}.", f".{renumbered[tensor.layer]}.", 1)
        yield tensor, name
