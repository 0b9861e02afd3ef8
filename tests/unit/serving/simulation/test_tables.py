"""Tabulated seconds of steps against the formulas that they come from: at most 1 % off."""

from __future__ import annotations

import math
import random
from functools import cache

import numpy as np
import pytest

from roofline.predict.compiled import Compiled, compile
from roofline.predict.request import prepare
from roofline.predict.timing import pipeline, pipelined_step
from roofline.serving.queueing.replica import step_seconds
from roofline.serving.simulation.step_tables import StepTables, cells, knots
from roofline.serving.simulation.step_time import Basis, StepCosts
from roofline.specs.workload import Segment, Step

DEPLOYMENTS = {
    "llama-3.1-8b on a100": ("llama-3.1-8b", "a100-sxm-80gb", {}),
    "llama-3.1-70b on four h100": ("llama-3.1-70b", "h100-sxm", {"tp": 4}),
    "experts": ("qwen3-30b-a3b", "h100-sxm", {"tp": 2}),
    "latents": ("deepseek-v2-lite", "h100-sxm", {}),
    "windows": ("gemma-3-12b", "h100-sxm", {}),
    "sinks and windows": ("gpt-oss-20b", "h100-sxm", {}),
}
BASES: tuple[Basis, ...] = ("bound", "estimate")
LONGEST = 16_000
MOST = 256
ALLOWED = 0.01
ODD = 0.02
"""Within a 20th of a length at which the fitted time of a kernel jumps, which is one in a hundred."""


@cache
def deployment(name: str, basis: Basis) -> tuple[Compiled, StepTables]:
    """The formulas, and the tables."""
    model, hardware, options = DEPLOYMENTS[name]
    compiled = compile(model, hardware, **options)
    return compiled, StepTables(compiled.request, basis, LONGEST, MOST)


def exact(compiled: Compiled, basis: Basis, step: Step) -> float:
    """The formula's seconds of a step."""
    return float(step_seconds(compiled, step, sum(segment.count for segment in step))[basis])


def length(rng: random.Random, most: int) -> int:
    """From 1 to most, all orders of magnitude alike."""
    return int(math.exp(rng.uniform(0, math.log(most))))


def assert_near(errors: list[float]) -> None:
    """99 of 100 within 1 %, the others near a jump."""
    in_order = np.sort(np.abs(errors))
    assert in_order[int(len(errors) * 0.99) - 1] <= ALLOWED
    assert in_order[-1] <= ODD


@pytest.mark.slow
@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_decode(name: str, basis: Basis) -> None:
    """Steps of equal sequences, of any number and context."""
    compiled, tables = deployment(name, basis)
    rng, errors = random.Random(1), []  # noqa: S311 - no secret
    for _ in range(80):
        many, context = rng.choice([1, 2, 3, 7, 20, 63, 64, 65, 200, 256]), length(rng, LONGEST)
        took = tables.mixed(many, many * context, ())
        below = next((base, slope) for end, base, slope in tables.cells(many) if many * context < end)
        assert took == pytest.approx(below[0] + below[1] * many * context, rel=1e-12)
        errors.append(took / exact(compiled, basis, (Segment(many, 1, context, decode=True),)) - 1)
    assert_near(errors)


@pytest.mark.slow
@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_steps_with_prompts(name: str, basis: Basis) -> None:
    """A whole prompt alone and beside decodes; a later chunk beside the first of another prompt and decodes."""
    compiled, tables = deployment(name, basis)
    rng, errors = random.Random(2), []  # noqa: S311 - no secret
    for _ in range(35):
        many, context = rng.choice([1, 3, 20, 100]), length(rng, LONGEST)
        new, other = max(length(rng, 7000), 2), rng.randint(2, 900)
        before = length(rng, LONGEST - 8000)
        running = Segment(many, 1, context, decode=True)
        for chunks in ([(new, 0)], [(new, before)], [(new, before), (other, 0)]):
            prompts = tuple(Segment(1, part, past) for part, past in chunks)
            beside = tables.mixed(many, many * context, chunks)
            errors.append(beside / exact(compiled, basis, (running, *prompts)) - 1)
            errors.append(tables.mixed(0, 0, chunks) / exact(compiled, basis, prompts) - 1)
    assert_near(errors)


def test_whole_prompts_at_the_bound_are_exact() -> None:
    """Nothing is interpolated there: eleven digits."""
    compiled, tables = deployment("llama-3.1-8b on a100", "bound")
    for many, context, new in ((1, 100, 17), (40, 3000, 1500), (200, 900, 7992)):
        step = (Segment(many, 1, context, decode=True), Segment(1, new, 0))
        assert tables.mixed(many, many * context, [(new, 0)]) == pytest.approx(exact(compiled, "bound", step), rel=1e-11)


def test_uneven_contexts_at_the_bound() -> None:
    """Attention that reads its whole cache depends on the sum of contexts alone."""
    compiled, tables = deployment("llama-3.1-8b on a100", "bound")
    step = (Segment(10, 1, 200, decode=True), Segment(30, 1, 5000, decode=True))
    assert tables.mixed(40, 10 * 200 + 30 * 5000, ()) == pytest.approx(exact(compiled, "bound", step), rel=1e-9)


def test_beyond_the_tables() -> None:
    """A prompt that may not be cut, longer than any step that was tabulated: still within 1 %."""
    compiled, _ = deployment("llama-3.1-8b on a100", "bound")
    tables = StepTables(compiled.request, "bound", 131_072, MOST)
    for new in (9_000, 20_011, 100_003):
        assert tables.mixed(0, 0, [(new, 0)]) == pytest.approx(exact(compiled, "bound", (Segment(1, new, 0),)), rel=ALLOWED)


@pytest.mark.parametrize("basis", BASES)
def test_a_pipeline_takes_rounds(basis: Basis) -> None:
    """Two stages: sequences as two microbatches, as in `Pipeline`. One sequence passes one stage after another."""
    compiled = compile("llama-3.1-70b", "h100-sxm", tp=2, pp=2)
    tables = StepTables(compiled.request, basis, LONGEST, MOST)
    for many, context in ((2, 500), (64, 2000), (255, 900)):
        round_of = pipelined_step(compiled.request, (Segment(many, 1, context, decode=True),), 2)
        expected = round_of.bound if basis == "bound" else round_of.estimate
        assert tables.mixed(many, many * context, ()) == pytest.approx(expected, rel=ALLOWED)
    assert tables.mixed(1, 700, ()) == pytest.approx(exact(compiled, basis, (Segment(1, 1, 700, decode=True),)), rel=ALLOWED)
    alone = exact(compiled, basis, (Segment(1, 2000, 0),))
    assert tables.mixed(0, 0, [(2000, 0)]) == pytest.approx(alone, rel=ALLOWED)
    # four prompts keep both stages busy: two of them at a time
    four = tables.mixed(0, 0, [(2000, 0)] * 4)
    assert 2 * alone * 0.98 <= four < 2.2 * alone


def test_parts_are_all_of_a_step() -> None:
    """Rest, prompts' and segments' own parts are the whole step, on every basis."""
    compiled, _ = deployment("latents", "bound")
    step = (Segment(1, np.array([5.0, 700.0]), 0),)
    for basis in BASES:
        (part,) = StepCosts(compiled.request, basis).seconds(step)
        engine = compiled.request.engine_seconds(1) if basis == "estimate" else 0.0
        expected = [exact(compiled, basis, (Segment(1, new, 0),)) for new in (5, 700)]
        assert (part.total + engine).tolist() == pytest.approx(expected)
        assert (part.own > 0).all()
        assert (part.prompts > 0).all()  # the expansion of latents


def test_chords() -> None:
    """A straight line is one chord; a bend within the tolerance is not seen, one beyond it is."""
    assert cells([0, 1, 2, 3], [1.0, 2.0, 3.0, 4.0]) == [(math.inf, 1.0, 1.0)]
    assert len(cells([0, 1, 2], [1.0, 1.0005, 1.0], tolerance=1e-3)) == 1
    assert cells([0, 1, 2], [1.0, 1.01, 1.0], tolerance=1e-3) == [
        (1, 1.0, pytest.approx(0.01)), (math.inf, pytest.approx(1.02), pytest.approx(-0.01)),
    ]  # fmt: skip


def test_knots() -> None:
    """0, and on by the ratio to the longest."""
    assert knots(100, ratio=2) == [0, 16, 32, 64, 100]
    assert knots(4) == [0, 16]


@pytest.mark.parametrize("model", ["gpt2", "llama-3.1-8b", "deepseek-v2-lite"])
@pytest.mark.parametrize("chunk", [(1, 0), (1, 700)])
def test_a_chunk_of_one_token_is_a_prompt(model: str, chunk: tuple[int, int]) -> None:
    """As `pipeline` times a segment of a prompt with one new token, alone and beside sequences that decode."""
    request = prepare(model, "h100-sxm")
    tables = StepTables(request, "estimate", 1024, 64)
    for sequences in (0, 1, 16):
        beside = (Segment(sequences, 1, 500, decode=True),) if sequences else ()
        wanted = pipeline(request, (*beside, Segment(1, *chunk))).estimate
        assert tables.mixed(sequences, 500 * sequences, [chunk]) == pytest.approx(wanted, rel=0.005)
