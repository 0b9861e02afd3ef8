"""`roofline report --from`: the JSON of every command that writes pages opens as the page that the command writes."""

from __future__ import annotations

import base64
import json
import re
import shlex
import zlib
from pathlib import Path

import pytest

from roofline.cli.app import app
from roofline.documents import SCHEMA_VERSION
from roofline.errors import SpecError

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = shlex.quote(str(ROOT / "docs" / "examples"))
MEASURED = shlex.quote(str(ROOT / "measurements" / "amd-epyc-x2"))
GPT2 = "gpt2 --hardware a100-sxm-80gb"
LENGTHS = "--input-len 128 --output-len 20"
LINES = {
    "analyze": f"analyze {GPT2} --batch 4",
    "limits": f"limits {GPT2} --ttft 1s --tpot '50 ms'",
    "claim": "claim 'gpt2 on a100-sxm-80gb: 3500 tok/s at batch 1'",
    "impossible": f"claim {GPT2} --tpot '1 us' --batch 2",
    "preempt": f"preempt {GPT2} --tokens 512 --pageable",
    "compare": f"compare --engine-log {EXAMPLES}/vllm.log --bench {EXAMPLES}/vllm-bench.json --hardware h100-sxm",
    "op": "op gemm 512 8192 k=28672 --hardware h100-sxm",
    "plan": f"plan gpt2 --hardware l40s,h100-sxm --rate 20 {LENGTHS} --ttft 2s --tpot '50 ms' --max-gpus 2 --dtype bf16",
    "simulate": f"simulate {GPT2} --rate 5 --requests 100 {LENGTHS} --ttft 1s",
    "refused": "simulate llama-3.1-70b --hardware l40s --rate 5 --requests 10 --input-len 99 --output-len 9",
    "validate": f"validate {MEASURED}",
}


def run(line: str) -> None:
    """Run a command; 1 is an answer too."""
    assert app(shlex.split(line), standalone_mode=False) in (0, None, 1)


def parts(page: str) -> list[object]:
    """What a page shows and what it computes with: numbers as numbers, since JSON has no other zero than 0."""
    content = json.loads(re.search(r'id="json-controls">(.*?)</script>', page)[1])
    data = re.search(r'id="packed-data">(.*?)</script>', page)[1]
    packed = json.loads(zlib.decompress(base64.b64decode(data), wbits=-zlib.MAX_WBITS))
    return [content, packed, re.sub(r'(id="(?:packed-data|json-controls)">).*?</script>', r"\1", page)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", LINES)
def test_the_page_of_a_saved_result_is_that_of_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Byte by byte, but for how whole numbers are written; read where the command was run."""
    monkeypatch.chdir(tmp_path)
    run(f"{LINES[kind]} -q -o saved.json")
    run(f"{LINES[kind]} -q -o page.html")
    run("report --from saved.json -q -o again.html")
    page, again = ((tmp_path / name).read_text(encoding="utf-8") for name in ("page.html", "again.html"))
    assert parts(again) == parts(page)


def test_a_figure_of_a_saved_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that the command itself writes."""
    monkeypatch.chdir(tmp_path)
    run(f"{LINES['limits']} -q -o saved.json")
    run(f"{LINES['limits']} -q --figure variants -o figure.svg")
    run("report --from saved.json -q --figure variants -o again.svg")
    assert (tmp_path / "again.svg").read_bytes() == (tmp_path / "figure.svg").read_bytes()


@pytest.mark.slow
def test_a_result_of_an_earlier_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Version 1 had `balancer` for the router of a simulation: the page is the same."""
    monkeypatch.chdir(tmp_path)
    run(f"{LINES['simulate']} --replicas 2 -q -o saved.json")
    run("report --from saved.json -q -o page.html")
    content = json.loads(Path("saved.json").read_text(encoding="utf-8"))
    content["server"]["balancer"] = content["server"].pop("router")
    Path("saved.json").write_text(json.dumps(content | {"schema_version": 1}), encoding="utf-8")
    run("report --from saved.json -q -o again.html")
    assert Path("again.html").read_bytes() == Path("page.html").read_bytes()


def test_a_result_of_a_later_version(tmp_path: Path) -> None:
    """By whom it was written, what is read, and what to do; nothing is written."""
    saved = tmp_path / "saved.json"
    content = {"schema_version": SCHEMA_VERSION + 1, "tool_version": "9.1.0", "asked": {"model": "gpt2", "hardware": "t4"}}
    saved.write_text(json.dumps(content), encoding="utf-8")
    later = (
        rf"was written by a later version \(roofline 9\.1\.0, schema_version {SCHEMA_VERSION + 1}; .*\): update roofline, or"
    )
    with pytest.raises(SpecError, match=later):
        run(f"report --from {saved} -q -o {tmp_path / 'again.html'}")
    assert list(tmp_path.iterdir()) == [saved]


def test_a_result_whose_files_have_changed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Computed again, its numbers would be others; nothing is written."""
    monkeypatch.chdir(tmp_path)
    run(f"{LINES['limits']} -q -o saved.json")
    saved = json.loads((tmp_path / "saved.json").read_text(encoding="utf-8"))
    saved["inputs"]["hardware"]["sha256"] = "0" * 64
    (tmp_path / "saved.json").write_text(json.dumps(saved), encoding="utf-8")
    with pytest.raises(SpecError, match="the hardware a100-sxm-80gb has changed"):
        run("report --from saved.json -q -o again.html")
    assert not (tmp_path / "again.html").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"reproduce": "roofline bench --out x"}, "no key `asked`"),  # only what makes a page is run
        ({"reproduce": "rm -r roofline claim"}, "no key `asked`"),
        ({"reproduce": "roofline limits 'gpt2"}, "is no command"),
        ({"requests": {}, "server": {}, "distributions": {}}, "as `roofline simulate` writes it"),
        ({"view": {}, "page": {"kind": "reports"}, "state": {}}, "`page.kind` must be one of calculator, plan, report"),
        ({"view": {}, "page": {"kind": "plan"}, "state": []}, "`state` must be an object"),
        ({"view": {}, "page": {"kind": "plan", "data": {"model": 1}}, "state": {}}, "`page.data` is not as pages write it"),
        ({"view": {}, "page": {"kind": "calculator", "name": "plans"}, "state": {}}, "`page.name` must be one of"),
        ({"view": {}, "page": {"kind": "calculator", "name": "op"}, "state": {"size": 3}}, "'size' is no control"),
        ({"view": {}, "page": {"kind": "calculator", "name": "op"}, "state": {"hardware": "h1"}}, "none of its choices"),
        ({"view": {}, "page": {"kind": "calculator", "name": "op"}, "state": {"gemm.m": "3"}}, "'3' is no number"),
        ({"view": {}, "page": {"kind": "calculator", "name": "op"}, "state": {"gemm.m": 0.5}}, "not within 1"),
    ],
)
def test_what_is_no_result(tmp_path: Path, content: dict[str, object], message: str) -> None:
    """One message with the file's name, and nothing is run or written."""
    saved = tmp_path / "saved.json"
    saved.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(SpecError, match=message) as caught:
        run(f"report --from {saved} -q -o {tmp_path / 'again.html'}")
    assert str(saved) in str(caught.value)
    assert list(tmp_path.iterdir()) == [saved]
