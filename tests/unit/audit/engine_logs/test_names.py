"""From names in logs to what is shipped, and from methods to formats."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofline import load_model
from roofline.audit.engine_logs.names import device, model, quantizes_activations, scheme
from roofline.errors import InputError
from roofline.specs.library import ids


@pytest.mark.parametrize(
    ("name", "shipped"),
    [
        ("meta-llama/Meta-Llama-3.1-8B", "llama-3.1-8b"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("nvidia/Llama-3.1-70B-Instruct-FP8", "llama-3.1-70b"),
        ("hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4", "llama-3.1-8b"),
        ("/models/Qwen3-32B/", "qwen3-32b"),
        ("/root/.cache/huggingface/hub/models--Qwen--Qwen3-8B/snapshots/b968826d9c46", "qwen3-8b"),
        (f"/{'cache' * 60}/Qwen3-32B", "qwen3-32b"),  # no file can have such a name: looking there is an error of the system
        ("openai/gpt-oss-20b", "gpt-oss-20b"),
    ],
)
def test_model(name: str, shipped: str) -> None:
    """Organisations, folders, caches and what fine-tuning and quantising put behind a name fall away."""
    assert model(name) == shipped


def test_every_hf_id_is_found() -> None:
    """The name on Hugging Face that a shipped file has leads to it."""
    import re

    for entry, path in ids("models").items():
        found = re.search(r"^hf_id: (\S+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert found is None or model(found[1]) == entry


def test_folder_with_a_config(tmp_path: Path) -> None:
    """A model that is here is itself."""
    (tmp_path / "config.json").write_text("{}")
    assert model(str(tmp_path)) == str(tmp_path)


@pytest.mark.parametrize("name", ["acme/Foo-9B", "", "x" * 5000, "../../etc/passwd", "llama"])
def test_unknown_model(name: str) -> None:
    """Nothing is guessed, and the message says what to give."""
    with pytest.raises(InputError, match="give MODEL"):
        model(name)


def test_device() -> None:
    """Files of tuned kernels name the card as the driver does, with underscores."""
    assert device("NVIDIA_H200") == "h200-sxm"
    assert device("Some_Card") is None


@pytest.mark.parametrize(
    ("method", "name", "wanted"),
    [
        (None, "m-FP8", None),
        ("fp8", "m", "fp8"),
        ("gptq_marlin", "m", "gptq"),
        ("compressed-tensors", "neuralmagic/m-FP8-dynamic", "fp8"),
        ("compressed-tensors", "RedHatAI/m-quantized.w8a8", "int8"),
    ],
)
def test_scheme(method: str | None, name: str, wanted: str | None) -> None:
    """A container's format is in the model's name."""
    assert scheme(method, name) == wanted


def test_unknown_scheme() -> None:
    """A container without a name that says it is not guessed."""
    with pytest.raises(InputError, match="give --quantization"):
        scheme("compressed-tensors", "org/m")


@pytest.mark.parametrize(("name", "own"), [(None, False), ("fp8", True), ("awq", False), ("w8a8", True), ("none", False)])
def test_products_in_a_format_of_the_weights(name: str | None, own: bool) -> None:
    """VLLM's `--dtype bfloat16 --quantization fp8` multiplies in fp8: its dtype must not be read as that of products."""
    assert quantizes_activations(load_model("llama-3.1-8b"), name) is own
    assert quantizes_activations(load_model("deepseek-v3"), None)
