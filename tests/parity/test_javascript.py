"""The translated program says what Python says: costs of every operator, whole analyses, texts of numbers."""

from __future__ import annotations

import inspect
import json
import math
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import samples_translated
from strategies import KINDS

from roofline.cost import FIELDS
from roofline.files import write_whole
from roofline.formulas.javascript import Program
from roofline.formulas.javascript.program import RUNTIME
from roofline.operators import OPERATORS
from roofline.operators.base import Operator
from roofline.predict.analyze import analyze
from roofline.predict.analyze import run as analyze_request
from roofline.predict.request import prepare
from roofline.report.page_program import LIBRARY, new_program, spec_data
from roofline.specs.library import ids

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="Node.js is not installed; tests/browser compares too, in Chromium")
POINTS = 12
TOLERANCE = 1e-9
PLAIN = """
const plain = (value) => {
  if (value === null || value === undefined) return null;
  if (typeof value === "number") return Number.isFinite(value) ? value : null;
  if (typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(plain);
  if (value instanceof $.Dict) return Object.fromEntries(value.pairs().map(([key, its]) => [key, plain(its)]));
  return Object.fromEntries(value.constructor.$fields.map((name) => [name, plain(value[name])]));
};
"""


@cache
def script() -> tuple[str, dict[str, Any]]:
    """The program with what a page calls to analyse, and all specs as data."""
    made = new_program()
    made.export("prepare", prepare)
    made.export("run", analyze_request)
    data = spec_data(made, ids("models"), ids("hardware"))
    for kind in OPERATORS.values():
        made.refer(kind)
    return made.source() + LIBRARY.read_text(encoding="utf-8") + PLAIN, data


def run(folder: Path, source: str, expression: str, data: object) -> Any:
    """What Node makes of an expression over `data`."""
    path = folder / "program.js"
    harness = f'const data = JSON.parse(require("fs").readFileSync(0));\nconsole.log(JSON.stringify({expression}));\n'
    path.write_text(source + harness, encoding="utf-8")
    assert NODE is not None
    done = subprocess.run([NODE, str(path)], input=json.dumps(data), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@needs_node
@pytest.mark.parametrize("cls", OPERATORS.values(), ids=lambda cls: cls.kind)
def test_every_structure(cls: type[Operator], tmp_path: Path) -> None:
    """Costs of an operator in every structure that it can have, at random dimensions (seeded)."""
    chance, kind = random.Random(20260101), KINDS[cls]  # noqa: S311 - seeded on purpose
    operators = [kind.draw(structure, chance) for structure in kind.structures() for _ in range(POINTS)]
    encode = new_program().encode
    source, _ = script()
    found = run(
        tmp_path, source, "data.map((one) => plain($.revive(one).cost()))", [encode(operator) for operator in operators]
    )
    for operator, got in zip(operators, found, strict=True):
        cost = replace(operator).cost()
        for name in FIELDS:
            wanted = float(getattr(cost, name))
            assert math.isclose(got[name], wanted, rel_tol=TOLERANCE, abs_tol=1e-9), (operator, name, got[name], wanted)


@needs_node
def test_images(tmp_path: Path) -> None:
    """An analysis with images: every number and text. Those without are in `test_paths.py`."""
    cases = [("gemma-3-12b", "h100-sxm", {"images": 2, "batch": 3, "tp": size, "output_len": 10}) for size in (1, 2)]
    source, data = script()
    evaluate = """(() => {
      library.fill(data.specs);
      return data.cases.map(([model, hardware, options]) =>
        plain(program.run(program.prepare(model, hardware, $.dict(Object.entries(options)))).to_dict()));
    })()"""
    found = run(tmp_path, source, evaluate, {"specs": data, "cases": cases})
    for (model, hardware, options), got in zip(cases, found, strict=True):
        wanted = json.loads(analyze(model, hardware, **options).to_json())
        del got["inputs"], wanted["inputs"]  # which file it was, with its hash
        assert list(different(wanted, got)) == [], options


def different(
    wanted: Any, got: Any, at: str = "", tolerance: Callable[[str], float] = lambda at: TOLERANCE
) -> Iterator[tuple[str, Any, Any]]:
    """Where two JSON values differ: in anything but the last digits of a number, of which there is a tolerance by place."""
    if isinstance(wanted, dict) and isinstance(got, dict) and wanted.keys() == got.keys():
        for key in wanted:
            yield from different(wanted[key], got[key], f"{at}/{key}", tolerance)
    elif isinstance(wanted, list) and isinstance(got, list) and len(wanted) == len(got):
        for index, (one, other) in enumerate(zip(wanted, got, strict=True)):
            yield from different(one, other, f"{at}/{index}", tolerance)
    elif isinstance(wanted, int | float) and isinstance(got, int | float) and not isinstance(wanted, bool):
        if abs(wanted - got) > tolerance(at) * max(abs(wanted), abs(got)):
            yield at, wanted, got
    elif wanted != got:
        yield at, wanted, got


SPECS = (
    *(".0f", ".1f", ".2f", ",.0f", ",.2f", ".3g", ".4g", ",.4g", "g", ".0%", ".1%", "+.1f", "+.1%"),
    *(".2e", ">12.3f", "08.2f", ","),
)


SAMPLES = {
    name: function
    for name, function in inspect.getmembers(samples_translated, inspect.isfunction)
    if function.__module__ == samples_translated.__name__ and not name.startswith("_")
}


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the samples answer in Node."""
    made = Program({}, folders=(Path(samples_translated.__file__).parent,))
    for name, function in SAMPLES.items():
        made.export(name, function)
    expression = "Object.fromEntries(data.map((name) => [name, plain(program[name]())]))"
    return run(tmp_path_factory.mktemp("samples"), made.source() + PLAIN, expression, list(SAMPLES))


@needs_node
@pytest.mark.parametrize("name", SAMPLES)
def test_every_construct(name: str, sampled: dict[str, Any]) -> None:
    """Each construct of the language that is translated answers what Python answers."""
    assert sampled[name] == json.loads(json.dumps(SAMPLES[name]()))


@needs_node
def test_texts_of_numbers(tmp_path: Path) -> None:
    """Numbers are written as Python writes them, ties and all magnitudes included."""
    chance = random.Random(7)  # noqa: S311 - seeded on purpose
    numbers = [0.5, 1.5, 2.5, 0.125, 0.375, 1e-5, 9.995, 99.95, 999.5, 1e15, 1e16, 1e21, 123456789.0, -0.5, -2.5, 0.0]
    numbers += [chance.uniform(-10, 10) * 10 ** chance.randint(-12, 18) for _ in range(400)]
    numbers += [float(chance.randint(-(10**6), 10**6)) / 8 for _ in range(200)]
    found = run(
        tmp_path,
        RUNTIME.read_text(encoding="utf-8"),
        "data.numbers.map((number) => data.specs.map((spec) => $.format(number, spec)))",
        {"numbers": numbers, "specs": SPECS},
    )
    for number, texts in zip(numbers, found, strict=True):
        for spec, text in zip(SPECS, texts, strict=True):
            value = int(number) if spec == "," and number.is_integer() else number
            if spec != "," or number.is_integer():
                assert text == format(value, spec), (number, spec)


@needs_node
def test_whole_divisions(tmp_path: Path) -> None:
    """525/75 is 7, which a product with 1/75 misses; so are all exact divisions and their neighbours. Signs are Python's."""
    pairs = [(quotient * n + extra, n) for n in range(1, 130) for quotient in (-7, 1, 7, 1000, 10**9) for extra in (0, 1)]
    found = run(
        tmp_path,
        RUNTIME.read_text(encoding="utf-8"),
        "data.map(([a, b]) => [$.ceilDiv(a, b), $.floordiv(a, b), $.mod(a, b)])",
        [(525, 75), *pairs],
    )
    assert found[0] == [7, 7, 0]
    assert found[1:] == [[-(-a // b), a // b, a % b] for a, b in pairs]


@needs_node
def test_whole_zeros_have_no_sign(tmp_path: Path) -> None:
    """Python's ints have one zero; the number that JavaScript has for it can be told from -0 by what it is divided by."""
    text = "data.map(([a, b]) => [$.ceilDiv(a, b), $.floordiv(a, b)].map((zero) => Object.is(zero, 0)))"
    pairs = [(0, 3), (0, 1), (0, 128)]
    assert run(tmp_path, RUNTIME.read_text(encoding="utf-8"), text, pairs) == [[True, True]] * 3


@needs_node
def test_sets_have_no_order(tmp_path: Path) -> None:
    """Whether a set holds another is not translated: it is an error, and not JavaScript's comparison of two texts."""
    compared = "(() => { try { return $.set([1]) <= $.set([1]); } catch (error) { return error.message; } })()"
    assert run(tmp_path, RUNTIME.read_text(encoding="utf-8"), compared, None) == "{1} has no order"


def test_what_it_does_not_know_is_refused() -> None:
    """Code outside the part of Python that is translated is an error that names it, never a silent guess."""
    made = Program({})
    made.export("write", write_whole)
    with pytest.raises(TypeError, match=r"roofline\.files\.write_whole: cannot translate"):
        made.source()


def test_others_code_is_refused() -> None:
    """Only this project's own functions are translated."""
    with pytest.raises(TypeError, match=r"json\.loads: it is not ours"):
        Program({}).export("loads", json.loads)


def test_it_is_a_classic_script() -> None:
    """Pages open from file://, where ES modules do not load; the same inputs make the same text."""
    source, _ = script()
    assert "const program" in source
    assert "export " not in source.replace(RUNTIME.read_text(encoding="utf-8"), "")
    script.cache_clear()
    assert script()[0] == source
