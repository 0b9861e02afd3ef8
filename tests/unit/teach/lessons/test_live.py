"""What a reader moves: edits of a model against counts by hand; formulas with places against `explain`."""

from __future__ import annotations

import pytest

import roofline
from roofline.errors import InputError, UnknownNameError
from roofline.teach.lessons import play
from roofline.teach.lessons.live import play as live_play
from roofline.teach.lessons.live.play import first_values, make_controls
from roofline.teach.lessons.live.quantities import KNOWN
from roofline.teach.lessons.live.run import edited, evaluate
from roofline.teach.lessons.live.view import NAMES, filled, live_view

LLAMA = roofline.load_model("llama-3.1-8b")
STATE = {"model": "llama-3.1-8b", "hardware": "a100-sxm-80gb", "batch": 2, "context": 4095, "input_len": 100}


MANY = STATE | {"model": "mixtral-8x7b", "hardware": "h100-sxm", "tp": "2", "efficiency": True}
"""Where there are experts, links and measured kernels."""


def per_token(changed):
    return roofline.analyze(edited(LLAMA, changed), "a100-sxm-80gb").memory.kv_bytes_per_token


def test_heads_windows_and_latents():
    """2 x 32 layers x heads x 128 x 2 bytes; a latent of 512 and 64 rotated elements, one a layer."""
    assert per_token({"kv_heads": "1"}) == 2 * 32 * 1 * 128 * 2
    assert per_token({"kv_heads": 32, "layers": 4}) == 2 * 4 * 32 * 128 * 2
    assert per_token({"attention": "mla"}) == 32 * (512 + 64) * 2
    assert per_token({"attention": "mla", "latent": "128"}) == 32 * (128 + 64) * 2
    windowed = edited(LLAMA, {"window": 1024})
    found = roofline.analyze(windowed, "a100-sxm-80gb", context=8191, phase="decode").memory
    assert found.kv_bytes_per_sequence["mathematical"] == 1024 * 131072
    assert edited(windowed, {"window": -1}) == LLAMA


def test_a_model_without_edits_is_itself():
    assert edited(LLAMA, {}) == LLAMA
    assert edited(LLAMA, {"kv_heads": "0", "layers": 0, "attention": ""}) == LLAMA


def test_widths_change_the_parameters():
    """Two tables, 2 layers of three matrices of 64 x 96 and of attention of 4 heads of 128, five norms."""
    tiny = edited(LLAMA, {"layers": 2, "d_model": 64, "d_ff": 96, "vocab": 50, "heads": 4, "kv_heads": 2})
    attention = 64 * 128 * (4 + 2 * 2 + 4)
    assert roofline.explain(tiny, "parameters").value == 2 * 50 * 64 + 2 * (3 * 64 * 96 + attention) + 5 * 64


def test_what_does_not_go_together_is_refused():
    with pytest.raises(InputError, match="32 query heads cannot share 64 KV heads evenly"):
        edited(LLAMA, {"kv_heads": 64})
    with pytest.raises(InputError, match="layers of several kinds"):
        edited(roofline.load_model("deepseek-v2"), {"layers": 4})


@pytest.mark.parametrize("name", KNOWN)
def test_every_quantity_is_a_number(name):
    value = KNOWN[name].value(evaluate(MANY))
    assert value is not None
    assert value > 0


def test_experts_that_are_met():
    """Two tokens that each take 2 of 8: 8 x (1 - (6/8)^2) = 3.5. Each has three matrices of 4096 x 14336 on 32 layers."""
    here = evaluate(MANY)
    assert KNOWN["experts_met"].value(here) == pytest.approx(3.5)
    assert KNOWN["expert_bytes"].value(here) == pytest.approx(3.5 * 3 * 4096 * 14336 * 32 * 2 / 2)  # 2 bytes, half a device


@pytest.mark.parametrize("name", NAMES)
def test_every_picture_is_drawn(name):
    made = live_view(STATE, {"tiles": [], "formulas": [], "pictures": [name]})
    assert made.pictures[0].svg.startswith("<svg")


def test_every_control_has_a_first_value():
    keys = [key for key in first_values(_ALL, {}) if key not in ("model", "hardware")]
    assert len(make_controls(keys, first_values(keys, {}), [], [])) == len(keys) >= 18
    with pytest.raises(UnknownNameError, match="batch"):
        make_controls(["batsh"], {"batsh": 1}, [], [])


_ALL = (
    "batch", "context", "input_len", "attention", "kv_heads", "heads", "window", "latent", "layers", "d_model", "d_ff", "vocab",
    "bandwidth_gbs", "peak_tflops", "memory_gb", "weights", "kv", "tp", "efficiency",
)  # fmt: skip


@pytest.mark.parametrize("changed", [{}, {"window": 512}, {"attention": "mla"}, {"kv_heads": 32, "batch": 7}], ids=str)
@pytest.mark.parametrize(
    "key",
    [
        "kv_bytes_per_token", "kv_bytes_per_sequence", "parameters", "ridge_point", "decode_floor", "critical_batch",
        "layers/attention/core:matrix_flops", "layers/mlp/gate_up_proj:arithmetic_intensity",
    ],
)  # fmt: skip
def test_places_are_filled_with_what_the_formula_says(key, changed):
    """`checked` compares with `explain` to the letter, and the page's number with the formula's."""
    symbols, numbers = live_play.checked_template(key, evaluate({**STATE, **changed}))
    assert symbols.startswith("<math>")
    assert "data-symbol" in numbers


def test_a_wrong_number_on_the_page_is_found(monkeypatch):
    """A quantity that is computed otherwise than the formula says is no way to build a page."""
    run = evaluate(STATE)
    one_more = filled("kv_bytes_per_token", run)
    monkeypatch.setattr(
        live_play, "filled", lambda key, _: type(one_more)(key=key, symbols=one_more.symbols, text="", value=one_more.value + 1)
    )
    with pytest.raises(InputError, match="the page finds 131073"):
        live_play.checked_template("kv_bytes_per_token", run)


def test_play_names_what_there_is():
    with pytest.raises(UnknownNameError, match="quantity"):
        play("", controls=["batch"], tiles=["kv"], formulas=[])
    with pytest.raises(UnknownNameError, match="picture"):
        play("", controls=["batch"], tiles=[], formulas=[], pictures=["roof"])
    with pytest.raises(UnknownNameError):
        play("", controls=["batch"], tiles=[], formulas=["kv_bytes"])
