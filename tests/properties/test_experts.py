"""Expected numbers of distinct experts, against an enumeration of every way to route."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.operators.grouped_gemm import GroupedGemm, expected_distinct, inclusion_probabilities

LIGHT = settings(deadline=None, max_examples=100)


@st.composite
def routings(draw: st.DrawFn) -> tuple[int, int]:
    """A number of experts, and how many of them a token uses."""
    experts = draw(st.integers(1, 256))
    return experts, draw(st.integers(1, experts))


@pytest.mark.parametrize(
    ("experts", "top_k", "tokens"),
    [(e, k, t) for e in range(1, 6) for k in range(1, e + 1) for t in range(1, 4) if (e, t) != (5, 3)] + [(5, 2, 3), (4, 2, 5)],
)
def test_enumeration(experts: int, top_k: int, tokens: int) -> None:
    """Every token chooses every subset of top_k equally often: the mean size of the union is exact."""
    subsets = list(combinations(range(experts), top_k))
    ways = list(product(subsets, repeat=tokens))
    mean = Fraction(sum(len(set().union(*way)) for way in ways), len(ways))
    assert expected_distinct(experts, top_k, tokens) == pytest.approx(float(mean), rel=1e-12)


@LIGHT
@given(routing=routings(), tokens=st.integers(1, 100_000))
def test_bounds(routing: tuple[int, int], tokens: int) -> None:
    """At least top_k (one token meets so many), at most all, and at most top_k for each token."""
    experts, top_k = routing
    distinct = expected_distinct(experts, top_k, tokens)
    assert top_k * (1 - 1e-12) <= distinct <= min(experts, top_k * tokens) * (1 + 1e-12)


def test_a_busier_device_meets_at_most_all_of_its_experts() -> None:
    """An expert picked 1.5 times as often is met with min(1, 1.5 k/E): 4 (1 - (1/4)^2) of 4, and all where that is above 1."""
    assert expected_distinct(4, 2, 2, often=1.5) == pytest.approx(4 * (1 - 0.25**2))
    assert expected_distinct(4, 3, 2, often=1.5) == 4
    assert expected_distinct(4, 3, 2, 1.0, often=100.0) == pytest.approx(4)


@LIGHT
@given(routing=routings(), tokens=st.integers(1, 5000))
def test_more_tokens_meet_more_experts_but_ever_fewer_new_ones(routing: tuple[int, int], tokens: int) -> None:
    """The expected number grows with the tokens, each token adding no more than the one before."""
    one, two, three = (expected_distinct(*routing, tokens + more) for more in range(3))
    assert one <= two * (1 + 1e-12)
    assert three - two <= two - one + 1e-9


@LIGHT
@given(routing=routings(), skew=st.floats(0.01, 10))
def test_inclusion_probabilities(routing: tuple[int, int], skew: float) -> None:
    """Chances are between 0 and 1, fall with the rank, and sum to top_k, however steep."""
    experts, top_k = routing
    chances = inclusion_probabilities(experts, top_k, skew)
    assert len(chances) == experts
    assert all(0 <= chance <= 1 + 1e-12 for chance in chances)
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(chances))
    assert sum(chances) == pytest.approx(top_k, rel=1e-9)


@LIGHT
@given(routing=routings(), tokens=st.integers(1, 5000), skew=st.floats(0.01, 10), more=st.floats(0, 5))
def test_skew_never_touches_more(routing: tuple[int, int], tokens: int, skew: float, more: float) -> None:
    """Popular experts crowd the others out: fewer distinct ones than under uniform routing, the fewer the steeper."""
    experts, top_k = routing
    uniform, skewed, steeper = (expected_distinct(experts, top_k, tokens, a) for a in (0.0, skew, min(skew + more, 10.0)))
    assert skewed <= uniform * (1 + 1e-9)
    assert steeper <= skewed * (1 + 1e-9)
    assert steeper >= top_k * (1 - 1e-9)


@LIGHT
@given(routing=routings(), tokens=st.integers(1, 5000), skew=st.sampled_from([0.0, 0.5, 2.0]))
def test_flops_do_not_depend_on_luck(routing: tuple[int, int], tokens: int, skew: float) -> None:
    """2nk FLOP for each token and expert, however they are routed; weights read are at most those held."""
    experts, top_k = routing
    operator = GroupedGemm(tokens=tokens, n=3, k=5, experts=experts, top_k=top_k, skew=skew)
    assert operator.cost().matrix_flops == 2 * tokens * top_k * 3 * 5
    assert operator.cost().weight_bytes <= operator.parameters * 2 * (1 + 1e-9)
