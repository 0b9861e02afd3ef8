"""0 done, 1 the answer is no, 2 bad usage or input, 3 an extra is missing; and what is printed where."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roofline.specs.library import shipped

Run = Callable[..., Any]
LLAMA = ("analyze", "llama-3.1-8b", "--hardware", "h100-sxm")


def test_done(run: Run) -> None:
    """What fits leaves with 0, its result on stdout, nothing on stderr."""
    answer = run(*LLAMA)
    assert (answer.code, answer.err) == (0, "")
    assert "Fits" in answer.out


def test_does_not_fit(run: Run) -> None:
    """What does not leaves with 1; the whole object is on stdout, its times null; stderr says why."""
    answer = run("analyze", "llama-3.1-70b", "--hardware", "h100-sxm", "--json", "--output-len", 10)
    assert answer.code == 1
    whole = json.loads(answer.out)
    assert whole["memory"]["fits"] is False
    assert {value for phase in whole["phases"] for value in phase["time_s"].values()} == {None}
    assert {value for span in whole["request"].values() for value in span.values()} == {None}
    assert answer.err.startswith("Does not fit:")
    assert "Any one of these makes it fit: " in answer.err


def test_does_not_fit_in_words(run: Run) -> None:
    """Without --json the same answer is a page, also with 1."""
    answer = run("analyze", "llama-3.1-70b", "--hardware", "h100-sxm")
    assert answer.code == 1
    assert "Does not fit" in answer.out


def test_ignore_capacity(run: Run) -> None:
    """With --ignore-capacity times are given, with 0, and `fits` stays false."""
    answer = run("analyze", "llama-3.1-70b", "--hardware", "h100-sxm", "--json", "--ignore-capacity")
    whole = json.loads(answer.out)
    assert answer.code == 0
    assert whole["memory"]["fits"] is False
    assert all(phase["time_s"]["bound"] > 0 for phase in whole["phases"])


@pytest.mark.parametrize("where", ["--context", "--input-len", "--batch"])
def test_ten_to_the_fifteen(run: Run, where: str) -> None:
    """10^15 tokens or sequences are an honest question, and the answer is no."""
    answer = run(*LLAMA, where, 10**15, "--json")
    assert answer.code == 1
    assert json.loads(answer.out)["memory"]["fits"] is False


@pytest.mark.parametrize("where", ["--context", "--input-len", "--batch"])
def test_beyond_exact_numbers(run: Run, where: str) -> None:
    """Above 2^53 whole numbers are lost, so such input is refused."""
    assert "at most 2^53" in run(*LLAMA, where, 2**53 + 1).refused()


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["analyze", "nowhere.yaml", "--hardware", "h100-sxm"], ["nowhere.yaml: no such file"]),
        ([*LLAMA, "--dtype", "bf17"], ["--dtype", "unknown dtype 'bf17'", "Did you mean bf16", "fp8"]),
        (["analyze", "llama-3.1-8b", "--hardware", "a100"], ["'a100' is ambiguous", "a100-pcie-40gb", "a100-sxm-80gb"]),
        (["analyze", "lama-3.1-8b", "--hardware", "h100-sxm"], ["unknown model 'lama-3.1-8b'", "llama-3.1-8b"]),
        ([*LLAMA, "--batch", "-1"], ["batch must be at least 1, not -1"]),
        ([*LLAMA, "--batch=-1"], ["batch must be at least 1, not -1"]),
        ([*LLAMA, "--batch", "many"], ["batch must be a whole number"]),
        ([*LLAMA, "--bach", "3"], ["--bach", "--batch"]),
        (["analyse", "gpt2"], ["analyse", "analyze"]),
        (["frobnicate"], ["frobnicate"]),
        (["analyze", "gpt2"], ["--hardware"]),
        (["analyze"], ["MODEL"]),
        ([*LLAMA, "--phase", "train"], ["unknown phase 'train'", "prefill, decode, both"]),
        ([*LLAMA, "--tp", "3"], ["tensor-parallel size 3", "1, 2, 4, 8, 16, 32"]),
        ([*LLAMA, "--bandwidth", "2039"], ["--bandwidth", "has no unit", '"2039 GB/s"']),
        ([*LLAMA, "--reserve", "2"], ["--reserve", "has no unit"]),
        ([*LLAMA, "--gpu-memory-utilization", "90%"], ["--gpu-memory-utilization"]),
        ([*LLAMA, "--gpu-memory-utilization", "nan"], ["--gpu-memory-utilization"]),
        ([*LLAMA, "--segments", "oops"], ["COUNTxNEW@CACHED"]),
        ([*LLAMA, "--segments", "1x1@5", "--batch", "2"], ["--segments", "--batch"]),
        ([*LLAMA, "--engine", "vlm"], ["unknown engine 'vlm'", "vllm"]),
        ([*LLAMA, "--quantization", "awk"], ["unknown quantization 'awk'", "awq"]),
        ([*LLAMA, "--mask", "diagonal"], ["--mask", "causal"]),
        ([*LLAMA, "-o", "result.docx"], ["result.docx", ".csv, .html, .json, .md, .parquet"]),
        ([*LLAMA, "-o", "no/such/folder/result.json"], ["no/such/folder/result.json", "No such file or directory"]),
        (["models", "show", "gpt3"], ["unknown model 'gpt3'", "gpt2"]),
        (["models", "show", "gpt2", "--format", "xml"], ["unknown format 'xml'", "text, yaml, json"]),
        (["hardware", "show", "v100"], ["v100-sxm2-16gb"]),
        (["schema", "engine"], ["unknown schema 'engine'", "model, hardware"]),
        (["models", "check", "nowhere.yaml"], ["nowhere.yaml"]),
    ],
    ids=lambda value: " ".join(value)[:50] if isinstance(value, list) else None,
)
def test_bad_usage(run: Run, arguments: list[str], parts: list[str]) -> None:
    """Exit 2, empty stdout, one message that says what is wrong and what is allowed."""
    message = run(*arguments).refused()
    for part in parts:
        assert part in message


def test_yaml_with_a_slip(run: Run, tmp_path: Path) -> None:
    """File, line, column, and what was meant."""
    path = tmp_path / "mine.yaml"
    text = (shipped("models") / "gpt2.yaml").read_text(encoding="utf-8")
    path.write_text(text.replace("hidden_size", "hiden_size"))
    line = text[: text.index("hidden_size")].count("\n") + 1
    assert (
        run("analyze", path, "--hardware", "t4")
        .refused()
        .startswith(f"{path}:{line}:1: unknown key 'hiden_size'. Did you mean hidden_size?")
    )


def test_folder(run: Run, tmp_path: Path) -> None:
    """A folder without a config is no model."""
    assert "is a folder" in run("analyze", tmp_path, "--hardware", "t4").refused()


def test_binary_file(run: Run, tmp_path: Path) -> None:
    """Bytes that are no text, under any suffix."""
    for name in ("model.yaml", "model.bin", "model"):
        (tmp_path / name).write_bytes(b"\x7fELF\xff\xfe\x00")
        assert "is not a text file" in run("analyze", tmp_path / name, "--hardware", "t4").refused()


def test_every_file_that_is_wrong_is_reported(run: Run, tmp_path: Path) -> None:
    """`check` leaves with 1 when a file is wrong; --json lists all."""
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text((shipped("models") / "gpt2.yaml").read_text(encoding="utf-8"))
    bad.write_text("name: [\n")
    answer = run("models", "check", good, bad, "--json")
    assert answer.code == 1
    rows = json.loads(answer.out)["checked"]
    assert [row["ok"] for row in rows] == [True, False]
    assert str(bad) in rows[1]["error"]


@pytest.mark.parametrize("kind", ["models", "hardware"])
def test_all_shipped_files_are_right(run: Run, kind: str) -> None:
    """`check` without files checks what is shipped."""
    assert run(kind, "check").code == 0


def test_missing_extra(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pyarrow a Parquet file leaves with 3 and names the extra; no file is left behind."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    answer = run(*LLAMA, "-o", tmp_path / "result.parquet")
    assert (answer.code, answer.out) == (3, "")
    assert "roofline[parquet]" in answer.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("repeat", [10**9, 10**15])
def test_a_file_with_very_many_layers(process: Run, tmp_path: Path, repeat: int) -> None:
    """A billion layers are refused or answered; they do not fill memory (here 4 GB) or time."""
    path = tmp_path / "tall.yaml"
    path.write_text((shipped("models") / "gpt2.yaml").read_text(encoding="utf-8").replace("repeat: 12", f"repeat: {repeat}"))
    answer = process("analyze", path, "--hardware", "t4", limit=4 * 10**9)
    assert answer.code in (1, 2)
    assert "Traceback" not in answer.err


@pytest.mark.slow
def test_in_a_process_of_its_own(process: Run) -> None:
    """`python -m roofline` leaves with the same codes, and with no warning of Python."""
    done = process(*LLAMA)
    assert (done.code, done.err) == (0, "")
    assert process("analyze", "llama-3.1-70b", "-H", "h100-sxm", "--json").code == 1
    assert "ambiguous" in process("analyze", "gpt2", "-H", "a100").refused()


def test_no_arguments_show_help(run: Run) -> None:
    """Called with nothing, the help is shown on stderr, as bad usage."""
    answer = run()
    assert (answer.code, answer.out) == (2, "")
    assert "analyze" in answer.err
