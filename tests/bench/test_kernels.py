"""What the kernels compute: timed code that computes something else would be timed for nothing."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the bench runs through torch")

from roofline.measure.bench.kernels import make
from roofline.measure.bench.kernels.attention import attend, mask, mask_of
from roofline.measure.bench.kernels.base import NotRunnableError, TensorFactory, nbytes
from roofline.measure.bench.kernels.operators import draw, experts, rope, route
from roofline.measure.bench.point import EAGER, LOOP, PACKAGES, PER_ROW, Point, package_kernel
from roofline.measure.records.columns import WEIGHT_ONLY

CPU = TensorFactory("cpu")


def one_by_one(q: Any, k: Any, v: Any, window: int | None) -> Any:
    """Attention as its definition reads, query by query and in double precision."""
    batch, n_q, new, d = q.shape
    n_kv, keys = k.shape[1], k.shape[2]
    out = torch.empty(batch, n_q, new, v.shape[3], dtype=torch.float64)
    for b in range(batch):
        for h in range(n_q):
            for i in range(new):
                last = keys - new + i  # the place of the query among the keys
                first = 0 if window is None else max(0, last - window + 1)
                seen = k[b, h * n_kv // n_q, first : last + 1].double()
                weights = torch.softmax(seen @ q[b, h, i].double() / math.sqrt(d), dim=0)
                out[b, h, i] = weights @ v[b, h * n_kv // n_q, first : last + 1].double()
    return out


@pytest.mark.parametrize("backend", ["sdpa-flash", "sdpa-math", EAGER])
@pytest.mark.parametrize(("new", "keys", "window"), [(1, 17, None), (9, 9, None), (5, 14, None), (9, 9, 4), (5, 14, 6)])
def test_attention_backends(backend: str, new: int, keys: int, window: int | None) -> None:
    """Prompt, chunk, decode, with and without a window: every backend gives what the definition gives."""
    q, k, v = CPU.random(2, 6, new, 8, dtype="fp32"), *(CPU.random(2, 2, keys, 8, dtype="fp32") for _ in "kv")
    seen = mask_of(new, keys, window, backend, CPU.device)
    found = attend(q, k, v, backend=backend, causal=new > 1, seen=seen)
    torch.testing.assert_close(found.double(), one_by_one(q, k, v, window), rtol=1e-4, atol=1e-5)


def pages_of(cache: Any, table: Any, length: int) -> Any:
    """The tokens of each sequence of a paged cache [pages, tokens, heads, width], in order: [batch, heads, length, width]."""
    assert table.dtype == torch.int32
    return torch.stack([cache[row.long()].flatten(0, 1)[:length] for row in table]).transpose(1, 2)


def window_of(left: int) -> int | None:
    """Tokens that a query sees, itself included, where it sees so many before itself (-1: all)."""
    return None if left == -1 else left + 1


class FlashAttention(ModuleType):
    """What `flash_attn` and `flash_attn_interface` take, computed by the definition; `calls` has what was called."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.calls: list[str] = []

    def flash_attn_varlen_func(
        self, q: Any, k: Any, v: Any, *, cu_seqlens_q: Any, cu_seqlens_k: Any, max_seqlen_q: int, max_seqlen_k: int,
        causal: bool, window_size: tuple[int, int],
    ) -> Any:  # fmt: skip
        """Prompts one after the other."""
        self.calls.append("varlen")
        assert causal
        assert cu_seqlens_q.dtype == cu_seqlens_k.dtype == torch.int32
        assert cu_seqlens_q[-1] == len(q)
        assert cu_seqlens_k[-1] == len(k)
        assert max_seqlen_q == int(cu_seqlens_q.diff().max())
        assert max_seqlen_k == int(cu_seqlens_k.diff().max())
        parts = [
            one_by_one(*(x[start:end].transpose(0, 1).unsqueeze(0) for x in (q, k, v)), window_of(window_size[0]))
            for start, end in pairwise(cu_seqlens_q.tolist())
        ]
        return torch.cat([part[0].transpose(0, 1) for part in parts])

    def flash_attn_with_kvcache(
        self, q: Any, k_cache: Any, v_cache: Any, *, cache_seqlens: Any, causal: bool, window_size: tuple[int, int],
        block_table: Any = None, page_table: Any = None,
    ) -> Any:  # fmt: skip
        """Queries over a paged cache; version 3 adds the sums of exponentials."""
        self.calls.append("kvcache")
        assert causal
        table = {"flash_attn": block_table, "flash_attn_interface": page_table}[self.__name__]
        if self.__name__ == "flash_attn":
            assert k_cache.shape[1] % 256 == 0  # as version 2 wants it
        assert cache_seqlens.dtype == torch.int32
        assert (cache_seqlens == cache_seqlens[0]).all()
        k, v = (pages_of(cache, table, int(cache_seqlens[0])) for cache in (k_cache, v_cache))
        out = one_by_one(q.transpose(1, 2), k, v, window_of(window_size[0])).transpose(1, 2)
        return out if block_table is not None else (out, None)


class FlashInfer(ModuleType):
    """What `flashinfer` takes, computed by the definition."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        calls = self.calls = []

        class Wrapper:
            def __init__(self, workspace: Any, layout: str, *, use_tensor_cores: bool = False) -> None:
                assert workspace.dtype == torch.uint8
                assert layout == "NHD"
                self.cores, self.planned = use_tensor_cores, False

            def pages(self, ends: Any, indices: Any, last: Any, sizes: tuple[int, ...], window_left: int, kind: Any) -> None:
                assert not self.planned  # once for all calls
                assert ends.dtype == indices.dtype == last.dtype == torch.int32
                assert kind == torch.bfloat16
                self.planned, self.sizes, self.window = True, sizes, window_of(window_left)
                self.table = indices.view(len(last), -1)
                assert (ends.diff() == self.table.shape[1]).all()
                self.length = int((ends.diff()[0] - 1) * sizes[3] + last[0])

            def attend(self, q: Any, cache: tuple[Any, Any]) -> Any:
                heads, kv_heads, width, page = self.sizes
                assert (q.shape[1:], cache[0].shape[1:]) == ((heads, width), (page, kv_heads, width))
                rows = q.view(len(self.table), -1, heads, width).transpose(1, 2)
                out = one_by_one(rows, *(pages_of(part, self.table, self.length) for part in cache), self.window)
                return out.transpose(1, 2).reshape(q.shape)

        class Decode(Wrapper):
            def plan(
                self, indptr: Any, indices: Any, last_page_len: Any, num_qo_heads: int, num_kv_heads: int, head_dim: int,
                page_size: int, *, window_left: int, q_data_type: Any, kv_data_type: Any,
            ) -> None:  # fmt: skip
                assert q_data_type == kv_data_type
                sizes = (num_qo_heads, num_kv_heads, head_dim, page_size)
                self.pages(indptr, indices, last_page_len, sizes, window_left, q_data_type)

            def run(self, q: Any, cache: tuple[Any, Any]) -> Any:
                calls.append("decode")
                assert len(q) == len(self.table)
                return self.attend(q, cache)

        class Prefill(Wrapper):
            def plan(
                self, qo_indptr: Any, paged_kv_indptr: Any, paged_kv_indices: Any, paged_kv_last_page_len: Any,
                num_qo_heads: int, num_kv_heads: int, head_dim_qk: int, page_size: int, *, causal: bool, window_left: int,
                q_data_type: Any, kv_data_type: Any,
            ) -> None:  # fmt: skip
                assert causal
                assert q_data_type == kv_data_type
                sizes = (num_qo_heads, num_kv_heads, head_dim_qk, page_size)
                self.pages(paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len, sizes, window_left, q_data_type)
                self.rows = qo_indptr

            def run(self, q: Any, cache: tuple[Any, Any]) -> Any:
                calls.append("prefill")
                assert self.rows.tolist() == list(range(0, len(q) + 1, len(q) // len(self.table)))
                return self.attend(q, cache)

        self.BatchDecodeWithPagedKVCacheWrapper, self.BatchPrefillWithPagedKVCacheWrapper = Decode, Prefill


@pytest.mark.parametrize("backend", list(PACKAGES))
@pytest.mark.parametrize(
    ("new", "keys", "window"), [(1, 300, 0), (4, 300, 0), (5, 5, 0), (1, 300, 40), (40, 300, 64), (9, 9, 4), (1, 256, 0)]
)
def test_attention_of_packages(backend: str, new: int, keys: int, window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decode, verification, prompts and chunks: a stand-in finds each sequence's tokens by the table that it is given.

    It is handed what the definition is handed, page by page: 300 tokens are not whole pages, of either size.
    """
    package = PACKAGES[backend]
    module = FlashInfer("flashinfer") if backend == "flashinfer" else FlashAttention(package.module)
    monkeypatch.setitem(sys.modules, package.module, module)
    numbers = {"batch": 2, "q_len": new, "kv_len": keys, "n_heads": 4, "n_kv_heads": 2, "head_dim": 8, "window": window}
    op = "attention_decode" if new == 1 else "attention_prefill"
    kernel = make(Point("operators", op, "bf16", numbers, {"kernel": package_kernel(backend, new, keys)}, backend), CPU)
    for _ in range(2):  # two sets of inputs
        q, k, v = kernel.inputs()
        result = kernel.run(q, k, v)
        assert result.shape == q.shape
        if kernel.point.texts["kernel"] == "varlen":
            lines = [x.view(2, keys, -1, 8).transpose(1, 2) for x in (k, v)]
        else:
            assert len(k) == len(v) == 2 * -(-keys // package.page)
            table = kernel._package._table
            assert sorted(table.flatten().tolist()) == list(range(len(k)))  # every page is of one sequence
            assert table.flatten().tolist() != list(range(len(k))) or len(k) < 4
            lines = [pages_of(x, table, keys) for x in (k, v)]
        exact = one_by_one(q.view(2, new, 4, 8).transpose(1, 2), *lines, window or None)
        torch.testing.assert_close(result.view(2, new, 4, 8).transpose(1, 2), exact)
    expected = (
        {True: "decode", False: "prefill"}[new == 1] if backend == "flashinfer" else "varlen" if new == keys else "kvcache"
    )
    assert module.calls == [expected] * 2


@pytest.mark.parametrize("backend", list(PACKAGES))
def test_packages_that_cannot(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One reason: it is not installed, it cannot be imported, or it has no kernel for fp32."""
    numbers = {"batch": 2, "q_len": 1, "kv_len": 64, "n_heads": 4, "n_kv_heads": 2, "head_dim": 8}
    point = Point("operators", "attention_decode", "bf16", numbers, backend=backend)
    monkeypatch.setitem(sys.modules, PACKAGES[backend].module, None)
    with pytest.raises(NotRunnableError, match=f"the package {PACKAGES[backend].distribution} is not installed"):
        make(point, CPU).inputs()
    with pytest.raises(NotRunnableError, match="not fp32"):
        make(replace(point, dtype="fp32"), CPU).inputs()


def test_mask_rows() -> None:
    """Two new queries after two cached tokens, a window of two: each sees itself and the one before."""
    assert mask(2, 4, 2, "cpu").tolist() == [[False, True, True, False], [False, False, True, True]]


def test_absorbed_latents() -> None:
    """The kernel's values are the first 512 of the 576 of its keys, and all heads share them."""
    numbers = {"batch": 2, "q_len": 1, "kv_len": 7, "n_heads": 4, "head_dim": 576}
    kernel = make(Point("operators", "mla_decode", "fp32", numbers, backend=EAGER), CPU)
    q, k, v, seen = kernel.inputs()
    assert (v, seen) == (None, None)
    expected = one_by_one(q, k, k[..., :512], None)
    torch.testing.assert_close(kernel.run(q, k, v, seen).double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("balanced", [True, False])
def test_experts(balanced: bool) -> None:
    """Token by token: each of its experts' SwiGLU, scaled by the gate of that pair, summed."""
    tokens, hidden, inner, count, topk = 5, 6, 4, 7, 3
    routing = route(CPU, tokens=tokens, experts=count, topk=topk, balanced=balanced, dtype="fp32")
    x, up = CPU.random(tokens, hidden, dtype="fp32"), CPU.random(count, 2 * inner, hidden, dtype="fp32")
    down = CPU.random(count, hidden, inner, dtype="fp32")
    expected = torch.zeros(tokens, hidden)
    chosen: dict[int, list[int]] = {token: [] for token in range(tokens)}
    start = 0
    for expert, end in enumerate(routing.ends):
        for row in range(start, end):
            token = int(routing.tokens[row])
            chosen[token].append(expert)
            gate, value = (up[expert] @ x[token]).chunk(2)
            out = down[expert] @ (torch.nn.functional.silu(gate) * value)
            expected[token] += routing.gates[row] * out
        start = end
    torch.testing.assert_close(experts(x, up, down, routing, LOOP), expected, rtol=1e-4, atol=1e-4)
    assert all(len(set(listed)) == topk for listed in chosen.values())  # each token meets topk different experts
    if balanced:
        sizes = [end - start for start, end in zip([0, *routing.ends], routing.ends, strict=False)]
        assert max(sizes) - min(sizes) <= 1


def test_rope_keeps_lengths() -> None:
    """A rotation: by 90 degrees the halves change places; by any angle the norm stays."""
    x = CPU.random(3, 2, 8, dtype="fp32")
    turned = rope(x, torch.zeros(3, 1, 4), torch.ones(3, 1, 4))
    torch.testing.assert_close(turned, torch.cat((-x[..., 4:], x[..., :4]), dim=-1))
    angle = CPU.random(3, 1, 4, dtype="fp32")
    torch.testing.assert_close(rope(x, angle.cos(), angle.sin()).norm(dim=-1), x.norm(dim=-1))


def test_draws_follow_the_softmax() -> None:
    """20,000 draws from chances of 0.7, 0.2 and 0.1: within five standard deviations."""
    torch.manual_seed(0)
    chances = torch.tensor([0.7, 0.2, 0.1])
    drawn = draw(chances.log().repeat(20_000, 1))
    shares = torch.bincount(drawn, minlength=3) / 20_000
    assert ((shares - chances).abs() < 5 * (chances * (1 - chances) / 20_000).sqrt()).all()


@pytest.mark.parametrize("chunk", [None, 64])
def test_copies(chunk: int | None) -> None:
    """All bytes arrive; in chunks each arrives where the table says, every one once."""
    numbers = {"bytes": 4096, **({"chunk_bytes": chunk} if chunk else {})}
    kernel = make(Point("transfers", "copy_d2d", "fp32", numbers, {"kernel": "copy"}), CPU)
    source, target, blocks = kernel.inputs()
    kernel.run(source, target, blocks)
    if chunk is None:
        assert torch.equal(source, target)
    else:
        assert len(blocks) == 64
        assert torch.equal(source.sort().values, target.sort().values)
        assert all(torch.equal(one, other) for one, other in blocks)


def test_products() -> None:
    """Rows of x times rows of w, one and a batch."""
    for op, numbers in (("gemm", {"m": 3, "n": 4, "k": 5}), ("bmm", {"batch": 2, "m": 3, "n": 4, "k": 5})):
        kernel = make(Point("operators", op, "fp32", numbers), CPU)
        x, w = kernel.inputs()
        torch.testing.assert_close(kernel.run(x, w), x @ w.transpose(-1, -2))


def test_int8_and_fp8_products() -> None:
    """Whole numbers exactly; fp8 as far as three bits of mantissa go, with the activations quantised in the call."""
    kernel = make(Point("operators", "gemm", "int8", {"m": 32, "n": 16, "k": 48}), CPU)
    x, w = kernel.inputs()
    assert torch.equal(kernel.run(x, w).long(), x.long() @ w.long().t())
    kernel = make(Point("operators", "gemm", "fp8", {"m": 32, "n": 16, "k": 64}), CPU)
    x, w, *ones = kernel.inputs()
    exact = x.to(torch.float8_e4m3fn).double() @ w.double().t()
    torch.testing.assert_close(kernel.run(x, w, *ones).double(), exact, rtol=0.02, atol=0.1)


@pytest.mark.parametrize(("dtype", "group"), [("int4_wo_g32", 32), ("int4_wo_g64", 64), ("int4_wo_g128", 128)])
def test_int4_weights(dtype: str, group: int) -> None:
    """Products with (w - 8) scale + zero, where a group of inputs of an output shares both; the operator has their very bytes.

    The identity for x shows each weight: 256 tokens, of which each reads one input.
    """
    point = Point("operators", "gemm", dtype, {"m": 256, "n": 48, "k": 256})
    kernel = make(point, CPU)
    numbers = torch.randint(0, 16, (48, 256), dtype=torch.int32)
    kernel.factory = type("Known", (TensorFactory,), {"nibbles": lambda *_: numbers})("cpu")
    _, packed, scales = kernel.inputs()
    eye = torch.eye(256, dtype=torch.bfloat16)
    scale, zero = (scales[..., place].float().repeat_interleave(group, 0).t() for place in (0, 1))
    exact = (numbers - 8) * scale + zero
    torch.testing.assert_close(kernel.run(eye, packed, scales).float(), exact.t(), rtol=0.01, atol=0.02)
    x = CPU.random(256, 256, dtype="bf16")
    torch.testing.assert_close(kernel.run(x, packed, scales).float(), x.float() @ exact.t(), rtol=0.02, atol=1.0)
    # 48 x 256 half bytes; 48 x 256 / group pairs of two bytes each
    assert nbytes((packed, scales)) == point.cost.weight_bytes == 48 * 256 // 2 + 48 * 256 // group * 4


def test_int8_weights() -> None:
    """Products with w, each row of which has a scale; the operator has their very bytes."""
    point = Point("operators", "gemm", "int8_wo", {"m": 3, "n": 32, "k": 64})
    kernel = make(point, CPU)
    x, w, scales = kernel.inputs()
    exact = x.float() @ (w.float() * scales.float().unsqueeze(1)).t()
    torch.testing.assert_close(kernel.run(x, w, scales).float(), exact, rtol=0.02, atol=0.5)
    assert nbytes((w, scales)) == point.cost.weight_bytes == 32 * 64 + 2 * 32


def test_what_torch_does_not_pack() -> None:
    """An int4 matrix that is not made of whole tiles is refused."""
    with pytest.raises(NotRunnableError, match="multiple of 16"):
        make(Point("operators", "gemm", "int4_wo_g128", {"m": 1, "n": 40, "k": 256}), CPU).inputs()


def test_fp8_with_a_scale_per_row() -> None:
    """Each row of x and each row of w times its own scale."""
    kernel = make(Point("operators", "gemm", "fp8", {"m": 5, "n": 16, "k": 64}, {"kernel": PER_ROW}), CPU)
    x, w, of_x, of_w = kernel.inputs()
    assert (of_x.shape, of_w.shape) == ((5, 1), (1, 16))
    exact = (x.to(torch.float8_e4m3fn).double() * of_x) @ (w.double().t() * of_w)
    torch.testing.assert_close(kernel.run(x, w, of_x, of_w).double(), exact, rtol=0.02, atol=0.1)


def test_experts_in_fp8() -> None:
    """Expert by expert: rows are rounded to fp8 before each product, whose result is bf16; the scale of weights is 0.02.

    Sums in another order are off by a last bit of bf16, 0.4 %, which now and then rounds to another fp8.
    """

    def in_fp8(rows: torch.Tensor) -> torch.Tensor:
        return rows.to(torch.float8_e4m3fn).float()

    numbers = {"tokens": 6, "hidden": 1024, "inter": 32, "experts": 4, "topk": 2, "moe_tp": 1, "moe_ep": 1}
    kernel = make(Point("operators", "moe", "fp8", numbers, {"distribution": "uniform"}, LOOP), CPU)
    x, up, down, routing = kernel.inputs()
    assert (x.dtype, up.dtype, down.dtype) == (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e4m3fn)
    assert min(float(weights.float().std()) for weights in (up, down)) > 0.9  # not in the range where fp8 loses digits
    expected, begin = torch.zeros(6, 1024), 0
    for end, wide, narrow in zip(routing.ends, up.float(), down.float(), strict=True):
        tokens, gates = routing.tokens[begin:end], routing.gates[begin:end]
        gate, value = (in_fp8(x[tokens]) @ wide.t() * 0.02).bfloat16().chunk(2, dim=-1)
        hidden = torch.nn.functional.silu(gate) * value
        expected.index_add_(0, tokens, ((in_fp8(hidden) @ narrow.t() * 0.02).bfloat16() * gates).float())
        begin = end
    assert (kernel.run(x, up, down, routing).float() - expected).norm() < 0.02 * expected.norm()


def test_the_command_has_every_dtype() -> None:
    """Those that records name and torch multiplies, without which `--dtype` would refuse what a kernel runs."""
    from roofline.cli.commands.bench import _DTYPES

    assert set(WEIGHT_ONLY) < set(_DTYPES)
    for dtype in _DTYPES:
        assert make(Point("operators", "gemm", dtype, {"m": 16, "n": 128, "k": 128}), CPU).inputs()


def test_step_of_a_model() -> None:
    """GPT-2 from ids to ids: one drawn token a sequence, each in the vocabulary; its caches were written to."""
    numbers = {"batch": 2, "q_len": 1, "kv_len": 5}
    kernel = make(Point("operators", "step", "fp32", numbers, {"kernel": "gpt2"}, "sdpa-flash"), CPU)
    inputs = kernel.inputs()
    state = inputs[4][0][2]
    before = state["k"].clone()
    drawn = kernel.run(*inputs)
    assert drawn.shape == (2,)
    assert 0 <= int(drawn.min()) <= int(drawn.max()) < 50257
    assert torch.equal(before[:, :4], state["k"][:, :4])
    assert not torch.equal(before[:, 4:], state["k"][:, 4:])


def test_backends_agree_on_a_layer() -> None:
    """The same weights and caches through fused attention and written-out attention: a chunk of three after four."""
    numbers = {"batch": 1, "q_len": 3, "kv_len": 7}
    texts = {"kernel": "llama-3.2-1b"}
    fused = make(Point("operators", "layer", "fp32", numbers, texts, "sdpa-math"), CPU)
    decoder, layer, weights, state, *streams = fused.inputs()
    found = fused.run(decoder, layer, weights, state, *streams)
    decoder.attention = EAGER
    for one, other in zip(found, fused.run(decoder, layer, weights, state, *streams), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("model", ["deepseek-v2-lite", "gpt-oss-20b", "falcon-7b"])
def test_models_whose_pass_is_not_written(model: str) -> None:
    """They are refused with a reason, never run as something else."""
    point = Point("operators", "layer", "fp32", {"batch": 1, "q_len": 1, "kv_len": 4}, {"kernel": model}, "sdpa-flash")
    with pytest.raises(NotRunnableError, match=model):
        make(point, CPU).inputs()


def test_a_backend_that_cannot() -> None:
    """Flash attention wants keys and values of one width, which MLA's are not."""
    numbers = {"batch": 1, "q_len": 1, "kv_len": 4, "n_heads": 2, "head_dim": 576}
    point = Point("operators", "mla_decode", "fp32", numbers, backend="sdpa-flash")
    kernel = make(point, CPU)
    with pytest.warns(UserWarning, match="Flash"), pytest.raises(NotRunnableError, match="sdpa-flash"):
        kernel.run(*kernel.inputs())
    with pytest.raises(NotRunnableError, match="no memory of its own"):
        make(replace(point, op="copy_h2d", numbers={"bytes": 4096}), CPU).inputs()


def test_bytes_of_a_nest() -> None:
    """Views of one memory count once."""
    x = torch.zeros(10)
    assert nbytes((x, {"again": x[2:], "more": [torch.zeros(5, dtype=torch.int8)]}, None)) == 45
