"""`roofline report --from` of what `roofline sweep` has written."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from roofline.blocks.model_files import load_model
from roofline.specs.library import load_hardware

AXES = ("gpt2", "--hardware", "l4,t4", "--batch", "1,2,4", "--context", "128,256")
FORMS = ("folder", "file.json", "file.csv", "file.parquet")


def numbers(text: str) -> list[str]:
    """The unrounded numbers of the maps."""
    maps = re.findall(r'id="table-map-.*?</table>', text, re.DOTALL)
    return [number for one in maps for number in re.findall(r'data-value="([^"]*)"', one)]


@pytest.fixture
def made(run, tmp_path: Path):
    """A sweep in one of its forms; a folder has parts in Parquet."""
    pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")

    def sweep(name: str, *more: str) -> Path:
        answer = run("sweep", *AXES, *more, "-o", tmp_path / name)
        assert answer.code == 0, answer
        return tmp_path / name

    return sweep


@pytest.mark.slow
def test_every_form_makes_the_same_maps(run, made, tmp_path: Path) -> None:
    found = {}
    for form in FORMS:
        answer = run("report", "--from", made(form), "-o", tmp_path / f"{form}.html")
        assert (answer.code, answer.out) == (0, ""), answer
        found[form] = (tmp_path / f"{form}.html").read_text(encoding="utf-8")
    # two accelerators, three batches, two contexts with the contexts themselves at the head of each row
    assert len(numbers(found["folder"])) == 2 * 2 * (3 + 1)
    for form in FORMS[1:]:
        same = [float(one) for one in numbers(found[form])]
        assert same == pytest.approx([float(one) for one in numbers(found["folder"])], rel=1e-12)
    assert "roofline sweep gpt2 --hardware l4,t4 --phase decode" in found["file.json"].replace("</span> <span>", " ")
    assert "The file has rows alone" in found["file.csv"]


def test_a_sweep_writes_its_page_at_once(run, made, tmp_path: Path) -> None:
    """The numbers of the page that is made of its JSON, and the command that sweeps the same instead of a file's name."""
    assert run("report", "--from", made("file.json"), "-o", tmp_path / "saved.html").code == 0
    text = made("page.html").read_text(encoding="utf-8")
    assert numbers(text) == numbers((tmp_path / "saved.html").read_text(encoding="utf-8"))
    assert "roofline sweep gpt2 --hardware l4,t4" in text.partition("<footer>")[2].replace("</span> <span>", " ")
    titles = [load_hardware(name)[0].title for name in ("l4", "t4")]
    assert f"<h1>Sweep: {load_model('gpt2')[0].title} on {titles[0]} and {titles[1]}</h1>" in text


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["best", "pareto", "histogram"])
def test_reductions(run, made, tmp_path: Path, rule: str) -> None:
    keys = {"best": "figure-best-", "pareto": "figure-front-decode", "histogram": "figure-histogram-decode-0"}
    for form in ("folder", "file.json", "file.csv"):
        page = tmp_path / f"{rule}-{form}.html"
        assert run("report", "--from", made(f"{rule}-{form}", "--reduce", rule, "--by", "hardware"), "-o", page).code == 0
        text = page.read_text(encoding="utf-8")
        assert "<h1>Sweep: " in text
        if rule != "best":
            assert keys[rule] in text


def test_a_folder_that_is_no_sweep(run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "without" in run("report", "--from", tmp_path / "empty", "-o", tmp_path / "x.html", "--quiet").refused()
    assert not (tmp_path / "x.html").exists()


def test_a_sweep_that_is_not_complete(run, made, tmp_path: Path) -> None:
    folder = made("folder")
    (manifest,) = folder.glob("*.json")
    found = json.loads(manifest.read_text(encoding="utf-8"))
    manifest.write_text(json.dumps({**found, "complete": False}), encoding="utf-8")
    assert "not complete" in run("report", "--from", folder, "-o", tmp_path / "x.html", "--quiet").refused()
    manifest.write_text("{", encoding="utf-8")
    assert str(folder) in run("report", "--from", folder, "-o", tmp_path / "x.html", "--quiet").refused()


def test_a_manifest_names_files_of_its_folder_alone(run, made, tmp_path: Path) -> None:
    """No path to another folder, and no more rows than it says."""
    folder = made("folder")
    manifest = folder / "_manifest.json"
    content = json.loads(manifest.read_text(encoding="utf-8"))
    (part,) = content["parts"]
    elsewhere = tmp_path / "elsewhere.parquet"
    elsewhere.write_bytes((folder / part["file"]).read_bytes())
    for name in (str(elsewhere), "../elsewhere.parquet", 7):
        manifest.write_text(json.dumps({**content, "parts": [{**part, "file": name}]}), encoding="utf-8")
        message = run("report", "--from", folder, "-o", tmp_path / "x.html", "--quiet").refused()
        assert "must be the name of a file in this folder" in message
    for rows, why in ((part["rows"] - 1, "rows; at most"), (10**9, "1,000,000,000 rows"), ("many", "a number")):
        manifest.write_text(json.dumps({**content, "parts": [{**part, "rows": rows}]}), encoding="utf-8")
        assert why in run("report", "--from", folder, "-o", tmp_path / "x.html", "--quiet").refused()


def test_a_manifest_stands_for_its_folder(run, made, tmp_path: Path) -> None:
    folder = made("folder")
    (manifest,) = folder.glob("*.json")
    assert run("report", "--from", manifest, "-o", tmp_path / "x.html", "--quiet").code == 0


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "", "is no CSV"),
        ("a.csv", "x,y\n1,2\n", "no column model, hardware, phase, batch"),
        ("a.csv", "model,hardware,phase,batch\nm,h,decode,1\n", "none of the columns time_floor_s"),
        ("a.csv", "model,hardware,phase,batch,time_bound_s\nm,h,decode,one,1\n", "batch has a value that is no number"),
        ("a.csv", "model,hardware,phase,batch,time_bound_s\nm,h,dec,1,1\n", "the phase 'dec' is none of"),
        ("a.csv", "model,hardware,phase,batch,time_bound_s,fits\nm,h,decode,1,1,perhaps\n", "neither True nor False"),
        ("a.csv", "model,hardware,phase,batch,time_bound_s\n", "has no rows"),
        ("a.parquet", "PAR", "is no Parquet"),
        ("a.json", '{"kind": "sweep"}', "is no sweep"),
        ("a.json", '{"kind": "sweep", "sweep": {}, "rows": []}', "sweep.grid must be an object"),
        ("a.json", '{"kind": "sweep", "sweep": {"grid": {}}, "rows": 3, "parts": []}', "name the folder"),
        ("a.json", '{"kind": "other"}', "no key `asked`"),
        ("a.txt", "hello", "is no JSON"),
    ],
)
def test_what_is_no_sweep(run, tmp_path: Path, name: str, text: str, said: str) -> None:
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    message = run("report", "--from", path, "-o", tmp_path / "x.html", "--quiet").refused()
    assert said in message
    assert str(path) in message


def test_a_file_that_is_not_there(run, tmp_path: Path) -> None:
    for name in ("a.csv", "a.parquet", "a.json", "folder"):
        assert "no such file" in run("report", "--from", tmp_path / name, "-o", tmp_path / "x.html", "--quiet").refused()


def test_parquet_without_its_extra(run, made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made("file.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    answer = run("report", "--from", path, "-o", tmp_path / "x.html", "--quiet")
    assert answer.code == 3
    assert "parquet" in answer.err
