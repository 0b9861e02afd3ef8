"""The functional forms of kernel times, one file per kind of kernel.

To add one: a `KernelForm` in a module here, and its name in `FORMS`. Other packages add theirs by the entry-point group
`roofline.forms`.
"""

from __future__ import annotations

from functools import cache

from roofline.predict.efficiency.form import CEILINGS, SHARES, SHARES_WIDENING, KernelForm
from roofline.predict.efficiency.forms import attention_decode, attention_prefill, gemm
from roofline.predict.efficiency.forms.attention_decode import FLASH_2, FLASH_3, FLASH_3_WHOLE, MLA_DECODE, MULTI_BLOCK
from roofline.predict.efficiency.forms.attention_prefill import ATTENTION_PREFILL, MLA_PREFILL
from roofline.predict.efficiency.forms.communication import ALL_REDUCE, COLLECTIVE, HOST_COPY, P2P
from roofline.predict.efficiency.forms.gemm import (
    GEMM,
    GEMM_FP8,
    GEMM_FP8_BLOCK,
    GEMM_FP8_BLOCK_SWAPPED,
    GEMM_FP8_CUTLASS,
)
from roofline.predict.efficiency.forms.moe import MOE
from roofline.predict.efficiency.forms.streaming import STREAMING
from roofline.registry import Registry

FORMS: Registry[KernelForm] = Registry(
    "form",
    [
        FLASH_3, FLASH_3_WHOLE, FLASH_2, MULTI_BLOCK, MLA_DECODE, ATTENTION_PREFILL, MLA_PREFILL, CEILINGS, SHARES,
        SHARES_WIDENING, ALL_REDUCE, COLLECTIVE, HOST_COPY, P2P, GEMM, GEMM_FP8, GEMM_FP8_CUTLASS, GEMM_FP8_BLOCK,
        GEMM_FP8_BLOCK_SWAPPED, MOE, STREAMING,
    ],
    group="roofline.forms",
    accepts=KernelForm,
)  # fmt: skip
"""The forms by name, as the `form` of a fitted family names them."""


GRIDS = {**gemm.GRIDS, **attention_decode.GRIDS, **attention_prefill.GRIDS}
"""Functions that return the tiles or thread blocks of a kernel as a `WorkGrid`, by the name of the form that has them."""


@cache
def forms_by_op() -> dict[str, tuple[KernelForm, ...]]:
    """Return the forms of each op of measured records, sorted by op; several where backends launch different kernels."""
    forms: dict[str, tuple[KernelForm, ...]] = {}
    for form in FORMS.values():
        for op in form.ops:
            forms[op] = (*forms.get(op, ()), form)
    return dict(sorted(forms.items()))
