"""vLLM: a share of the device, less weights, less the peak of a step that it tries before it sizes the cache.

The step that it tries has as many tokens as one may have, and samples as many sequences as one may hold. Sampling decides
where the vocabulary is large: logits in fp32, sorted with their indices, and their probabilities, are held at a time.

Source: vLLM, vllm/v1/worker/gpu_worker.py, determine_available_memory. `SAMPLER`: peaks in public logs over 4 bytes a
sequence and token of the vocabulary are 9.7 to 10.3 (Llama 3.1 8B, 256 x 128256: 1.19 to 1.26 GiB; Qwen3 8B, 256 x 151936:
1.40 GiB; Gemma 3 4B, 1024 x 262144: 9.96 GiB), in vLLM issue 10511 and pull request 21489 among others.
"""

from __future__ import annotations

from roofline.audit.engine_logs.budgets.base import GIB, Budget, Part
from roofline.audit.engine_logs.budgets.device import seen
from roofline.predict.memory import StageMemory
from roofline.predict.request import Request
from roofline.specs.workload import Segment

SAMPLER, SAMPLER_ROOM = 9.8, 0.1
"""Copies of the logits in fp32 that are held at a time; the share by which the peak may be off."""
OTHER, OTHER_ROOM = 0.08 * GIB, 0.08 * GIB
"""What is not PyTorch's, and tables of positions that count as weights."""
RANK, RANK_ROOM = 0.3 * GIB, 0.3 * GIB
"""Buffers of collectives, where several devices share a layer."""
GRAPHS, GRAPHS_LEAST, GRAPHS_MOST = 0.7 * GIB, 0.1 * GIB, 1.5 * GIB
"""CUDA graphs, of which the cache makes room from 0.21 on."""
GRAPHS_SINCE = (0, 21)


def budget(request: Request, part: StageMemory, release: tuple[int, ...] | None, *, eager: bool) -> Budget:
    """The budget on a device of a pipeline stage."""
    deployment = request.deployment
    taken = [Part.around("weights", part.weights_bytes, 0.0), peak(request, part), Part.around("other", OTHER, OTHER_ROOM)]
    if deployment.devices > deployment.data_parallel_size:
        taken.append(Part.around("collectives", RANK, RANK_ROOM))
    if not eager and release is not None and release >= GRAPHS_SINCE:
        taken.append(Part("graphs", GRAPHS, GRAPHS_LEAST, GRAPHS_MOST))
    if deployment.reserve:
        taken.append(Part.around("reserve", deployment.reserve, 0.0))
    return Budget(part.utilization, seen(request.hardware), tuple(taken))


def peak(request: Request, part: StageMemory) -> Part:
    """The peak of activations in the step that the engine tries: of its layers, or of sampling."""
    longest = request.deployment.max_model_len or request.model.max_position_embeddings
    most = part.max_num_batched_tokens
    length = min(most, longest)
    layers = float(part.activation_bytes((Segment(max(most // length, 1) * request.deployment.data_parallel_size, length, 0),)))
    sequences = request.deployment.max_num_seqs or 0
    sampling = SAMPLER * 4 * sequences * request.model.vocab_size if part.stage.last else 0.0
    return Part.around("activations", max(layers, sampling), SAMPLER_ROOM * max(layers, sampling))
