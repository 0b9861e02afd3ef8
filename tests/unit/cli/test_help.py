"""Help, versions, completion."""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Callable
from typing import Any

import pytest
import typer

import roofline
from roofline.cli import commands
from roofline.cli.commands import COMMANDS, Commands
from roofline.cli.options import OutputOption, complete_hardware, complete_models
from roofline.registry import Registry

Run = Callable[..., Any]


def test_version(run: Run) -> None:
    """--version says the tool's version and leaves with 0."""
    answer = run("--version")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(f"roofline {roofline.__version__} ")


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_names_the_commands(run: Run, flag: str) -> None:
    """Every command is listed."""
    out = run(flag).out
    for command in ("analyze", "models", "hardware", "schema", "explain"):
        assert re.search(rf"^\W*{command}\b", out, re.MULTILINE)


def test_help_of_analyze_names_every_flag_of_the_contract(run: Run) -> None:
    """Flags of CONTRACT section 3."""
    out = run("analyze", "--help").out
    for flag in (
        "--batch",
        "-b",
        "--input-len",
        "--output-len",
        "--context",
        "--phase",
        "--segments",
        "--dtype",
        "--kv-cache-dtype",
        "--mamba-ssm-cache-dtype",
        "--activation-dtype",
        "--quantization",
        "--tensor-parallel-size",
        "--tp",
        "--pipeline-parallel-size",
        "--pp",
        "--data-parallel-size",
        "--dp",
        "--expert-parallel-size",
        "--ep",
        "--context-parallel-size",
        "--prefill-context-parallel-size",
        "--cp",
        "--sequence-parallel",
        "--expert-imbalance",
        "--max-model-len",
        "--max-num-seqs",
        "--max-num-batched-tokens",
        "--gpu-memory-utilization",
        "--reserve",
        "--block-size",
        "--engine",
        "--backend",
        "--peak-flops",
        "--bandwidth",
        "--memory",
        "--mask",
        "--attention",
        "--logits",
        "--mla",
        "--routing-skew",
        "--shared-prefix",
        "--ignore-capacity",
        "--explain",
        "--json",
        "-o",
        "--output",
        "--quiet",
        "--hardware",
    ):
        assert flag in out, flag


@pytest.mark.parametrize("group", ["models", "hardware"])
def test_help_of_groups(run: Run, group: str) -> None:
    """Groups list what they hold."""
    out = run(group, "--help").out
    for command in ("list", "show", "check"):
        assert re.search(rf"^\W*{command}\b", out, re.MULTILINE)


def test_every_module_is_a_command() -> None:
    """None is forgotten in the registry, and what is listed there is what its help begins with."""
    assert {module.name for module in pkgutil.iter_modules(commands.__path__)} == set(COMMANDS)
    for name, command in Commands().items():
        first, _, _ = command.help.partition("\n\n")
        assert " ".join(first.split()) == COMMANDS[name].summary


def test_a_command_of_another_package(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is listed, runs, and its file is checked as those of ours are."""

    def register(app: typer.Typer) -> None:
        @app.command(name="moon")
        def moon(output: OutputOption = None) -> int:
            """The phase of the moon."""
            assert output is None
            return 3

    entry = commands.Entry("moon", "The phase of the moon.", lambda: register)
    monkeypatch.setattr(commands, "COMMANDS", Registry("command", [*COMMANDS.values(), entry]))
    assert re.search(r"^\W*moon +The phase of the moon\.", run("--help").out, re.MULTILINE)
    assert run("moon").code == 3
    assert "there is no folder" in run("moon", "-o", "nowhere/x.json").refused()


def test_the_shell_completes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands, flags and ids, as bash asks for them."""
    monkeypatch.setenv("_ROOFLINE_COMPLETE", "complete_bash")
    for words, wanted in (("roofline li", "limits"), ("roofline limits --tp", "--tp"), ("roofline limits gpt", "gpt2")):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
        assert wanted in run().out.split()


def test_completion_of_ids() -> None:
    """A shell completes ids of models and hardware."""
    assert complete_models("llama-3.1") == ["llama-3.1-70b", "llama-3.1-8b"]
    assert complete_hardware("h100") == ["h100-nvl", "h100-pcie", "h100-sxm"]
    assert complete_models("zzz") == []


def test_flags_reach_the_answer(run: Run) -> None:
    """Long and short spellings, 8k = 8192, and quantities with units."""
    out = run(
        "analyze", "llama-3.1-8b", "-H", "dgx_h100", "-b", "4", "--context", "8k", "--tp", "2", "--reserve", "1 GiB", "--json"
    ).out
    whole = json.loads(out)
    assert whole["deployment"]["tensor_parallel"] == 2
    assert whole["phases"][1]["cached_tokens"] == 4 * 8192
    assert whole["memory"]["reserved_bytes"] == 2**30
    assert next(note for note in whole["assumptions"] if note["name"] == "context")["value"] == 8192
