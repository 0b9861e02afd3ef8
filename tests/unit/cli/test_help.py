"""Help, versions, completion."""

from __future__ import annotations

import json
import pkgutil
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

import roofline
from roofline.cli import commands
from roofline.cli.commands import COMMANDS, Commands
from roofline.cli.help import summary
from roofline.cli.options import complete_hardware, complete_models, output_option
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
        assert summary(command.help) == COMMANDS[name].summary


def test_the_list_of_commands_is_one_screen(run: Run) -> None:
    """In groups, each command in one line that is not cut."""
    lines = run("--help").out.splitlines()
    assert len(lines) <= 46
    assert [line for line in lines if len(line) > 100 or "..." in line.replace("[ARGS]...", "")] == []
    for group in ("Predict", "Serve", "Measure", "Check", "Teach"):
        assert f"{group}:" in lines
    for entry in COMMANDS.values():
        assert len(entry.summary) <= 66
        assert any(re.fullmatch(rf"  {entry.name} +{re.escape(entry.summary)}", line) for line in lines)


def _commands() -> list[str]:
    """Commands, those of groups as `group name`."""
    return [
        name if below is None else f"{name} {below}"
        for name, command in Commands().items()
        for below in (getattr(command, "commands", None) or [None])
    ]


def _command(name: str) -> Any:
    first, _, below = name.partition(" ")
    command = Commands()[first]
    return command.commands[below] if below else command


@pytest.mark.parametrize("name", _commands())
def test_help_of_every_command(run: Run, name: str) -> None:
    """At most 100 columns, every option and alias under a group, the common ones before the output's and the others."""
    out = run(*name.split(), "--help").out
    lines = out.splitlines()
    assert [line for line in lines if len(line) > 100] == []
    groups = [line for line in lines if re.fullmatch(r"[A-Z].*:", line) and line != "Example:"]
    assert groups[0] in ("Arguments:", "Common options:", "Options:", "Output:")
    assert groups.index("Output:") <= 2
    assert len(set(groups)) == len(groups)
    options = out[out.index(f"\n{groups[groups[0] == 'Arguments:']}\n") :]
    for entry in _command(name).params:
        for flag in entry.opts if entry.param_type_name == "option" else ():
            assert len(re.findall(rf"(?<![\w-]){re.escape(flag)}(?=[ ,./]|$)", options, re.MULTILINE)) >= 1, flag


@pytest.mark.parametrize("name", ["analyze", "explain", "limits", "plan", "simulate", "sweep"])
def test_common_options_are_one_screen(run: Run, name: str) -> None:
    """Usage, description, example and common options come before the others and fit on a terminal of 50 lines."""
    before, _, after = run(name, "--help").out.partition("  -h, --help ")
    assert len(before.splitlines()) <= 50
    assert "--tensor-parallel-size" in before
    assert "--expert-imbalance" in after


def test_help_is_as_wide_as_a_narrow_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the same in a pipe as on a terminal."""
    monkeypatch.setenv("COLUMNS", "72")
    lines = run("validate", "--help").out.splitlines()
    assert max(map(len, lines)) <= 72


def test_an_example_can_be_copied(run: Run) -> None:
    """A long one goes on after a backslash; quoted values stay whole."""
    out = run("plan", "--help").out
    example = out[out.index("Example:") : out.index("Arguments:")]
    words = shlex.split(example.partition("\n")[2].replace("\\\n", " "))
    assert words[:3] == ["roofline", "plan", "llama-3.1-8b"]
    assert words[-4:] == ["--ttft", "2 s", "--tpot", "50 ms"]


def test_a_command_of_another_package(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is listed, runs, and its file is checked as those of ours are."""

    def register(app: typer.Typer) -> None:
        @app.command(name="moon")
        def moon(output: Annotated[Path | None, output_option([".json"])] = None) -> int:
            """The phase of the moon."""
            assert output is None
            return 3

    entry = commands.Entry("moon", "The phase of the moon.", lambda: register)
    monkeypatch.setattr(commands, "COMMANDS", Registry("command", [*COMMANDS.values(), entry]))
    assert re.search(r"^\W*moon +The phase of the moon\.", run("--help").out, re.MULTILINE)
    assert run("moon").code == 3
    assert "there is no folder" in run("moon", "-o", "nowhere/x.json").refused()


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("roofline li", {"limits"}),
        ("roofline limits --tp", {"--tp"}),
        ("roofline limits gpt2", {"gpt2"}),
        ("roofline analyze gpt2 -H h100-", {"h100-nvl", "h100-pcie", "h100-sxm"}),
        ("roofline sweep gpt2 -H l4,h200-", {"l4,h200-nvl", "l4,h200-sxm"}),
        ("roofline analyze gpt2 --dtype fp", {"fp32", "fp16", "fp8", "fp4"}),
        ("roofline plan gpt2 --kv-cache-dtype bf", {"bf16"}),
        ("roofline analyze gpt2 --quantization w8", {"w8a16", "w8a8"}),
        ("roofline analyze gpt2 --engine vllm", {"vllm", "vllm@0.19"}),
        ("roofline limits gpt2 --backend sgl", {"sglang"}),
        ("roofline analyze gpt2 --phase p", {"prefill"}),
        ("roofline claim gpt2 --mla ex", {"expand"}),
        ("roofline explain gpt2 kv_", {"kv_bytes_per_token"}),
        ("roofline explain gpt2 layers/mlp/u", {"layers/mlp/up_proj"}),
    ],
)
def test_the_shell_completes(run: Run, monkeypatch: pytest.MonkeyPatch, words: str, wanted: set[str]) -> None:
    """Commands, flags, ids, formats, engines, quantities and operators, as bash asks for them."""
    monkeypatch.setenv("_ROOFLINE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    assert set(run().out.split()) >= wanted
    if "/" not in words:
        last = words.rsplit(maxsplit=1)[-1]
        assert all(text.startswith(last) for text in run().out.split())


def test_completion_of_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell completes ids of models and hardware; a wrong ROOFLINE_PATH is left to the command."""
    assert complete_models("llama-3.1") == ["llama-3.1-405b", "llama-3.1-70b", "llama-3.1-8b"]
    assert complete_hardware("h100") == ["h100-nvl", "h100-pcie", "h100-sxm"]
    assert complete_models("zzz") == []
    monkeypatch.setenv("ROOFLINE_PATH", "/nowhere")
    assert complete_hardware("h100") == []


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
