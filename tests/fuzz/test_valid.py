"""Right inputs, most of which are answered, and what must hold of every answer.

300 of each kind run in CI, always the same; of kinds whose commands take long most are read alone. `ROOFLINE_FUZZ=67 pytest
tests/fuzz` runs 20,100 of each, some three hours of a core, and `ROOFLINE_FUZZ_SEED` gives others. A case that fails is made
smaller, and left in a folder that the message names, with its command line. More than half of each kind must be accepted: else
the fuzz would test readers alone.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import shutil
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import typer
from fuzz.invariants import EXPLAINED, RELATIONS, Relation, as_text, broken, explained, faster, given_back, larger
from fuzz.kinds import Case
from fuzz.test_fuzz import SEED, TIMES, Left, call, confined, problem, shell_line
from fuzz.valid import VALID, Valid
from hypothesis import HealthCheck, Phase, given, seed, settings

from roofline.cli import app as application
from roofline.errors import RooflineError

_CASES = 300
_LEAST_ACCEPTED = 0.55
_LIMIT_S = 10.0
_RELATED = 30
"""Each relation is looked at in one of so many answers that have some."""


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No packages of the user's, no network, a traceback for what is not foreseen, and commands that are built once."""
    monkeypatch.delenv("ROOFLINE_PATH", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("ROOFLINE_DEBUG", "1")
    monkeypatch.setattr(application, "app", typer.main.get_command(application.app))


def _answer(case: Case, as_json: bool = True) -> Left:
    return call([*case.arguments, *case.last, *(["--json"] if as_json else [])], _LIMIT_S)


def _read(kind: Valid, case: Case) -> Left:
    """What reading the files of a case alone comes to."""
    assert kind.light is not None
    try:
        with confined(_LIMIT_S):
            kind.light(case)
    except RooflineError as error:
        return Left(error.exit_code, "", f"error: {error}\n")
    except BaseException:  # noqa: BLE001 - which is what is looked for
        return Left(traceback.format_exc(limit=-3), "", "")
    return Left(0, "", "")


def _problems(kind: Valid, case: Case, alone: bool, relation: int) -> tuple[bool, list[str]]:
    """Whether a case is accepted, and what is wrong with how it is answered. It runs in the working directory."""
    left = _read(kind, case) if alone else _answer(case)
    accepted = left.code in (0, 1)
    if (wrong := problem(left, as_json=not alone)) is not None:
        return accepted, [f"{wrong}\n  stderr: {left.err[:2000]}"]
    if not accepted or alone:
        return accepted, []
    document = json.loads(left.out)
    found = list(itertools.islice(broken(document), 5))
    relations = RELATIONS.get(case.arguments[0], ())

    def ask(arguments: tuple[str, ...], as_json: bool) -> tuple[int, str]:
        again = _answer(Case(arguments), as_json)
        if (wrong := problem(again, as_json=as_json)) is not None:
            raise AssertionError(f"{' '.join(arguments)}: {wrong}\n  stderr: {again.err[:2000]}")
        return int(again.code), again.out

    if relation < len(relations):
        try:
            found += itertools.islice(relations[relation](case.arguments, document, ask), 3)
        except AssertionError as error:
            found.append(str(error))
    return accepted, found


@pytest.mark.every_part
@pytest.mark.every_case
@pytest.mark.parametrize("name", VALID)
def test_right_inputs_are_answered_rightly(name: str, tmp_path: Path) -> None:
    """No internal error, nothing that takes 10 CPU s, and whatever is answered holds; more than half are answered."""
    kind = VALID[name]
    counts: Counter[bool] = Counter()
    folder = tmp_path / "case"
    folder.mkdir()

    @seed(SEED)
    @settings(
        max_examples=max(round(_CASES * TIMES), 1), database=None, deadline=None, print_blob=False,
        phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(kind.strategy())
    def run(drawn: tuple[Case, int]) -> None:
        for entry in folder.iterdir():  # NB: to remove the folder itself takes as long as a short command
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        case, number = drawn
        case.write(folder)
        alone = kind.light is not None and number % kind.every != 0
        with contextlib.chdir(folder):
            accepted, found = _problems(kind, case, alone, number % _RELATED)
        counts[accepted] += 1
        if found:
            line = shell_line((*case.arguments, *case.last))
            (folder / "command.txt").write_text(f"{line}\n", encoding="utf-8")
            again = f"ROOFLINE_FUZZ_SEED={SEED} ROOFLINE_FUZZ={TIMES:g} pytest tests/fuzz -k 'rightly and {name}'"
            pytest.fail("\n".join([f"cd {folder} && {line}", *found, f"again by {again}"]))

    run()
    share = counts[True] / counts.total()
    assert share >= _LEAST_ACCEPTED, f"{share:.0%} of {counts.total()} were accepted"


_SPAN = {"floor": 1.0, "bound": 2.0, "estimate": 3.0, "low": 2.5, "high": 4.0}
_ANSWER: dict[str, Any] = {
    "model": {"parameters": {"total": 7}},
    "hardware": {"bandwidth": 1e12, "memory_bytes": 2**30, "peak_flops": {"bf16": 1e12}},
    "deployment": {"pipeline_parallel": 1},
    "memory": {
        "capacity_bytes": 2**30, "budget_bytes": 100, "weights_bytes": 10, "tower_bytes": 0, "activation_bytes": 20,
        "reserved_bytes": 30, "usable_bytes": 40, "missing_bytes": 0, "fits": True, "max_batch": 5, "max_batch_of_steps": 4,
        "max_context": 100, "kv_capacity_tokens": 1000, "kv_bytes_per_token": 9,
    },
    "phases": [{"phase": "prefill", "time_s": _SPAN, "pipeline": _SPAN, "operators": [
        {"path": "a", "flops": {"matrix": 1, "vector": 2, "total": 3}, "bytes": {"total": 0}, "mfu": 0.5,
         "time_s": {**_SPAN, "floor": None}},
    ], "flops": {"matrix": 1, "vector": 2, "total": 3}, "bytes": {"total": 0}}],
    "request": {"ttft_s": _SPAN, "tpot_s": _SPAN, "e2e_s": _SPAN},
    "e2e_s": {"p50": 1.0, "p90": 2.0},
}  # fmt: skip
"""An answer of `analyze` in which everything holds, as far as it is looked at."""


def _changed(path: str, value: Any) -> dict[str, Any]:
    """That answer with another value."""
    answer = copy.deepcopy(_ANSWER)
    *inside, last = path.split(".")
    entry: Any = answer
    for key in inside:
        entry = entry[int(key) if key.isdigit() else key]
    entry[last] = value
    return answer


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        ("request.tpot_s.bound", 3.5, "bound 3.5 is above estimate 3.0"),
        ("request.tpot_s.floor", 2.25, "floor 2.25 is above bound 2.0"),
        ("request.tpot_s.low", 0.5, "floor 1.0 is above low 0.5"),
        ("request.tpot_s.high", 2.75, "estimate 3.0 is above high 2.75"),
        ("phases.0.operators.0.time_s.low", 1.5, "bound 2.0 is above low 1.5"),
        ("phases.0.operators.0.mfu", 1.25, "mfu is 1.25"),
        ("phases.0.operators.0.flops.vector", 5, "parts are 6, the total 3"),
        ("phases.0.bytes.total", 8, "bytes of operators are 0, of the step 8"),
        ("e2e_s.p90", 0.5, "p50, p90 are not ascending"),
        ("memory.activation_bytes", 25, "are 105, the budget 100"),
        ("memory.missing_bytes", 1, "fits is True, and 1 bytes are missing"),
    ],
)
def test_what_does_not_hold_is_named(path: str, value: Any, why: str) -> None:
    """One number changed is one problem, or more; without it there is none."""
    assert not list(broken(_ANSWER))
    assert any(why in problem for problem in broken(_changed(path, value)))


@pytest.mark.parametrize(
    ("relation", "path", "value", "why"),
    [
        (faster, "request.tpot_s.bound", 2.5, "tpot_s bound is 2.5, and was 2.0"),
        (faster, "phases.0.time_s.estimate", 3.5, "prefill estimate is 3.5, and was 3.0"),
        (larger, "memory.max_batch", 4, "max_batch is 4, and was 5"),
        (larger, "memory.fits", False, "fits is False, and was True"),
        (given_back, "request.ttft_s.high", 4.5, "ttft_s high is 4.5, and was 4.0"),
        (given_back, "memory.max_context", 101, "another memory"),
        (as_text, "", "Fits. Maximum batch size: 4. bound 2.01 s, estimate 3.0 s", "bound of prefill, 2.00 s, is not in it"),
        (as_text, "", "Fits. Maximum batch size: 40. bound 2.00 s, estimate 3.0 s", "batch size, 4, is not in it"),
    ],
)
def test_answers_that_do_not_go_together_are_named(relation: Relation, path: str, value: Any, why: str) -> None:
    """A second answer with one number changed; the first once more is no problem."""
    again = value if isinstance(value, str) else json.dumps(_changed(path, value))
    same = "Fits. Maximum batch size: 4. bound 2.00 s, estimate 3.0 s" if isinstance(value, str) else json.dumps(_ANSWER)
    line = ("analyze", "a-model")
    assert not list(relation(line, _ANSWER, lambda arguments, as_json: (0, same)))
    assert any(why in problem for problem in relation(line, _ANSWER, lambda arguments, as_json: (0, again)))


def test_another_number_of_a_formula_is_named() -> None:
    """Of every quantity that the answer has: it has no decode step."""
    named: set[str] = set()
    for length in range(len(EXPLAINED)):  # which two are looked at follows from the command line
        line = ("analyze", "a-model", "x" * length)
        named |= {problem.partition(" is ")[0] for problem in explained(line, _ANSWER, lambda _, __: (0, '{"value": -1.0}'))}
    assert named == {f"explain {name}" for name in EXPLAINED if not name.startswith("decode")}
