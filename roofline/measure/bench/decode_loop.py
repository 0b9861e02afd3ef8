"""A decode loop: the prompts of a batch, then one token per sequence and step, as an engine runs a model, without the engine.

Weights are random, the KV cache is allocated at once and grows step by step, and each step's tokens are those that the step
before has drawn. One step after another is launched without the host waiting for any.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import profiler

from roofline.blocks.gqa import GroupedQueryAttention
from roofline.blocks.mlp import GatedMlp, Mlp
from roofline.blocks.model import Model
from roofline.blocks.moe import MixtureOfExperts
from roofline.dtypes import parse_dtype
from roofline.measure.bench.devices import Call, Device
from roofline.measure.bench.kernels.attention import mask_of
from roofline.measure.bench.kernels.base import TensorFactory, tf32
from roofline.measure.bench.kernels.decoder import Decoder, Weights
from roofline.measure.bench.kernels.operators import draw, route
from roofline.predict.parameters import count_parameters

_THETA = 10000.0
"""Base of the angles of RoPE (Su et al. 2021, arXiv:2104.09864): whatever a model's own is, it costs the same."""


@dataclass(frozen=True, slots=True)
class LoopSizes:
    """Sequences, tokens of each prompt, and decode steps after it."""

    batch: int
    prompt: int
    steps: int

    @property
    def tokens(self) -> int:
        """The tokens of a sequence that its cache has to hold."""
        return self.prompt + self.steps

    @property
    def contexts(self) -> list[int]:
        """The tokens in the cache before each decode step."""
        return list(range(self.prompt, self.tokens))


@dataclass(frozen=True, slots=True)
class LoopMemory:
    """What a loop allocates, in bytes: weights, and for each sequence its cache and what prefill computes with at a time."""

    weights: float
    cache_per_sequence: float
    working_per_sequence: float

    def total(self, batch: int) -> float:
        """The bytes of a batch."""
        return self.weights + batch * (self.cache_per_sequence + self.working_per_sequence)

    def largest_batch(self, available: float) -> int:
        """The largest batch that fits into `available` bytes; 0 or less where not even the weights do."""
        return int((available - self.weights) // (self.cache_per_sequence + self.working_per_sequence))


def loop_memory(model: Model, dtype: str, sizes: LoopSizes) -> LoopMemory:
    """The bytes that a loop of a model allocates.

    NB: what prefill computes with is the residual stream twice, a normalized copy and its widest inner activation three times;
    and of the last tokens the logits, their softmax and two copies for the draw. Attention writes no scores.

    Args:
        model: grouped-query attention in every layer.
        dtype: of weights, activations and caches.
        sizes: of the loop.
    """
    element = parse_dtype(dtype).bytes
    layers = [model.layer_types[name] for name in model.layer_sequence]
    cached, wide = 0, 0
    for layer in layers:
        assert isinstance(layer.mixer, GroupedQueryAttention)  # noqa: S101 - `Decoder` refused the others
        cached += 2 * layer.mixer.num_key_value_heads * layer.mixer.head_dim
        wide = max(wide, (layer.mixer.num_attention_heads + 2 * layer.mixer.num_key_value_heads) * layer.mixer.head_dim)
        if isinstance(layer.mlp, MixtureOfExperts):
            wide = max(wide, 2 * layer.mlp.num_experts_per_tok * layer.mlp.moe_intermediate_size)
        elif isinstance(layer.mlp, (GatedMlp, Mlp)):
            wide = max(wide, (2 if isinstance(layer.mlp, GatedMlp) else 1) * layer.mlp.intermediate_size)
    working = sizes.prompt * (3 * model.hidden_size + 3 * wide) + 4 * model.vocab_size
    return LoopMemory(count_parameters(model).total * element, sizes.tokens * cached * element, working * element)


class DecodeLoop:
    """A model with weights, a KV cache for a batch, and its prefill and decode steps as calls without arguments.

    Args:
        model: what is run.
        factory: makes the tensors.
        dtype: of weights, activations and caches.
        sizes: of the batch.
        attention: the backend of attention.
        expert_backend: how the GEMMs of experts run.

    Attributes:
        ids: the tokens that were drawn last, shape [batch, 1]; a step reads them and writes the next ones into their place.

    Raises:
        NotRunnableError: if the model has parts that `Decoder` does not know.
    """

    def __init__(
        self, model: Model, factory: TensorFactory, dtype: str, sizes: LoopSizes, *, attention: str, expert_backend: str
    ) -> None:
        self.decoder = Decoder(model, factory, dtype, attention=attention, expert_backend=expert_backend)
        self.sizes = sizes
        self.ends = self.decoder.ends()
        weights: list[Weights] = []
        self.caches: list[Weights] = []
        self.layers = [model.layer_types[name] for name in model.layer_sequence]
        for layer in self.layers:
            weights.append(self.decoder.layer_weights(layer))
            self.caches.append(self.decoder.cache(layer, sizes.batch, sizes.tokens))
        self.weights = weights
        self.prompts = factory.indices(sizes.batch * sizes.prompt, model.vocab_size).view(sizes.batch, sizes.prompt)
        self.ids = factory.indices(sizes.batch, model.vocab_size).view(sizes.batch, 1)
        self.positions = factory.whole_numbers(list(range(sizes.tokens))) if model.learned_positions else None
        self._angles: dict[int, tuple[Any, Any]] = {}
        self._routings: dict[tuple[str, int], Any] = {}

    def logits(self, ids: Any, cached: int) -> Any:
        """Run the model on new tokens behind those in the cache, which grows by them.

        Args:
            ids: shape [batch, new tokens].
            cached: tokens of each sequence that are in the cache.

        Returns:
            The logits of the last token of each sequence, shape [batch, vocabulary].
        """
        new = ids.shape[1]
        positions = None if self.positions is None else self.positions[cached : cached + new]
        states = [self._state(at, cached, new) for at in range(len(self.layers))]
        layers = list(zip(self.layers, self.weights, states, strict=True))
        return self.decoder.logits(ids, positions, self.ends, layers)

    def _state(self, at: int, cached: int, new: int) -> Weights:
        """What layer `at` needs for new tokens: its cache up to them, their angles, a mask, a routing."""
        layer, decoder, end = self.layers[at], self.decoder, cached + new
        mixer = layer.mixer
        assert isinstance(mixer, GroupedQueryAttention)  # noqa: S101 - `Decoder` refused the others
        state: Weights = {name: tensor[:, :end] for name, tensor in self.caches[at].items()}
        if mixer.rotary_dim != 0:
            cos, sin = self._angles_of(mixer.head_dim)
            state |= {"cos": cos[:, cached:end], "sin": sin[:, cached:end]}
        state["seen"] = mask_of(new, end, mixer.sliding_window, decoder.attention, decoder.factory.device)
        if isinstance(layer.mlp, MixtureOfExperts):
            key = (self.decoder.model.layer_sequence[at], new)
            if key not in self._routings:
                mlp = layer.mlp
                sizes = {"tokens": self.sizes.batch * new, "experts": mlp.num_experts, "topk": mlp.num_experts_per_tok}
                self._routings[key] = route(decoder.factory, **sizes, balanced=False, dtype=decoder.dtype)
            state["routing"] = self._routings[key]
        return state

    def _angles_of(self, width: int) -> tuple[Any, Any]:
        """Cosines and sines of all positions for heads of a width, each of shape [1, tokens, 1, width / 2]."""
        if width not in self._angles:
            like = self.caches[0]["k"]
            frequencies = _THETA ** (-torch.arange(0, width, 2, device=like.device, dtype=torch.float32) / width)
            angles = torch.outer(torch.arange(self.sizes.tokens, device=like.device, dtype=torch.float32), frequencies)
            self._angles[width] = tuple(part[None, :, None].to(like.dtype) for part in (angles.cos(), angles.sin()))
        return self._angles[width]

    def prefill(self) -> None:
        """Fill the caches with the prompts, and draw the first tokens."""
        self._run(self.prompts, 0)

    def step(self, cached: int) -> None:
        """One decode step: a token per sequence behind `cached` ones, whose successors are drawn."""
        self._run(self.ids, cached)

    def _run(self, ids: Any, cached: int) -> None:
        with torch.no_grad(), tf32(allowed=False):
            self.ids.copy_(draw(self.logits(ids, cached)).unsqueeze(1))

    @property
    def steps(self) -> list[Call]:
        """The decode steps in their order."""
        return [partial(self.step, cached) for cached in self.sizes.contexts]


def step_name(batch: int, cached: int) -> str:
    """The annotation of a decode step in a trace: as vLLM names its steps, by which `profile` knows the lengths of contexts."""
    pairs = batch * (cached + 1)
    return f"execute_{batch}_context_0(sq0sk0sqsq0sqsk0)_generation_{batch}(sq{batch}sk{pairs}sqsq{batch}sqsk{pairs})"


def trace(device: Device, calls: Sequence[tuple[str, Call]], path: Path) -> list[float]:
    """Run calls under torch's profiler, and write the trace, with a named range around each call.

    Args:
        device: that they run on.
        calls: with their names, in order; the first one runs once before, outside any range.
        path: of the trace, `.json` or `.json.gz`.

    Returns:
        The seconds of each call under the profiler.
    """

    def named(name: str, call: Call) -> None:
        with profiler.record_function(name):
            call()

    recorder = profiler.profile(record_shapes=True)
    with _without_stderr():
        recorder.__enter__()
    try:
        calls[0][1]()
        device.wait()
        seconds = device.laps([partial(named, *entry) for entry in calls])
    finally:
        with _without_stderr():
            recorder.__exit__(*sys.exc_info())
    recorder.export_chrome_trace(str(path))
    return seconds


@contextmanager
def _without_stderr() -> Iterator[None]:
    """Without what libraries write to the process's stderr: torch's profiler announces its start and its end there."""
    sys.stderr.flush()
    before = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(nowhere)
