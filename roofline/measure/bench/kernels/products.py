"""Products with a weight matrix, one or a batch of them."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from roofline.measure.bench.kernels.base import Kernel, NotRunnableError
from roofline.measure.bench.variants import FAST, PREQUANTISED


class Products(Kernel):
    """y = x w^T in the library that torch calls. fp8: activations are quantised in the call, unless that is said to have
    been done before; scales are one a tensor. int8 gives int32."""

    ops: ClassVar[tuple[str, ...]] = ("gemm", "bmm")

    def inputs(self) -> tuple[Any, ...]:
        """Both factors, with k as the last dimension."""
        operator, place = self.operator(), self.place
        if self.point.op == "bmm" and self.dtype in ("fp8", "int8"):
            raise NotRunnableError(f"torch has no batch of {self.dtype} products")
        batch = () if self.point.op == "gemm" else (operator.batch,)
        if self.dtype == "fp8":
            before = self.point.texts.get("kernel") in (PREQUANTISED, FAST)
            x = place.random(operator.m, operator.k, dtype="fp8" if before else "bf16")
            one = torch.ones((), dtype=torch.float32, device=place.device)
            return x, place.random(operator.n, operator.k, dtype="fp8"), one
        x = place.random(*batch, operator.m, operator.k, dtype=self.dtype)
        return x, place.random(*batch, operator.n, operator.k, dtype=self.dtype, scale=0.02)

    def run(self, *inputs: Any) -> Any:
        """The product."""
        x, w, *scale = inputs
        if self.dtype == "fp8":
            if not hasattr(torch, "_scaled_mm"):
                raise NotRunnableError("this torch has no product of fp8 matrices")
            return torch._scaled_mm(  # noqa: SLF001 - the only fp8 product in all the versions that we support
                x.to(torch.float8_e4m3fn),
                w.t(),
                scale_a=scale[0],
                scale_b=scale[0],
                out_dtype=torch.bfloat16,
                use_fast_accum=self.point.texts.get("kernel") == FAST,
            )
        if self.dtype == "int8":
            return torch._int_mm(x, w.t())  # noqa: SLF001 - likewise
        return torch.mm(x, w.t()) if self.point.op == "gemm" else torch.bmm(x, w.transpose(1, 2))
