"""Other names of options and hardware, as people type them: each reaches what it stands for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline.errors import InputError, MissingExtraError
from roofline.predict.options import ALIASES, OPTIONS
from roofline.specs.library import load_hardware

Run = Callable[..., Any]
ANALYZE = ("analyze", "qwen3-30b-a3b", "-H", "h200-sxm", "--json")


def _analysis(run: Run, *options: str) -> dict[str, Any]:
    answer = run(*ANALYZE, *options)
    assert answer.code == 0, answer.err
    whole = json.loads(answer.out)
    whole.pop("asked")
    return dict(whole)


VALUES = {
    "input_len": "512", "output_len": "8", "context": "2048", "tensor_parallel_size": "2", "pipeline_parallel_size": "2",
    "data_parallel_size": "2", "expert_parallel_size": "1", "context_parallel_size": "1", "moe_tp": "1",
    "num_redundant_experts": "0", "decode_context_parallel_size": "1", "kv_cache_free_gpu_memory_fraction": "0.8",
}  # fmt: skip
"""A value of each option with other names that a model with experts accepts."""


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_every_alias_reaches_its_option(run: Run, alias: str, name: str) -> None:
    """The same result, by whichever name an option is given."""
    value = () if OPTIONS[name].kind == "flag" else (VALUES[name],)
    assert _analysis(run, f"--{alias.replace('_', '-')}", *value) == _analysis(run, OPTIONS[name].flag, *value)


def test_counts_in_scientific_notation(run: Run) -> None:
    """As Python prints them."""
    assert _analysis(run, "--batch", "1e1", "--isl", "2e3") == _analysis(run, "--batch", "10", "--input-len", "2000")


@pytest.mark.slow
def test_gpus_of_a_plan_are_at_most_that_many(run: Run) -> None:
    """And the parallel sizes are searched."""
    load = (
        "plan",
        "llama-3.1-8b",
        "--rate",
        "1",
        "--isl",
        "512",
        "--osl",
        "64",
        "--ttft",
        "2 s",
        "--tpot",
        "60 ms",
        "-H",
        "l4",
        "--dtype",
        "bf16",
    )
    for flag in ("--max-gpus", "--num-gpus", "--gpus"):
        plan = json.loads(run(*load, flag, "2", "--json").out)
        assert {one["devices"] for one in plan["candidates"]} <= {1, 2}
        assert plan["candidates"]


@pytest.mark.slow
def test_gpus_of_a_plan_in_python() -> None:
    """The same."""
    load: dict[str, Any] = {"rate": 1, "isl": 512, "osl": 64, "ttft": 2.0, "tpot": 0.06, "hardware": "l4", "dtype": "bf16"}
    plan = roofline.plan("llama-3.1-8b", **load, num_gpus=2)
    assert plan.to_dict()["candidates"] == roofline.plan("llama-3.1-8b", **load, max_gpus=2).to_dict()["candidates"]
    with pytest.raises(InputError, match="num_gpus and max_gpus are the same option"):
        roofline.plan("llama-3.1-8b", **load, num_gpus=2, max_gpus=2)


def test_gpus_of_a_claim_are_divided_in_the_most_favourable_way(run: Run) -> None:
    """As `--devices`."""
    claim = ("claim", "llama-3.1-70b", "-H", "h100-sxm", "--tokens-per-s", "100", "--json")
    assert run(*claim, "--num-gpus", "4").out == run(*claim, "--devices", "4").out


def test_a_name_on_hugging_face_needs_no_network(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a shipped model has it; with a revision, or of another model, it does."""

    def no_hub(*_: object) -> None:
        raise MissingExtraError("a model on Hugging Face", "hub")

    monkeypatch.setattr("roofline.specs.huggingface.hub.fetch", no_hub)
    for name in ("meta-llama/Meta-Llama-3.1-8B", "meta-llama/meta-llama-3.1-8b"):
        for command in (("models", "show", name), ("explain", name, "parameters"), ("analyze", name, "-H", "l4")):
            assert run(*command).code == 0
    for name in ("meta-llama/Meta-Llama-3.1-8B@main", "meta-llama/Other-8B"):
        assert run("models", "show", name).code == 3


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("h100-sxm", "a100-sxm-80gb"), ("roofline report MODEL -H h100-sxm,a100-sxm-80gb", "roofline sweep MODEL -H")),
        (("llama-3.1-8b", "h100", "l4"), ("roofline report llama-3.1-8b -H h100,l4",)),
        (("llama-3.1-8b", "gpt2"), ("roofline sweep llama-3.1-8b gpt2 -H HW",)),
    ],
)
def test_compare_of_two_names_says_which_command_does_it(run: Run, names: tuple[str, ...], words: tuple[str, ...]) -> None:
    """It is about the log of an engine."""
    message = run("compare", *names).refused()
    for word in words:
        assert word in message


@pytest.mark.slow
def test_hardware_with_commas(run: Run, tmp_path: Path) -> None:
    """In every command that takes several."""
    page = tmp_path / "page.html"
    assert run("report", "llama-3.1-8b", "-H", "l4,h100-sxm", "-o", page).code == 0
    text = page.read_text(encoding="utf-8")
    assert all(load_hardware(name)[0].title in text for name in ("l4", "h100-sxm"))
    rows = json.loads(run("sweep", "llama-3.1-8b", "-H", "l4,b200", "--json").out)["rows"]
    assert [row["hardware"] for row in rows] == ["l4", "b200-sxm"]


def test_a_model_without_sources_loads(run: Run, tmp_path: Path) -> None:
    """The first file of a lecturer has none."""
    text = run("models", "show", "llama-3.1-8b", "--format", "yaml").out
    path = tmp_path / "mine.yaml"
    path.write_text(text[: text.index("\nsources:") + 1], encoding="utf-8")
    whole = json.loads(run("analyze", path, "-H", "l4", "--json").out)
    assert whole["model"]["source"] == []
    assert run("explain", path, "parameters").code == 0
    assert run("models", "show", path).code == 0


EIGHT = ("llama-3.1-70b", "-H", "8xh100-sxm")


def _tp(run: Run, *words: str) -> int:
    return int(json.loads(run("analyze", *words, "--json").out)["deployment"]["tensor_parallel"])


@pytest.mark.parametrize("name", ["8xh100-sxm", "8 x H100_SXM", "8×h100-sxm", "1xdgx-h100"])
def test_a_number_of_devices_is_used_by_tensor_parallelism(run: Run, name: str) -> None:
    """As much as the other sizes leave."""
    assert _tp(run, "llama-3.1-70b", "-H", name) == 8
    assert _tp(run, "llama-3.1-70b", "-H", name, "--pp", "2") == 4
    assert _tp(run, "llama-3.1-70b", "-H", name, "--num-gpus", "8") == 8


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--tp", "4"), "is 8 devices, and the sizes given use 4"),
        (("--pp", "3"), "is 8 devices, which the sizes given (3) do not divide"),
    ],
)
def test_a_number_of_devices_that_the_sizes_do_not_use(run: Run, words: tuple[str, ...], reason: str) -> None:
    """Nothing is left idle without a word."""
    assert reason in run("analyze", *EIGHT, *words).refused()


@pytest.mark.slow
def test_a_number_of_devices_in_other_commands(run: Run, tmp_path: Path) -> None:
    """Each reads it as its own: `simulate` divides it over replicas, `plan` has that many, `claim` divides them best."""
    short = ["--rate", "4", "--isl", "128", "--osl", "8", "--json"]
    simulated = json.loads(run("simulate", *EIGHT, "--replicas", "2", "--requests", "8", *short).out)
    assert simulated["deployment"]["tensor_parallel"] == 4
    plan = json.loads(run("plan", "llama-3.1-8b", "-H", "2xl4", *short, "--ttft", "2s", "--tpot", "60ms").out)
    assert max(one["devices"] for one in plan["candidates"]) <= 2
    claim = ("--tokens-per-s", "1000", "--json")
    pair = [json.loads(run("claim", *words, *claim).out) for words in (EIGHT, (*EIGHT[:2], "h100-sxm", "--devices", "8"))]
    assert [one.pop("reproduce").split()[4] for one in pair] == ["8xh100-sxm", "h100-sxm"]
    assert pair[0] == pair[1]
    rows = json.loads(run("sweep", "llama-3.1-70b", "-H", "4xh100-sxm,8xh100-sxm", "--json").out)["rows"]
    assert [(row["hardware"], row["devices"]) for row in rows] == [("4xh100-sxm", 4), ("8xh100-sxm", 8)]
    for command in (
        ("limits", *EIGHT, "--context", "8k"),
        ("preempt", *EIGHT, "--tokens", "1k"),
        ("explain", *EIGHT[:1], "max_batch", *EIGHT[1:]),
    ):
        long = (*(word.replace("8xh100", "h100") for word in command), "--tp", "8")
        given, other = (json.loads(run(*words, "--json").out) for words in (command, long))
        assert given.pop("reproduce", None) != other.pop("reproduce", "")
        assert given == other
    page = tmp_path / "page.html"
    assert run("report", *EIGHT, "-o", page).code == 0
    assert "--hardware h100-sxm --batch 1" in page.read_text(encoding="utf-8").replace("</span> <span>", " ")
    assert "--tp 8" in page.read_text(encoding="utf-8").replace("</span> <span>", " ")


@pytest.mark.parametrize("command", [("hardware", "show", "8xl4"), ("op", "gemm", "8", "8", "8", "-H", "8xl4")])
def test_a_number_of_devices_where_one_is_meant(run: Run, command: tuple[str, ...]) -> None:
    """It is refused, not left out."""
    assert "a number of devices means nothing here: write l4" in run(*command).refused()


@pytest.mark.parametrize(
    ("command", "written", "meant"),
    [
        ("analyze", "--gpu", "--hardware"),
        ("analyze", "--max-batch-size", "--max-num-seqs"),
        ("simulate", "--kv-dtype", "--kv-cache-dtype"),
        ("sweep", "--prompt-tokens", "--input-len"),
        ("analyze", "--num-gpu", "--num-gpus"),
        ("analyze", "--tensor-parallel", "--tensor-parallel-size"),
        ("plan", "--max-gpu", "--max-gpus"),
    ],
)
def test_a_wrong_option_is_answered_with_the_right_one(run: Run, command: str, written: str, meant: str) -> None:
    """Names of other tools first, then the nearest, one name per option."""
    message = run(command, "gpt2", written, "8").refused()
    assert message.startswith(f"no such option: {written}. Did you mean {meant}")
    assert message.endswith(f"See `roofline {command} --help`.")


def test_names_of_other_tools_are_no_names_here() -> None:
    """Or an error would never meet them; and each stands for one option."""
    elsewhere = [name for option in OPTIONS.values() for name in option.elsewhere]
    assert len(set(elsewhere)) == len(elsewhere)
    assert not {*elsewhere} & {*OPTIONS, *ALIASES}
