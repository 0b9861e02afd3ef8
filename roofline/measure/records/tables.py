"""What is known of outside tables beside their columns: how their kernels were run.

AIConfigurator's collector of SGLang's fused experts (`collector/sglang/collect_moe.py`) makes the work of one expert-parallel
rank in two ways. Where SGLang's own layer runs, a pick of another rank's expert costs nothing. Where the fused function is
called by itself (all of them up to SGLang 0.5.10, with 0.5.14 two plain softmax routers), tokens without a pick here are
dropped, and every other pick of the rest is given to the first expert, with weight zero: it multiplies them all. Serving
never does so, and a fit that did not know would believe that it does.

Nemotron's experts have no gate. TensorRT-LLM's kernel says so in its name; SGLang has a kernel of its own for them
(FlashInfer's CUTLASS); of vLLM's newer rows it is seen in times, which with a gate would need 1.5 times the memory bandwidth
that there is. The older rows (vLLM 0.14, SGLang 0.5.10) were made with a gate.

https://github.com/ai-dynamo/aiconfigurator
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

_SOURCE = "aiconfigurator"
_EXPERTS = ["hidden", "inter", "experts", "topk"]
_NEMOTRON = ((2688, 1856, 128, 6), (2048, 5120, 512, 22))
_WITHOUT_GATE = "nongated|flashinfer_cutlass"
_ALONE = ((2816, 704, 128, 8), (4096, 14336, 8, 2))


def ungated(frame: pd.DataFrame) -> pd.Series[bool]:
    """Whether experts have no gate projection. By row."""
    named = frame["kernel"].astype(str).str.contains(_WITHOUT_GATE)
    newer = _made_by(frame, "vllm", "unquantizedfusedmoe")
    return named | (newer & _of(frame, _NEMOTRON))


def own_kernel(frame: pd.DataFrame) -> pd.Series[bool]:
    """Whether a kernel of its own does ungated experts, unlike the backend's others in its times too. By row."""
    return ungated(frame) & _made_by(frame, "sglang", "flashinfer_cutlass")


def gathered(frame: pd.DataFrame) -> pd.Series[bool]:
    """Whether rows of other ranks' experts were multiplied by the first expert here. By row."""
    alone = _made_by(frame, "sglang", "fused_moe_triton") & (frame["moe_ep"].fillna(1) > 1)
    older = frame["version"].astype(str).isin(("0.5.9", "0.5.10"))
    return alone & (older | _of(frame, _ALONE))


def _made_by(frame: pd.DataFrame, backend: str, kernel: str) -> pd.Series[bool]:
    of_table = (frame["source"] == _SOURCE) & (frame["op"] == "moe") & (frame["backend"] == backend)
    return of_table & frame["kernel"].astype(str).str.contains(kernel)


def _of(frame: pd.DataFrame, configurations: tuple[tuple[int, ...], ...]) -> pd.Series[bool]:
    """Whether the experts are of one of these sizes."""
    found = frame["op"] != frame["op"]  # no row
    for sizes in configurations:
        found |= (frame[_EXPERTS] == list(sizes)).all(axis=1)
    return found
