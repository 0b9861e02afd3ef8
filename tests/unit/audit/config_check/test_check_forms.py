"""Deployments in the forms that repositories hold: what is read out of them, and what is refused, with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from roofline.audit.config_check import Check, check
from roofline.audit.config_check.commands import script_commands
from roofline.audit.config_check.documents import LocatedValue
from roofline.audit.config_check.forms import read_launch
from roofline.errors import InputError

SAMPLES = Path(__file__).resolve().parents[3] / "samples" / "deployments"
TRAFFIC: dict[str, Any] = {"rate": 1, "input_len": "512", "output_len": "64", "ttft": "5 s", "tpot": "200 ms"}


def _check(name: str | Path, **given: Any) -> Check:
    return check(SAMPLES / name, **TRAFFIC, **given)


def _deployment(found: Check) -> dict[str, Any]:
    assert found.candidate is not None
    return found.candidate.pools[0].deployment


def _origin(found: Check, name: str) -> tuple[object, str]:
    """The value of an option and where it comes from, as it is on record."""
    note = next(note for note in found.plan.assumptions if note.name == name)
    return note.value, note.origin


def test_own_form_with_a_command() -> None:
    """Flags of the line; the file's model and hardware; vLLM's defaults on a card of 80 GB for what it does not say."""
    found = _check("roofline.yaml")
    assert found.plan.model["name"] == "llama-3.1-8b"
    assert (found.replicas, found.source.engine, found.source.line) == (2, "vllm", 5)
    deployment = _deployment(found)
    assert (deployment["max_model_len"], deployment["tensor_parallel"]) == (16384, 1)
    assert _origin(found, "max_num_seqs") == (256, "given")
    assert _origin(found, "max_num_batched_tokens") == (8192, "default")
    assert found.not_understood == ()


def test_own_form_with_options() -> None:
    """Options are those of `analyze`, for which 32k is 32768."""
    found = _check("roofline-options.yaml")
    deployment = _deployment(found)
    assert (deployment["tensor_parallel"], deployment["max_model_len"]) == (2, 32768)
    assert found.source.lines["max_model_len"] == 7
    assert found.replicas == 3


def test_kubernetes() -> None:
    """The container that runs an engine, from a shell: variables of `env` and of the script, the node's label, the GPUs."""
    found = _check("kubernetes.yaml")
    assert found.plan.model["name"] == "llama-3.1-70b"
    assert found.candidate is not None
    assert (found.candidate.hardware, found.replicas) == ("h100-sxm", 3)
    deployment = _deployment(found)
    assert (deployment["tensor_parallel"], deployment["max_model_len"]) == (4, 16384)
    gpus = next(one for one in found.findings if one.objective == "gpus")
    assert (gpus.limit, gpus.expected, gpus.verdict) == (4, 4, "met")
    # `args` stands on line 30, its block starts on the next: tensor-parallel-size is its fourth line
    text = (SAMPLES / "kubernetes.yaml").read_text().splitlines()
    assert "--tensor-parallel-size" in text[found.source.lines["tensor_parallel_size"] - 1]
    assert "--max-num-seqs" in text[found.source.lines["max_num_seqs"] - 1]


def test_compose() -> None:
    """The service that runs SGLang, the default of a variable, its flags under our names."""
    found = _check("compose.yaml", hardware="h100-sxm")
    assert found.plan.model["name"] == "qwen3-8b"
    assert (found.source.engine, found.replicas) == ("sglang", 2)
    deployment = _deployment(found)
    assert (deployment["max_model_len"], deployment["gpu_memory_utilization"], deployment["block_size"]) == (8192, 0.85, 1)
    assert _origin(found, "block_size") == (1, "default")


def test_flags_of_vllm() -> None:
    """There 8k is 8000; a checkpoint that is called FP8 has weights in fp8."""
    found = _check("vllm-config.yaml", hardware="h100-sxm", replicas=1)
    deployment = _deployment(found)
    assert deployment["max_model_len"] == 8000
    assert deployment["weight_dtype"] == "fp8"
    assert _origin(found, "quantization") == ("fp8", "assumed")


def test_what_is_given_comes_first() -> None:
    """In place of the file's, and on record as such."""
    found = _check("roofline.yaml", model="qwen3-8b", hardware="a100-sxm-80gb", replicas=5, max_model_len="4k")
    assert found.plan.model["name"] == "qwen3-8b"
    assert (found.replicas, _deployment(found)["max_model_len"]) == (5, 4096)
    # an A100 has the defaults of small cards
    assert _origin(found, "max_num_batched_tokens") == (2048, "default")


def test_parallel_sizes_follow_what_is_given(tmp_path: Path) -> None:
    """Experts are divided over the devices that there are then."""
    path = _own(tmp_path, "vllm serve x --enable-expert-parallel -tp 2", model="qwen3-30b-a3b")
    assert _deployment(check(path, **TRAFFIC))["expert_parallel"] == 2
    assert _deployment(check(path, **TRAFFIC, tensor_parallel_size="4"))["expert_parallel"] == 4


def _own(folder: Path, command: str, **keys: object) -> Path:
    lines: dict[str, object] = {"model": "llama-3.1-8b", "hardware": "h100-sxm", "replicas": 1, **keys}
    path = folder / "deployment.yaml"
    head = "".join(f"{name}: {value}\n" for name, value in lines.items())
    path.write_text(f"kind: deployment\n{head}command: |\n  {command}\n")
    return path


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("vllm serve x --tensor-parallel-size=2 --max-model-len=32K", {"tensor_parallel": 2, "max_model_len": 32768}),
        ("HF_HOME=/x nohup vllm serve x -tp 2 --dtype half", {"tensor_parallel": 2, "activation_dtype": "fp16"}),
        ("python3 -m vllm.entrypoints.openai.api_server --model x --tensor_parallel_size 2", {"tensor_parallel": 2}),
        ("docker run --gpus all -p 80:80 vllm/vllm-openai:v0.9 --model x --kv-cache-dtype fp8_e5m2", {"kv_dtype": "fp8"}),
        ("cd /srv && TP=4; exec vllm serve x -tp $TP  # on four", {"tensor_parallel": 4}),
        ("vllm serve x -tp ${TP:-2} --host 0.0.0.0 --port 80 --trust-remote-code", {"tensor_parallel": 2}),
        ("vllm serve x -tp 1 -tp 2", {"tensor_parallel": 2}),
        ("vllm serve x --data-parallel-size 2 -q fp8", {"data_parallel": 2, "quantization": "fp8"}),
        ("python -m sglang.launch_server --model-path x --tp 4 --context-length 4096", {"max_model_len": 4096}),
        # with attention data-parallel --tp counts all devices
        ("python -m sglang.launch_server --model-path x --tp 4 --dp 2 --enable-dp-attention", {"tensor_parallel": 2}),
        ("python -m sglang.launch_server --model-path x --dp 2 --max-running-requests 64", {"max_num_seqs": 32}),
    ],
)  # fmt: skip
def test_command_lines(tmp_path: Path, command: str, options: dict[str, object]) -> None:
    """Spellings, shells, later flags over earlier ones, other engines' names."""
    found = check(_own(tmp_path, command), **TRAFFIC)
    assert {name: _deployment(found)[name] for name in options} == options
    assert found.not_understood == ()


def test_flags_that_are_not_in_the_times(tmp_path: Path) -> None:
    """Those that change performance are told with what they do, unknown ones by name, the others not at all."""
    found = check(
        _own(tmp_path, "vllm serve x --enforce-eager --spam 3 --api-key $KEY --eggs --disable-log-requests"), **TRAFFIC
    )
    assert [text.split()[0] for text in found.unmodelled] == ["--enforce-eager"]
    assert found.not_understood == ("--spam", "--eggs")
    assert found.reasons[-1] == "not understood, and left out: --spam, --eggs"


def test_words_know_their_lines(tmp_path: Path) -> None:
    """Lines that go on are counted, comments and other commands left out."""
    script = 'set -e  # a; b\nexport A="1 2"\nvllm serve \\\n  "$A" \\\n  --x=${B:-c d} $(date)\n'
    said = LocatedValue(script, tmp_path, "command", 10, 1, block=True)
    last = script_commands(said, {})[-1]
    assert [(word.text, word.source.line) for word in last] == [
        ("vllm", 13), ("serve", 13), ("1 2", 14), ("--x=c d", 15), ("$(date)", 15),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\n", "x.yaml:1: holds no deployment in a form that is known: a deployment of roofline (kind: deploy"),
        ("- 1\n", "x.yaml: must hold keys and values"),
        ("a: [\n", "not valid YAML"),
        ("image: {{ .Values.image }}\n", "by `helm template`"),
        ("apiVersion: v1\nkind: Service\n", "nothing in it starts vLLM or SGLang"),
        ("services: {a: {command: sleep 1}}\n", "nothing in it starts vLLM or SGLang"),
        ("services: {a: {command: vllm serve x}, b: {command: vllm serve y}}\n", "starts 2 engines"),
        ("kind: deployment\ncommand: sleep 1\n", "x.yaml:2:1: command: starts no engine that is known"),
        ("kind: deployment\ncommand: vllm serve 'x\n", "x.yaml:2:1: command: a quotation in the command has no end"),
        ("kind: deployment\nreplicaz: 2\n", "x.yaml:2:1: unknown key 'replicaz'. Did you mean replicas"),
        ("kind: deployment\nreplicas: 0\n", "x.yaml:2:1: replicas: the number of replicas must be a whole number"),
        ("kind: deployment\noptions: {}\nargs: []\n", "give one of command, args, options"),
        ("kind: deployment\noptions: {tensor_paralel_size: 2}\n", "x.yaml:2:11: options.tensor_paralel_size: unknown option"),
        ("kind: deployment\nengine: tgi\n", "x.yaml:2:1: engine: unknown engine 'tgi'. Known: sglang, vllm."),
        ("kind: deployment\nargs: [--max-model-len, 1.5K]\n", "x.yaml:2:25: args.1: --max-model-len must be a whole number"),
        ("kind: deployment\nargs: [--tensor-parallel-size, $TP]\n", "nothing in the file sets that variable: give --tensor"),
        ("kind: deployment\nargs: [--gpu-memory-utilization, 90]\n", "must be more than 0 and at most 1, not '90'"),
        ("kind: deployment\nargs: [--max-num-seqs]\n", "--max-num-seqs needs a value"),
        ("kind: deployment\noptions: {}\n", "x.yaml:2: the file does not say the model: give MODEL"),
        ("kind: deployment\nmodel: org/spam\n", "x.yaml:2:1: model: 'org/spam' is no model that is shipped"),
        ("kind: deployment\nmodel: gpt2\n", "give --hardware with an id or a YAML file, or the key hardware"),
        ("kind: deployment\nmodel: gpt2\nhardware: h100-smx\n", "x.yaml:3:1: hardware: 'h100-smx' is no hardware"),
        ("kind: deployment\nmodel: gpt2\nhardware: l4\n", "how many replicas there are: give --replicas, or the key replicas"),
        ("model: gpt2\nmax-model-len: 1k\n", "x.yaml:1: the file does not say the hardware: give --hardware"),
        (
            "kind: deployment\nmodel: llama-3.1-8b\nhardware: l4\nreplicas: 1\nargs:\n- --tensor-parallel-size\n- 3\n",
            "x.yaml:7:3: args.1: tensor-parallel size 3 does not work for llama-3.1-8b",
        ),
    ],
)  # fmt: skip
def test_files_that_are_refused(tmp_path: Path, text: str, message: str) -> None:
    """What is wrong, where, and what gives it instead."""
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        check(path, **TRAFFIC)
    assert message in str(caught.value)


def test_an_open_variable_is_no_error_where_its_flag_is_given(tmp_path: Path) -> None:
    """The command line says it instead."""
    found = check(_own(tmp_path, "vllm serve x -tp $TP"), **TRAFFIC, tensor_parallel_size=2)
    assert _deployment(found)["tensor_parallel"] == 2


def test_options_of_a_search_are_refused() -> None:
    """A check ranks nothing."""
    with pytest.raises(InputError, match="--rank is for what plan finds"):
        _check("roofline.yaml", rank="gpus")


def test_pods_without_a_shell(tmp_path: Path) -> None:
    """Arguments of an image that starts the server itself; `$(NAME)` is Kubernetes' own."""
    path = tmp_path / "pod.yaml"
    path.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: e\n"
        "    image: vllm/vllm-openai:v0.10.0\n"
        "    env: [{name: M, value: Qwen/Qwen3-8B}]\n    args: [--model, $(M), --max-model-len, '4096']\n"
    )
    run = read_launch(path)
    assert [(one.flag, one.value) for one in run.settings] == [("--model", "Qwen/Qwen3-8B"), ("--max-model-len", "4096")]
    assert run.replicas is None
    assert run.replicas_default == (1, "a Pod has one where it says nothing")
