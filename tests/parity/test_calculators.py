"""Calculators of single questions show in the browser what Python says, at random settings."""

from __future__ import annotations

import json
import math
import random
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from parity.test_javascript import PLAIN, different, needs_node, run

from roofline.errors import RooflineError
from roofline.report.calculators.pages import CALCULATORS, Calculator, calculator
from roofline.report.calculators.plan import smallest
from roofline.report.calculators.preempt import evicted, in_terminal
from roofline.report.controls import Control, Value
from roofline.serving.planning.plan import plan
from roofline.serving.preemption.preempt import preempt

ROUNDS = 60
FEWER = {"plan": 12}
"""Of a page with many deployments to a state."""


def _random(control: Control, chance: random.Random) -> Value:
    """A value that a reader can set: the first one as often as any."""
    if chance.random() < 0.4:
        return control.value
    if control.kind == "switch":
        return chance.random() < 0.5
    if control.kind == "choice":
        return chance.choice(control.choices).value
    if control.kind == "text":
        return control.value
    low, high = control.slider or (max(control.low or 1, 1), min(control.high or 1, 2.0**17))
    value = low * (high / low) ** chance.random()
    return float(round(value)) if control.step == 1 else round(value, 3)


def _states(made: Calculator, rounds: int) -> list[dict[str, Any]]:
    chance = random.Random(20261123)  # noqa: S311 - seeded on purpose
    states = [{control.key: _random(control, chance) for control in made.controls} for _ in range(rounds)]
    return [made.values, *({**made.values, **state} for state in states)]


def _shown(made: Calculator, state: dict[str, Any]) -> Any:
    try:
        return json.loads(json.dumps(asdict(made.view(state))))
    except RooflineError as error:
        return {"refused": str(error)}


@needs_node
@pytest.mark.parametrize("name", CALCULATORS)
def test_every_number_and_text(name: str, tmp_path: Path) -> None:
    """Tiles, tables, figures, sentences and refusals are those of Python."""
    made = calculator(name)
    script, data = made.script()
    states = _states(made, FEWER.get(name, ROUNDS))
    evaluate = """(() => {
      model.load(data.data);
      return data.states.map((state) => {
        try { return asPlain(model.view(state)); } catch (error) { return { refused: error.message }; }
      });
    })()"""
    source = script + PLAIN.replace("plain", "asPlain")  # the page has a `plain` of its own, which leaves objects alone
    shown = run(tmp_path, source, evaluate, {"data": data, "states": states})
    answered = 0
    for state, got in zip(states, shown, strict=True):
        wanted = _shown(made, state)
        if "refused" in wanted:
            assert got == wanted, state
            continue
        assert "refused" not in got, (state, got)
        assert list(different(wanted, got)) == [], state
        answered += 1
    assert answered > len(states) / 3


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tokens": 100_000},
        {"batch": 8, "context": 2000},
        {"tp": "2", "coalesced": False, "host_link": 20.0},
        {"model": "gemma-3-12b", "hardware": "b200-sxm", "pinned": False},
        {"model": "qwen3-30b-a3b", "hardware": "a100-sxm-80gb", "tokens": 50_000, "batch": 32, "kv": "fp8"},
    ],
)
def test_preemption_is_that_of_the_command(changes: dict[str, Any]) -> None:
    """Chunk by chunk on numbers, where the command computes with arrays: equal to a thousandth."""
    values = {**calculator("preempt").values, **changes}
    case, tokens = evicted(values), values["tokens"]
    line = shlex.split(in_terminal(values))
    options = dict(zip(line[3::2], line[4::2], strict=False))
    assert options["--tokens"] == str(tokens)
    expected = preempt(
        values["model"], values["hardware"], tokens=tokens, batch=values["batch"], context=values["context"] or None,
        host_link=values["host_link"] * 1e9 or None, pinned=values["pinned"], coalesced=values["coalesced"],
        tp=int(values["tp"]), kv_cache_dtype=values["kv"] or None,
    )  # fmt: skip
    assert expected.comparison is not None
    recomputed, wanted = case.recompute(tokens), expected.comparison.recompute
    assert recomputed.steps == wanted.steps
    for name in ("seconds", "bound", "low", "high"):
        assert getattr(recomputed, name) == pytest.approx(getattr(wanted, name), rel=1e-3)
    assert case.swapped(tokens) == pytest.approx((expected.comparison.swap.out_s, expected.comparison.swap.in_s))


@pytest.mark.parametrize("key", ["1", "2"])
def test_capacity_is_near_that_of_the_command(key: str) -> None:
    """The rate of a replica on H100, which slots limit, and L40S, which TPOT limits: as `plan` sizes it, within a third.

    `plan` has waits and percentiles besides, and chooses the tokens of a step.
    """
    values = {**calculator("plan").values, "tp": "1", "weights": "bf16", "rate": 400.0}
    one, _ = smallest(values, key)
    assert one is not None
    found = plan(
        values["model"], hardware=values[f"hardware{key}"], rate=values["rate"], input_len=values["input_len"],
        output_len=values["output_len"], ttft=values["ttft_ms"] / 1e3, tpot=values["tpot_ms"] / 1e3, dtype="bf16", tp=1,
        mode="colocated",
    )  # fmt: skip
    best = max(pool.max_rate for candidate in found.candidates for pool in candidate.pools if pool.devices == 1)
    assert one.rate == pytest.approx(best, rel=1 / 3)
    assert one.devices == one.replicas == math.ceil(values["rate"] / one.rate)
