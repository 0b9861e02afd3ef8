"""Right inputs, most of which are answered, and what must hold of every answer.

300 of each kind run in CI, always the same; of kinds whose commands take long most are read alone. `ROOFLINE_FUZZ=67 pytest
tests/fuzz` runs 20,100 of each, every one by its command, and `ROOFLINE_FUZZ_SEED` gives others. A case that fails is made
smaller, and left in a folder that the message names, with its command line. More than half of each kind must be accepted: else
the fuzz would test readers alone.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import traceback
from collections import Counter
from pathlib import Path

import pytest
import typer
from fuzz.invariants import RELATIONS, broken
from fuzz.kinds import Case
from fuzz.test_fuzz import SEED, TIMES, Left, call, confined, problem, shell_line
from fuzz.valid import VALID, Valid
from hypothesis import HealthCheck, Phase, given, seed, settings

from roofline.cli import app as application
from roofline.errors import RooflineError

_CASES = 300
_LEAST_ACCEPTED = 0.55
_LIMIT_S = 10.0
_RELATED = 20
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


@pytest.mark.every_case
@pytest.mark.parametrize("name", VALID)
def test_right_inputs_are_answered_rightly(name: str, tmp_path: Path) -> None:
    """No internal error, nothing that takes 10 CPU s, and whatever is answered holds; more than half are answered."""
    kind = VALID[name]
    counts: Counter[bool] = Counter()
    night = TIMES > 1

    @seed(SEED)
    @settings(
        max_examples=max(round(_CASES * TIMES), 1), database=None, deadline=None, print_blob=False,
        phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(kind.strategy())
    def run(drawn: tuple[Case, int]) -> None:
        folder = tmp_path / "case"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        case, number = drawn
        case.write(folder)
        alone = kind.light is not None and not night and number % kind.every != 0
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
