"""Names to files: ids, aliases, families, paths, and folders of one's own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.errors import AmbiguousNameError, InputError, SpecError, UnknownNameError
from roofline.specs.engine import Engine
from roofline.specs.hardware import Accelerator, Node
from roofline.specs.library import find, ids, load_engine, load_hardware, shipped
from roofline.specs.yaml_file import read_trusted, read_yaml


@pytest.fixture(autouse=True)
def _no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROOFLINE_PATH", raising=False)


@pytest.mark.parametrize("name", ["h100-sxm", "h100_sxm", "H100-SXM", "H100 SXM", " h100-sxm ", "h100-sxm5", "H100_SXM_80GB"])
def test_spellings_of_one_card(name: str) -> None:
    """Case, underscores, spaces and aliases lead to the same card."""
    assert load_hardware(name)[0].name == "h100-sxm"


@pytest.mark.parametrize(
    ("family", "members"),
    [
        ("a100", ["a100-pcie-40gb", "a100-pcie-80gb", "a100-sxm-40gb", "a100-sxm-80gb"]),
        ("A100", ["a100-pcie-40gb", "a100-pcie-80gb", "a100-sxm-40gb", "a100-sxm-80gb"]),
        ("a100_sxm", ["a100-sxm-40gb", "a100-sxm-80gb"]),
        ("h100", ["h100-nvl", "h100-pcie", "h100-sxm"]),
        ("v100", ["v100-pcie-16gb", "v100-sxm2-16gb", "v100-sxm2-32gb"]),
        ("h200", ["h200-nvl", "h200-sxm"]),
    ],
)
def test_family_names_are_ambiguous(family: str, members: list[str]) -> None:
    """A name that could be several cards is refused, and lists them; nothing is guessed."""
    with pytest.raises(AmbiguousNameError) as caught:
        load_hardware(family)
    assert caught.value.choices == members


@pytest.mark.parametrize(("part", "whole"), [("b200", "b200-sxm"), ("B200", "b200-sxm"), ("b300", "b300-sxm")])
def test_the_first_part_of_one_name_is_enough(part: str, whole: str) -> None:
    """For hardware, where one id alone begins with it; a model is named whole."""
    assert load_hardware(part)[0].name == whole
    with pytest.raises(AmbiguousNameError, match=r"not a whole name; the one that is known is falcon-7b"):
        load_model("falcon")


def test_a_part_of_another_name_is_no_family() -> None:
    """`h10` is not a name for every card that starts so, but those are suggested."""
    with pytest.raises(UnknownNameError, match="Did you mean"):
        load_hardware("h10")


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("RTX 5080", "rtx-5080"), ("geforce-rtx-4070-ti", "rtx-4070-ti"), ("rtx-6000", "rtx-6000-ada"),
        ("M4 Max", "apple-m4-max"), ("apple-m1", "apple-m1"), ("GB10", "dgx-spark"), ("ryzen-ai-max-395", "strix-halo"),
        ("jetson-thor", "jetson-agx-thor"), ("910c", "ascend-910c"), ("trn3", "trainium3"), ("HGX B200", "dgx-b200"),
        ("nvl72", "gb200-nvl72"), ("xeon-6", "xeon-6980p"), ("turin", "epyc-9965"),
    ],
)  # fmt: skip
def test_names_that_people_type(typed: str, name: str) -> None:
    """What is printed on a box, what a driver calls it, and what it is called for short."""
    assert find("hardware", typed).stem == name


def test_unified_memory_is_the_share_of_the_gpu() -> None:
    """Metal lets the GPU have two thirds of 16 GiB and three quarters of 128 GiB."""
    assert load_hardware("apple-m1")[0].memory_bytes == pytest.approx(16 * 2**30 * 2 / 3, rel=1e-3)
    assert load_hardware("apple-m4-max")[0].memory_bytes == 96 * 2**30


def test_racks_are_one_node() -> None:
    """Expert parallelism over 72 GPUs stays on NVLink; 73 need the network."""
    rack = load_hardware("gb200-nvl72")[0]
    assert rack.connection(72).network is None  # type: ignore[union-attr]
    assert rack.connection(144).network.name == "InfiniBand NDR"  # type: ignore[union-attr]


def test_exact_names_are_not_ambiguous() -> None:
    """`l40` is a card although `l40s` starts so, and `gpt2` a model."""
    assert load_hardware("l40")[0].name == "l40"
    assert load_hardware("a10")[0].name == "a10"
    assert load_model("gpt2")[0].name == "gpt2"


@pytest.mark.parametrize(("slip", "meant"), [("lama-3.1-8b", "llama-3.1-8b"), ("depseek-v3", "deepseek-v3"), ("gtp2", "gpt2")])
def test_unknown_model_suggests(slip: str, meant: str) -> None:
    """A slip is answered with what was meant, and with how to see all."""
    with pytest.raises(UnknownNameError, match="Did you mean") as caught:
        load_model(slip)
    assert meant in str(caught.value)
    assert "roofline models list" in str(caught.value)


@pytest.mark.parametrize("name", ["", " ", "-", "."])
def test_names_of_nothing(name: str) -> None:
    """An empty name is unknown, never a folder and never the first file."""
    with pytest.raises(InputError):
        load_model(name)


def test_a_path_is_a_file(tmp_path: Path) -> None:
    """What has a separator or ends in .yaml is a path."""
    copy = tmp_path / "mine.yaml"
    copy.write_text((shipped("models") / "gpt2.yaml").read_text(encoding="utf-8"))
    model, read = load_model(str(copy))
    assert model.name == "gpt2"
    assert read.path == str(copy)
    assert find("models", "mine.yaml") == Path("mine.yaml")


def test_shipped_files_are_called_so() -> None:
    """The path of a shipped file says nothing about where it is installed."""
    assert load_model("gpt2")[1].path == "shipped"
    assert [read.path for read in load_hardware("dgx-h100")[1]] == ["shipped", "shipped"]


def test_a_folder_of_that_name_does_not_hide_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder or file called `gpt2` in the working directory is not what `gpt2` means."""
    (tmp_path / "gpt2").mkdir()
    (tmp_path / "h100-sxm").write_text("not yaml: [")
    monkeypatch.chdir(tmp_path)
    assert load_model("gpt2")[0].name == "gpt2"
    assert load_hardware("h100-sxm")[0].name == "h100-sxm"


def test_folder_as_a_path_is_refused(tmp_path: Path) -> None:
    """A path to a folder says that it is one."""
    with pytest.raises(SpecError, match="is a folder"):
        load_model(f"{tmp_path}{os.sep}")


def test_path_variable_adds_and_shadows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders of ROOFLINE_PATH hold files of one's own; they come before what is shipped, the first folder first."""
    for folder, title in (("one", "First"), ("two", "Second")):
        (tmp_path / folder / "models").mkdir(parents=True)
        text = (shipped("models") / "gpt2.yaml").read_text(encoding="utf-8")
        (tmp_path / folder / "models" / "gpt2.yaml").write_text(text.replace("title: GPT-2 small", f"title: {title}"))
    new = text.replace("name: gpt2", "name: gpt2-mine")
    (tmp_path / "two" / "models" / "gpt2-mine.yaml").write_text(new)
    monkeypatch.setenv("ROOFLINE_PATH", os.pathsep.join([str(tmp_path / "one"), "", str(tmp_path / "two")]))
    assert load_model("gpt2")[0].title == "First"
    assert load_model("gpt2-mine")[0].name == "gpt2-mine"
    assert load_model("gpt2-mine")[1].path == str(tmp_path / "two" / "models" / "gpt2-mine.yaml")
    assert "llama-3.1-8b" in ids("models")
    assert load_hardware("h100-sxm")[1][0].path == "shipped"


@pytest.mark.parametrize(
    ("name", "said"),
    [("none", "none does not exist"), ("file", "file is a file"), ("empty", "empty has no folder models/, hardware/")],
)
def test_an_entry_of_the_path_variable_that_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    """A slip in ROOFLINE_PATH is an error that names the entry: ignored, the shipped file would answer for one's own."""
    (tmp_path / "right" / "prices").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    monkeypatch.setenv("ROOFLINE_PATH", str(tmp_path / "right"))
    assert load_model("gpt2")[1].path == "shipped"
    monkeypatch.setenv("ROOFLINE_PATH", os.pathsep.join([str(tmp_path / "right"), str(tmp_path / name)]))
    with pytest.raises(InputError, match=f"ROOFLINE_PATH: {tmp_path}/{said}"):
        load_model("gpt2")


def test_aliases_of_own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Aliases are found in one's own files, also where they are a list in lines."""
    (tmp_path / "hardware").mkdir()
    text = (shipped("hardware") / "t4.yaml").read_text(encoding="utf-8").replace("name: t4", "name: my-card")
    (tmp_path / "hardware" / "my-card.yaml").write_text(
        text.replace("aliases: [tesla-t4, t4-16gb]", "aliases:\n  - the-slow-one")
    )
    monkeypatch.setenv("ROOFLINE_PATH", str(tmp_path))
    assert load_hardware("the-slow-one")[0].name == "my-card"


def test_an_unreadable_neighbour_does_not_stop_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken file in a folder of one's own is an error when it is asked for, and a RooflineError when names are looked up."""
    (tmp_path / "hardware").mkdir()
    (tmp_path / "hardware" / "junk.yaml").write_bytes(b"\xff\xfe\x00")
    monkeypatch.setenv("ROOFLINE_PATH", str(tmp_path))
    assert load_hardware("h100_sxm5")[0].name == "h100-sxm"
    with pytest.raises(SpecError, match="not a text file"):
        load_hardware("junk")


def test_templates_are_no_ids() -> None:
    """Files that start with an underscore are not offered."""
    assert not [name for kind in ("models", "hardware") for name in ids(kind) if name.startswith("_")]  # type: ignore[arg-type]


def test_a_node_brings_its_accelerator() -> None:
    """A node is eight accelerators; its figures are those of one of them, and both files are on record."""
    node, read = load_hardware("dgx-h100")
    card, _ = load_hardware("h100-sxm")
    assert node.node is not None
    assert node.node.count == 8
    assert node.accelerator == card.accelerator
    assert (node.name, node.bandwidth, node.memory_bytes) == ("dgx-h100", card.bandwidth, card.memory_bytes)
    assert [entry.role for entry in read] == ["node", "hardware"]


def test_memory_is_as_reported_where_that_is_known() -> None:
    """The driver's 81559 MiB of an H100 SXM are used, not the 80 GB of the label."""
    assert load_hardware("h100-sxm")[0].memory_bytes == 81559 * 2**20


def test_links_join_as_many_as_they_say() -> None:
    """A node's links join its eight accelerators; sixteen need its network."""
    node = load_hardware("dgx-h100")[0]
    assert node.connection(1) is None
    assert node.connection(8).inside.name == "NVLink 4 + NVSwitch"  # type: ignore[union-attr]
    assert node.connection(8).network is None  # type: ignore[union-attr]
    assert node.connection(16).network.name == "InfiniBand NDR"  # type: ignore[union-attr]


def test_engines() -> None:
    """An engine by name, or by name and version; a file holds for the versions before it, and none for those after all."""
    assert load_engine("vllm")[0].version == "0.19"
    versions = ("0.8.5", "0.19.1", "0.20", "0.25.1", "0.26.0", "0.32.0", "0.33", "0.33.0")
    files = ("0.19", "0.19", "0.25", "0.25", "0.32", "0.32", "0.33", "0.33")
    assert [load_engine(f"vllm@{version}")[0].version for version in versions] == list(files)
    for wrong in ("0.34.0", "1", "latest"):
        with pytest.raises(InputError, match=r"Rules are known up to each of: 0\.19, 0\.25, 0\.32, 0\.33\."):
            load_engine(f"vllm@{wrong}")
    assert load_engine("vllm@0.99", newest=True)[0].version == "0.33"
    with pytest.raises(UnknownNameError, match=r"unknown engine 'vlm'\. Did you mean vllm"):
        load_engine("vlm")


@pytest.mark.slow
def test_the_quick_reader_reads_the_same() -> None:
    """What is shipped is read by a parser in C, without the places of keys: no file means anything else to it."""
    specs = {"models": [Model], "hardware": [Accelerator, Node], "engines": [Engine]}
    for kind, choices in specs.items():
        for path in ids(kind).values():  # type: ignore[arg-type]
            quick = next(found for spec in choices if (found := read_trusted(path, spec)) is not None)  # type: ignore[type-var]
            file = read_yaml(path)
            assert quick == (file.validate(type(quick[0])), file.sha256), path


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("sglang", "0.5"), ("sglang@0.5", "0.5"), ("sglang@0.5.2", "0.5"), ("sglang@0.4.9", "0.5"), ("sglang@0.5.3", "0.5.9"),
        ("sglang@0.5.9.post1", "0.5.9"), ("sglang@0.5.10", "0.5.23"), ("vllm@0.19.1", "0.19"), ("vllm@0.20.0", "0.25"),
    ],
)  # fmt: skip
def test_rules_of_a_release(name: str, version: str) -> None:
    """A file for 0.5 holds for each 0.5.x, but for those of which another says so (`since`)."""
    assert load_engine(name)[0].version == version


def test_releases_newer_than_the_rules() -> None:
    """They are refused by name; the newest rules are taken where that is asked for."""
    with pytest.raises(InputError, match=r"sglang 0\.5\.24.*0\.5\.23"):
        load_engine("sglang@0.5.24")
    assert load_engine("sglang@0.5.24", newest=True)[0].version == "0.5.23"
