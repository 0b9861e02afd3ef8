"""How engines divide a device's memory: what is left for the cache, with a band."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.predict.memory import StageMemory
from roofline.predict.request import ResolvedRequest
from roofline.specs.hardware import Hardware
from roofline.specs.workload import Segment

GIB = 2**30


@dataclass(frozen=True, slots=True)
class MemoryItem:
    """Bytes of one part of device memory: the expected size with the limits of its interval, and the reason for it."""

    name: str
    size: float
    low: float
    high: float
    why: str = ""

    @classmethod
    def around(cls, name: str, size: float, error: float, why: str = "") -> MemoryItem:
        """An item of `size` bytes, plus or minus `error` bytes."""
        return cls(name, size, size - error, size + error, why)


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """How an engine divides the memory of one device.

    Attributes:
        share: fraction of the device that the engine uses.
        device: bytes that the fraction is taken of.
        taken: what takes memory within that share, the KV cache excepted.
        of_free: whether the fraction is of what `taken` leaves of the device, and all of it is the cache's.
    """

    share: float
    device: MemoryItem
    taken: tuple[MemoryItem, ...]
    of_free: bool = False

    @property
    def available(self) -> float:
        """Expected bytes left for the KV cache; negative where nothing is left."""
        return self.share * self.device.size - self._within * sum(part.size for part in self.taken)

    @property
    def _within(self) -> float:
        """By how much the cache is smaller for each byte that is taken."""
        return self.share if self.of_free else 1.0

    @property
    def band(self) -> tuple[float, float]:
        """Lower and upper limit of the bytes left for the KV cache; independent errors are added in quadrature."""
        below = (self.share * (self.device.size - self.device.low)) ** 2 + self._within**2 * sum(
            (part.high - part.size) ** 2 for part in self.taken
        )
        above = (self.share * (self.device.high - self.device.size)) ** 2 + self._within**2 * sum(
            (part.size - part.low) ** 2 for part in self.taken
        )
        return self.available - below**0.5, self.available + above**0.5

    def share_for(self, cache: float) -> float:
        """The share that would leave `cache` bytes for the KV cache."""
        held = sum(part.size for part in self.taken)
        return cache / (self.device.size - held) if self.of_free else (cache + held) / self.device.size


_MIB = 2**20
# Of the NVIDIA cards above: a part that all have and a share of the capacity, and likewise the error.
DRIVER, DRIVER_SHARE = 450 * _MIB, 0.0015
ERROR, ERROR_SHARE = 0.1 * GIB, 0.004


def device_memory(hardware: Hardware) -> MemoryItem:
    """Bytes of a device that a process can allocate, with their interval: what the driver reports less what it keeps.

    `cudaMemGetInfo`, which engines ask, gives some 0.5 GiB less than `nvidia-smi`: what firmware, page tables and error
    correction take. It grows a little with the capacity. A capacity that the user gave is taken as it is.

    Source: totals in public logs beside the capacity that the driver reports: vLLM issue 7553 and pull request 10511 (24564
    and 81559 MiB), and others of the cards L4, RTX 3090, RTX 5090, A100, H200; they differ by 330 to 870 MiB.
    """
    reported = hardware.memory_bytes
    error = ERROR + ERROR_SHARE * reported
    if "memory_bytes" in hardware.overrides:
        return MemoryItem.around("device", reported, 0.0, "given")
    if hardware.accelerator.vendor != "nvidia":
        return MemoryItem("device", reported, reported - error, reported, "as reported: what the driver keeps is not known")
    return MemoryItem.around(
        "device", reported - DRIVER - DRIVER_SHARE * reported, error, "as reported, less what the driver keeps"
    )


_SGLANG_CONTEXT, _SGLANG_CONTEXT_ERROR = 0.5 * GIB, 0.4 * GIB
"""The CUDA context and the process groups, which are there before it looks at what is free."""
_SGLANG_OTHER, _SGLANG_OTHER_ERROR = 0.3 * GIB, 0.4 * GIB
"""What loading takes besides the weights: workspaces of libraries, tables of positions."""


def _sglang(request: ResolvedRequest, stage: StageMemory, release: tuple[int, ...] | None, *, eager: bool) -> MemoryBudget:
    """SGLang: what is free when it starts, times `mem_fraction_static`, less what loading the weights took.

    Activations and CUDA graphs live in the rest, which the fraction leaves; neither version nor graphs matter.

    Source: SGLang, python/sglang/srt/model_executor/model_runner.py, profile_max_num_token.
    """
    device = device_memory(request.hardware)
    error = (_SGLANG_CONTEXT_ERROR**2 + (device.size - device.low) ** 2) ** 0.5
    free = MemoryItem.around("free at the start", device.size - _SGLANG_CONTEXT, error, device.why)
    taken = [
        MemoryItem.around("weights", stage.loaded_bytes, 0.0),
        MemoryItem.around("other", _SGLANG_OTHER, _SGLANG_OTHER_ERROR),
    ]
    if request.deployment.reserve:
        taken.append(MemoryItem.around("reserve", request.deployment.reserve, 0.0))
    return MemoryBudget(stage.utilization, free, tuple(taken))


SAMPLER, SAMPLER_ERROR = 9.8, 0.1
"""Copies of the logits in fp32 that are held at a time; the share by which the peak may be off."""
_VLLM_OTHER, _VLLM_OTHER_ERROR = 0.08 * GIB, 0.08 * GIB
"""What is not PyTorch's, and tables of positions that count as weights."""
_VLLM_RANK, _VLLM_RANK_ERROR = 0.3 * GIB, 0.3 * GIB
"""Buffers of collectives, where several devices share a layer."""
GRAPHS, GRAPHS_MIN, GRAPHS_MAX = 0.7 * GIB, 0.1 * GIB, 1.5 * GIB
"""CUDA graphs, for which the cache leaves memory from 0.21 on."""
GRAPHS_SINCE = (0, 21)


def _vllm(request: ResolvedRequest, stage: StageMemory, release: tuple[int, ...] | None, *, eager: bool) -> MemoryBudget:
    """vLLM: a share of the device, less weights, less the peak of a step that it tries before it sizes the cache.

    The step that it tries has as many tokens as one may have, and samples as many sequences as one may hold. Sampling decides
    where the vocabulary is large: logits in fp32, sorted with their indices, and their probabilities, are held at a time.

    Source: vLLM, vllm/v1/worker/gpu_worker.py, determine_available_memory. `SAMPLER`: peaks in public logs over 4 bytes per
    sequence and token of the vocabulary are 9.7 to 10.3 (Llama 3.1 8B, 256 x 128256: 1.19 to 1.26 GiB; Qwen3 8B, 256 x 151936:
    1.40 GiB; Gemma 3 4B, 1024 x 262144: 9.96 GiB), in vLLM issue 10511 and pull request 21489 among others.
    """
    deployment = request.deployment
    taken = [
        MemoryItem.around("weights", stage.loaded_bytes, 0.0),
        _peak(request, stage),
        MemoryItem.around("other", _VLLM_OTHER, _VLLM_OTHER_ERROR),
    ]
    if deployment.devices > deployment.data_parallel_size:
        taken.append(MemoryItem.around("collectives", _VLLM_RANK, _VLLM_RANK_ERROR))
    if not eager and release is not None and release >= GRAPHS_SINCE:
        taken.append(MemoryItem("graphs", GRAPHS, GRAPHS_MIN, GRAPHS_MAX))
    if deployment.reserve:
        taken.append(MemoryItem.around("reserve", deployment.reserve, 0.0))
    return MemoryBudget(stage.utilization, device_memory(request.hardware), tuple(taken))


def _peak(request: ResolvedRequest, stage: StageMemory) -> MemoryItem:
    """The peak of activations in the step that the engine tries: of its layers, or of sampling."""
    longest = request.deployment.max_model_len or request.model.max_position_embeddings
    most = stage.max_num_batched_tokens
    length = min(most, longest)
    layers = float(
        stage.activation_bytes((Segment(max(most // length, 1) * request.deployment.data_parallel_size, length, 0),))
    )
    sequences = request.deployment.max_num_seqs or 0
    sampling = SAMPLER * 4 * sequences * request.model.vocab_size if stage.stage.last else 0.0
    return MemoryItem.around("activations", max(layers, sampling), SAMPLER_ERROR * max(layers, sampling))


_TRTLLM_OTHER, _TRTLLM_OTHER_ERROR = 1.5 * GIB, 1.0 * GIB
"""What is not a tensor: the CUDA context, libraries, CUDA graphs."""


def _trtllm(request: ResolvedRequest, stage: StageMemory, release: tuple[int, ...] | None, *, eager: bool) -> MemoryBudget:
    """TensorRT-LLM: a share of what the weights and the largest step, which is run once, leave of the device.

    Source: TensorRT-LLM, tensorrt_llm/_torch/pyexecutor/_util.py (KvCacheCreator) and
    cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp (calculateMaxNumBlocks).
    """
    most = stage.max_num_batched_tokens
    layers = float(stage.activation_bytes((Segment(request.deployment.data_parallel_size, most, 0),)))
    taken = [
        MemoryItem.around("weights", stage.loaded_bytes, 0.0),
        MemoryItem.around("activations", layers, layers),
        MemoryItem.around("other", _TRTLLM_OTHER, _TRTLLM_OTHER_ERROR),
    ]
    if request.deployment.reserve:
        taken.append(MemoryItem.around("reserve", request.deployment.reserve, 0.0))
    return MemoryBudget(stage.utilization, device_memory(request.hardware), tuple(taken), of_free=True)


def _llama(request: ResolvedRequest, stage: StageMemory, release: tuple[int, ...] | None, *, eager: bool) -> MemoryBudget:
    """llama.cpp: what weights, compute buffer and its margin leave. NB: its cache is as large as its arguments say, whatever
    this is.
    """
    layers = float(stage.activation_bytes((Segment(1, stage.max_num_batched_tokens, 0),)))
    taken = (MemoryItem.around("weights", stage.loaded_bytes, 0.0), MemoryItem.around("activations", layers, layers))
    return MemoryBudget(stage.utilization, device_memory(request.hardware), taken)


def memory_budget(
    engine: str, request: ResolvedRequest, stage: StageMemory, release: tuple[int, ...] | None, *, eager: bool
) -> MemoryBudget:
    """How an engine divides the memory of one device of a pipeline stage.

    Args:
        engine: `vllm`, `sglang`, `trtllm` or `llama.cpp`.
        request: the deployment.
        stage: its pipeline stage.
        release: the engine's version as numbers; None: not known.
        eager: whether the engine runs without CUDA graphs.
    """
    return {"vllm": _vllm, "sglang": _sglang, "trtllm": _trtllm, "llama.cpp": _llama}[engine](
        request, stage, release, eager=eager
    )
