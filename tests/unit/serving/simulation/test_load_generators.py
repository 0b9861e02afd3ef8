"""Inputs of a closed loop: prompts per client, spread of lengths, first wave, warm-up."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from simulated import AffineStepTime, sent, serve

import roofline
from roofline.errors import InputError
from roofline.serving.simulation.arrivals import Clients, parse_arrivals
from roofline.serving.simulation.kv_cache import EngineConfig
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.step_log import END
from roofline.serving.simulation.workload import Workload, read_workload
from roofline.specs.source import Assumption


def asked(**given: Any) -> tuple[Workload, list[Assumption]]:
    """A workload, and what was assumed."""
    notes: list[Assumption] = []
    return read_workload(notes=notes, **given), notes


def served(folder: Path, workload: str, **given: Any) -> tuple[Any, list[dict[str, float]]]:
    """A small model under a workload: the result, and its requests in the order in which they were sent."""
    path = folder / "rows.csv"
    found = roofline.simulate(
        "llama-3.1-8b", "h100-sxm", workload=workload, rows=path, **{"input_len": 1000, "output_len": 50, **given}
    )
    lines = csv.DictReader(path.read_text().splitlines())
    rows = [{name: float(value) for name, value in row.items() if name != "class"} for row in lines]
    return found, sorted(rows, key=lambda row: row["request"])


def test_a_text_has_them_by_name() -> None:
    """THINK and RAMP by their place, as ever, or by name, as all others."""
    assert parse_arrivals("closed:32:prompts=10:spread=0.8-1:warm-up=1:ramp=10 s") == Clients(
        32, ramp=10.0, prompts=10, spread=(0.8, 1.0), warm_up=1
    )
    assert parse_arrivals("closed:4:2 s:500 ms:prompts=3") == parse_arrivals("closed:4:prompts=3:ramp=500 ms:think=2 s")
    assert parse_arrivals("closed:4:warm_up=1") == Clients(4, warm_up=1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("closed:4:promts=3", "unknown input of a closed loop 'promts'. Did you mean prompts"),
        ("closed:4:prompts=0", "prompts: prompts per client must be at least 1"),
        ("closed:4:prompts=3:prompts=4", "prompts is given twice"),
        ("closed:4:0:1 s:ramp=1 s", "ramp is given twice"),
        ("closed:4:prompts=3:1 s", "must be closed:CLIENTS"),
        ("closed:4:prompts=3:warm-up=3", "leaves none of the 3 prompts"),
        ("closed:4:spread=0.8", "two shares of the lengths"),
        ("closed:4:spread=1-0.8", "the lower one first"),
        ("closed:4:spread=0-0", "the lower one first"),
        ("closed:4:ramp=x", "ramp: "),
    ],
)
def test_what_is_wrong_is_named(text: str, message: str) -> None:
    """With what is allowed."""
    with pytest.raises(InputError, match=message):
        parse_arrivals(text)


def test_prompts_a_client() -> None:
    """4 clients x 3 prompts."""
    found, notes = asked(workload="closed:4:prompts=3", input_len=100, output_len=10)
    assert len(sent(found)) == found.num_expected == 12
    assert [note.name for note in notes] == ["first_wave"]  # equal lengths and all at once: said, as TTFT hangs on it
    with pytest.raises(InputError, match="--requests: closed:4:prompts=3 says how many come, 3 per client"):
        asked(workload="closed:4:prompts=3", input_len=100, output_len=10, requests=5)


def test_spread_of_lengths() -> None:
    """0.8 of 1000 tokens to 1000, of 10 to 10; a length that is drawn anyway has its own."""
    found, notes = asked(workload="closed:4:prompts=500:spread=0.8-1", input_len=1000, output_len=10)
    prompts, answers = zip(*((request.num_prompt_tokens, request.max_tokens) for request in sent(found)), strict=True)
    assert (min(prompts), max(prompts), set(answers)) == (800, 1000, {8, 9, 10})
    assert not notes
    one = asked(workload="closed:4:spread=0-1", input_len=2, output_len=1)[0].classes[0]
    assert (str(one.input_len), str(one.output_len)) == ("uniform:1:2", "1")  # no length is below a token
    with pytest.raises(InputError, match="spread: uniform:5:9 has a spread of its own"):
        asked(workload="closed:4:spread=0.8-1", input_len="uniform:5:9", output_len=10)


def test_clients_of_equal_lengths_stay_in_step() -> None:
    """A step takes 1 s, and 0.1 s a prompt token: of two prompts of 10 tokens the second waits for the first, 2 s and 4 s.

    The one decode step ends both answers at once, and all begins anew.
    """
    requests = [Request(index, 0.0, 10, 2) for index in range(6)]
    found = serve("vllm-v0", requests, AffineStepTime(1.0, token=0.1), EngineConfig(100, 16, 8, 10), clients=[0.0, 0.0])
    ends = [found.log.ends[at : at + len(END)] for at in range(0, len(found.log.ends), len(END))]
    assert [first - arrived for _, arrived, _, _, first, *_ in ends] == pytest.approx([2, 4] * 3)
    assert [end[5] for end in ends] == pytest.approx([5, 5, 10, 10, 15, 15])


def test_a_ramp_spreads_the_first_wave(tmp_path: Path) -> None:
    """Four clients begin over 2 s, one each half second; no answer has ended by then, for which one would send again."""
    _, rows = served(tmp_path, "closed:4:prompts=1:ramp=2 s", output_len=500)
    assert [row["arrived_at"] for row in rows] == [0, 0.5, 1.0, 1.5]
    _, rows = served(tmp_path, "closed:4:prompts=1")
    assert [row["arrived_at"] for row in rows] == [0, 0, 0, 0]


def test_a_warm_up_of_one_cuts_the_first_wave(tmp_path: Path) -> None:
    """The first 4 of 12 are served, and not counted."""
    found, rows = served(tmp_path, "closed:4:prompts=3:warm-up=1", output_len="uniform:20:60")
    assert (len(rows), found.requests.cut) == (12, 4)
    assert found.ttft_s.mean == pytest.approx(sum(row["ttft_s"] for row in rows[4:]) / 8)
    assert found.workload["warm_up"] == pytest.approx(4 / 12)
    with pytest.raises(InputError, match="--warm-up: the workload has a warm-up of its own"):
        served(tmp_path, "closed:4:prompts=3:warm-up=1", warm_up="10%")
    with pytest.raises(InputError, match="warm-up: 2 prompts of each of 4 clients are all of the 8 that come"):
        asked(workload="closed:4:warm-up=2", input_len=10, output_len=10, requests=8)


def test_one_client_waits_for_its_prompt_alone(tmp_path: Path) -> None:
    """Nobody queues: each TTFT is a prefill."""
    _, rows = served(tmp_path, "closed:1:prompts=3")
    alone = roofline.simulate("llama-3.1-8b", "h100-sxm", workload="at-once:1", input_len=1000, output_len=1).ttft_s.mean
    assert [row["ttft_s"] for row in rows] == pytest.approx([alone] * 3)


FILE = """\
schema_version: 1
kind: traffic
classes:
  - {{name: chat, {load}, input_len: 1000, output_len: 10}}
"""


def test_a_file_has_the_same_keys(tmp_path: Path) -> None:
    """As a text."""
    path = tmp_path / "loop.yaml"
    path.write_text(FILE.format(load="concurrency: 4, prompts: 3, ramp: 2 s, warm_up: 1, spread: 0.8-1"))
    found, _ = asked(workload=path)
    text, _ = asked(workload="closed:4:prompts=3:ramp=2 s:warm-up=1:spread=0.8-1", input_len=1000, output_len=10)
    assert (found.requests, found.warm_up) == (text.requests, text.warm_up) == (12, 4)
    lengths = [[(one.num_prompt_tokens, one.max_tokens) for one in sent(workload)] for workload in (found, text)]
    assert lengths[0] == lengths[1]
    assert found.clients[0].ramp == 2.0


@pytest.mark.parametrize(
    ("load", "message"),
    [
        ("rate: 4, prompts: 3", "classes.*prompts.*is of clients, which a concurrency gives"),
        ("rate: 4, spread: 0.8-1", "spread.*is of clients"),
        ("concurrency: 4, prompts: 3, warm_up: 3", "warm_up.*leaves none of the 3"),
        ("concurrency: 4, spread: 0.8", "spread.*two shares of the lengths"),
        ("concurrency: 4, ramp: 3", "ramp.*has no unit"),
    ],
)
def test_a_file_that_is_wrong(tmp_path: Path, load: str, message: str) -> None:
    """With its place."""
    path = tmp_path / "loop.yaml"
    path.write_text(FILE.format(load=load))
    with pytest.raises(InputError, match=message):
        asked(workload=path)


def test_classes_take_turns(tmp_path: Path) -> None:
    """So that all have the same number of prompts; each has its ramp."""
    path = tmp_path / "two.yaml"
    head = FILE.format(load="concurrency: 3, prompts: 3")
    path.write_text(head + "  - {name: batch, concurrency: 1, prompts: 3, ramp: 1 s, input_len: 900, output_len: 1}\n")
    assert asked(workload=path)[0].requests == 12
    path.write_text(head + "  - {name: batch, concurrency: 1, input_len: 900, output_len: 1}\n")
    with pytest.raises(InputError, match="prompts per client must be the same in all classes"):
        asked(workload=path)
