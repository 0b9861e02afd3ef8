"""Grouped matrix multiply of a mixture of experts: each token meets the weights of the experts it was routed to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from roofline.cost import Cost
from roofline.dtypes import Shape
from roofline.numeric import Expr, minimum, ratio
from roofline.operators.base import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedGemm(Operator):
    """Multiply each token's activations by the matrices of its experts.

    `tokens` tokens each choose `top_k` of `experts`; this device holds `local_experts` of them (all, unless experts are
    spread over devices), so that tokens*top_k*local_experts/experts rows are multiplied here: 2nk FLOP each. Rows are
    gathered by index as they are read and written once each: no permuted copy of the tokens is made (as in fused
    kernels; a copy would add 2*top_k rows per token). Weights are read for the *distinct* experts that the step touches,
    which is their expected number under independent routing (see `expected_distinct`), or `distinct` of this device's
    where the routing is known. `imbalance`: the device has that many times the mean of the devices that share the experts, as
    far as that is possible (see `excess`). `redundant` slots of the devices that share the experts have copies of some of them,
    which share the tokens: a slot has top_k/(experts + redundant) of them.

    >>> one = GroupedGemm(tokens=1, n=4, k=5, experts=8, top_k=2)
    >>> one.cost()  # 2 rows: 2*2*4*5 FLOP; 2 experts read: 2*2*4*5 B; 2*(2*5 + 2*4) B
    Cost(matrix_flops=80, weight_bytes=80.0, activation_bytes=36)
    >>> one.parameters  # all 8 are held
    160
    >>> half = GroupedGemm(tokens=4, n=4, k=5, experts=8, top_k=2, local_experts=4, imbalance=1.5)
    >>> half.rows, half.cost().matrix_flops  # 1.5 * 4 of the 8 rows: 2*6*4*5 FLOP
    (6.0, 240.0)
    >>> copied = GroupedGemm(tokens=8, n=4, k=5, experts=6, top_k=2, local_experts=2, redundant=2)
    >>> copied.rows, copied.parameters  # 2 of 8 slots: 8*2*2/8 rows
    (4, 40)

    Source: distinct experts by linearity of expectation, derived in `expected_distinct`; Mixtral of Experts,
    arXiv:2401.04088, section 2.1, for the layer.
    """

    kind: ClassVar[str] = "grouped_gemm"
    tokens: Expr
    n: Expr
    k: Expr
    experts: Expr
    top_k: Expr
    local_experts: Expr | None = None
    distinct: Expr | None = None
    bias: bool = False
    skew: float = 0.0
    imbalance: float = 1.0
    redundant: int = 0
    stored: tuple[Shape, ...] = ()
    """The tensors that an expert's weights are stored as, where it is not one of n x k: each has scales of its own."""

    @property
    def held(self) -> Expr:
        """The number of experts on this device."""
        return self.experts if self.local_experts is None else self.local_experts

    @property
    def slots(self) -> Expr:
        """The number of experts and copies on all devices that share them."""
        return self.experts + self.redundant if self.redundant else self.experts

    @property
    def rows(self) -> Expr:
        """The expected number of (token, expert) pairs computed on this device: rows of the products."""
        even = ratio(self.tokens * self.top_k * self.held, self.slots)
        return even if self.imbalance == 1 else even * self.excess

    @property
    def excess(self) -> Expr:
        """The load of this device over the mean of the devices that share the experts: see `expert_load_imbalance`."""
        return (
            1
            if self.imbalance == 1
            else expert_load_imbalance(self.imbalance, self.experts, self.top_k, self.slots / self.held)
        )

    def cost(self) -> Cost:
        """2nk FLOP per row; the weights of the distinct experts once; rows in and out once."""
        return Cost(
            matrix_flops=2 * self.rows * self.n * self.k,
            vector_flops=self.rows * self.n if self.bias else 0,
            weight_bytes=self._read() * self._expert_bytes(),
            activation_bytes=self.rows * (self.k + self.n) * self.dtypes.activation.bytes,
        )

    def _read(self) -> Expr:
        """Experts whose weights a step reads here."""
        if self.distinct is not None:
            return self.distinct
        share = self.held / self.slots if self.local_experts is not None else 1
        # as if tokens chose each expert here that many times as often
        return expected_distinct(self.experts, self.top_k, self.tokens, self.skew, self.excess, self.redundant) * share

    @property
    def parameters(self) -> Expr:
        """Parameters of all experts on this device, whether a step reads them or not, in elements."""
        return self.held * (self.n * self.k + (self.n if self.bias else 0))

    @property
    def held_bytes(self) -> Expr:
        """Bytes of all experts on this device, with biases and scales."""
        return self.held * self._expert_bytes()

    @property
    def metadata_bytes(self) -> Expr:
        """Bytes of the scales of one expert."""
        return self.dtypes.weight.metadata_bytes(self.stored or ((self.n, self.k),))

    def _expert_bytes(self) -> Expr:
        return self.dtypes.elements_bytes(self.n, self.k, bias=self.bias) + self.metadata_bytes


def expert_load_imbalance(imbalance: Expr, experts: Expr, top_k: Expr, ranks: Expr) -> Expr:
    """The load of the busiest of `ranks` devices over their mean: `imbalance`, or the largest possible value if that is less.

    A device holds h = E/ranks of E experts, so that of a token's k different experts at most min(k, h) are there. The mean is
    k/ranks, of which that is min(ranks, E/k) times as many.

    Args:
        imbalance: the ratio that is assumed, 1 for an even load.
        experts: routed experts E of a layer.
        top_k: experts k that a token uses.
        ranks: devices over which whole experts are spread.

    >>> [expert_load_imbalance(9.0, 256, 8, ranks) for ranks in (1, 4, 16)], expert_load_imbalance(9.0, 8, 2, 8)
    ([1, 4, 9.0], 4.0)
    """
    return minimum(imbalance, minimum(ranks, experts / top_k))


def expected_distinct(experts: Expr, top_k: Expr, tokens: Expr, skew: float = 0.0, often: Expr = 1, redundant: int = 0) -> Expr:
    """The expected number of distinct experts, or slots with experts and copies, that a batch of tokens touches.

    A token chooses expert e with probability pi_e (summing to top_k over the experts), independently of other tokens.
    Expert e is missed by all T tokens with probability (1 - pi_e)^T, so the expected number of those that are met is
    sum_e 1 - (1 - pi_e)^T. Uniform routing has pi_e = top_k/experts and gives E(1 - (1 - k/E)^T).

    Args:
        experts: routed experts E; a Python integer if there is a skew.
        top_k: different experts k that a token uses.
        tokens: tokens T that are routed.
        skew: exponent a >= 0 of Zipf's law: pi_e falls with an expert's popularity rank r as r^-a, capped at 1. 0: uniform.
        often: factor by which each pi_e is multiplied, capped at 1 (the excess load of a device).
        redundant: slots with copies, which share their expert's tokens. Without a skew every slot has as many; with one the
            expert whose copies have most is copied next.

    >>> expected_distinct(8, 2, 1), round(expected_distinct(8, 2, 8), 4)  # 8(1 - 0.75) and 8(1 - 0.75^8)
    (2.0, 7.1991)
    >>> expected_distinct(4, 2, 1, skew=1.5)  # one token meets top_k experts, however skewed
    2.0
    """
    slots = experts + redundant if redundant else experts
    if isinstance(often, int) and often == 1:
        if not skew:
            return slots * (1 - (1 - top_k / slots) ** tokens)
        return sum(1 - (1 - chance) ** tokens for chance in inclusion_probabilities(experts, top_k, skew, redundant))
    if not skew:
        return slots * (1 - (1 - minimum(often * top_k / slots, 1)) ** tokens)
    chances = inclusion_probabilities(experts, top_k, skew, redundant)
    return sum(1 - (1 - minimum(often * chance, 1)) ** tokens for chance in chances)


@cache
def inclusion_probabilities(experts: int, top_k: int, skew: float, redundant: int = 0) -> tuple[float, ...]:
    """The probability of each expert to be among a token's top_k, the most popular first; of each of its copies an equal part.

    Proportional to rank^-skew, at most 1; they sum to top_k. Slots for copies are given one by one to the expert whose copies
    have the most tokens (the load balancer of DeepSeek, https://github.com/deepseek-ai/EPLB).

    >>> inclusion_probabilities(4, 2, 0.0)
    (0.5, 0.5, 0.5, 0.5)
    >>> sum(inclusion_probabilities(8, 2, 3.0))
    2.0
    >>> [round(chance, 3) for chance in inclusion_probabilities(4, 1, 1.0, 1)]  # the first, of 0.48, is there twice
    [0.24, 0.24, 0.24, 0.16, 0.12]
    """
    weights = [(rank + 1) ** -skew for rank in range(experts)]
    sure = 0  # the most popular experts whose share would exceed 1 are always chosen
    while sure < top_k and (top_k - sure) * weights[sure] > sum(weights[sure:]):
        sure += 1
    rest = sum(weights[sure:])
    chances = [1.0 if rank < sure else (top_k - sure) * weights[rank] / rest for rank in range(experts)]
    copies = [1] * experts
    for _ in range(redundant):
        loads = [chance / count for chance, count in zip(chances, copies, strict=True)]
        copies[loads.index(max(loads))] += 1
    return tuple(chance / count for chance, count in zip(chances, copies, strict=True) for _ in range(count))
