"""One schema of options: what commands, the Python API, sweeps and the JSON Schema are made of."""

from __future__ import annotations

import inspect
import json
import math
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import get_type_hints

import jsonschema
import pytest
from typer.main import get_command

import roofline
from roofline.cli.app import app
from roofline.errors import InputError
from roofline.predict import options
from roofline.predict.options import ALIASES, ALL, OPTIONS, WORKLOAD, AnalyzeOptions

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
def test_a_new_option_is_one_entry() -> None:
    """It is a flag of every command of its group, a keyword, an axis, and in the JSON Schema and the reference.

    In a process of its own, in which it is known before anything is made of the schema.
    """
    code = """
        import inspect, json, sys
        from roofline.predict import options
        options.add(options.Option(kind="count", name="moon_phase", group=options.ENGINE, help="Phase of the moon.",
                                   default="0", metavar="N", minimum=0, aliases=("mp",)))
        sys.argv = ["roofline", "--help"]
        sys.path.append("docs")
        import roofline, typer.main
        from roofline.cli.app import app
        commands = typer.main.get_command(app).commands
        flags = {name: [flag for entry in command.params for flag in entry.opts] for name, command in commands.items()}
        from generate.commands import pages
        from roofline.predict.sweeps.axes import AXES, COUNTS
        print(json.dumps({
            "commands": sorted(name for name, listed in flags.items() if "--moon-phase" in listed and "--mp" in listed),
            "signatures": ["moon_phase" in inspect.signature(f).parameters for f in (
                roofline.analyze, roofline.compile, roofline.explain, roofline.plan, roofline.preempt, roofline.simulate)],
            "axis": "moon_phase" in AXES and "moon_phase" in COUNTS,
            "reference": sorted(page[4:-3] for page, text in pages().items() if "moon-phase" in text),
            "schema": options.json_schema()["properties"]["moon_phase"]["description"],
        }))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True, cwd=ROOT, timeout=600
    )
    takers = [
        "analyze", "claim", "compare", "explain", "limits", "plan", "preempt", "profile", "replay", "report", "simulate",
        "sweep",
    ]  # fmt: skip
    assert json.loads(done.stdout) == {
        "commands": takers,
        "reference": takers,
        "signatures": [True] * 6,
        "axis": True,
        "schema": "Phase of the moon. Default: 0.",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("command", "without"),
    [
        ("explain", set()),
        ("report", set()),
        ("claim", {"segments"}),  # a claim is about whole prompts or about generated tokens
        ("compare", {entry.name for entry in options.of_groups((WORKLOAD,))}),  # its workload is the benchmark's
    ],
)
def test_what_analyze_takes_others_take(command: str, without: set[str]) -> None:
    """Numbers that analyze prints with a flag can be explained, reported, claimed and compared with it."""
    parameters = {entry.name for entry in get_command(app).commands[command].params}  # type: ignore[attr-defined]
    assert set(OPTIONS) - parameters == without


def test_a_type_checker_knows_every_option() -> None:
    """The keys of the typed keyword arguments are the options and their other names."""
    assert set(get_type_hints(AnalyzeOptions)) == {*OPTIONS, *ALIASES}


def test_no_name_is_taken_twice() -> None:
    """Neither by an option nor by another name of one."""
    entry = OPTIONS["batch"]
    with pytest.raises(TypeError, match="'batch' is taken"):
        options.add(entry)


def test_signature_in_a_notebook() -> None:
    """`roofline.analyze?` lists the options; each is None unless given."""
    parameters = inspect.signature(roofline.analyze).parameters
    assert list(parameters)[:3] == ["model", "hardware", "batch"]
    assert set(parameters) == {"model", "hardware", *(entry.name for entry in options.of_groups(ALL))}


def test_schema_takes_what_analyze_takes() -> None:
    """A request that analyze computes is valid; a slip is not."""
    schema = options.json_schema()
    jsonschema.validate({"batch": 32, "context": "4k", "tensor_parallel_size": 2, "bandwidth": "2 TB/s"}, schema)
    with pytest.raises(jsonschema.ValidationError, match="contxt"):
        jsonschema.validate({"contxt": 4096}, schema)
    with pytest.raises(jsonschema.ValidationError, match="causl"):
        jsonschema.validate({"mask": "causl"}, schema)


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [("context", "8k", 8192), ("bandwidth", "2 TB/s", 2e12), ("routing_skew", "0.5", 0.5), ("gpu_memory_utilization", 1, 1.0)],
)
def test_read(name: str, value: object, read: float) -> None:
    """Text with units, or numbers."""
    assert OPTIONS[name].read(value) == read


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("batch", "0", ("--batch", "at least 1")),
        ("routing_skew", "11", ("--routing-skew", "from 0 to 10", "11")),
        ("bandwidth", "2 TFLOP/s", ("--bandwidth", "GB/s")),
        ("bandwidth", 0, ("--bandwidth", "more than 0")),
        ("acceptance", "often", ("--acceptance", "number", "often")),
    ],
)
def test_refused(name: str, value: object, words: tuple[str, ...]) -> None:
    """The flag, and what is allowed."""
    with pytest.raises(InputError) as error:
        OPTIONS[name].read(value)
    for word in words:
        assert word in str(error.value)


def test_every_option_says_what_it_is() -> None:
    """A sentence, a placeholder unless it is a switch, and choices where there are any: as the sections are read now."""
    read = options.entries(options._SECTIONS)
    assert read == list(OPTIONS.values())
    for entry in read:
        assert entry.help.endswith((".", "...")), entry
        assert entry.kind == "flag" or entry.metavar, entry
        assert (entry.kind == "choice") == bool(entry.choices), entry
        assert entry.kind != "quantity" or entry.unit, entry


@pytest.mark.every_case
@pytest.mark.parametrize(("minimum", "least"), [(2, 2), (0, 0), (-math.inf, 0)])
def test_counts_are_never_negative(minimum: float, least: int) -> None:
    """From the smallest value of the option on, which is 0 where it has none."""
    option = replace(OPTIONS["batch"], minimum=minimum)
    assert option.read(least) == least
    with pytest.raises(InputError, match=f"at least {least}"):
        option.read(least - 1)
