"""Operators of the shipped models: GEMMs, attention, experts, element-wise passes, whole layers and steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from roofline.blocks.model_files import load_model
from roofline.dtypes import BF16, Precision
from roofline.graph.build import build
from roofline.measure.bench.point import EAGER, GIB, MIB, PACKAGES, PER_ROW, Point, Scope, package_kernel
from roofline.measure.records.columns import WEIGHT_ONLY, dtypes
from roofline.operators.gemm import Gemm
from roofline.specs.deployment import Deployment
from roofline.specs.library import ids
from roofline.specs.workload import decode

# The models whose shapes are measured at every number of tokens; those of the other shipped models at a few.
_MAIN = ("llama-3.1-8b", "llama-3.1-70b", "qwen3-32b", "mixtral-8x7b", "gemma-2-9b", "deepseek-v3")
_SMALL = ("gpt2", "llama-3.2-1b")


@dataclass(frozen=True, slots=True)
class _Heads:
    """Query heads, KV heads, their width, and the window (0: none)."""

    query: int
    kv: int
    width: int
    window: int = 0

    @property
    def columns(self) -> dict[str, int]:
        """The columns of a record for these heads."""
        return {"n_heads": self.query, "n_kv_heads": self.kv, "head_dim": self.width, "window": self.window}


def _supports(backend: str, head: _Heads) -> bool:
    """Whether a backend of torch's attention is known to take such heads: no efficient kernel with shared keys, no cuDNN
    kernel with wide ones."""
    return not (backend == "sdpa-efficient" and head.query != head.kv) and not (backend == "sdpa-cudnn" and head.width > 128)


def operators(scope: Scope) -> Iterator[Point]:
    """Points for every kind of operator, layers and steps included, in every requested dtype."""
    for dtype in scope.dtypes:
        yield from _gemms(scope, dtype)
        if dtype == "fp8":
            yield from _scaled_rows(scope)
            yield from _experts(scope, dtype)
        if dtype == ("bf16" if scope.large else "fp32"):
            yield from _weight_only(scope)
        if dtype in ("fp32", "bf16", "fp16"):
            yield from _attention(scope, dtype)
            yield from _latent_attention(scope, dtype)
            yield from _experts(scope, dtype)
            yield from _elementwise(scope, dtype)
            yield from _whole(scope, dtype)


@cache
def _weight_shapes(model: str) -> tuple[tuple[int, int], ...]:
    """(n, k) of the GEMMs with weights of a model: projections, feed-forward, LM head."""
    precision = Precision(weight=BF16.weight, activation=BF16.activation, kv=BF16.kv)
    graph = build(load_model(model)[0], Deployment(), precision, decode(1, 1))
    shapes_of_model = {(op.n, op.k) for op, _ in graph.values() if isinstance(op, Gemm) and op.batch == 1 and op.n > 1}
    return tuple(sorted(shapes_of_model))


def _gemm(dtype: str, m: int, n: int, k: int, tier: int, kernel: str = "") -> Point:
    return Point("operators", "gemm", dtype, {"m": m, "n": n, "k": k}, {"kernel": kernel} if kernel else {}, tier=tier)


_PLAIN = ("fp32", "tf32", "bf16", "fp16")


def _takes(dtype: str, n: int, k: int) -> bool:
    """Whether torch's GEMM of a dtype takes weights of n x k: 8-bit ones in 16s, packed int4 in tiles of 128 inputs."""
    return dtype in _PLAIN or n % 16 == k % (128 if dtype.startswith("int4") else 16) == 0


def _gemms(scope: Scope, dtype: str) -> Iterator[Point]:
    yield from _gemms_in_full(dtype) if scope.large else _gemms_in_part(dtype)
    if dtype in _PLAIN:  # torch has no other batched GEMM
        heads, tokens = ((16, 128), (1, 16, 64, 256, 1024)) if scope.large else ((4,), (1, 16))
        yield from _head_gemms(scope, dtype, heads, tokens)


def _gemms_in_part(dtype: str) -> Iterator[Point]:
    """The smallest shipped models."""
    for model in _SMALL:
        for n, k in _weight_shapes(model):
            for m in (1, 4, 16, 64, 256, 1024):
                if _takes(dtype, n, k):
                    yield _gemm(dtype, m, n, k, 0 if model == "gpt2" and m in (1, 64) else 1 if m <= 64 else 2)


def _gemms_in_full(dtype: str) -> Iterator[Point]:
    """One model first, then the main ones at every number of tokens, then all that are shipped."""
    tokens = ((0, _MAIN[:1], (1, 16, 64, 256, 1024, 4096)), (1, _MAIN, (1, 8, 32, 64, 128, 256, 512, 2048, 8192)))
    more = (2, _MAIN, (2, 4, 16, 96, 192, 384, 768, 1024, 4096, 16384))
    rest = (2, tuple(model for model in ids("models") if model not in _MAIN), (1, 32, 512, 4096))
    for tier, models, counts in (*tokens, more, rest):
        for model in models:
            for n, k in _weight_shapes(model):
                for m in counts:
                    if _takes(dtype, n, k):
                        yield _gemm(dtype, m, n, k, tier)


def _weight_only(scope: Scope) -> Iterator[Point]:
    """Weights alone in 4 or 8 bits, of one model: groups of 128 and int8 at most numbers of tokens, smaller groups at a few."""
    tokens = (1, 4, 16, 64, 256, 1024, 4096) if scope.large else (1, 4, 16, 64)
    for n, k in _weight_shapes(_MAIN[0] if scope.large else _SMALL[0]):
        for dtype in WEIGHT_ONLY:
            usual = dtype in ("int4_wo_g128", "int8_wo")
            for m in tokens if usual else tokens[::2]:
                if _takes(dtype, n, k):
                    yield _gemm(dtype, m, n, k, 0 if dtype == "int4_wo_g128" and m in (1, 16) else 1 if usual else 2)


def _scaled_rows(scope: Scope) -> Iterator[Point]:
    """fp8 with a scale per row and per column, as checkpoints with dynamic scales need it, of one model."""
    for n, k in _weight_shapes(_MAIN[0] if scope.large else _SMALL[0]):
        for m in (1, 16, 64, 256, 1024, 4096) if scope.large else (1, 16, 64):
            if _takes("fp8", n, k):
                yield _gemm("fp8", m, n, k, 1, PER_ROW)


def _head_gemms(scope: Scope, dtype: str, heads: tuple[int, ...], tokens: tuple[int, ...]) -> Iterator[Point]:
    """What MLA absorbs: queries into the latent space, values out of it, one GEMM per head."""
    for batch in heads:
        for m in tokens:
            for n, k in ((512, 128), (128, 512)):
                numbers = {"batch": batch, "m": m, "n": n, "k": k}
                yield Point("operators", "bmm", dtype, numbers, tier=0 if m == 1 and scope.large else 1)


@dataclass(frozen=True, slots=True)
class _Grid:
    """What attention is measured over: passes (sequences, new tokens, all tokens) and decodes (sequences, all tokens), the
    first of each for the first heads, the others for all. Verifications are passes of a few tokens after many: the draft of
    speculative decoding with the token before it; first ones for all heads, the others for the first two."""

    heads: tuple[_Heads, ...]
    windowed: tuple[_Heads, ...]
    first_passes: tuple[tuple[int, int, int], ...]
    first_decodes: tuple[tuple[int, int], ...]
    passes: tuple[tuple[int, int, int], ...]
    decodes: tuple[tuple[int, int], ...]
    first_verifications: tuple[tuple[int, int, int], ...]
    verifications: tuple[tuple[int, int, int], ...]
    largest: int
    """Bytes of the largest cache."""


_ACCELERATOR = _Grid(
    heads=(
        _Heads(32, 8, 128),
        _Heads(64, 8, 128),
        _Heads(32, 32, 128),
        _Heads(28, 4, 128),
        _Heads(16, 8, 256),
        _Heads(71, 1, 64),
    ),
    # Mistral-7B, Gemma 2 9B, gpt-oss-120b, Gemma 3 27B
    windowed=(_Heads(32, 8, 128, 4096), _Heads(16, 8, 256, 4096), _Heads(64, 8, 64, 128), _Heads(32, 16, 128, 1024)),
    first_passes=((1, 512, 512), (1, 2048, 2048), (1, 8192, 8192), (1, 512, 4096), (1, 2048, 32768)),
    first_decodes=tuple((batch, kv) for batch in (1, 32, 128) for kv in (1024, 4096, 16384)),
    passes=(
        *((1, prompt, prompt) for prompt in (128, 256, 1024, 4096, 16384)),
        *((8, 1024, 1024), (32, 256, 256), (8, 64, 2048)),
        *((1, new, kv) for new in (128, 512, 2048, 8192) for kv in (2048, 8192, 32768, 131072) if new < kv),
    ),
    decodes=tuple((batch, kv) for batch in (1, 4, 8, 16, 32, 64, 128, 256) for kv in (128, 512, 2048, 8192, 32768, 131072)),
    first_verifications=tuple((batch, new, 4096) for batch in (1, 16, 64) for new in (2, 4, 9)),
    verifications=tuple((batch, new, kv) for batch in (1, 4, 16, 64) for new in (2, 3, 4, 6, 9) for kv in (1024, 8192, 32768)),
    largest=8 * GIB,
)
_HOST = _Grid(
    heads=(_Heads(12, 12, 64), _Heads(32, 8, 64), _Heads(16, 2, 64)),
    windowed=(_Heads(8, 4, 64, 128),),
    first_passes=((1, 128, 128), (1, 512, 512), (1, 64, 512)),
    first_decodes=((1, 512), (8, 1024)),
    passes=((1, 1024, 1024), (4, 256, 256), (1, 128, 1024), (1, 256, 2048)),
    decodes=((1, 4096), (4, 512), (16, 512)),
    first_verifications=((1, 4, 512), (4, 4, 512)),
    verifications=tuple((batch, new, kv) for batch in (1, 4) for new in (2, 6, 9) for kv in (512, 2048)),
    largest=64 * MIB,
)


def _attention(scope: Scope, dtype: str) -> Iterator[Point]:
    grid = _ACCELERATOR if scope.large else _HOST
    every = (*grid.heads, *grid.windowed)
    first = (*grid.first_passes, *grid.first_verifications)
    packages = scope.attention_packages if dtype != "fp32" else ()
    for tier, heads, passes, decodes in (
        (0, grid.heads[:1], first, grid.first_decodes),
        (1, every, grid.passes, grid.first_decodes),
        (1, grid.heads[:2], grid.verifications, ()),
        (2, every[1:], first, grid.decodes),
    ):
        for head in heads:
            for backend in (*scope.attention_backends, *packages):
                # What engines do not use is measured where it differs from what they do, and no further.
                seldom = backend in ("sdpa-math", "sdpa-efficient")
                fills = tier < 2 and passes is not grid.verifications
                if not _supports(backend, head) or (scope.large and not fills and backend not in ("sdpa-flash", *packages)):
                    continue
                # cuDNN makes a plan for each shape, which takes half a second.
                if scope.large and backend == "sdpa-cudnn" and head not in (*grid.heads[:2], *grid.windowed):
                    continue
                yield from _of_heads(grid, head, dtype, backend, tier + (seldom and tier == 1), passes, decodes)


def _of_heads(
    grid: _Grid, head: _Heads, dtype: str, backend: str, tier: int, passes: Iterable[tuple[int, int, int]],
    decodes: Iterable[tuple[int, int]],
) -> Iterator[Point]:  # fmt: skip
    """The points of one kind of heads, as far as memory goes."""
    element = dtypes(dtype).activation.bytes
    cache = 2 * head.kv * head.width * element

    def point(op: str, batch: int, new: int, kv: int) -> Point:
        numbers = {"batch": batch, "q_len": new, "kv_len": kv, **head.columns}
        texts = {"kernel": package_kernel(backend, new, kv)} if backend in PACKAGES else {}
        return Point("operators", op, dtype, numbers, texts, backend, tier=tier)

    for batch, new, kv in passes:
        scores = batch * head.query * new * kv * element
        masked = head.window and head.window < kv and backend == "sdpa-flash" and grid is _ACCELERATOR  # it takes no mask
        if masked or batch * kv * cache > grid.largest or (backend == "sdpa-math" and scores > 2 * GIB):
            continue
        yield point("attention_prefill", batch, new, kv)
    for batch, kv in decodes:
        if batch * kv * cache <= grid.largest:
            yield point("attention_decode", batch, 1, kv)


def _latent_attention(scope: Scope, dtype: str) -> Iterator[Point]:
    """MLA, in both forms. Written out too: all heads share one key, which makes it a plain GEMM."""
    heads: tuple[int, ...]
    prompts: tuple[int, ...]
    if scope.large:
        heads, prompts = (16, 128), (512, 2048, 8192)
        steps = [(batch, kv) for batch in (1, 8, 32, 128) for kv in (1024, 4096, 16384)]
    else:
        heads, prompts, steps = (4,), (128, 256), [(1, 256), (4, 1024)]
    # Absorbed, a key is wider than its values and all heads share it: only what is written out takes that. Expanded, flash
    # attention would want values as wide as keys.
    for n in heads:
        for backend in (EAGER, "sdpa-math"):
            tier = 0 if n == heads[0] and backend == EAGER else 1 if backend == EAGER else 2
            for batch, kv in steps:
                numbers = {"batch": batch, "q_len": 1, "kv_len": kv, "n_heads": n, "head_dim": 576}
                first = tier if kv == steps[0][1] else max(tier, 1)
                yield Point("operators", "mla_decode", dtype, numbers, backend=backend, tier=first)
        for backend in (EAGER, *(name for name in scope.attention_backends if name != "sdpa-flash")):
            for prompt in prompts:
                if backend in (EAGER, "sdpa-math") and n * prompt**2 * 4 > 2 * GIB:
                    continue
                numbers = {"batch": 1, "q_len": prompt, "kv_len": prompt, "n_heads": n, "head_dim": 192}
                yield Point(
                    "operators", "mla_prefill", dtype, numbers, backend=backend, tier=2 if backend == "sdpa-math" else 1
                )


def _experts(scope: Scope, dtype: str) -> Iterator[Point]:
    layers: tuple[tuple[int, int, int, int], ...]
    tokens: tuple[int, ...]
    # (hidden, inner, experts, top-k): Mixtral, Qwen3-30B-A3B, DeepSeek-V3; on a host something in their likeness
    if scope.large:
        layers = ((4096, 14336, 8, 2), (2048, 768, 128, 8), (7168, 2048, 256, 8))
        tokens = (1, 4, 16, 64, 256, 1024, 4096)
    else:
        layers, tokens = ((512, 256, 16, 2), (768, 512, 8, 2)), (1, 16, 64, 256)
    for hidden, inner, experts, topk in layers:
        for backend in scope.expert_backends:
            for distribution in ("uniform", "balanced"):
                for count in tokens:
                    first = (hidden, distribution, backend) == (layers[0][0], "uniform", scope.expert_backends[0])
                    sizes = {"tokens": count, "hidden": hidden, "inter": inner, "experts": experts, "topk": topk}
                    numbers = {**sizes, "moe_tp": 1, "moe_ep": 1}
                    tier = 0 if first and count in (1, 16, 256) else 1 if distribution == "uniform" else 2
                    yield Point("operators", "moe", dtype, numbers, {"distribution": distribution}, backend, tier=tier)


def _elementwise(scope: Scope, dtype: str) -> Iterator[Point]:
    tokens = (1, 16, 128, 1024, 8192, 32768) if scope.large else (1, 64, 1024, 8192)
    widths = ((4096, 14336), (8192, 28672), (2048, 8192)) if scope.large else ((768, 3072), (2048, 8192))
    heads = (
        {"n_heads": 32, "n_kv_heads": 8, "head_dim": 128} if scope.large else {"n_heads": 12, "n_kv_heads": 12, "head_dim": 64}
    )
    vocabulary, rows = (128256, (1, 8, 32, 128, 512)) if scope.large else (50257, (1, 8, 32))
    for backend in scope.elementwise_backends:

        def point(op: str, tier: int, numbers: dict[str, int], backend: str = backend) -> Point:
            return Point("operators", op, dtype, numbers, backend=backend, tier=tier)

        for place, (hidden, inner) in enumerate(widths if backend == "torch" else widths[:1]):  # each width is compiled anew
            for count in tokens:
                tier = 0 if place == 0 and count in tokens[2:5:2] else 1 if place == 0 else 2
                yield point("rmsnorm", tier, {"tokens": count, "hidden": hidden})
                yield point("silu_mul", tier, {"tokens": count, "inter": inner})
                yield point("add", tier, {"tokens": count, "hidden": hidden})
                if backend == "torch":  # a gather has nothing to fuse
                    yield point("embedding", tier, {"tokens": count, "hidden": hidden, "n": vocabulary})
        for count in tokens:
            yield point("rope", 0 if count in tokens[2:5:2] else 1, {"tokens": count, **heads})
        for count in rows:
            yield point("sampling", 0 if count == rows[-1] else 1, {"tokens": count, "n": vocabulary})


def _whole(scope: Scope, dtype: str) -> Iterator[Point]:
    """Layers and steps: (sequences, new tokens, all tokens)."""
    layers: tuple[str, ...]
    if scope.large:
        layers = ("llama-3.1-8b", "llama-3.1-70b", "qwen3-32b", "mixtral-8x7b", "qwen3-30b-a3b")
        passes = [(1, 1, 1024), (32, 1, 2048), (128, 1, 1024), (1, 512, 512), (1, 2048, 2048), (1, 512, 4096)]
        steps = {
            "llama-3.1-8b": [(1, 1, 1024), (16, 1, 1024), (64, 1, 1024), (16, 1, 4096), (1, 1024, 1024), (1, 4096, 4096)],
            "llama-3.2-1b": [(1, 1, 1024), (64, 1, 1024), (1, 2048, 2048)],
            "qwen3-8b": [(1, 1, 1024), (64, 1, 2048)],
        }
    else:
        layers, passes = _SMALL, [(1, 1, 256), (4, 1, 256), (1, 64, 64)]
        steps = {"gpt2": [(1, 1, 128), (4, 1, 128), (1, 32, 32)]}
    for place, model in enumerate(layers):
        backend = "sdpa-flash+grouped" if scope.large and model in ("mixtral-8x7b", "qwen3-30b-a3b") else "sdpa-flash"
        for batch, new, kv in passes:
            yield _pass("layer", dtype, model, (batch, new, kv), backend, 0 if place == 0 and new == 1 else 1)
    for place, (model, listed) in enumerate(steps.items()):
        for sizes in listed:
            yield _pass("step", dtype, model, sizes, "sdpa-flash", 0 if place == 0 and sizes[1] == 1 else 1)


def _pass(op: str, dtype: str, model: str, sizes: tuple[int, int, int], backend: str, tier: int) -> Point:
    numbers = dict(zip(("batch", "q_len", "kv_len"), sizes, strict=True))
    return Point("operators", op, dtype, numbers, {"kernel": model}, backend, tier=tier)
