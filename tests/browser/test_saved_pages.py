"""What a page's JSON button downloads opens again as the same page, with the settings that were downloaded."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from browser.waits import settle

from roofline.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
# The command that writes a page, the control that is changed in it, its value, and what the command of the state has then.
PAGES = {
    "report": ("report gpt2 --hardware a100-sxm-80gb --hardware h100-sxm --bandwidth '1.5 TB/s'", "batch", "24", "--batch 24"),
    "calculator": ("report --calculator", "model", "qwen3-32b", "roofline analyze qwen3-32b --hardware h100-sxm"),
    "op": ("report op --calculator", "operator", "gemm", "roofline op gemm"),
    "claim calculator": ("report claim --calculator", "tokens_per_s", "250", "--tokens-per-s 250"),
    "plan": (
        "plan llama-3.1-8b --hardware h100-sxm,l40s --rate 20 --input-len 1k --output-len 256 --ttft 2s --tpot 50ms",
        "price.l40s", "2.5", "roofline plan llama-3.1-8b",
    ),
    "simulate": (
        "simulate gpt2 --hardware a100-sxm-80gb --rate 5 --requests 200 --input-len 128 --output-len 20 --ttft 1s",
        "ttft", "700", "roofline simulate gpt2",
    ),
    "validate": (f"validate {shlex.quote(str(ROOT / 'measurements' / 'amd-epyc-x2'))}", "op", "gemm", "roofline validate"),
    "claim": ("claim 'llama-3.1-8b on a100-sxm-80gb: 3500 tok/s at batch 1 fp16'", "", "", "roofline claim"),
}  # fmt: skip


def _written(folder: Path, line: str, name: str) -> Path:
    assert app(shlex.split(f"{line} --quiet -o {shlex.quote(str(folder / name))}"), standalone_mode=False) in (0, None, 1)
    return folder / name


def _set(page, key: str, value: str) -> None:
    field = page.locator(f"[id='control-{key}']")
    if field.evaluate("(element) => element.localName") == "select":
        field.select_option(value)
    else:
        field.fill(value)
        field.press("Tab")
    settle(page)


def _downloaded(page, to: Path) -> dict:
    with page.expect_download() as waiting:
        page.locator("#download-json").click()
    waiting.value.save_as(to)
    return json.loads(to.read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", PAGES)
def test_a_downloaded_page_opens_again(open_page, tmp_path, kind):
    """The view is the same text by text, so are the controls, and downloading again gives the same but for its command."""
    line, key, value, command = PAGES[kind]
    page = open_page(_written(tmp_path, line, "page.html"))
    if key:
        _set(page, key, value)
    first = _downloaded(page, tmp_path / "first.json")
    assert command in first["reproduce"]
    again = open_page(_written(tmp_path, f"report --from {shlex.quote(str(tmp_path / 'first.json'))}", "again.html"))
    assert again.evaluate("location.hash") == ""
    second = _downloaded(again, tmp_path / "second.json")
    assert second["state"] == first["state"]
    assert second["view"] == first["view"]
    assert second["page"] == first["page"]
    assert again.locator("h1").inner_text() == page.locator("h1").inner_text()
    if key:
        assert str(first["state"][key]) == value
        assert again.locator(f"[id='control-{key}']").input_value() == value
        assert not again.locator(".control .undo:visible").count()  # this state is the first one of this page
        assert second["reproduce"] == first["reproduce"]


@pytest.mark.night
def test_the_pinned_state_comes_back(open_page, tmp_path):
    """With both states, each as it was, and without the address."""
    page = open_page(_written(tmp_path, "report gpt2 --hardware a100-sxm-80gb", "page.html"))
    page.locator("#pin").click()
    settle(page)
    _set(page, "batch", "32")
    first = _downloaded(page, tmp_path / "first.json")
    assert (first["state"]["batch"], first["pinned"]["batch"]) == (32, 1)
    again = open_page(_written(tmp_path, f"report --from {shlex.quote(str(tmp_path / 'first.json'))}", "again.html"))
    assert again.locator("#pinned").inner_text() == page.locator("#pinned").inner_text()
    assert again.locator("#control-batch").input_value() == "32"
    assert _downloaded(again, tmp_path / "second.json")["pinned"] == first["pinned"]
