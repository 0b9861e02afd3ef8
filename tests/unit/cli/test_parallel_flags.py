"""Flags of sequence and context parallelism and of expert imbalance, in the commands that take a deployment."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., Any]
MODEL = ("llama-3.1-8b", "--hardware", "dgx-h100")


@pytest.mark.parametrize("flag", ["--context-parallel-size", "--prefill-context-parallel-size", "--cp"])
def test_context_parallel(run: Run, flag: str) -> None:
    """Each spelling: 4 devices, a quarter of the 131,072 bytes of a token on each; it stands in the heading."""
    whole = json.loads(run("analyze", *MODEL, flag, "4", "--json").out)
    assert whole["deployment"]["context_parallel"] == whole["hardware"]["devices"] == 4
    assert whole["memory"]["kv_bytes_per_token"] == 131_072 / 4
    assert "CP4" in run("analyze", *MODEL, flag, "4").out


def test_sequence_parallel(run: Run) -> None:
    """A flag without a value."""
    answer = run("analyze", *MODEL, "--tp", "2", "--sequence-parallel", "--json")
    assert json.loads(answer.out)["deployment"]["sequence_parallel"] is True
    assert "TP2 SP" in run("analyze", *MODEL, "--tp", "2", "--sequence-parallel").out


@pytest.mark.parametrize(
    ("command", "flags", "says"),
    [
        ("analyze", ("--sequence-parallel",), "use a tensor-parallel size above 1"),
        ("limits", ("--sequence-parallel",), "use a tensor-parallel size above 1"),
        ("analyze", ("--cp", "0"), "at least 1"),
        ("analyze", ("--cp", "two"), "context-parallel-size"),
        ("analyze", ("--cp", "2", "--shared-prefix", "5"), "shared prefix"),
        ("limits", ("--cp", "2", "--shared-prefix", "5"), "shared prefix"),
        ("analyze", ("--expert-imbalance", "0.5"), "--expert-imbalance must be greater than or equal to 1"),
    ],
)
def test_what_is_refused(run: Run, command: str, flags: tuple[str, ...], says: str) -> None:
    """One line on stderr that says what is allowed; nothing on stdout."""
    answer = run(command, *MODEL, *flags)
    assert (answer.code, answer.out) == (2, "")
    assert says in answer.err
    assert "Traceback" not in answer.err


def test_limits_follow(run: Run) -> None:
    """Twice the devices that share the cache hold twice the sequences, nearly: weights are on each."""

    def most(*flags: str) -> int:
        rows = json.loads(run("limits", *MODEL, "--context", "8k", *flags, "--json").out)["rows"]
        return int(rows[0]["max_batch_memory"])

    assert most("--cp", "2") == pytest.approx(2 * most(), rel=0.01)


def test_a_sweep_over_them(run: Run) -> None:
    """Axes like others: what cannot be has no rows."""
    answer = run(
        "sweep",
        *MODEL,
        "--tp",
        "1,2",
        "--cp",
        "1,2",
        "--sequence-parallel",
        "false,true",
        "--columns",
        "step_bound_s",
        "--json",
    )
    whole = json.loads(answer.out)
    assert [(row["tp"], row["cp"], row["devices"]) for row in whole["rows"]] == [
        (1, 1, 1), (1, 2, 2), (2, 1, 2), (2, 1, 2), (2, 2, 4), (2, 2, 4),
    ]  # fmt: skip


def test_explain_with_divided_keys(run: Run) -> None:
    """The closed form of the largest batch counts blocks that lie on both devices, as `analyze` does."""
    flags = (*MODEL, "--cp", "2", "--context", "5001")
    shown = json.loads(run("explain", MODEL[0], "max_batch", *flags[1:], "--json").out)
    assert shown["value"] == json.loads(run("analyze", *flags, "--json").out)["memory"]["max_batch"]
