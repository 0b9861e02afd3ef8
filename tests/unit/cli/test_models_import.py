"""`models import`, `--assume`, and what a config.json leaves open, on every face."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roofline.blocks.model_files import load_model

Run = Callable[..., Any]

# https://huggingface.co/meta-llama/Llama-3.2-1B/blob/main/config.json
LLAMA_1B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "head_dim": 64,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "max_position_embeddings": 131072,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_hidden_layers": 16,
    "num_key_value_heads": 8,
    "tie_word_embeddings": True,
    "vocab_size": 128256,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the config of Llama 3.2 1B, which names no dtype here."""
    folder = tmp_path / "Llama-3.2-1B"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA_1B), encoding="utf-8")
    return folder


def test_import_to_a_file(run: Run, folder: Path) -> None:
    """What is written loads to the model that the config describes, which is the shipped one in every count."""
    written = folder / "mine.yaml"
    answer = run("models", "import", folder, "-o", written)
    assert (answer.code, answer.out) == (0, "")
    model, shipped = load_model(str(written))[0], load_model("llama-3.2-1b")[0]
    assert model == load_model(str(folder))[0]
    assert (model.layer_types["decoder"], model.layers) == (shipped.layer_types["decoder"], shipped.layers)
    assert (model.name, model.title, model.family) == ("llama-3.2-1b", "Llama-3.2-1B", "llama")
    assert "error" not in run("models", "check", written).err


def test_import_to_stdout_is_show_yaml(run: Run, folder: Path) -> None:
    """The same text, whatever asks for it, and whether the folder is named or the file."""
    text = run("models", "import", folder).out
    assert text.startswith("# Llama-3.2-1B\n")
    assert text == run("models", "import", folder / "config.json").out
    assert text == run("models", "show", folder, "--format", "yaml").out


def test_import_json(run: Run, folder: Path) -> None:
    """--json is one object with the model and the file that it was read from."""
    whole = json.loads(run("models", "import", folder, "--json").out)
    assert whole["inputs"]["llama-3.2-1b"]["path"] == str(folder / "config.json")
    assert whole["model"]["layers"] == [{"pattern": ["decoder"], "repeat": 16}]


@pytest.mark.parametrize(
    ("called", "name", "title", "hf_id"),
    [
        ("meta-llama/Llama-3.2-1B", "llama-3.2-1b", "Llama-3.2-1B", "meta-llama/Llama-3.2-1B"),
        ("My small one", "my-small-one", "My small one", ""),
    ],
)
def test_import_under_a_name(run: Run, folder: Path, called: str, name: str, title: str, hf_id: str) -> None:
    """--name is an id, a title, or the name on Hugging Face, which is then its source."""
    run("models", "import", folder, "--name", called, "-o", folder / "m.yaml")
    model, _ = load_model(str(folder / "m.yaml"))
    assert (model.name, model.title, model.hf_id) == (name, title, hf_id)
    assert model.sources["config"].url == (f"https://huggingface.co/{hf_id}" if hf_id else "")


@pytest.mark.parametrize("suffix", [".csv", ".html", ".parquet", ".txt"])
def test_import_writes_yaml_or_json(run: Run, folder: Path, suffix: str) -> None:
    """A model is no table."""
    assert "one of .json, .yaml, .yml" in run("models", "import", folder, "-o", folder / f"m{suffix}").refused()


def test_import_does_not_write_over_the_config(run: Run, folder: Path) -> None:
    """The config stays what it was."""
    before = (folder / "config.json").read_text(encoding="utf-8")
    assert (
        "the model's config.json that this command reads; it would be overwritten"
        in run("models", "import", folder, "-o", folder / "config.json").refused()
    )
    assert (folder / "config.json").read_text(encoding="utf-8") == before


def test_import_of_a_model_file(run: Run) -> None:
    """A shipped model is a file of ours already."""
    assert "a model's file already" in run("models", "import", "gpt2").refused()


def test_what_is_left_open_is_an_assumption(run: Run, folder: Path) -> None:
    """The config names no dtype: bf16 is taken, and `analyze`, `models show` and the imported file say so."""
    document = json.loads(run("analyze", folder, "-H", "h100-sxm", "--json").out)
    (found,) = [entry for entry in document["assumptions"] if entry["name"] == "model.dtype"]
    assert (found["value"], found["origin"]) == ("bf16", "default")
    assert "dtype bf16 (config.json names none)" in " ".join(run("analyze", folder, "-H", "h100-sxm").out.split())
    assert "  Default  dtype = bf16\n" in run("models", "show", folder).out
    assert "  Default  dtype = bf16 (config.json names none)\n" in run("models", "show", folder, "-v").out
    assert "assumptions:\n  - {name: dtype, value: bf16, why: config.json names none}\n" in run("models", "import", folder).out


def test_shipped_models_leave_nothing_open(run: Run) -> None:
    """A YAML file says all, so nothing is on record about the model itself."""
    document = json.loads(run("analyze", "gpt2", "-H", "h100-sxm", "--json").out)
    assert not [entry for entry in document["assumptions"] if entry["name"].startswith("model.")]


def _alien(folder: Path) -> Path:
    (folder / "config.json").write_text(json.dumps({**LLAMA_1B, "model_type": "xlama", "architectures": ["XForCausalLM"]}))
    return folder


@pytest.mark.parametrize(
    "command", [("models", "show"), ("models", "import"), ("analyze", "--hardware", "h100-sxm"), ("explain",)], ids=" ".join
)
def test_assume(run: Run, folder: Path, command: tuple[str, ...]) -> None:
    """An unknown family is refused with the flag that reads it on the user's risk; with the flag it is read, and told."""
    alien = _alien(folder)
    assert "--assume FAMILY" in run(*command, alien).refused()
    assert run(*command, alien, "--assume", "llama").code == 0
    assert "Known: " in run(*command, alien, "--assume", "no-such").refused()


def test_assume_is_on_record(run: Run, folder: Path) -> None:
    """It is no default but the user's risk."""
    document = json.loads(run("analyze", _alien(folder), "-H", "h100-sxm", "--assume", "llama", "--json").out)
    (found,) = [entry for entry in document["assumptions"] if entry["name"] == "model.family"]
    assert (found["value"], found["origin"]) == ("llama", "assumed")
    told = run("explain", folder, "kv_bytes_per_token", "--assume", "llama").out
    assert "assumed: model.family = llama" in told
    assert "  Assumed  family = llama\n" in run("models", "show", folder, "--assume", "llama").out


def test_assume_is_for_configs(run: Run) -> None:
    """A YAML file says itself what it is."""
    assert "--assume says how to read a config.json" in run("analyze", "gpt2", "-H", "h100-sxm", "--assume", "llama").refused()
