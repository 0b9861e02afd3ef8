"""AltUp: what stands around the layers of a model that keeps several copies of its residual stream (Gemma 3n)."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.dtypes import Dtypes, Precision
from roofline.numeric import Expr, ceil_div
from roofline.operators.add import Add
from roofline.operators.altup import AltUpCorrect, AltUpPredict
from roofline.operators.base import Operator
from roofline.operators.collectives import AllGather
from roofline.operators.gemm import Gemm
from roofline.operators.norm import Norm


@dataclass(frozen=True, slots=True, kw_only=True)
class AltUp:
    """`streams` copies of a residual stream of `width` elements, of `tokens` on this device.

    Tensor-parallel devices divide the outputs of the projections between copies, and gather them; all else each does for
    itself. The projections see the `gathered` tokens, all that the devices of a tensor-parallel group work on.

    Source: Gemma 3n in transformers and in vLLM; Baykal et al. 2023, arXiv:2301.13310.
    """

    streams: int
    width: int
    tokens: Expr
    gathered: Expr
    tp: int
    precision: Precision

    @property
    def _vector(self) -> Dtypes:
        return self.precision.dtypes("norm")

    def _small(self, n: int, k: int, *, borrowed: bool = False) -> Gemm:
        """A product with a router's or coefficients' weights."""
        return Gemm(m=self.tokens, n=n, k=k, borrowed=borrowed, dtypes=self.precision.dtypes("router"))

    def _copies(self, path: str) -> dict[str, tuple[Operator, Expr]]:
        """A projection for each copy but the first, and a norm that gives its outputs the magnitude of the first."""
        copies, dtypes = self.streams - 1, self.precision.dtypes("linear/projection")
        product = Gemm(m=self.gathered, n=ceil_div(self.width, self.tp), k=self.width, dtypes=dtypes)
        graph: dict[str, tuple[Operator, Expr]] = {f"{path}/projection": (product, copies)}
        if self.tp > 1:
            gather = AllGather(elements=self.gathered * self.width, world=self.tp, dtypes=self._vector)
            graph[f"{path}/all_gather"] = (gather, copies)
        magnitude = Norm(rows=self.tokens * self.streams, width=self.width, weight=False, dtypes=self._vector)
        return {**graph, f"{path}/magnitude": (magnitude, 1)}

    def inputs(self) -> dict[str, tuple[Operator, Expr]]:
        """The copies of the embedding: the embedding itself and its projections."""
        return self._copies("embedding/altup")

    def outputs(self) -> dict[str, tuple[Operator, Expr]]:
        """One stream of the copies: the mean of the first and of projections of the others."""
        mean = Add(elements=self.tokens * self.width, terms=self.streams, dtypes=self._vector)
        return {**self._copies("final_altup"), "final_altup/mean": (mean, 1)}

    def before(self) -> dict[str, Operator]:
        """Predictions of all copies, by coefficients from that one which the layer then works on."""
        streams = self.streams
        return {
            "altup/norm": Norm(rows=self.tokens, width=self.width, dtypes=self._vector),
            "altup/router": self._small(streams, self.width),
            "altup/prediction_coefs": self._small(streams * streams, streams),
            "altup/predict": AltUpPredict(tokens=self.tokens, width=self.width, streams=streams, dtypes=self._vector),
        }

    def after(self) -> dict[str, Operator]:
        """The layer's last addition, and corrections of all copies by coefficients from what it gives.

        NB: the router's norm has the weight of the one before the layer; its few bytes are not read again here.
        """
        return {
            "altup/add": Add(elements=self.tokens * self.width, dtypes=self._vector),
            "altup/norm_of_output": Norm(rows=self.tokens, width=self.width, weight=False, dtypes=self._vector),
            "altup/router_of_output": self._small(self.streams, self.width, borrowed=True),
            "altup/correction_coefs": self._small(self.streams, self.streams),
            "altup/correct": AltUpCorrect(
                tokens=self.tokens, width=self.width, streams=self.streams, dtypes=self._vector
            ),
        }  # fmt: skip
