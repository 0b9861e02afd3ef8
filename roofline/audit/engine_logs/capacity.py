"""Memory and cache: an engine's log compared with the prediction, unaided and from the log's own memory lines.

Unaided is a prediction from the model, the hardware and the arguments. From the log's memory: its bytes for the cache, put
through the layout of the cache, so that what is left is how the engine lays it out.
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline.audit.engine_logs.budgets import MemoryBudget, memory_budget
from roofline.audit.engine_logs.engine_log import EngineLog
from roofline.audit.engine_logs.names import Row
from roofline.predict.memory import StageMemory
from roofline.predict.request import ResolvedRequest

AIDED = "kv_capacity_tokens (from the log's memory)"
_PRINTED = 0.005 * 2**30
"""Half of the last digit that engines print."""
_SAME = 0.02


@dataclass(frozen=True, slots=True)
class Capacity:
    """The KV cache of one replica, by the log and by prediction.

    Attributes:
        request: the deployment.
        engine: `vllm`, `sglang`, `trtllm` or `llama.cpp`, whose rules divide the memory.
        log: what the engine printed; None: everything is predicted.
        eager: whether the engine ran without CUDA graphs.
    """

    request: ResolvedRequest
    engine: str
    log: EngineLog | None
    eager: bool = False

    def rows(self) -> list[Row]:
        """A row for each quantity of memory and cache that the log prints, with its prediction; none without a log."""
        return [row for row in (*self._memory(), *self._cache()) if row is not None]

    @property
    def budgets(self) -> list[tuple[StageMemory, MemoryBudget]]:
        """Each pipeline stage with the memory budget of one of its devices."""
        release = self.log.release if self.log is not None else None
        return [
            (part, memory_budget(self.engine, self.request, part, release, eager=self.eager))
            for part in self.request.memory.stages
        ]

    @property
    def tokens(self) -> float:
        """Capacity of the KV cache of one replica in tokens: measured, else predicted."""
        measured = self.measured_tokens
        return self._tokens(self._least()[0]) if measured is None else measured

    def _number(self, name: str) -> float | None:
        return None if self.log is None else self.log.number(name)

    def _argument(self, name: str) -> str | None:
        return None if self.log is None else self.log.argument(name)

    @property
    def max_model_len(self) -> int:
        """Maximum length of a sequence in tokens: the option, else the model's maximum."""
        return self.request.deployment.max_model_len or self.request.model.max_position_embeddings

    @property
    def measured_tokens(self) -> float | None:
        """Capacity of the KV cache of one replica in tokens by the log; None where it does not print it."""
        if self.engine == "llama.cpp":
            return self._number("context")
        tokens, blocks = self._number("kv_tokens"), self._number("kv_blocks")
        return tokens if tokens is not None or blocks is None else blocks * self.request.memory.block_size

    def _memory(self) -> list[Row | None]:
        part, expected = max(self.budgets, key=lambda entry: entry[0].loaded_bytes)
        named = {entry.name: entry for entry in expected.taken}
        weights = self._number("weights_bytes")
        device = self._number("begin_bytes" if self.engine == "sglang" else "total_bytes")
        rows: list[Row | None] = [
            None
            if device is None
            else Row("device_bytes", "byte", device, expected.device.size, expected.device.low, expected.device.high),
            None if weights is None or self._other_weights else Row("weights_bytes", "byte", weights, part.loaded_bytes),
        ]
        for name, fact in (("activations", "peak_bytes"), ("graphs", "graph_bytes")):
            measured, entry = self._number(fact), named.get(name)
            if measured is not None and entry is not None:
                rows.append(Row(f"{name}_bytes", "byte", measured, entry.size, entry.low, entry.high))
        return rows

    @property
    def _other_weights(self) -> bool:
        """Whether the log's weights are of a GGUF file, and the model is not read from one: its formats are not known."""
        return self.engine == "llama.cpp" and self.request.model.format != "gguf"

    def _cache(self) -> list[Row | None]:
        if self.engine == "llama.cpp":
            return self._reserved_cache()
        rows: list[Row | None] = []
        least, (low, high) = self._least()
        available = self.available
        if available is not None:
            rows.append(Row("kv_cache_bytes", "byte", available, least, low, high))
        measured = self.measured_tokens
        if measured is None:
            return rows
        if (fixed := self._fixed()) is not None:
            rows.append(Row("kv_capacity_tokens", "token", measured, float(fixed), basis="the log's arguments"))
        else:
            expected, fewest, largest = map(self._tokens, (least, low, high))
            rows.append(Row("kv_capacity_tokens", "token", measured, expected, fewest, largest))
        if available is not None:
            expected, fewest, largest = map(self._pool_tokens, (available, available - _PRINTED, available + _PRINTED))
            rows.append(Row(AIDED, "token", measured, expected, fewest, largest, basis="the log's memory"))
        longest, times = self._number("concurrency_len"), self._number("concurrency")
        if longest and times is not None:
            expected, fewest, largest = (self.held_tokens(int(longest), size) / longest for size in (least, low, high))
            rows.append(Row("max_concurrency", "x", times, expected, fewest, largest))
        return rows

    def _reserved_cache(self) -> list[Row | None]:
        """llama.cpp's caches, which are as large as its arguments say: their bytes, and the context that those hold.

        A cache of one stream serves all sequences (`kv_unified`): layers with a window keep one for each sequence in it.

        Source: llama.cpp, src/llama-kv-cache-iswa.cpp.
        """
        measured, context = self._number("available_kv_bytes"), self._number("context")
        if measured is None or context is None:
            return []
        sequences = self.request.deployment.max_num_seqs or 1
        unified = sequences > 1 and self.log is not None and self.log.text("kv_unified") == "true"
        streams = 1 if unified else sequences
        length = int(context) // streams
        stages = self.request.memory.stages
        state = sum(part.layout.state_bytes for part in stages) * sequences
        kinds = [kind for part in stages for kind in part.layout.kinds]
        cells = [kind.cells(length, sequences // streams) for kind in kinds]
        held = [count * kind.block_bytes / kind.block for kind, count in zip(kinds, cells, strict=True)]
        predicted = float(streams * sum(held) + state)
        growing = [kind for kind in kinds if kind.window is kind.chunk is None]
        a_cell = sum(kind.block_bytes / kind.block for kind in growing)
        fixed = predicted - streams * a_cell * growing[0].cells(length) if growing else predicted
        rows: list[Row | None] = [Row("kv_cache_bytes", "byte", measured, predicted, basis="the log's arguments")]
        if growing:
            tokens = max(measured - fixed, 0.0) / a_cell
            rows.append(Row(AIDED, "token", context, tokens, basis="the log's memory"))
        return rows

    def _least(self) -> tuple[float, tuple[float, float]]:
        """Bytes for the cache on the stage with the least memory for it, and their band."""
        tightest = min((expected for _, expected in self.budgets), key=lambda expected: expected.available)
        low, high = tightest.band
        return max(tightest.available, 0.0), (max(low, 0.0), max(high, 0.0))

    @property
    def available(self) -> float | None:
        """Bytes per device for the KV cache by the log: printed, or computed from its other lines; None without them."""
        begin, end = self._number("begin_bytes"), self._number("end_bytes")
        if self.engine == "sglang":
            if begin is None or end is None:
                return self._pools
            return end - begin * (1 - self.request.memory.utilization)
        free, allocated = self._number("free_bytes"), self._number("available_kv_bytes")
        if free is not None and (allocated is None or self._number("utilization") is not None):
            return free * self.request.memory.utilization
        if allocated is not None:
            return allocated
        sizes = [self._number(name) for name in ("total_bytes", "weights_bytes", "peak_bytes")]
        if any(size is None for size in sizes):
            return None
        total, weights, peak = (float(size or 0.0) for size in sizes)
        other = (self._number("non_torch_bytes") or 0.0) + (self._number("graph_bytes") or 0.0)
        return total * self.request.memory.utilization - weights - peak - other

    @property
    def _pools(self) -> float | None:
        """Bytes of the pools of K and V as SGLang prints them, without recurrent state; None where it does not."""
        return None if (keys := self._number("k_bytes")) is None else keys + (self._number("v_bytes") or 0.0)

    def _pool_tokens(self, available: float) -> float:
        """Tokens in the log's bytes for the cache: as the engine rounds them.

        SGLang's pools of K and V hold nothing but tokens; TensorRT-LLM allocates the last block whole (`ceilDiv` in
        `calculateMaxNumBlocks`).
        """
        stages = self.request.memory.stages
        if self.engine == "sglang" and self._number("begin_bytes") is None:
            each = max(part.kv_bytes_per_token for part in stages)
            return available // (each * self.request.memory.block_size) * self.request.memory.block_size if each else 0.0
        if self.engine == "trtllm" and all(part.layout.block is not None for part in stages):
            blocks = [sum(kind.block_bytes for kind in part.layout.kinds) for part in stages]
            return float(min(-(-available // size) for size in blocks if size)) * self.request.memory.block_size
        return self._tokens(available)

    def _fixed(self) -> int | None:
        """Tokens of a cache whose size was given, and not left to the engine."""
        blocks, limit = self._argument("num_gpu_blocks_override"), self._argument("max_total_tokens")
        if blocks is not None and blocks.isdigit():
            return int(blocks) * self.request.memory.block_size
        size = self._argument("kv_cache_memory_bytes")
        if size is not None and size.isdigit():
            return int(self._tokens(float(size)))
        if limit is not None and limit.isdigit():
            return min(int(limit), int(self._tokens(self._least()[0])))
        return None

    def _tokens(self, available: float) -> float:
        """Tokens in one replica that fit into `available` bytes per device."""
        if available <= 0:
            return 0.0
        if self._in_groups:
            longest = self.max_model_len
            return float(
                min(
                    available
                    // _of_all_groups(part)
                    * min(kind.block for kind in part.layout.kinds)
                    * part.own_cache_share(longest)
                    for part in self.request.memory.stages
                    if part.layout.kinds
                )
            )
        return self.held_tokens(self.max_model_len, available)

    def held_tokens(self, length: int, available: float) -> float:
        """Tokens in one replica, in sequences of a length, that fit into `available` bytes per device.

        A kind of layers with a window keeps it and the prompt's chunk of each step in flight, as the engine does.

        Args:
            length: tokens of each sequence.
            available: bytes for the cache on one device of each stage.
        """
        tokens = []
        for part in self.request.memory.stages:
            layout, share = part.layout, part.own_cache_share(length)
            if layout.block is not None:
                tokens.append(float(available // sum(kind.block_bytes for kind in layout.kinds) * layout.block) * share)
            else:
                new = min(part.max_num_batched_tokens * part.rules.steps_in_flight, length)
                whole = available // layout.page_bytes * layout.page_bytes if layout.page_bytes else available
                tokens.append(whole / float(layout.bytes(length - new, new)) * length * share)
        return min(tokens)

    @property
    def _in_groups(self) -> bool:
        """Whether the log counts tokens as blocks of each group of layers, as vLLM did up to 0.19, and not as those of
        the longest sequences: where layers differ the two are not the same, and the log's own figures tell."""
        tokens, longest, times = (self._number(name) for name in ("kv_tokens", "concurrency_len", "concurrency"))
        if not tokens or not longest or not times:
            return False
        mixed = any(part.layout.block is None for part in self.request.memory.stages)
        return mixed and abs(times * longest / tokens - 1) > _SAME


def _of_all_groups(stage: StageMemory) -> float:
    """Bytes of one block in each group of layers, those with recurrent state among them."""
    layout = stage.layout
    return sum(kind.block_bytes for kind in layout.kinds) + layout.state_bytes / stage.rules.state_blocks
