"""`roofline preempt`: the keys of the contract, exit codes, files, and what a person reads."""

from __future__ import annotations

import csv
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline.specs.library import shipped

Run = Callable[..., Any]
ASK = ("preempt", "llama-3.1-8b", "--hardware", "a100-sxm-80gb", "--tokens", "2k")


def asked(run: Run, *more: str, code: int = 0) -> dict[str, Any]:
    answer = run(*ASK, *more, "--json")
    assert answer.code == code, answer
    found: dict[str, Any] = json.loads(answer.out)
    return found


def test_keys(run: Run) -> None:
    """The head of every result, and the keys of the contract."""
    found = asked(run)
    assert list(found)[:4] == ["schema_version", "tool_version", "data_version", "inputs"]
    assert found["inputs"]["model"]["sha256"]
    assert found["inputs"]["host copies"]["path"] == "shipped"
    assert found["tokens"] == 2048
    assert found["recompute"]["time_s"] > found["recompute"]["bound_s"] > 0
    assert found["swap"]["time_s"] == found["swap"]["out_s"] + found["swap"]["in_s"]
    assert found["cheaper"] == "swap"
    assert found["basis"] == found["recompute"]["basis"] == "estimate"
    assert found["swap"]["basis"] == "assumed"
    assert found["break_even_link"] > 0
    assert found["crossover_tokens"] == []
    assert found["crossover_block_size"] == 13
    assert found["ratio"] == pytest.approx(found["recompute"]["time_s"] / found["swap"]["time_s"])
    assert not found["certain"]
    assert found["host"]["sequences"] is None
    assert found["steals"]["recompute_tokens"] is None
    assert {"variant", "bytes", "swap_s", "break_even_link", "cheaper", "why"} == set(found["variants"][0])
    shape = [len(row) for row in found["heatmap"]["recompute_over_swap"]]
    assert shape == [len(found["heatmap"]["block_sizes"])] * len(found["heatmap"]["tokens"])


def test_python_gives_the_same(run: Run) -> None:
    result = roofline.preempt("llama-3.1-8b", "a100-sxm-80gb", tokens=2048)
    printed = asked(run)
    assert printed.pop("reproduce").startswith("roofline preempt llama-3.1-8b --hardware a100-sxm-80gb")
    assert json.loads(result.to_json()) == printed


def test_blocks_calls_and_links(run: Run) -> None:
    """One call each way of gathered blocks; a link that is given; memory that is not pinned; fewer calls of larger blocks."""
    gathered = asked(run, "--coalesced", "--host-link", "25 GB/s")
    assert gathered["swap"]["out_s"] == pytest.approx(5e-6 + 2**28 / 25e9 + 2 * 2**28 / 2039e9)
    assert (gathered["swap"]["calls"], gathered["crossover_block_size"]) == (1, None)
    assert any(note["name"] == "host_link" and note["origin"] == "given" for note in gathered["assumptions"])
    assert asked(run, "--pageable")["cheaper"] == "recompute"
    assert asked(run, "--block-size", "64")["swap"]["calls"] == 2048


def test_break_even_is_where_both_are_equal(run: Run) -> None:
    """The link that one answer names, given to another."""
    link = asked(run)["break_even_link"]
    again = asked(run, "--host-link", f"{link} B/s")
    assert again["swap"]["time_s"] == pytest.approx(again["recompute"]["time_s"])
    assert again["break_even_link"] == pytest.approx(link)


def test_beside_a_batch(run: Run) -> None:
    """What the prompt adds to the batch's steps is less than the prompt alone; others lose tokens meanwhile."""
    found = asked(run, "--batch", "32", "--context", "1k")
    assert found["recompute"]["time_s"] < found["recompute"]["alone"]["time_s"]
    step = roofline.analyze("llama-3.1-8b", "a100-sxm-80gb", batch=32, context=1024, phase="decode").decode
    assert step is not None
    lost = 32 * found["recompute"]["time_s"] / (step.pipeline.estimate or 0)
    assert found["steals"]["recompute_tokens"] == pytest.approx(lost)
    hidden = asked(run, "--batch", "32", "--overlapped")["steals"]
    assert hidden["swap_s"] == pytest.approx(2 * 2**28 / 2039e9)  # every byte crosses device memory once a way


def test_the_host_has_no_room(run: Run) -> None:
    found = asked(run, "--coalesced", "--host-memory", "100 MiB")
    assert found["cheaper"] == "recompute"
    assert found["host"] == {"bytes": 2**28, "memory_bytes": 100 * 2**20, "fits": False, "sequences": 0}
    assert "host memory is too small" in run(*ASK, "--coalesced", "--host-memory", "100 MiB").out


def test_the_sequence_does_not_fit(run: Run) -> None:
    """1, the whole object without times, and what would fit; times on demand."""
    ask = ("preempt", "llama-3.1-70b", "--hardware", "h100-sxm", "--tokens", "2048")
    answer = run(*ask, "--json")
    assert answer.code == 1
    found = json.loads(answer.out)
    assert (found["fits"], found["cheaper"]) == (False, None)
    assert found["recompute"]["time_s"] is found["swap"]["time_s"] is None
    assert "--tensor-parallel-size 2" in answer.err
    assert run(*ask).out.count("cannot hold the sequence") == 1
    answer = run(*ask, "--ignore-capacity", "--json")
    assert (answer.code, json.loads(answer.out)["fits"]) == (0, False)
    assert json.loads(answer.out)["cheaper"] in ("recompute", "swap")


def test_at_the_bound(run: Run, tmp_path: Path) -> None:
    """Of hardware with no kernels measured: the basis says so, and the assumptions whom that favours."""
    text = (shipped("hardware") / "a100-sxm-80gb.yaml").read_text(encoding="utf-8")
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace("name: a100-sxm-80gb", "name: mine").replace("vendor: nvidia", "vendor: host"))
    answer = run("preempt", "llama-3.1-8b", "--hardware", path, "--tokens", "2048", "--json")
    found = json.loads(answer.out)
    assert found["basis"] == "bound"
    assert found["recompute"]["time_s"] == found["recompute"]["bound_s"]
    assert found["recompute"]["low_s"] is None
    assert any(note["name"] == "basis" and "favours recomputing" in note["why"] for note in found["assumptions"])


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--tokens", "0"), "tokens must be at least 1"),
        (("--tokens", "many"), "tokens must be a whole number"),
        (("--host-link", "25"), "--host-link"),
        (("--host-link", "25 GB"), "--host-link"),
        (("--host-memory", "0 GiB"), "--host-memory must be more than 0"),
        (("--gpus-per-link", "0"), "gpus-per-link must be at least 1"),
        (("--context", "100"), "give their number with --batch"),
        (("--batch", "9k"), "leaves none of the 8,192 tokens of a step"),
        (("--max-model-len", "1k"), "longer than --max-model-len"),
        (("--block-size", "0"), "block-size must be at least 1"),
    ],
)
def test_wrong_values(run: Run, more: tuple[str, ...], says: str) -> None:
    assert says in run(*ASK, *more).refused()


def test_options_of_other_commands() -> None:
    with pytest.raises(roofline.errors.InputError, match="--tokens says how long"):
        roofline.preempt("llama-3.1-8b", "a100-sxm-80gb", tokens=10, input_len=5)
    with pytest.raises(roofline.errors.InputError, match="drafts are not part of it"):
        roofline.preempt("llama-3.1-8b", "a100-sxm-80gb", tokens=10, speculative_model="llama-3.2-1b")


@pytest.mark.slow
def test_files(run: Run, tmp_path: Path) -> None:
    """A row a length; Markdown with all tables; a page that loads nothing, and names the command that makes it."""
    for suffix in (".csv", ".md", ".html", ".json"):
        assert run(*ASK, "--pageable", "-o", tmp_path / f"out{suffix}").code == 0
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["tokens"] for row in rows][:3] == ["64", "96", "128"]
    assert all(float(row["recompute_s"]) > 0 for row in rows)
    text = (tmp_path / "out.md").read_text(encoding="utf-8")
    heads = [line.lstrip("# ") for line in text.splitlines() if line.startswith("#")]
    assert heads[1:] == ["Costs", "What if: one change at a time", "By length", "Assumptions"]
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert page.count("<svg") >= 3
    assert 'id="json-controls">[]</script>' in page
    assert "roofline preempt llama-3.1-8b --hardware a100-sxm-80gb --tokens 2k --pageable" in page.replace(
        "</span> <span>", " "
    )
    line = shlex.split("roofline preempt llama-3.1-8b --hardware a100-sxm-80gb --tokens 2k --pageable")[1:]
    assert json.loads(run(*line, "--json").out) == json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))


def test_words(run: Run) -> None:
    """The poster's model on its machine: recomputing between two lengths, swapping outside of them."""
    answer = run("preempt", "yarn-llama-2-7b-64k", "-H", "polaris", "--tokens", "4k")
    text = " ".join(answer.out.split())
    assert "times as fast as swapping block by block" in text
    assert "Recomputing is faster between 320 and 16,848 tokens; swapping block by block is faster outside that range." in text
    assert "Host memory holds 59 such sequences" in text  # a quarter of 512 GB, 2 GiB each
    assert "Doing both at once takes" in text


def test_explain_has_the_closed_form(run: Run) -> None:
    """B* without calls, in symbols: the value of the answer's own terms."""
    answer = run("explain", "llama-3.1-8b", "break_even_link", "-H", "a100-sxm-80gb", "--input-len", "2048", "--format", "json")
    found = json.loads(answer.out)
    assert found["formula"] == "P·eta·k_kv / N_p"
    assert found["value"] == pytest.approx(asked(run)["break_even"]["asymptotic"], rel=1e-9)
    assert found["unit"] == "bytes/s"
    for more in (("--pp", "2"), ()):
        hardware = ("-H", "a100-sxm-80gb") if more else ()
        message = run("explain", "llama-3.1-8b", "break_even_link", *hardware, *more).refused()
        assert ("pipeline stages" if more else "depends on the hardware") in message
