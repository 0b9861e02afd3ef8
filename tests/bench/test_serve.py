"""The decode loop: it computes what a full pass computes, its figures add up, and what it says is what it measured."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the bench runs through torch")

from roofline.blocks.model_files import load_model
from roofline.measure.bench.decode_loop import DecodeLoop, LoopSizes, loop_memory, step_name
from roofline.measure.bench.devices import Call
from roofline.measure.bench.devices.cpu import Cpu
from roofline.measure.bench.kernels.base import TensorFactory, nbytes
from roofline.measure.bench.serve import by_kind
from roofline.measure.profile.profile import AlignedOperator
from roofline.measure.profile.rules import Rules
from roofline.measure.records.read import read
from roofline.measure.validate.predict import Library, predict

ROOT = Path(__file__).resolve().parents[2]
HARDWARE = ROOT / "measurements" / "amd-epyc-x2" / "2026-11-20" / "hardware.yaml"

TINY = """\
schema_version: 1
name: {name}
title: Tiny
hidden_size: 64
vocab_size: 1536
max_position_embeddings: 128
{more}
dtype: bf16
layer_types:
  decoder:
    mixer: {{kind: gqa, num_attention_heads: 4, num_key_value_heads: 2, head_dim: 16{mixer}}}
    mlp: {mlp}
layers:
  - {{pattern: [decoder], repeat: 3}}
sources:
  made: {{title: made for a test}}
"""
GATED = "{kind: gated_mlp, intermediate_size: 128}"
MODELS = {
    "rotated": ("tie_word_embeddings: true", "", GATED),
    "windowed": ("tie_word_embeddings: false", ", sliding_window: 6", GATED),
    "normalized heads": ("tie_word_embeddings: true", ", qk_norm: head", GATED),
    "learned positions": (
        "tie_word_embeddings: true\nlearned_positions: 128\nnorm: {function: layernorm, bias: true}",
        ", rotary_dim: 0, qkv_bias: true, o_bias: true",
        "{kind: mlp, intermediate_size: 128, bias: true}",
    ),
}


def written(folder: Path, kind: str) -> Path:
    """The file of a tiny model."""
    more, mixer, mlp = MODELS[kind]
    path = folder / "tiny.yaml"
    path.write_text(TINY.format(name="tiny", more=more, mixer=mixer, mlp=mlp), encoding="utf-8")
    return path


def loop_of(path: Path, sizes: LoopSizes, attention: str = "sdpa-flash") -> DecodeLoop:
    """A loop in fp32."""
    model, _ = load_model(path)
    return DecodeLoop(model, TensorFactory("cpu", seed=3), "fp32", sizes, attention=attention, expert_backend="loop")


@pytest.mark.night
def test_a_machine_that_was_measured_before(tmp_path: Path) -> None:
    """Its hardware.yaml in the folder is used where none is named; a file's model is its own, whatever its name."""
    from roofline.measure.bench.serve import Request, serve

    folder = tmp_path / "records"
    folder.mkdir()
    (folder / "hardware.yaml").write_bytes(HARDWARE.read_bytes())
    path = written(tmp_path, "rotated")
    path.write_text(path.read_text(encoding="utf-8").replace("name: tiny", "name: gpt2"), encoding="utf-8")
    first = serve(Request(str(path), "cpu", "fp32", LoopSizes(1, 4, 1), 20.0, None, None, folder), lambda _: None)
    assert first.hardware.name == "amd-epyc-x2-measured"
    assert first.sizes.steps == 1
    assert sum(row.calls for row in first.kinds if row.kind == "gemm") == 3 * 4 + 1  # of the file, not the shipped gpt2
    with (folder / "records.csv").open(encoding="utf-8", newline="") as file:
        assert {row["kernel"] for row in csv.DictReader(file) if row["op"] == "step"} == {str(path)}
    assert first.records is not None
    again = serve(Request(str(path), "cpu", "fp32", LoopSizes(1, 4, 1), 20.0, None, None, folder), lambda _: None)
    assert again.records == 0
    assert f"{first.records} records of earlier runs were kept and not repeated" in again.notes


@pytest.mark.parametrize("kind", MODELS)
def test_steps_give_what_a_full_pass_gives(tmp_path: Path, kind: str) -> None:
    """Tokens one by one, on a cache that grows, have the logits of all of them at once: the same keys, positions and mask."""
    sizes = LoopSizes(2, 9, 6)
    loop = loop_of(written(tmp_path, kind), sizes)
    seen = [loop.prompts]
    one_by_one = []
    with torch.no_grad():
        loop.prefill()
        for cached in sizes.contexts:
            token = loop.ids.clone()
            seen.append(token)
            one_by_one.append(loop.logits(token, cached))
            loop.step(cached)
        grown = [cache["k"].clone() for cache in loop.caches]
        at_once = [loop.logits(torch.cat(seen[: 2 + at], dim=1), 0) for at in range(sizes.steps)]
    assert {tuple(logits.shape) for logits in one_by_one} == {(2, 1536)}
    for step, whole in zip(one_by_one, at_once, strict=True):
        scale = whole.abs().max().item()
        assert scale > 0
        torch.testing.assert_close(step, whole, rtol=0, atol=1e-4 * scale)
    for before, cache in zip(grown, loop.caches, strict=True):  # the full pass has written the same keys
        torch.testing.assert_close(before, cache["k"], rtol=1e-3, atol=1e-4 * before.abs().max().item())


def test_a_step_sees_what_is_in_the_cache(tmp_path: Path) -> None:
    """Another token in the cache gives other logits, and what lies behind the context gives the same."""
    sizes = LoopSizes(1, 8, 4)
    loop = loop_of(written(tmp_path, "rotated"), sizes)
    with torch.no_grad():
        loop.prefill()
        token = loop.ids.clone()
        first = loop.logits(token, 8).clone()
        for cache in loop.caches:
            cache["k"][:, 9:] = 7.0
        torch.testing.assert_close(loop.logits(token, 8), first)
        for cache in loop.caches:
            cache["v"][:, 2] += 7.0
        assert not torch.allclose(loop.logits(token, 8), first)


def test_drawn_tokens_are_the_next_input(tmp_path: Path) -> None:
    """They are written in place, where a captured step reads them, and are tokens of the vocabulary."""
    loop = loop_of(written(tmp_path, "rotated"), LoopSizes(64, 4, 2))
    where, before = loop.ids.data_ptr(), loop.ids.clone()
    loop.prefill()
    first = loop.ids.clone()
    loop.step(4)
    assert loop.ids.data_ptr() == where
    assert (loop.ids.shape, loop.ids.dtype) == ((64, 1), torch.long)
    assert 0 <= int(loop.ids.min()) <= int(loop.ids.max()) < 1536
    assert not torch.equal(before, first)
    assert not torch.equal(first, loop.ids)  # 64 equal draws out of 1,536 tokens: once in 10^200


def test_memory_of_a_loop(tmp_path: Path) -> None:
    """Weights and caches to the byte, as torch holds them."""
    path, sizes = written(tmp_path, "rotated"), LoopSizes(5, 7, 3)
    loop, memory = loop_of(path, sizes), loop_memory(load_model(path)[0], "fp32", sizes)
    assert memory.weights == nbytes((loop.ends, loop.weights))
    assert 5 * memory.cache_per_sequence == nbytes(loop.caches) == 3 * 2 * 5 * 10 * 2 * 16 * 4  # layers, k and v, ...
    assert memory.largest_batch(memory.total(40)) == 40
    assert memory.largest_batch(memory.total(40) - 1) == 39


def test_laps_add_up() -> None:
    """Each call has its own time, and nothing is between them."""
    order: list[int] = []
    device = Cpu()

    def work(number: int) -> Callable[[], None]:
        def call() -> None:
            order.append(number)
            sum(range(20_000 * number))

        return call

    laps = device.laps([work(number) for number in (1, 30)])
    assert order == [1, 30]
    assert 0 < laps[0] < laps[1]
    assert device.captured([]) is None


def test_names_of_steps_say_their_lengths() -> None:
    """The profile reads the batch and the contexts from them: 3 sequences that attend to 101 tokens each."""
    match = Rules.load().step(step_name(3, 100))
    assert match is not None
    assert (match.decodes, match.decode_tokens, match.decode_kv, match.prefills) == (3, 3, 303, 0)


def test_kinds_are_sums_of_operators() -> None:
    """Per step; with the largest difference from the prediction first: the estimate, and the bound where there is none."""
    rows = by_kind(
        [
            AlignedOperator("a/q", "gemm", "matched", 4, 4, 8, 6.0, 1.0, 5.0),
            AlignedOperator("a/o", "gemm", "matched", 4, 4, 4, 2.0, 1.0, 2.0),
            AlignedOperator("n", "norm", "matched", 2, 2, 2, 4.0, 2.0, None),
            AlignedOperator("copy", "copy", "extra", 0, 2, 2, 1.0),
        ],
        steps=2,
        scale=0.5,
    )
    assert [(row.kind, row.calls, row.kernels) for row in rows] == [("copy", 1, 1), ("norm", 1, 1), ("gemm", 4, 6)]
    assert [(row.measured_s, row.bound_s, row.estimate_s) for row in rows] == [(0.25, None, None), (1, 1, None), (2, 1, 3.5)]
    assert [row.over_s for row in rows] == [0.25, 0, -1.5]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A short run of the command with records, and its text, all of one measurement."""
    from roofline.measure.bench.serve import Request, serve
    from roofline.report import serve_summary
    from roofline.text import answer_text

    folder = tmp_path_factory.mktemp("serve")
    path = written(folder, "rotated")
    request = Request(str(path), "cpu", "fp32", LoopSizes(2, 12, 5), 20.0, str(HARDWARE), None, folder / "records")
    result = serve(request, lambda _: None)
    return {"result": result, "text": answer_text(serve_summary.answer(result)), "folder": folder / "records", "model": path}


def test_kernels_are_a_part_of_the_step(measured: dict[str, Any]) -> None:
    """The kernels of all kinds together are those of the step, and take no longer than it."""
    document = measured["result"].to_dict()
    (way,) = document["step"]["launching"]
    assert 0 < way["kernels_s"] <= way["time_s"]["median"]
    assert way["between_s"] == pytest.approx(way["time_s"]["median"] - way["kernels_s"])
    assert sum(row["measured_s"] for row in document["kinds"]) == pytest.approx(way["kernels_s"])
    assert sum(row["kernels"] for row in document["kinds"]) == pytest.approx(way["kernels"])
    assert [row["over_s"] for row in document["kinds"]] == sorted((row["over_s"] for row in document["kinds"]), reverse=True)
    calls = {row["kind"]: row["calls"] for row in document["kinds"]}
    # per layer q, k, v in one product, o, up and gate in one, down; and the LM head
    assert (calls["gemm"], calls["attention"], calls["norm"], calls["sampling"]) == (3 * 4 + 1, 3, 3 * 2 + 1, 1)


def test_the_prediction_is_that_of_analyze(measured: dict[str, Any]) -> None:
    """The bound is the TPOT of the same request: no engine is part of it, and there is no fit of this machine."""
    from roofline.predict.analyze import analyze

    same = analyze(measured["model"], HARDWARE, batch=2, input_len=12, output_len=6, dtype="fp32")
    document = measured["result"].to_dict()
    assert same.request is not None
    assert document["step"]["predicted_s"] == same.request.tpot_s.to_dict()
    assert document["prefill"]["predicted_s"] == same.request.ttft_s.to_dict()
    by_kind_ = sum(row["bound_s"] or 0.0 for row in document["kinds"])
    assert by_kind_ == pytest.approx(document["step"]["predicted_s"]["bound"], rel=1e-9)


def test_text_and_document_agree(measured: dict[str, Any]) -> None:
    """The figures of the sentence are those of the JSON, rounded."""
    from roofline.formatting import seconds

    document, text = measured["result"].to_dict(), measured["text"]
    (way,) = document["step"]["launching"]
    words = " ".join(text.split())
    assert f"A step takes {seconds(way['time_s']['median'])} (p10 to p90:" in words
    assert f"its operators {seconds(way['kernels_s'])}; between them {seconds(way['between_s'])} (Python)." in words
    assert f"The bound is {seconds(document['step']['predicted_s']['bound'])}; there is no estimate." in words
    assert f"2 prompts in {seconds(document['prefill']['time_s']['median'])}." in words
    assert "12 to 16 tokens in the cache" in words
    for line in text.splitlines():
        assert len(line) <= 100
    assert len(text.splitlines()) <= 30


def test_records_are_read(measured: dict[str, Any]) -> None:
    """Steps of each length, prefill and operators of the trace: `validate` reads and predicts them all."""
    folder, result = measured["folder"], measured["result"]
    with (folder / "records.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert result.records == len(rows)
    steps = [(row["q_len"], row["kv_len"]) for row in rows if row["op"] == "step"]
    assert steps == [("12", "12"), *(("1", str(keys)) for keys in range(13, 18))]
    assert {row["version"] for row in rows} == {torch.__version__}
    assert {"gemm", "attention_decode", "rmsnorm", "embedding", "sampling"} <= {row["op"] for row in rows}
    environment = json.loads((folder / "environment.json").read_text(encoding="utf-8"))
    assert [(one["suites"], one["outcome"], one["records"]) for one in environment["runs"]] == [(["serve"], "done", len(rows))]
    table = read([folder])
    assert (len(table.frame), table.refused) == (len(rows), 0)
    hardware = Library((str(HARDWARE),))
    predicted = predict(table.frame.assign(gpu=hardware.only[0].name), hardware)
    assert (len(predicted.frame), predicted.refusals) == (len(rows), [])


def test_with_and_without_graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device with graphs has both ways, that of engines first; their difference is what launching costs.

    What stands for a replay here is the call itself.
    """
    from roofline.measure.bench import serve as module
    from roofline.report import serve_summary
    from roofline.text import answer_text

    class WithGraphs(Cpu):
        """A host whose graphs are the calls themselves."""

        captured_calls = 0

        def captured(self, calls: Sequence[Call]) -> list[Call]:
            self.captured_calls = len(calls)
            return list(calls)

    device = WithGraphs()
    monkeypatch.setattr(module, "find_device", lambda _: device)
    path = written(tmp_path, "rotated")
    request = module.Request(str(path), "cpu", "fp32", LoopSizes(1, 8, 4), 20.0, str(HARDWARE))
    result = module.serve(request, lambda _: None)
    document = result.to_dict()
    assert device.captured_calls == 4
    assert [way["how"] for way in document["step"]["launching"]] == ["CUDA graphs", "one by one"]
    graphs, eager = (way["time_s"]["median"] for way in document["step"]["launching"])
    assert document["step"]["launch_s"] == eager - graphs
    assert "Without CUDA graphs a step takes" in answer_text(serve_summary.answer(result))
    assert document["folder"] is None
