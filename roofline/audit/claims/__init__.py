"""Whether a stated number is possible.

>>> from roofline.audit.claims import judge
>>> judge("llama-3.1-8b on a100-sxm-80gb: 3500 tok/s at batch 1 fp16").verdict
'impossible'
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

from roofline.audit.claims.judge import judge_statement
from roofline.audit.claims.statement import statement

if TYPE_CHECKING:
    from roofline.audit.claims.result import Judgement
    from roofline.blocks.model import Model
    from roofline.specs.hardware import Hardware

__all__ = ["judge"]


def judge(
    text: str | None = None,
    model: str | PathLike[str] | Model | None = None,
    hardware: str | PathLike[str] | Hardware | None = None,
    **options: Any,
) -> Judgement:
    """Judge whether a performance claim is possible on the hardware that it names.

    The claim is given in words, by options, or both; what both say may not be said twice.

    Args:
        text: the claim in words (docs/claims.md has the grammar).
        model: an id, a name as people write it, a path, or a loaded model.
        hardware: likewise.
        **options: those of `roofline claim`, with underscores: `tokens_per_s` (of the whole batch, unless `per_user` or
            `per_gpu`), `phase`, `ttft`, `tpot` (seconds, or text with a unit), `fits`, `peak_flops` (FLOP/s, or text with a
            unit); `batch`, `input_len`, `output_len`, `context` (tokens), `dtype`, `kv_cache_dtype`, `quantization`, `tp`,
            `pp`, `dp`, `ep`, `devices`.

    Returns:
        The verdict with its ceiling (in the unit of the claim) and derivation; `.to_dict()` has the layout of
        `roofline claim --json`.

    Raises:
        InputError: words or a value that cannot be read, something stated twice, or hardware or a model that is missing.
        AmbiguousNameError: a name that several models or accelerators have.
        UnknownNameError: a name that none has.
    """
    return judge_statement(statement(text, model, hardware, options))
