"""PyTorch's own FLOP counter over small modules, against our graph of a YAML file with the same dimensions.

The modules are written here from the papers, of plain linear layers and products, and share nothing with the package. They
run on the meta device: shapes alone. The counter sees whole products, so the mask is full and logits are computed at
every position.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline.predict.result import Analysis, Phase

torch = pytest.importorskip("torch", reason="PyTorch, the counter, is not installed")
functional, Linear = torch.nn.functional, torch.nn.Linear
from torch.utils.flop_counter import FlopCounterMode

# Widths are odd on purpose: no two of them, and no product of two, are equal.
D, D_FF, VOCABULARY, LAYERS = 48, 112, 331, 2
N_Q, N_KV, D_HEAD = 6, 2, 20
EXPERTS, TOP_K, D_EXPERT, D_SHARED = 10, 3, 28, 44
N_MLA, R_Q, R_KV, D_NOPE, D_ROPE, D_V = 5, 36, 24, 16, 8, 12

GQA = f"{{kind: gqa, num_attention_heads: {N_Q}, num_key_value_heads: {N_KV}, head_dim: {D_HEAD}}}"
SLIDING = GQA.replace("}", ", sliding_window: 9}")
MLA = (
    f"{{kind: mla, num_attention_heads: {N_MLA}, q_lora_rank: {R_Q}, kv_lora_rank: {R_KV}, qk_nope_head_dim: {D_NOPE}, "
    f"qk_rope_head_dim: {D_ROPE}, v_head_dim: {D_V}}}"
)
SWIGLU = f"{{kind: gated_mlp, intermediate_size: {D_FF}}}"
MOE = (
    f"{{kind: moe, num_experts: {EXPERTS}, num_experts_per_tok: {TOP_K}, moe_intermediate_size: {D_EXPERT}, "
    f"shared_intermediate_size: {D_SHARED}}}"
)


def linear(inputs: int, outputs: int) -> Any:
    return Linear(inputs, outputs, bias=False)


class GroupedQuery(torch.nn.Module):
    """Eager grouped-query attention: keys and values are repeated for the query heads that share them."""

    def __init__(self, window: int | None = None) -> None:
        super().__init__()
        self.q, self.k, self.v = linear(D, N_Q * D_HEAD), linear(D, N_KV * D_HEAD), linear(D, N_KV * D_HEAD)
        self.o, self.window = linear(N_Q * D_HEAD, D), window

    def forward(self, x: Any, cached: int) -> Any:
        """Attend to `cached` random tokens and the new ones."""
        batch, new, _ = x.shape
        if self.window is not None:
            cached = min(cached, self.window - 1)  # a query sees `window` keys, its own included
        q = self.q(x).view(batch, new, N_Q, D_HEAD).transpose(1, 2)
        k, v = (
            torch.cat([x.new_empty(batch, cached, N_KV, D_HEAD), part(x).view(batch, new, N_KV, D_HEAD)], dim=1)
            .transpose(1, 2)
            .repeat_interleave(N_Q // N_KV, dim=1)
            for part in (self.k, self.v)
        )
        attended = torch.softmax(q @ k.transpose(2, 3) / D_HEAD**0.5, dim=-1) @ v
        return self.o(attended.transpose(1, 2).reshape(batch, new, -1))


class Latent(torch.nn.Module):
    """Multi-head latent attention, in both of its forms."""

    def __init__(self, *, absorbed: bool) -> None:
        super().__init__()
        self.q_a, self.q_b = linear(D, R_Q), linear(R_Q, N_MLA * (D_NOPE + D_ROPE))
        self.kv_a, self.kv_b = linear(D, R_KV + D_ROPE), linear(R_KV, N_MLA * (D_NOPE + D_V))
        self.o, self.absorbed = linear(N_MLA * D_V, D), absorbed

    def forward(self, x: Any, cached: int) -> Any:
        """Attend to `cached` random latents and the new ones."""
        batch, new, _ = x.shape
        q = self.q_b(self.q_a(x)).view(batch, new, N_MLA, -1).transpose(1, 2)
        q_nope, q_rope = q.split([D_NOPE, D_ROPE], dim=-1)
        latents = torch.cat([x.new_empty(batch, cached, R_KV + D_ROPE), self.kv_a(x)], dim=1)
        latent, k_rope = latents.split([R_KV, D_ROPE], dim=-1)
        if self.absorbed:
            to_k, to_v = self.kv_b.weight.view(N_MLA, D_NOPE + D_V, R_KV).split([D_NOPE, D_V], dim=1)
            queries = torch.cat([q_nope @ to_k, q_rope], dim=-1)
            weights = torch.softmax(queries @ latents.unsqueeze(1).transpose(2, 3), dim=-1)
            out = weights @ latent.unsqueeze(1) @ to_v.transpose(1, 2)
        else:
            k_nope, v = self.kv_b(latent).view(batch, cached + new, N_MLA, -1).transpose(1, 2).split([D_NOPE, D_V], dim=-1)
            k = torch.cat([k_nope, k_rope.unsqueeze(1).expand(-1, N_MLA, -1, -1)], dim=-1)
            out = torch.softmax(torch.cat([q_nope, q_rope], dim=-1) @ k.transpose(2, 3), dim=-1) @ v
        return self.o(out.transpose(1, 2).reshape(batch, new, -1))


class SwiGlu(torch.nn.Module):
    """down(silu(gate(x)) * up(x))."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate, self.up, self.down = linear(D, width), linear(D, width), linear(width, D)

    def forward(self, x: Any) -> Any:
        """Work on each token alone."""
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Mixture(torch.nn.Module):
    """Each token multiplies the matrices of its top-k experts, gathered for it; a shared expert sees every token."""

    def __init__(self) -> None:
        super().__init__()
        self.router, self.shared = linear(D, EXPERTS), SwiGlu(D_SHARED)
        self.up = torch.nn.Parameter(torch.empty(EXPERTS, D, 2 * D_EXPERT))
        self.down = torch.nn.Parameter(torch.empty(EXPERTS, D_EXPERT, D))

    def forward(self, x: Any) -> Any:
        """Route, multiply, weigh, add."""
        rows = x.reshape(-1, D)
        gates, chosen = torch.softmax(self.router(rows), dim=-1).topk(TOP_K, dim=-1)
        chosen = chosen.reshape(-1)
        repeated = rows.repeat_interleave(TOP_K, dim=0).unsqueeze(1)
        gate, up = torch.bmm(repeated, self.up[chosen]).chunk(2, dim=-1)
        out = torch.bmm(functional.silu(gate) * up, self.down[chosen]).view(-1, TOP_K, D)
        return ((out * gates.unsqueeze(-1)).sum(dim=1) + self.shared(rows)).view_as(x)


class Decoder(torch.nn.Module):
    """Embedding, pre-norm layers, LM head."""

    def __init__(self, mixers: list[Any], mlps: list[Any]) -> None:
        super().__init__()
        self.embedding, self.head = torch.nn.Embedding(VOCABULARY, D), linear(D, VOCABULARY)
        self.mixers, self.mlps = torch.nn.ModuleList(mixers), torch.nn.ModuleList(mlps)
        self.norms = torch.nn.ModuleList(torch.nn.RMSNorm(D) for _ in range(2 * LAYERS + 1))

    def forward(self, tokens: Any, cached: int) -> Any:
        """Logits at every position."""
        x = self.embedding(tokens)
        for index, (mixer, mlp) in enumerate(zip(self.mixers, self.mlps, strict=True)):
            x = x + mixer(self.norms[2 * index](x), cached)
            x = x + mlp(self.norms[2 * index + 1](x))
        return self.head(self.norms[-1](x))


def counted(decoder: Decoder, batch: int, new: int, cached: int) -> dict[str, int]:
    """FLOP by the counter: of the whole, the mixers, the feed-forward blocks and the LM head."""
    with FlopCounterMode(display=False) as counter:
        decoder(torch.empty(batch, new, dtype=torch.long, device="meta"), cached)
    found = {name: sum(counts.values()) for name, counts in counter.get_flop_counts().items()}
    assert found["Global"] == counter.get_total_flops()
    return {
        "all": found["Global"],
        "mixer": sum(found[f"Decoder.mixers.{index}"] for index in range(LAYERS)),
        "mlp": sum(found[f"Decoder.mlps.{index}"] for index in range(LAYERS)),
        "lm_head": found["Decoder.head"],
    }


def predicted(phase: Phase) -> dict[str, int]:
    """The same sums over our operators."""

    def under(*blocks: str) -> int:
        return sum(op.cost.matrix_flops for op in phase.operators if set(blocks) & set(op.path.split("/")[:-1]))

    head = next(op.cost.matrix_flops for op in phase.operators if op.path == "lm_head")
    return {"all": phase.cost.matrix_flops, "mixer": under("attention"), "mlp": under("mlp", "moe"), "lm_head": head}


def small(folder: Path, mixer: str, mlp: str) -> str:
    """The file of a model of two equal layers."""
    file = folder / "small.yaml"
    file.write_text(
        f"""
schema_version: 1
name: small
title: Small
hidden_size: {D}
vocab_size: {VOCABULARY}
max_position_embeddings: 4096
tie_word_embeddings: false
layer_types:
  layer: {{mixer: {mixer}, mlp: {mlp}}}
layers: [{{pattern: [layer], repeat: {LAYERS}}}]
sources: {{}}
""",
        encoding="utf-8",
    )
    return str(file)


def whole_products(folder: Path, mixer: str, mlp: str, **options: Any) -> Analysis:
    """Our answer in the counter's conventions."""
    return roofline.analyze(small(folder, mixer, mlp), "h100-sxm", mask="full", logits="all", **options)


PREFILL, DECODE = [(1, 7), (3, 21)], [(1, 4), (5, 30)]


def twice(build: Any) -> list[Any]:
    return [build() for _ in range(LAYERS)]


def decoder(mixer: Any, mlp: Any) -> Decoder:
    with torch.device("meta"):
        return Decoder(twice(mixer), twice(mlp))


def dense() -> SwiGlu:
    return SwiGlu(D_FF)


@pytest.mark.parametrize(("batch", "prompt"), PREFILL)
def test_llama_like_prefill(batch: int, prompt: int, tmp_path: Path) -> None:
    """Grouped-query attention and SwiGLU over whole prompts."""
    phase = whole_products(tmp_path, GQA, SWIGLU, batch=batch, input_len=prompt).prefill
    assert predicted(phase) == counted(decoder(GroupedQuery, dense), batch, prompt, 0)


@pytest.mark.parametrize(("batch", "context"), DECODE)
def test_llama_like_decode(batch: int, context: int, tmp_path: Path) -> None:
    """One token after `context` cached ones."""
    phase = whole_products(tmp_path, GQA, SWIGLU, batch=batch, context=context).decode
    assert predicted(phase) == counted(decoder(GroupedQuery, dense), batch, 1, context)


def test_llama_like_chunk(tmp_path: Path) -> None:
    """A chunk of 8 tokens after 13 of 4 prompts; every query against every key, as the full mask has it."""
    mixed = whole_products(tmp_path, GQA, SWIGLU, segments="4x8@13").phases[0]
    assert predicted(mixed) == counted(decoder(GroupedQuery, dense), 4, 8, 13)


@pytest.mark.parametrize("context", [3, 8, 9, 10, 30])
def test_sliding_window_decode(context: int, tmp_path: Path) -> None:
    """Contexts below, at and above the window of 9 tokens."""
    phase = whole_products(tmp_path, SLIDING, SWIGLU, batch=2, context=context).decode
    assert predicted(phase) == counted(decoder(lambda: GroupedQuery(window=9), dense), 2, 1, context)


@pytest.mark.parametrize(("batch", "context"), DECODE)
def test_mixture_of_experts(batch: int, context: int, tmp_path: Path) -> None:
    """Router, the chosen experts and the shared one, in prefill and decode."""
    module, result = (
        decoder(GroupedQuery, Mixture),
        whole_products(tmp_path, GQA, MOE, batch=batch, input_len=9, context=context),
    )
    assert predicted(result.prefill) == counted(module, batch, 9, 0)
    assert predicted(result.decode) == counted(module, batch, 1, context)


@pytest.mark.parametrize(("form", "absorbed"), [("expand", False), ("absorb", True)])
@pytest.mark.parametrize(("batch", "context"), DECODE)
def test_latent_attention(batch: int, context: int, form: str, absorbed: bool, tmp_path: Path) -> None:
    """Both forms, in prefill and decode; expanded, the cache of latents is expanded anew at each step."""
    module = decoder(lambda: Latent(absorbed=absorbed), dense)
    result = whole_products(tmp_path, MLA, SWIGLU, batch=batch, input_len=9, context=context, mla=form)
    assert predicted(result.prefill) == counted(module, batch, 9, 0)
    assert predicted(result.decode) == counted(module, batch, 1, context)


def test_latent_attention_by_default(tmp_path: Path) -> None:
    """Prefill expands, decode absorbs."""
    result = whole_products(tmp_path, MLA, MOE, batch=2, input_len=9, context=40)
    assert predicted(result.prefill) == counted(decoder(lambda: Latent(absorbed=False), Mixture), 2, 9, 0)
    assert predicted(result.decode) == counted(decoder(lambda: Latent(absorbed=True), Mixture), 2, 1, 40)


@pytest.mark.parametrize("window", [None, 1, 5, 9, 40])
@pytest.mark.parametrize(("new", "cached"), [(1, 0), (1, 12), (7, 0), (7, 3), (12, 12)])
def test_pairs_that_the_mask_lets_through(new: int, cached: int, window: int | None, tmp_path: Path) -> None:
    """The causal count is the number of ones in the mask itself: key j <= query i, and i - j < window."""
    query, key = torch.arange(cached, cached + new).unsqueeze(1), torch.arange(cached + new)
    allowed = (key <= query) & (query - key < (window or 10**6))
    mixer = GQA if window is None else SLIDING.replace("9}", f"{window}}}")
    phase = roofline.analyze(small(tmp_path, mixer, SWIGLU), "h100-sxm", segments=f"3x{new}@{cached}").phases[0]
    core = next(op for op in phase.operators if op.path == "layers/attention/core")
    assert core.cost.matrix_flops == LAYERS * 3 * N_Q * 2 * (D_HEAD + D_HEAD) * int(allowed.sum())
