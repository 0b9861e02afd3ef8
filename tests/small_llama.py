"""A Llama small enough to run on a host, and traces of its runs as torch.profiler writes them.

    model = SmallLlama(SMALL)                        # a torch module with weights
    cache = KVCache(SMALL, batch=2)
    logits = model(tokens, cache)                    # prefill: tokens [2, 16], nothing cached yet
    logits = model(token, cache)                     # decode: token [2, 1]; the cache knows how many tokens it has

    run = traced(tmp_path / "eager.json.gz")         # prefill and decode under the profiler
    run.path, run.model_file, run.steps              # the trace, a config.json of the same sizes, what each step did

Nothing here is measured for its speed: tests read names, shapes, ranges and counts.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch.nn import functional


@dataclass(frozen=True)
class Sizes:
    """Keys of a `config.json` of the Llama family; embedding and LM head are one matrix."""

    hidden_size: int = 64
    intermediate_size: int = 160
    num_hidden_layers: int = 2
    num_attention_heads: int = 8
    num_key_value_heads: int = 2
    head_dim: int = 16
    vocab_size: int = 256
    max_position_embeddings: int = 128
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-5

    def config(self) -> dict[str, Any]:
        """The same as Hugging Face writes it."""
        return {
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "attention_bias": False,
            "mlp_bias": False, "tie_word_embeddings": True, "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2,
            **self.__dict__,
        }  # fmt: skip


SMALL = Sizes()


class KVCache:
    """Keys and values of all layers in memory that is there from the start: [layers, batch, kv heads, positions, head_dim]."""

    def __init__(self, sizes: Sizes, batch: int, dtype: Any = None, device: Any = None) -> None:
        shape = (sizes.num_hidden_layers, batch, sizes.num_key_value_heads, sizes.max_position_embeddings, sizes.head_dim)
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)
        self.length = 0
        """Tokens that are cached."""


def rotated(x: Any, cos: Any, sin: Any) -> Any:
    """RoPE over halves, as transformers does it."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class RMSNorm(torch.nn.Module):
    """x / rms(x) * weight, written out."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = torch.nn.Parameter(torch.ones(size)), eps

    def forward(self, x: Any) -> Any:
        """Over the last dimension."""
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Attention(torch.nn.Module):
    """Grouped-query attention by SDPA."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        heads, kv = sizes.num_attention_heads * sizes.head_dim, sizes.num_key_value_heads * sizes.head_dim
        self.q_proj = torch.nn.Linear(sizes.hidden_size, heads, bias=False)
        self.k_proj = torch.nn.Linear(sizes.hidden_size, kv, bias=False)
        self.v_proj = torch.nn.Linear(sizes.hidden_size, kv, bias=False)
        self.o_proj = torch.nn.Linear(heads, sizes.hidden_size, bias=False)

    def forward(self, x: Any, cos: Any, sin: Any, keys: Any, values: Any, cached: int, mask: Any) -> Any:
        """Writes new keys and values into the cache, and reads those up to the last new one."""
        batch, new, _ = x.shape
        q, k, v = (
            projection(x).view(batch, new, -1, self.sizes.head_dim).transpose(1, 2)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        keys[:, :, cached : cached + new] = rotated(k, cos, sin)
        values[:, :, cached : cached + new] = v
        out = functional.scaled_dot_product_attention(
            rotated(q, cos, sin), keys[:, :, : cached + new], values[:, :, : cached + new],
            attn_mask=None if mask is True else mask, is_causal=mask is True, enable_gqa=True,
        )  # fmt: skip
        return self.o_proj(out.transpose(1, 2).reshape(batch, new, -1))


class SwiGLU(torch.nn.Module):
    """down(silu(gate(x)) * up(x))."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.gate_proj = torch.nn.Linear(sizes.hidden_size, sizes.intermediate_size, bias=False)
        self.up_proj = torch.nn.Linear(sizes.hidden_size, sizes.intermediate_size, bias=False)
        self.down_proj = torch.nn.Linear(sizes.intermediate_size, sizes.hidden_size, bias=False)

    def forward(self, x: Any) -> Any:
        """Of each token alone."""
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(torch.nn.Module):
    """Pre-norm attention and MLP."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(sizes.hidden_size, sizes.rms_norm_eps)
        self.self_attn = Attention(sizes)
        self.post_attention_layernorm = RMSNorm(sizes.hidden_size, sizes.rms_norm_eps)
        self.mlp = SwiGLU(sizes)

    def forward(self, x: Any, cos: Any, sin: Any, keys: Any, values: Any, cached: int, mask: Any) -> Any:
        """Of one step."""
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, keys, values, cached, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class SmallLlama(torch.nn.Module):
    """The Llama architecture with its names of modules, without transformers."""

    def __init__(self, sizes: Sizes = SMALL) -> None:
        super().__init__()
        self.sizes = sizes
        self.embed_tokens = torch.nn.Embedding(sizes.vocab_size, sizes.hidden_size)
        self.layers = torch.nn.ModuleList(Layer(sizes) for _ in range(sizes.num_hidden_layers))
        self.norm = RMSNorm(sizes.hidden_size, sizes.rms_norm_eps)
        self.lm_head = torch.nn.Linear(sizes.hidden_size, sizes.vocab_size, bias=False)
        self.lm_head.weight = self.embed_tokens.weight

    def forward(self, tokens: Any, cache: KVCache) -> Any:
        """One step: tokens [batch, new] after those that are cached. Logits of every new token, [batch, new, vocab]."""
        (_, new), cached = tokens.shape, cache.length
        logits = self.step(tokens, cache.keys, cache.values, cached, self.mask(new, cached, tokens.device))
        cache.length = cached + new
        return logits

    def mask(self, new: int, cached: int, device: Any) -> Any:
        """None where nothing is masked, True for SDPA's own (`is_causal`), a matrix for a chunk after cached tokens."""
        if new == 1 or cached == 0:
            return True if new > 1 else None
        return torch.ones(new, cached + new, dtype=torch.bool, device=device).tril(diagonal=cached)

    def step(self, tokens: Any, keys: Any, values: Any, cached: int, mask: Any) -> Any:
        """What `torch.compile` compiles: no state of Python in it."""
        positions = torch.arange(cached, cached + tokens.shape[1], device=tokens.device, dtype=torch.float32)
        half = torch.arange(0, self.sizes.head_dim, 2, device=tokens.device, dtype=torch.float32) / self.sizes.head_dim
        angles = positions[:, None] * self.sizes.rope_theta**-half
        angles = torch.cat((angles, angles), dim=-1)
        x = self.embed_tokens(tokens)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for layer, k, v in zip(self.layers, keys.unbind(0), values.unbind(0), strict=True):
            x = layer(x, cos, sin, k, v, cached, mask)
        return self.lm_head(self.norm(x))


@dataclass(frozen=True)
class Step:
    """One forward pass of a traced run: what each of `batch` sequences computed, and what it had cached before."""

    batch: int
    new: int
    cached: int
    phase: Literal["prefill", "decode"]

    @property
    def annotation(self) -> str:
        """The range that vLLM has around such a step."""
        prefill = (self.batch, self.batch * self.new) if self.phase == "prefill" else (0, 0)
        decode = (self.batch, self.batch) if self.phase == "decode" else (0, 0)
        return f"execute_context_{prefill[0]}({prefill[1]})_generation_{decode[0]}({decode[1]})"


@dataclass(frozen=True)
class TracedRun:
    """A trace, and what is true of the run in it."""

    path: Path
    model_file: Path
    """A `config.json` of the same sizes."""
    steps: tuple[Step, ...]
    sizes: Sizes = field(default=SMALL)


def traced(
    path: Path,
    *,
    compiled: bool = False,
    record_shapes: bool = True,
    annotated: bool = True,
    batch: int = 2,
    prompt: int = 16,
    decode_steps: int = 3,
    dtype: Any = torch.float32,
) -> TracedRun:
    """Run a prefill and decode steps under torch.profiler, after a warm-up, and write the trace.

    Args:
        path: of the trace, `.json` or `.json.gz`; `config.json` is written beside it.
        compiled: the steps by torch.compile, fused loops as operators of their own ("graph_0_cpp_fused_..."). The first call in
            a process takes a minute of one core; the test is skipped where there is no C++ compiler.
        record_shapes: whether operators have the shapes of their inputs.
        annotated: whether each step has a range as vLLM writes it ("execute_context_2(32)_generation_0(0)").
        batch: prompts.
        prompt: tokens of each.
        decode_steps: after the prefill.
        dtype: of weights, activations and cache.
    """
    if compiled and not any(map(shutil.which, ("c++", "g++", "clang++"))):
        pytest.skip("torch.compile needs a C++ compiler on a host")
    module = _model(dtype)
    steps = (
        Step(batch, prompt, 0, "prefill"),
        *(Step(batch, 1, prompt + done, "decode") for done in range(decode_steps)),
    )

    def serve(run: Callable[..., Any]) -> None:
        cache, tokens = KVCache(SMALL, batch, dtype), torch.arange(batch * prompt).view(batch, prompt) % SMALL.vocab_size
        for step in steps:
            span = torch.profiler.record_function(step.annotation) if annotated else contextlib.nullcontext()
            with span:
                logits = run(tokens, cache.keys, cache.values, step.cached, module.mask(step.new, step.cached, None))
                tokens = logits[:, -1:].argmax(-1)

    with torch.no_grad(), _compiled_code_in(path.parent) if compiled else contextlib.nullcontext():
        run = _compiled(dtype) if compiled else module.step
        serve(run)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=record_shapes) as profiler:
            serve(run)
    profiler.export_chrome_trace(str(path))
    return TracedRun(path, model_file(path.parent), steps)


def model_file(folder: Path, sizes: Sizes = SMALL) -> Path:
    """Write a `config.json` of the model into a folder."""
    path = folder / "config.json"
    path.write_text(json.dumps(sizes.config()), encoding="utf-8")
    return path


@cache
def _model(dtype: Any) -> SmallLlama:
    torch.manual_seed(0)
    return SmallLlama().to(dtype).eval()


@cache
def _compiled(dtype: Any) -> Any:
    # One graph for all lengths of cache: a graph each would be compiled for each step.
    options = {"cpp.enable_kernel_profile": True}
    return torch.compile(_model(dtype).step, dynamic=True, fullgraph=True, options=options)


@contextlib.contextmanager
def _compiled_code_in(folder: Path) -> Iterator[None]:
    """What the compiler writes goes where the test's files are. It warns of what PyTorch itself still uses."""
    before = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if before is None:
            del os.environ["TORCHINDUCTOR_CACHE_DIR"]
        else:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = before
