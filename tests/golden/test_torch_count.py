"""`roofline.torch.count` against PyTorch's own FLOP counter over the modules themselves, and against our models.

The counter has no formula of the SDPA kernel of a host, so that it runs under the math backend, whose products are plain ones.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the counter, is not installed")
from small_llama import SMALL, KVCache, SmallLlama, model_file
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import roofline

META = torch.device("meta")


def by_pytorch(module: Callable[..., Any], *inputs: Any) -> int:
    """FLOP of a real call."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        module(*inputs)
    return int(counter.get_total_flops())


def agreed(module: Callable[..., Any], *inputs: Any) -> int:
    """FLOP by both, which are the same; nothing was left out."""
    result = roofline.torch.count(module, inputs)
    assert result.not_counted == ()
    assert result.cost.matrix_flops == by_pytorch(module, *inputs)
    assert result.cost.matrix_flops == sum(operator.cost.matrix_flops for operator in result.operators)
    return int(result.cost.matrix_flops)


def llama_cache(cached: int, batch: int = 2, **where: Any) -> KVCache:
    cache = KVCache(SMALL, batch, **where)
    cache.length = cached
    return cache


@pytest.mark.parametrize(("new", "cached"), [(16, 0), (1, 16), (1, 37), (8, 13)])
def test_small_llama(new: int, cached: int, tmp_path: Path) -> None:
    """Prefill, decode and a chunk; also what our model of the same `config.json` says."""
    model, tokens = SmallLlama().eval(), torch.zeros(2, new, dtype=torch.long)
    with torch.no_grad(), FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        model(tokens, llama_cache(cached))
    result = roofline.torch.count(model, (tokens, llama_cache(cached)))
    assert result.cost.matrix_flops == counter.get_total_flops()
    ours = roofline.analyze(
        str(model_file(tmp_path)), "h100-sxm", segments=f"2x{new}@{cached}", mask="full", logits="all", dtype="fp32"
    )
    assert result.cost.matrix_flops == ours.phases[0].cost.matrix_flops


def test_convolutions() -> None:
    """Images, with groups, a stride, a transposed one, norms and pooling."""
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(8, 16, 3, stride=2, groups=4), torch.nn.GroupNorm(4, 16), torch.nn.GELU(),
        torch.nn.ConvTranspose2d(16, 8, 2, stride=2), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 10),
    ).eval()  # fmt: skip
    first = 2 * (2 * 32 * 32) * 8 * 3 * 9  # outputs of both images, each from 3 channels of 9 pixels
    assert agreed(net, torch.zeros(2, 3, 32, 32)) > first


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
def test_transformer_encoder_layer(training: bool, norm_first: bool) -> None:
    """Its attention, with biases; the host's fused layer of inference, which the counter does not see into, is off."""
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=norm_first).train(training)
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        assert agreed(layer, torch.zeros(3, 10, 32)) == 3 * (8 * 10 * 32 * 32 + 4 * 10 * 10 * 32 + 4 * 10 * 32 * 64)
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


class Experts(torch.nn.Module):
    """All experts over all tokens, weighted by a router: a loop with no decision by data."""

    def __init__(self) -> None:
        super().__init__()
        self.router = torch.nn.Linear(16, 4, bias=False)
        self.experts = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.Linear(16, 24), torch.nn.SiLU(), torch.nn.Linear(24, 16)) for _ in range(4)
        )

    def forward(self, x: Any) -> Any:
        """Tokens [n, 16]."""
        gates, chosen = self.router(x).softmax(-1).topk(2, dim=-1)
        weights = torch.zeros(x.shape[0], 4).scatter_(1, chosen, gates)
        out = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            out += weights[:, index, None] * expert(x)
        return out


def test_mixture_of_experts() -> None:
    """The router, and two products in each of four experts."""
    assert agreed(Experts(), torch.zeros(7, 16)) == 2 * 7 * 16 * 4 + 4 * 2 * (2 * 7 * 16 * 24)


@pytest.mark.parametrize(("heads", "kv"), [(8, 8), (8, 2), (6, 1)])
@pytest.mark.parametrize("causal", [False, True])
def test_sdpa(heads: int, kv: int, causal: bool) -> None:
    """Grouped heads; the products are whole under a causal mask too."""

    def attention(q: Any, k: Any, v: Any) -> Any:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=heads != kv)

    q, k, v = torch.zeros(2, heads, 5, 16), torch.zeros(2, kv, 5, 16), torch.zeros(2, kv, 5, 24)
    assert agreed(attention, q, k, v) == 2 * 2 * heads * 5 * 5 * (16 + 24)


@pytest.mark.parametrize(
    ("function", "shapes", "flops"),
    [
        (torch.bmm, [(3, 4, 5), (3, 5, 6)], 3 * 2 * 4 * 5 * 6),
        (torch.baddbmm, [(3, 4, 6), (3, 4, 5), (3, 5, 6)], 3 * 2 * 4 * 5 * 6),
        (torch.addmm, [(6,), (4, 5), (5, 6)], 2 * 4 * 5 * 6),
        (lambda a, b: torch.einsum("bij,bkj->bik", a, b), [(2, 3, 4), (2, 5, 4)], 2 * 2 * 3 * 5 * 4),
        (lambda a, b: torch.einsum("ij,jk->", a, b), [(3, 4), (4, 5)], None),
        (lambda a, b: torch.tensordot(a, b, dims=([1, 2], [0, 1])), [(3, 4, 5), (4, 5, 6)], 2 * 3 * 20 * 6),
        (torch.matmul, [(2, 1, 3, 4), (5, 4, 6)], 2 * 5 * 2 * 3 * 4 * 6),
        (functional.conv1d, [(2, 3, 9), (4, 3, 3)], 2 * 2 * 4 * 7 * 3 * 3),
    ],
)  # fmt: skip
def test_products(function: Any, shapes: list[tuple[int, ...]], flops: int | None) -> None:
    """Each with its count by hand."""
    counted = agreed(function, *(torch.zeros(shape) for shape in shapes))
    assert flops is None or counted == flops


@pytest.mark.parametrize("new", [1, 9])
def test_a_module_without_memory_costs_the_same(new: int) -> None:
    """On the meta device, in bf16: the same FLOP, half the bytes of fp32."""
    real = roofline.torch.count(SmallLlama(), (torch.zeros(2, new, dtype=torch.long), llama_cache(5)))
    with META:
        module = SmallLlama().bfloat16()
        result = roofline.torch.count(
            module, (torch.zeros(2, new, dtype=torch.long), llama_cache(5, dtype=torch.bfloat16)), hardware="h100-sxm"
        )
    assert result.cost.matrix_flops == real.cost.matrix_flops
    assert result.cost.weight_bytes == real.cost.weight_bytes / 2
    assert result.hardware is not None
    assert set(result.hardware["peak_flops"]) == {"bf16"}


@pytest.mark.oracle
@pytest.mark.parametrize(("batch", "prompt"), [(1, 512), (3, 128)])
def test_llama_of_transformers(batch: int, prompt: int) -> None:
    """Llama 3.1 8B as transformers writes it, without its 16 GB of weights, against our model file: the same FLOP.

    Older transformers also compute the angles of RoPE as a product, [64, 1] by [1, prompt] of each sequence or of one; for us
    they are a table, and since 5.23 they are no product there either.
    """
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    config = transformers.LlamaConfig(
        hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
        vocab_size=128256, max_position_embeddings=131072, rope_theta=500000.0, dtype="bfloat16",
    )  # fmt: skip
    with META:
        module = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    tokens = torch.zeros(batch, prompt, dtype=torch.long, device=META)
    result = roofline.torch.count(module, {"input_ids": tokens, "use_cache": False}, hardware="h100-sxm")
    assert result.not_counted == ()
    ours = roofline.analyze(
        "llama-3.1-8b", "h100-sxm", batch=batch, input_len=prompt, mask="full", logits="all", dtype="bf16"
    ).prefill
    angles = sum(op.cost.matrix_flops for op in result.operators if op.path.endswith("rotary_emb"))
    assert angles in (0, 2 * 64 * prompt, batch * 2 * 64 * prompt)
    assert result.cost.matrix_flops - angles == ours.cost.matrix_flops
    # Every weight is read once, of the embedding the rows of the tokens; and 64 fp32 frequencies of RoPE.
    parameters = sum(parameter.numel() for parameter in module.parameters())
    embedding = 128256 * 4096
    rows = batch * prompt * 4096
    assert result.cost.weight_bytes == 2 * (parameters - embedding + rows) + 4 * 64
    # Between kernels eager code writes more than the fused ones of ours; with nothing in between both are the same.
    assert result.time.bound is not None
    assert ours.time.bound is not None
    assert result.time.bound > ours.time.bound
    assert result.time.floor == pytest.approx(ours.time.floor, rel=1e-3)
