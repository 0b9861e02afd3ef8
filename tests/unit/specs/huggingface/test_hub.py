"""org/name[@revision]: fetched by huggingface_hub where it is installed, and nothing else touches the network."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pytest

import roofline
from roofline.blocks.model_files import load_model
from roofline.errors import InputError, MissingExtraError
from roofline.specs.huggingface import hub
from roofline.specs.library import shipped

CONFIG: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 331, "max_position_embeddings": 512, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}  # fmt: skip


class StandIn(ModuleType):
    """Downloads as huggingface_hub does: into folders that are named after a commit."""

    def __init__(self, folder: Path) -> None:
        super().__init__("huggingface_hub")
        self.folder, self.asked, self.fails = folder, [], None  # type: ignore[var-annotated]
        self.files: dict[str, object] = {"config.json": CONFIG}
        self.unreachable: set[str] = set()

    def hf_hub_download(self, repo_id: str, filename: str, *, revision: str | None = None) -> str:
        """Write the file and say where, or fail as told."""
        self.asked.append((repo_id, filename, revision))
        if self.fails is not None:
            raise self.fails
        if filename in self.unreachable or filename not in self.files:
            name = "LocalEntryNotFoundError" if filename in self.unreachable else "RemoteEntryNotFoundError"
            entry_not_found = type("EntryNotFoundError", (Exception,), {})
            raise type(name, (entry_not_found,), {})
        file = self.folder / "snapshots" / "5206a32e0bd3067aef1ce90f5528ade7d866253f" / filename
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(self.files[filename]), encoding="utf-8")
        return str(file)


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """In the place of huggingface_hub, in a folder without files."""
    stand_in = StandIn(tmp_path / "cache")
    monkeypatch.setitem(sys.modules, "huggingface_hub", stand_in)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROOFLINE_PATH", raising=False)
    hub.fetch.cache_clear()
    hub.fetch_if_any.cache_clear()
    yield stand_in
    hub.fetch.cache_clear()
    hub.fetch_if_any.cache_clear()


def test_config_is_fetched(library: StandIn) -> None:
    """Of the main branch, with the file of ModelOpt if any; the model has the name of its repository, not of the folder."""
    model, read = load_model("my-org/My_Model-7B")
    assert library.asked == [("my-org/My_Model-7B", file, None) for file in ("config.json", "hf_quant_config.json")]
    assert (model.name, model.title, model.hf_id) == ("my-model-7b", "My_Model-7B", "my-org/My_Model-7B")
    assert model.sources["config"].url == "https://huggingface.co/my-org/My_Model-7B"
    assert model.num_hidden_layers == 2
    assert read.path.endswith("config.json")


def test_revision(library: StandIn) -> None:
    """A branch, tag or commit after @."""
    load_model("my-org/model@refs/pr/1")
    assert library.asked[0] == ("my-org/model", "config.json", "refs/pr/1")


def test_everything_that_takes_a_model_takes_it(library: StandIn) -> None:
    """Python too; a second question does not ask the library again."""
    layer = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96 + 2 * 64  # q and o, k and v, gate, up, down; norms
    for _ in range(2):
        result = roofline.analyze("my-org/model", "h100-sxm")
        assert result.memory.weights_bytes == 2 * (2 * layer + 2 * 331 * 64 + 64)
    assert len(library.asked) == 2  # the config, and whether there is an hf_quant_config.json


def test_how_modelopt_quantised_is_fetched_too(library: StandIn) -> None:
    """A byte per weight of the layers, and the KV cache in fp8; nothing further is fetched where config.json says it itself."""
    quantized = {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}
    library.files["hf_quant_config.json"] = {"producer": {"name": "modelopt"}, "quantization": quantized}
    model = load_model("my-org/model-fp8")[0]
    assert [(scheme.name, scheme.kv_cache_dtype) for scheme in model.quantization] == [("fp8", "fp8")]
    assert model.sources["quantization"].title == "hf_quant_config.json of my-org/model-fp8"
    library.files["config.json"] = {**CONFIG, "quantization_config": {"quant_method": "fp8"}}
    library.asked.clear()
    assert load_model("my-org/other-fp8")[0].quantization[0].kv_cache_dtype is None
    assert library.asked == [("my-org/other-fp8", "config.json", None)]


def test_where_it_is_not_known_whether_weights_are_quantised(library: StandIn) -> None:
    """A config in the cache and no network: weights are taken for bf16, and the answer says so."""
    library.unreachable.add("hf_quant_config.json")
    result = roofline.analyze("my-org/model-nvfp4", "h100-sxm")
    note = next(note for note in result.assumptions if note.name == "model.quantization")
    assert (note.value, note.origin) == ("none", "assumed")
    assert "hf_quant_config.json of my-org/model-nvfp4 cannot be fetched: it cannot be reached" in note.why
    assert "quantization none" in str(result)


def test_a_folder_here_goes_first(library: StandIn, tmp_path: Path) -> None:
    """org/name that is a folder is that folder, and nobody is asked."""
    (tmp_path / "my-org" / "model").mkdir(parents=True)
    (tmp_path / "my-org" / "model" / "config.json").write_text(json.dumps({**CONFIG, "num_hidden_layers": 3}))
    assert load_model("my-org/model")[0].num_hidden_layers == 3
    assert library.asked == []


@pytest.mark.parametrize("name", ["my-org/model.yaml", "my-org/config.json", "./my-org", "my-org/model/", "a/b/c", "/a/b"])
def test_paths_are_no_names(library: StandIn, name: str) -> None:
    """What looks like a path and is not there is a file that is missing."""
    with pytest.raises(InputError, match="no such file"):
        load_model(name)
    assert library.asked == []


def test_without_the_extra(library: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 3, the extra's name, and what is shipped under such a name."""
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r"\(shipped: llama-3.1-8b.*needs the optional extra 'hub'") as caught:
        load_model("meta-llama/Llama-3.1-8B")
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("ancestors", "said"),
    [
        (("GatedRepoError", "RepositoryNotFoundError"), "asks for a login"),
        (("RepositoryNotFoundError", "HfHubHTTPError"), "no such model"),
        (("RevisionNotFoundError", "HfHubHTTPError"), "no such revision"),
        (("LocalEntryNotFoundError", "EntryNotFoundError"), "cannot be reached"),
        (("RemoteEntryNotFoundError", "EntryNotFoundError"), "no config.json"),
        (("SomethingNew",), "SomethingNew: first line$"),
    ],
)
def test_what_went_wrong(library: StandIn, ancestors: tuple[str, ...], said: str) -> None:
    """One line that says so, whichever class of which version of the library it was."""
    kind: type[Exception] = Exception
    for name in reversed(ancestors):
        kind = type(name, (kind,), {})
    library.fails = kind("first line\nsecond line")
    with pytest.raises(InputError, match=rf"my-org/model at v2 cannot be fetched from Hugging Face: .*{said}") as caught:
        load_model("my-org/model@v2")
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_failure_is_not_remembered(library: StandIn) -> None:
    """The network may be back."""
    library.fails = OSError("no network")
    with pytest.raises(InputError):
        load_model("my-org/model")
    library.fails = None
    assert load_model("my-org/model")[0].num_hidden_layers == 2


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever wants a socket or an address fails."""

    def refuse(*arguments: object, **options: object) -> NoReturn:
        pytest.fail("the network is touched")

    for name in ("socket", "create_connection", "getaddrinfo", "gethostbyname"):
        monkeypatch.setattr(socket, name, refuse)


@pytest.mark.usefixtures("no_network")
def test_nothing_else_touches_the_network(tmp_path: Path) -> None:
    """Shipped ids, files, folders and configs, in analysis, explanation and errors."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    for name in ("gpt2", str(shipped("models") / "gpt2.yaml"), str(tmp_path), str(tmp_path / "config.json")):
        assert roofline.analyze(name, "h100-sxm").memory.fits
    assert roofline.explain("gpt2", "kv_bytes_per_token").value == 36_864
    with pytest.raises(InputError, match="unknown model"):
        load_model("no-such-model")


@pytest.mark.usefixtures("no_network")
def test_the_net_would_catch_it() -> None:
    """The fixture above does what it says."""
    with pytest.raises(pytest.fail.Exception, match="the network is touched"):
        socket.create_connection(("huggingface.co", 443))


def test_the_library_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The real huggingface_hub, offline and with an empty cache, is understood."""
    pytest.importorskip("huggingface_hub", reason="the extra `hub` is not installed")
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    hub.fetch.cache_clear()
    with pytest.raises(InputError, match=r"not in the cache of huggingface_hub"):
        load_model("my-org/model")
