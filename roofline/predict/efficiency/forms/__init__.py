"""The functional forms of kernel times, one file per kind of kernel.

To add one: a `Form` in a module here, and its name in `FORMS`. Packages add theirs by the entry-point group `roofline.forms`.
"""

from __future__ import annotations

from functools import cache

from roofline.predict.efficiency.form import CEILINGS, Form
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

FORMS: Registry[Form] = Registry(
    "form",
    [
        FLASH_3, FLASH_3_WHOLE, FLASH_2, MULTI_BLOCK, MLA_DECODE, ATTENTION_PREFILL, MLA_PREFILL, CEILINGS, ALL_REDUCE,
        COLLECTIVE, HOST_COPY, P2P, GEMM, GEMM_FP8, GEMM_FP8_CUTLASS, GEMM_FP8_BLOCK, GEMM_FP8_BLOCK_SWAPPED, MOE, STREAMING,
    ],
    group="roofline.forms",
    accepts=Form,
)  # fmt: skip
"""The forms by name, as the `form` of a fitted family names them."""


@cache
def forms_by_op() -> dict[str, tuple[Form, ...]]:
    """The forms of each op of measured records, sorted by op; several where backends launch kernels of different kinds."""
    forms: dict[str, tuple[Form, ...]] = {}
    for form in FORMS.values():
        for op in form.ops:
            forms[op] = (*forms.get(op, ()), form)
    return dict(sorted(forms.items()))
