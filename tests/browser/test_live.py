"""Real pages: what the browser computes at settings nobody chose is what Python computes.

`ROOFLINE_PAGE_ROUNDS` says at how many settings (1,000 take some twenty minutes; CI takes as many as stand here), and
`ROOFLINE_PAGE_SEED` at which.
"""

from __future__ import annotations

import json
import os
import random
from dataclasses import asdict
from typing import Any

import pytest
from browser.cells import CELLS
from browser.waits import settle

from roofline.blocks.model_files import load_model
from roofline.errors import RooflineError
from roofline.report.analysis.page import calculator, report, settings
from roofline.report.analysis.view import head, section_keys, section_of, solved, view
from roofline.report.cells import csv_text
from roofline.report.figure import View
from roofline.report.formulas import formulas
from roofline.specs.library import ids

ROUNDS = int(os.environ.get("ROOFLINE_PAGE_ROUNDS", "24"))
SEED = int(os.environ.get("ROOFLINE_PAGE_SEED", "20261121"))
TOLERANCE = 1e-9
_VALUES = {
    "others": [], "fixed": {}, "cached_prefix": 0, "images": 0, "output_len": 256, "pp": 1, "dp": 1, "ep": 1, "weights": "",
    "kv": "", "backend": "",
    "efficiency": True, "peak_tflops": 0, "bandwidth_gbs": 0, "memory_gb": 0, "ttft_ms": 0.0, "tpot_ms": 0.0,
}  # fmt: skip


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A report of two devices, the calculator, and a report with formulas."""
    folder = tmp_path_factory.mktemp("pages")
    made = {
        "report": report("mixtral-8x7b", ["h200-sxm", "a100-sxm-80gb"], {"batch": 16, "tp": 2, "input_len": "2k"}),
        "calculator": calculator(),
        "formulas": report("gpt2", ["h100-sxm"], {}, formulas),
    }
    for name, text in made.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in made}


def random_state(chance: random.Random, model: str) -> dict[str, Any]:
    """What the controls could be set to: mostly plain, sometimes odd."""

    def mostly(usual: object, *others: object) -> Any:
        return usual if chance.random() < 0.7 else chance.choice(others)

    longest = min(load_model(model)[0].max_position_embeddings, 65536)
    return {
        **_VALUES,
        "model": model,
        "hardware": chance.choice(list(ids("hardware"))),
        "batch": round(2 ** chance.uniform(0, 12)),
        "input_len": round(2 ** chance.uniform(0, 13)),
        "context": min(round(2 ** chance.uniform(0, 16)), longest),
        "output_len": round(2 ** chance.uniform(0, 10)),
        "cached_prefix": mostly(0, 1, 100),
        "tp": chance.choice(("1", "1", "2", "4", "8")),
        "pp": mostly("1", "2"),
        "dp": mostly("1", "2", "4"),
        "ep": mostly("1", "2", "8"),
        "weights": mostly("", "bf16", "fp8", "awq", "nvfp4"),
        "kv": mostly("", "fp8"),
        "backend": mostly("", "vllm", "sglang", "trtllm"),
        "efficiency": mostly(True, False),
        "peak_tflops": mostly(0, 500, 12.5),
        "bandwidth_gbs": mostly(0, 1000, 4800.5),
        "memory_gb": mostly(0, 40, 512),
        "tpot_ms": mostly(50.0, 0, 5.5),
    }


def answered(state: dict[str, Any]) -> dict[str, Any]:
    """The view of a state as plain data, or why there is none."""
    try:
        return asdict(view(state))
    except RooflineError as error:
        return {"refused": str(error)}


def different(wanted: Any, got: Any, at: str = "") -> Any:
    """Where two values differ: in anything but the last digits of a number."""
    if isinstance(wanted, dict) and isinstance(got, dict) and wanted.keys() == got.keys():
        for key in wanted:
            yield from different(wanted[key], got[key], f"{at}/{key}")
    elif isinstance(wanted, list | tuple) and isinstance(got, list) and len(wanted) == len(got):
        for index, (one, other) in enumerate(zip(wanted, got, strict=True)):
            yield from different(one, other, f"{at}/{index}")
    elif isinstance(wanted, int | float) and isinstance(got, int | float) and not isinstance(wanted, bool):
        if abs(wanted - got) > TOLERANCE * max(abs(wanted), abs(got)):
            yield at, wanted, got
    elif wanted != got:
        yield at, wanted, got


PLAIN = """(value) => {
  const plain = (value) => {
    if (value === null || value === undefined) return null;
    if (typeof value !== "object") return value;
    if (Array.isArray(value)) return value.map(plain);
    return Object.fromEntries(Object.entries(value).map(([key, its]) => [key, plain(its)]));
  };
  try { return JSON.stringify(plain(model.view(value))); } catch (error) { return JSON.stringify({ refused: error.message }); }
}"""


def test_browser_computes_what_python_computes(open_page, pages):
    """Every text, every number and every plotted point, at random settings of random models on random hardware."""
    page = open_page(pages["calculator"])
    chance = random.Random(SEED)  # noqa: S311 - seeded on purpose
    refused = 0
    for _ in range(ROUNDS):
        state = random_state(chance, chance.choice(list(ids("models"))))
        got = json.loads(page.evaluate(PLAIN, state))
        wanted = answered(state)
        refused += "refused" in wanted
        assert list(different(wanted, got)) == [], state
    assert refused < ROUNDS * 0.7


STATES = 250
_KEEP_WORKER = """() => {
  window.Worker = class extends Worker {
    constructor(url) {
      super(url);
      window.worker = this;
    }
  };
}"""
# States one after another, to the worker of the page, which passes by what has the number of none of its own: the head of each,
# and one section. The next state stops what else the worker would make of the last.
_ASK = """(states) => new Promise((resolve) => {
  const answers = [];
  const next = () => {
    if (answers.length === states.length) return resolve(JSON.stringify(answers, (key, value) => value ?? null));
    const [state, section] = states[answers.length];
    worker.postMessage({ id: -1 - answers.length, state, first: [section], dark: false, widths: {}, pinned: null });
  };
  let answer = {};
  worker.addEventListener("message", ({ data: { id, head, section, error, isDone } }) => {
    if (id !== -1 - answers.length) return;
    if (head) answer.head = head;
    if (section && !answer.section) answer.section = section;
    if (error !== undefined) answer = { refused: error };
    if (error === undefined && !section && !isDone) return;
    answers.push(answer);
    answer = {};
    next();
  });
  next();
})"""


def in_part(state: dict[str, Any], key: str) -> dict[str, Any]:
    """The head and one section of the view of a state (the first where it has none of that key), or why there is none."""
    try:
        made = solved(state)
        keys = section_keys(made)
        drawn = section_of(made, key if key in keys else keys[0])
        return json.loads(json.dumps({"head": asdict(head(made)), "section": asdict(drawn)}))
    except RooflineError as error:
        return {"refused": str(error)}


@pytest.mark.night
def test_the_worker_computes_what_python_computes(open_page, pages):
    """250 random settings: every text and number of the head (tiles, verdict, commands), and of one section, in turns."""
    page = open_page(pages["calculator"], init=_KEEP_WORKER)
    chance = random.Random(SEED + 1)  # noqa: S311 - seeded on purpose
    models = list(ids("models"))
    sections = (
        "roofline",
        "explorer",
        "time-prefill",
        "time-decode",
        "device",
        "memory",
        "operators",
        "limits",
        "checked",
        "inputs",
    )
    asked = [(random_state(chance, chance.choice(models)), sections[number % len(sections)]) for number in range(STATES)]
    page.evaluate(f"(states) => {{ window.answers = ({_ASK})(states); }}", asked)
    wanted = [in_part(state, key) for state, key in asked]  # while the worker computes too
    for question, one, its in zip(asked, wanted, json.loads(page.evaluate("answers")), strict=True):
        assert list(different(one, its)) == [], question
    assert sum("head" in one for one in wanted) > STATES / 3


def shown(made: View) -> dict[str, tuple[str, float | None]]:
    """Texts and numbers of the cells of a view, by the names that the page gives them."""
    found = {f"tile/{tile.label}": (tile.cell.text, tile.cell.value) for tile in made.tiles}
    tables = [table for section in made.sections for table in section.tables]
    tables += [section.figure.table for section in made.sections if section.figure and section.figure.table]
    for table in [*tables, made.assumptions]:
        for index, row in enumerate(table.rows):
            for place, cell in enumerate(row):
                found[f"{table.key}/{index}/{place}"] = (cell.text, cell.value)
    return found


@pytest.mark.parametrize(
    ("fragment", "changes"),
    [
        ("", {}),
        ("#batch=64&context=9000&kv=fp8", {"batch": 64, "context": 9000, "kv": "fp8"}),
        ("#input_len=4096&cached_prefix=3584", {"input_len": 4096, "cached_prefix": 3584}),
        ("#hardware=b200-sxm&efficiency=0&tp=1", {"hardware": "b200-sxm", "efficiency": False, "tp": "1"}),
    ],
)
def test_a_permalink_shows_what_python_shows(open_page, pages, fragment, changes):
    """The cells of the page, text and number, after its address was read."""
    page = open_page(pages["report"], fragment)
    first = {**_VALUES, "model": "mixtral-8x7b", "hardware": "h200-sxm", "others": ["a100-sxm-80gb"]}
    first |= {"batch": 16, "tp": "2", "pp": "1", "dp": "1", "ep": "1", "input_len": 2048, "context": 2048}
    wanted = shown(view({**first, **changes}))
    got = {name: (text, value) for name, text, value in page.evaluate(CELLS)}
    assert wanted.keys() == got.keys()
    for name, (text, value) in wanted.items():
        assert got[name][0] == text, name
        assert got[name][1] == (None if value is None else pytest.approx(value, rel=TOLERANCE)), name


def test_csv_is_pythons(open_page, pages):
    """What is downloaded as CSV, to the last digit of its texts."""
    page = open_page(pages["calculator"])
    state = random_state(random.Random(3), "llama-3.1-8b") | {  # noqa: S311 - seeded on purpose
        "hardware": "h100-sxm",
        "tp": "1",
        "pp": "1",
        "dp": "1",
        "ep": "1",
    }
    got = page.evaluate("(state) => model.csv(model.view(state))", state)
    wanted = csv_text(view(state))
    assert [line.split(",")[:3] for line in got.splitlines()] == [line.split(",")[:3] for line in wanted.splitlines()]
    assert len(got.splitlines()) > 200


def test_plotted_numbers_are_those_of_the_tables(open_page, pages):
    """The points of the explorer are the rows of its table."""
    page = open_page(pages["report"])
    section = page.evaluate("JSON.parse(JSON.stringify(model.view({}).sections.find(({ key }) => key === 'explorer')))")
    table = section["figure"]["table"]["rows"]
    line = next(entry for entry in section["figure"]["series"] if entry["name"] == "estimate")
    drawn = page.evaluate("(figure) => model.plot(figure, false, 640).data.flatMap(({ x }) => x)", section["figure"])
    times = [row[2]["value"] for row in table if row[6]["text"] == "yes"]
    assert line["x"] == times
    assert set(times) <= {value for value in drawn if isinstance(value, float)}


def test_every_control_is_known_to_the_view() -> None:
    """No control without effect, and none that the view does not read."""
    values = {**_VALUES, "model": "gpt2", "hardware": "h100-sxm", "batch": 1, "input_len": 16, "context": 16, "tp": 1}
    listed = settings(values, 1024, [("gpt2", "GPT-2"), ("x", "X")], [("h100-sxm", "H100")], pictured=True)
    assert {control.key for control in listed} | {"others", "fixed"} == set(values)


def test_controls_show_the_datasheet_until_another_number_is_given(open_page, pages):
    """The bandwidth of the H200 (4.8 TB/s), a step of the slider from it and back, what is typed, and that of another card."""
    page = open_page(pages["report"])
    box, slider = page.locator("#control-bandwidth_gbs"), page.locator('[data-control=bandwidth_gbs] input[type="range"]')
    inputs = page.locator("#table-inputs-rows")
    assert box.input_value() == "4800"
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert box.input_value() == "5000"
    page.keyboard.press("ArrowLeft")
    assert box.input_value() == "4800"
    assert page.locator("[data-control=bandwidth_gbs] .undo").is_hidden()
    box.fill("1500")
    settle(page)
    assert "1.5 TB/s given" in page.locator(".subtitle").inner_text()
    assert "given, instead of 4.8 TB/s (" in inputs.text_content()
    page.locator("[data-control=bandwidth_gbs] .undo").click()
    settle(page)
    assert page.evaluate("location.hash") == ""
    assert "given" not in inputs.text_content()
    page.locator("#control-hardware").select_option("a100-sxm-80gb")
    settle(page)
    assert box.input_value() == "2039"


def test_links_in_formulas_leave_the_address_alone(open_page, pages):
    """They open what they point at; the address stays that of the state."""
    page = open_page(pages["formulas"], "#batch=64")
    link = page.locator('#formulas details a[href^="#"]').first
    page.evaluate("for (const box of document.querySelectorAll('#formulas details')) box.open = true")
    target = link.get_attribute("href")
    page.evaluate("for (const box of document.querySelectorAll('#formulas details')) box.open = false")
    link.evaluate("(element) => element.click()")
    assert page.evaluate("location.hash") == "#batch=64"
    assert page.evaluate("(id) => document.getElementById(id).closest('details')?.open ?? true", target.removeprefix("#"))
