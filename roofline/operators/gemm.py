"""Dense matrix multiply: Y[m, n] = X[m, k] W[k, n] (+ bias), one or a batch of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from roofline.cost import Cost
from roofline.dtypes import Shape
from roofline.numeric import Expr
from roofline.operators.base import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemm(Operator):
    """Multiply activations by a weight matrix.

    Each of the m*n outputs is a dot product of length k: k multiplies and k adds, 2k FLOP. W, X and Y each cross
    device memory once, W with its scales where it is quantised. NB: no re-reads when a tile of W is larger than L2; the
    bias is added in the epilogue, and its n FLOP per row are vector FLOP; unpacking quantised weights is not counted.

    >>> Gemm(m=3, n=4, k=5).cost()  # 2*3*4*5 FLOP; 2*4*5 B of weights; 2*(3*5 + 3*4) B of activations
    Cost(matrix_flops=120, weight_bytes=40, activation_bytes=54)
    >>> Gemm(m=3, n=4, k=5, batch=2, bias=True).parameters  # two matrices of 4*5 and their biases
    48

    Source: Williams, Waterman, Patterson, "Roofline: An Insightful Visual Performance Model", CACM 52(4), 2009.
    """

    kind: ClassVar[str] = "gemm"
    m: Expr
    n: Expr
    k: Expr
    batch: Expr = 1
    bias: bool = False
    borrowed: bool = False
    """The weights are another operator's (a tied LM head reads the embedding table): read here, held there."""
    stored: tuple[Shape, ...] = ()
    """The tensors that the weights are stored as, where it is not one of n x k a matrix: each has scales of its own."""

    @property
    def measured_as(self) -> str:
        """The op "bmm" for a batch of products (one per head), else "gemm"."""
        return "bmm" if not (isinstance(self.batch, int) and self.batch == 1) else "gemm"

    def cost(self) -> Cost:
        """2mnk matrix FLOP per product; weights, inputs and outputs once."""
        return Cost(
            matrix_flops=2 * self.batch * self.m * self.n * self.k,
            vector_flops=self.batch * self.m * self.n if self.bias else 0,
            weight_bytes=self._weight_bytes(),
            activation_bytes=self.batch * (self.m * self.k + self.m * self.n) * self.dtypes.activation.bytes,
        )

    def borrowing(self) -> Operator:
        """The operator with weights that another one holds: read here, held there."""
        return replace(self, borrowed=True)

    @property
    def parameters(self) -> Expr:
        """n*k weights per matrix, and n biases, in elements; 0 if they are borrowed."""
        return 0 if self.borrowed else self.batch * (self.n * self.k + (self.n if self.bias else 0))

    @property
    def held_bytes(self) -> Expr:
        """Bytes of all matrices with their biases and scales; 0 if they are borrowed."""
        return 0 if self.borrowed else self._weight_bytes()

    @property
    def metadata_bytes(self) -> Expr:
        """Bytes of the scales of all matrices."""
        if self.stored:
            return self.dtypes.weight.metadata_bytes(self.stored)
        return self.dtypes.weight.metadata_bytes(((self.n, self.k),), self.batch)

    def _weight_bytes(self) -> Expr:
        return self.batch * self.dtypes.elements_bytes(self.n, self.k, bias=self.bias) + self.metadata_bytes
