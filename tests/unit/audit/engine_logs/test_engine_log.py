"""Reading logs: formats, ranks, restarts, wrappings, and what is none of them."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from unit.audit.engine_logs.engine_lines import INIT, MEMORY, SAMPLES

from roofline.audit.engine_logs import engine_log
from roofline.audit.engine_logs.engine_log import EngineLog, LogLines, read
from roofline.audit.engine_logs.log_formats import LOG_FORMATS
from roofline.errors import InputError

GIB = 2**30


@pytest.mark.parametrize(
    ("name", "title", "version"),
    [
        ("vllm-0.7.3.log", "vllm 0.2 to 0.8 (V0)", "0.7.3"),
        ("vllm-0.10.0-tp2.log", "vllm 0.8 to 0.20 (V1)", "0.10.0"),
        ("vllm-0.22.0.log", "vllm 0.21 and later (V1)", "0.22.0"),
        ("sglang-0.5.log", "sglang 0.4 and 0.5", None),
        ("trtllm-1.1.log", "trtllm 0.8 to 1.2", "1.1.0"),
        ("llama.cpp-2025.log", "llama.cpp 2023 to 2026", "6900"),
    ],
)
def test_samples_are_read_in_their_format(name: str, title: str, version: str | None) -> None:
    """Each composed log is known by its lines, and its version read where the engine prints it."""
    log = read(SAMPLES / name)
    assert log.format.title == title
    assert log.version == version


def test_every_format_has_a_sample() -> None:
    """A new format comes with a log in it."""
    assert {read(path).format.title for path in SAMPLES.glob("*.log")} == set(LOG_FORMATS)


def test_first_engine() -> None:
    """What the lines of 0.7.3 say, in bytes."""
    log = read(SAMPLES / "vllm-0.7.3.log")
    for name, gib in (("total_bytes", 79.14), ("weights_bytes", 14.9888), ("non_torch_bytes", 0.12), ("peak_bytes", 1.19)):
        assert log.number(name) == pytest.approx(gib * GIB)
    assert log.number("available_kv_bytes") == pytest.approx(54.93 * GIB)
    assert (log.number("kv_blocks"), log.number("concurrency_len"), log.number("concurrency")) == (28122, 8192, 54.93)
    assert log.argument("model") == "meta-llama/Llama-3.1-8B-Instruct"
    assert log.argument("max_num_seqs") is None  # it prints None


def test_the_cache_of_a_dry_run_is_passed_over() -> None:
    """TensorRT-LLM allocates a cache for its dry run, and then the one that stays."""
    log = read(SAMPLES / "trtllm-1.1.log")
    assert (log.number("kv_tokens"), log.argument("max_model_len")) == (442_368, "131072")
    assert log.number("available_kv_bytes") == pytest.approx(54 * GIB)
    assert log.number("used_bytes") == pytest.approx(20.18 * GIB)
    assert log.argument("block_size") == "32"


def test_caches_of_llama_cpp_add_up(write: Callable[..., Path]) -> None:
    """Layers with a window have a cache of their own, and recurrent state a third; MiB are read as such."""
    cells = "({} cells,  12 layers,  1/1 seqs), K (f16): 1.00 MiB, V (f16): 1.00 MiB"
    lines = (
        "llama_context: n_ctx         = 4096",
        f"llama_kv_cache: size = 96.00 MiB {cells.format(4096)}",
        f"llama_kv_cache: size = 18.00 MiB {cells.format(768)}",
        "llama_memory_recurrent: size = 50.25 MiB (1 cells, 24 layers, 1 seqs), R (f32): 2.25 MiB, S (f32): 48.00 MiB",
    )
    log = read(write(*lines))
    assert log.number("available_kv_bytes") == (96 + 18 + 50.25) * 2**20
    assert log.number("kv_cells") == 4096
    assert log.argument("kv_cache_dtype") == "f16"


def test_ranks() -> None:
    """Of two ranks the one with least room counts: 38.71 and not 38.79 GiB, 317,104 and not 317,760 tokens."""
    log = read(SAMPLES / "vllm-0.10.0-tp2.log")
    assert log.number("available_kv_bytes") == pytest.approx(38.71 * GIB)
    assert log.number("kv_tokens") == 317_104
    assert log.arguments["max_num_batched_tokens"].line == 5
    assert any("2 ranks" in note for note in log.notes)


def test_graphs() -> None:
    """0.22 names its estimate for graphs, and the share of memory in the line about it."""
    log = read(SAMPLES / "vllm-0.22.0.log")
    assert log.number("graph_bytes") == pytest.approx(0.64 * GIB)
    assert log.number("utilization") == 0.92
    assert log.number("concurrency") == 4.79


def test_sglang() -> None:
    """Its GB are GiB; arguments come from ServerArgs, what it settled on from the last line."""
    log = read(SAMPLES / "sglang-0.5.log")
    assert log.number("begin_bytes") == pytest.approx(78.58 * GIB)
    assert log.number("end_bytes") == pytest.approx(63.48 * GIB)
    assert log.number("kv_tokens") == 442_778
    assert log.argument("gpu_memory_utilization") == "0.88"
    assert log.argument("max_num_seqs") == "4096"


def test_draft_models_do_not_count(write: Callable[..., Path]) -> None:
    """SGLang loads a draft model after the model: the first lines are the model's."""
    path = write(
        "[2026-08-28 21:19:23] server_args=ServerArgs(model_path='org/m', mem_fraction_static=0.8)",
        "[2026-08-28 21:19:30] Load weight begin. avail mem=78.00 GB",
        "[2026-08-28 21:19:33] Load weight end. elapsed=3 s, type=A, avail mem=60.00 GB, mem usage=18.00 GB.",
        "[2026-08-28 21:19:34] Load weight begin. avail mem=60.00 GB",
        "[2026-08-28 21:19:35] Load weight end. elapsed=1 s, type=B, avail mem=59.00 GB, mem usage=1.00 GB.",
    )
    log = read(path)
    assert log.number("weights_bytes") == 18 * GIB
    assert log.number("begin_bytes") == 78 * GIB


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_wrapped_lines(write: Callable[..., Path], end: str) -> None:
    """Containers wrap lines in JSON or put a time before them, terminals colour them."""
    lines = [INIT, *MEMORY]
    plain = _facts(read(write(*lines)))
    docker = [json.dumps({"log": f"{line}\n", "stream": "stderr", "time": "2026-08-20T23:19:50Z"}) for line in lines]
    kubernetes = [f"2026-08-20T23:19:50.1Z stderr F {line}" for line in lines]
    coloured = [f"\x1b[1;36m{line.replace(') INFO', chr(27) + '[0;0m) INFO')}" for line in lines]
    for number, wrapped in enumerate((docker, kubernetes, coloured)):
        assert _facts(read(write(*wrapped, name=f"{number}.log", end=end))) == plain


def _facts(log: EngineLog) -> dict[str, object]:
    return {name: fact.value for name, fact in (log.facts | log.arguments).items()}


def test_last_start_counts(write: Callable[..., Path]) -> None:
    """Two starts in a file: the second, with another cache, is taken, and its lines are named."""
    again = [line.replace("40,960", "20,480") for line in MEMORY]
    log = read(write(INIT, *MEMORY, INIT.replace("8192", "4096"), *again))
    assert log.number("kv_tokens") == 20_480
    assert log.argument("max_model_len") == "4096"
    assert log.facts["kv_tokens"].line == 9
    assert log.notes == ("the log holds 2 starts; the last, from line 6, is taken",)


def test_last_complete_start_counts(write: Callable[..., Path]) -> None:
    """A start that died before its cache is passed over."""
    log = read(write(INIT, *MEMORY, INIT, MEMORY[0].replace("14.99", "15.99")))
    assert log.number("weights_bytes") == pytest.approx(14.99 * GIB)
    assert "last that got as far as its cache, from line 1" in log.notes[0]


def test_replicas_are_no_restarts(write: Callable[..., Path]) -> None:
    """Data-parallel engines each print a start; they are one."""
    first = [line.replace("EngineCore", "EngineCore_DP0") for line in (INIT, *MEMORY)]
    second = [line.replace("EngineCore", "EngineCore_DP1").replace("40,960", "40,000") for line in (INIT, *MEMORY)]
    log = read(write(first[0], second[0], *first[1:], *second[1:]))
    assert log.number("kv_tokens") == 40_000
    assert not any("starts" in note for note in log.notes)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("mlx_lm.server: starting",), "no start-up lines of vLLM, SGLang, TensorRT-LLM or llama.cpp"),
        (("llama_model_loader: loaded meta data",), "the start failed before them"),
        (("",), "Known formats: sglang 0.4 and 0.5, vllm 0.2 to 0.8 (V0)"),
        ((INIT,), "the start failed before them"),
    ],
)
def test_refused(write: Callable[..., Path], lines: tuple[str, ...], message: str) -> None:
    """What is no log of these says what would be, and what is one without its memory says that."""
    with pytest.raises(InputError, match=message.replace("(", r"\(").replace(")", r"\)")):
        read(write(*lines))


def test_places_that_are_no_file(tmp_path: Path) -> None:
    """A folder, and nothing."""
    with pytest.raises(InputError, match="is a folder"):
        read(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        read(tmp_path / "none.log")


@pytest.mark.parametrize(("chunk", "longest"), [(7, 5), (16, 8), (64, 32)])
def test_lines_keep_their_numbers(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, chunk: int, longest: int
) -> None:
    """Whatever the size of a chunk, and however long lines are, a line keeps its number; long ones keep their starts."""
    monkeypatch.setattr(engine_log, "_CHUNK_BYTES", chunk)
    monkeypatch.setattr(engine_log, "_MAX_LINE_BYTES", longest)
    texts = ["K1", "", "K" * 100, "nothing", "K2 and a tail", "", "x" * 90, "K3"]
    found = dict(LogLines(write(*texts), ("K",)))
    assert found[1] == "K1"
    assert found[8] == "K3"
    assert set(found) == {1, 3, 5, 8}
    assert found[3] == "K" * longest


def test_memory_does_not_grow_with_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 2 MB more that an engine prints while it serves, nothing is kept: less than 50 kB."""
    monkeypatch.setattr(engine_log, "_CHUNK_BYTES", 2**14)
    start = (SAMPLES / "vllm-0.22.0.log").read_text(encoding="utf-8")
    later = "INFO 09-17 08:20:11 [loggers.py:123] Engine 000: Avg prompt throughput: 0.0 tokens/s, Running: 1 reqs\n"
    peaks = []
    for count in (1_000, 21_000):
        path = tmp_path / f"{count}.log"
        path.write_text(start + later * count, encoding="utf-8")
        tracemalloc.start()
        read(path)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 50_000


def test_cut(write: Callable[..., Path]) -> None:
    """A log that ends after the weights names the two lines that a whole start has; a whole one has no such note."""
    log = read(write(INIT, MEMORY[0]))
    assert any('no line with "Available KV cache memory" or "GPU KV cache size"' in note for note in log.notes)
    assert read(write(INIT, *MEMORY)).notes == ()
    for path in SAMPLES.glob("*.log"):
        assert not any("cut" in note for note in read(path).notes), path


def test_a_fact_in_another_unit_is_named_by_its_line(write: Callable[..., Path]) -> None:
    """llama.cpp prints its cache in MiB: a log without that line is one that was cut."""
    lines = (SAMPLES / "llama.cpp-2025.log").read_text(encoding="utf-8").splitlines()
    log = read(write(*(line for line in lines if "llama_kv_cache: size" not in line)))
    assert 'no line with "llama_kv_cache"' in " ".join(log.notes)
