"""Calculators of single questions show in the browser what Python says, at random settings."""

from __future__ import annotations

import json
import random
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from parity.test_javascript import PLAIN, _different, needs_node, run

from roofline.errors import RooflineError
from roofline.report.calculators.pages import CALCULATORS, Calculator, calculator
from roofline.report.controls import Control, Value

ROUNDS = 60


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
    states = _states(made, ROUNDS)
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
        assert list(_different(wanted, got)) == [], state
        answered += 1
    assert answered > len(states) / 3
