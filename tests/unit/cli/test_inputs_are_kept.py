"""What a command reads, it does not write over: whatever the command, the option and the way in which the file is named."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline.errors import InputError
from roofline.specs import library
from roofline.specs.library import shipped

Run = Callable[..., Any]
CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 256, "intermediate_size": 1024,
    "num_attention_heads": 8, "num_key_value_heads": 4, "num_hidden_layers": 2, "vocab_size": 1000,
    "max_position_embeddings": 4096, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "hidden_act": "silu",
    "rms_norm_eps": 1e-5, "head_dim": 32,
}  # fmt: skip
TRAFFIC = "classes:\n  - name: all\n    trace: t.csv\n    ttft: 2 s\n    tpot: 50 ms\n"
SWEEP = "schema_version: 1\nkind: sweep\ngrid:\n  model: ./config.json\n  hardware: h100-sxm\n  batch: 1,2\n"
RECORDS = "source,gpu,op,dtype,m,n,k,latency_us,backend\n" + "".join(
    f"lab,a100-sxm-80gb,gemm,bf16,{m},{n},4096,{10 + m * n / 2e5},torch\n"
    for m in (16, 64, 256, 1024)
    for n in (512, 4096, 8192)
)
BENCH = {
    "backend": "vllm", "model_id": "meta-llama/Llama-3.1-8B", "duration": 10.0, "completed": 10, "total_input_tokens": 1000,
    "total_output_tokens": 1000, "request_throughput": 1.0, "output_throughput": 100.0, "total_token_throughput": 200.0,
    "request_rate": "inf", "max_concurrency": 4, "mean_ttft_ms": 10.0, "mean_tpot_ms": 10.0,
}  # fmt: skip
ON = ("-H", "h100-sxm")
SLO = ("--rate", "2", "--ttft", "2 s", "--tpot", "50 ms")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with every kind of input, in which commands run."""
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    Path("folder").mkdir()
    shutil.copy("config.json", "folder/config.json")
    rows = "".join(f"{at / 2},100,20\n" for at in range(50))
    Path("t.csv").write_text(f"arrived_at,num_prefill_tokens,num_decode_tokens\n{rows}", encoding="utf-8")
    Path("lengths.csv").write_text("tokens\n100\n200\n", encoding="utf-8")
    Path("traffic.yaml").write_text(TRAFFIC, encoding="utf-8")
    Path("sweep.yaml").write_text(SWEEP, encoding="utf-8")
    Path("records.csv").write_text(RECORDS, encoding="utf-8")
    Path("bench.json").write_text(json.dumps(BENCH), encoding="utf-8")
    shutil.copy(shipped("hardware") / "a100-sxm-80gb.yaml", "hardware.yaml")
    shutil.copy(shipped("prices") / "default.yaml", "prices.yaml")
    Path("link.json").symlink_to("config.json")
    return tmp_path


def _sums(folder: Path) -> dict[str, str]:
    """A hash of each file."""
    return {
        str(path.relative_to(folder)): hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
        for path in sorted(folder.rglob("*")) if path.is_file()
    }  # fmt: skip


GIVEN = [
    (("simulate", "gpt2", *ON, "--trace", "t.csv", "-o", "t.csv"), "t.csv: it is the file given as --trace"),
    (("simulate", "gpt2", *ON, "--trace", "./t.csv", "-o", "folder/../t.csv"), "t.csv: it is the file given as --trace"),
    (("simulate", "./config.json", *ON, "--rate", "1", "--requests", "9", "--input-len", "9", "--output-len", "9",
      "--perfetto", "config.json"), "config.json: it is the file given as MODEL"),
    (("simulate", "gpt2", *ON, "--rate", "1", "--requests", "9", "--input-len", "file:lengths.csv", "--output-len", "9",
      "-o", "lengths.csv"), "lengths.csv: it is the file given as --input-len"),
    (("simulate", "gpt2", *ON, "--rate", "1", "--requests", "9", "--input-len", "file:lengths.csv:tokens", "--output-len",
      "9", "-o", "lengths.csv"), "lengths.csv: it is the file given as --input-len"),
    (("plan", "gpt2", *ON, "--trace", "t.csv", *SLO, "-o", "t.csv"), "t.csv: it is the file given as --trace"),
    (("plan", "gpt2", *ON, "--trace", "t.csv", *SLO, "--price", "prices.yaml", "-o", "prices.yaml"),
     "prices.yaml: it is the file given as --price"),
    (("analyze", "config.json", *ON, "-o", "config.json"), "config.json: it is the file given as MODEL"),
    (("analyze", "link.json", *ON, "-o", "config.json"), "config.json: it is the file given as MODEL"),
    (("analyze", "config.json", *ON, "-o", "link.json"), "link.json: it is the file given as MODEL"),
    (("analyze", "gpt2", "-H", "hardware.yaml", "-o", "hardware.yaml"), "hardware.yaml: it is the file given as --hardware"),
    (("calibrate", "records.csv", "-H", "hardware.yaml", "--backend", "torch", "-o", "hardware.yaml"),
     "hardware.yaml: it is the file given as --hardware"),
    (("calibrate", "records.csv", "-H", "hardware.yaml", "-o", "records.csv"), "records.csv: it is the file given as PATHS"),
    (("validate", "records.csv", "-o", "records.csv"), "records.csv: it is the file given as PATHS"),
    (("limits", "config.json", *ON, "-o", "config.json"), "config.json: it is the file given as MODEL"),
    (("preempt", "config.json", *ON, "--tokens", "100", "-o", "config.json"), "config.json: it is the file given as MODEL"),
    (("explain", "config.json", "-o", "config.json"), "config.json: it is the file given as MODEL"),
    (("models", "show", "config.json", "-o", "config.json"), "config.json: it is the file given as NAME"),
    (("models", "check", "config.json", "-o", "config.json"), "config.json: it is the file given as FILES"),
    (("models", "import", "config.json", "-o", "config.json"), "config.json: it is the file given as CONFIG"),
    (("hardware", "show", "hardware.yaml", "-o", "hardware.yaml"), "hardware.yaml: it is the file given as NAME"),
    (("compare", "gpt2", *ON, "--bench", "bench.json", "-o", "bench.json"), "bench.json: it is the file given as --bench"),
    (("report", "--from", "bench.json", "-o", "bench.json"), "bench.json: it is the file given as --from"),
    (("trace", "t.csv", "-o", "t.csv"), "t.csv: it is the file given as SOURCE"),
    (("sweep", "sweep.yaml", "-o", "sweep.yaml"), "sweep.yaml: it is the file given as FIRST"),
    (("sweep", "config.json", *ON, "--batch", "1,2", "-o", "config.json"), "config.json: it is the file given as FIRST"),
]  # fmt: skip
NAMED = [
    (("analyze", "folder", *ON, "-o", "folder/config.json"), "unknown model 'folder'"),
    (("analyze", "./folder", *ON, "-o", "folder/config.json"), "it is the model's config.json that this command reads"),
    (("models", "import", "./folder", "-o", "folder/config.json"), "it is the model's config.json that this command reads"),
    (("plan", "gpt2", *ON, "--traffic", "traffic.yaml", "-o", "t.csv"),
     "it is a trace that this command reads"),
    (("simulate", "gpt2", *ON, "--workload", "traffic.yaml", "-o", "t.csv"), "it is a trace that this command reads"),
    (("sweep", "sweep.yaml", "-o", "config.json"), "it is the model's config.json that this command reads"),
    (("sweep", "sweep.yaml", "-o", "config.json", "--executor", "processes:1"), "it is the model's config.json"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "said"), GIVEN, ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else "")
def test_a_file_that_is_given(
    run: Run, place: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    """The command line says that both are one file: exit 2 before anything is read, and every file is what it was."""
    before = _sums(place)
    monkeypatch.setattr("roofline.files.open_input", lambda path, *_, **__: pytest.fail(f"{path} was read"))
    assert f"cannot write {words[-1]}: {said.partition(': ')[2]}; it would be overwritten" == run(*words).refused()
    assert _sums(place) == before


@pytest.mark.slow
@pytest.mark.parametrize(("words", "said"), NAMED, ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else "")
def test_a_file_that_another_one_names(run: Run, place: Path, words: tuple[str, ...], said: str) -> None:
    """A file in a folder, or one that a YAML file names: known as soon as it is read."""
    before = _sums(place)
    assert said in run(*words).refused()
    assert _sums(place) == before


def test_parquet(run: Run, place: Path) -> None:
    """A trace in Parquet."""
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
    pd.read_csv("t.csv").to_parquet("t.parquet")
    before = _sums(place)
    assert "given as --trace" in run("simulate", "gpt2", *ON, "--trace", "t.parquet", "-o", "t.parquet").refused()
    assert _sums(place) == before


@pytest.mark.slow
def test_files_of_the_path_variable_and_shipped_ones(
    run: Run, process: Run, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An id stands for a file, which is an input as well; one that is shipped is not written over by any command.

    Shipped files are copies here.
    """
    for kind in ("models", "hardware", "engines", "prices"):
        shutil.copytree(shipped(kind), place / "shipped" / kind)
    (place / "own" / "hardware").mkdir(parents=True)
    text = Path("hardware.yaml").read_text(encoding="utf-8")
    (place / "own" / "hardware" / "mine.yaml").write_text(text.replace("name: a100-sxm-80gb", "name: mine"), encoding="utf-8")
    Path("mine.csv").write_text(RECORDS.replace("a100-sxm-80gb", "mine"), encoding="utf-8")
    monkeypatch.setattr(library, "shipped", lambda kind: place / "shipped" / kind)
    before = _sums(place)
    for output in ("shipped/hardware/a100-sxm-80gb.yaml", "shipped/hardware/t4.yaml", "shipped/models/gpt2.yaml"):
        message = run("calibrate", "records.csv", "-H", "a100-sxm-80gb", "-o", output).refused()
        assert f"cannot write {output}: it is the " in message
        assert "which is shipped" in message
    monkeypatch.undo()
    answer = process(
        "calibrate", "mine.csv", "-H", "mine", "-q", "-o", "own/hardware/mine.yaml", cwd=place,
        env={"ROOFLINE_PATH": str(place / "own")},
    )  # fmt: skip
    assert "own/hardware/mine.yaml: it is the hardware that this command reads" in answer.refused()
    assert _sums(place) == before


def test_two_outputs_are_two_files(run: Run, place: Path) -> None:
    """Also by two names of one place."""
    words = ("simulate", "gpt2", *ON, "--trace", "t.csv", "-o", "x.json", "--perfetto", "folder/../x.json")
    assert "give them names of their own" in run(*words).refused()
    assert not Path("x.json").exists()


def test_the_next_command_may(run: Run, place: Path) -> None:
    """What one command has read is no input of the next one in the same process."""
    assert run("analyze", "config.json", *ON, "-o", "result.json").code == 0
    assert run("analyze", "gpt2", *ON, "-o", "config.json").code == 0
    assert json.loads(Path("config.json").read_text(encoding="utf-8"))["model"]["name"] == "gpt2"
    assert run("analyze", "gpt2", *ON, "-o", "result.json").code == 0


@pytest.mark.slow
def test_the_same_command_again(run: Run, place: Path) -> None:
    """An answer in the folder that was asked about is looked into the next time, and is written again; so is a sweep."""
    shutil.copy("records.csv", "folder/records.csv")
    for _ in range(2):
        assert run("validate", "folder", "-o", "folder/answer.csv").code == 0
        assert run("sweep", "sweep.yaml", "-o", "parts").code == 0


def test_through_a_link(run: Run, place: Path) -> None:
    """A link stays one; what it points to is written, in one piece, and keeps its permissions."""
    (place / "elsewhere").mkdir()
    real = place / "elsewhere" / "real.json"
    real.write_text("old", encoding="utf-8")
    real.chmod(0o600)
    Path("out.json").symlink_to(real)
    Path("new.json").symlink_to(place / "elsewhere" / "new.json")
    for name in ("out.json", "new.json"):
        assert run("analyze", "gpt2", *ON, "-o", name).code == 0
        assert Path(name).is_symlink()
        assert json.loads(Path(name).read_text(encoding="utf-8"))["model"]["name"] == "gpt2"
    assert real.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in (place / "elsewhere").iterdir()) == ["new.json", "real.json"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes in its folders")
def test_what_is_no_file(run: Run, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe, a device, a link that leads round: refused with the reason before the work, and left as they are."""
    os.mkfifo("pipe.json")
    Path("null.json").symlink_to("/dev/null")
    Path("round.json").symlink_to("round.json")
    monkeypatch.setattr("roofline.predict.analyze.answer", lambda *_, **__: pytest.fail("the work was done"))
    for name, said in (("pipe", "it is a pipe"), ("null", "it is a device"), ("round", "Too many levels of symbolic links")):
        assert f"cannot write {name}.json: {said}" in run("analyze", "gpt2", *ON, "-o", f"{name}.json").refused()
    assert Path("pipe.json").is_fifo()
    assert Path("null.json").is_symlink()


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".json", ".json.gz"])
def test_a_disk_that_is_full(place: Path, process: Run, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit on the size of files stands for it: 2, the name of the file, no other file left behind."""
    resource = pytest.importorskip("resource")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # compiled modules would be cut off at the limit, and stay so
    if suffix == ".parquet":
        pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
    out = place / "out"
    out.mkdir()
    (out / f"x{suffix}").write_text("old", encoding="utf-8")
    flag = "--perfetto" if "json" in suffix else "-o"
    words = ("simulate", "gpt2", *ON, "--rate", "20", "--input-len", "200", "--output-len", "50", "--requests", "20000")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, before[1]))  # which the process inherits
    try:
        answer = process(*words, flag, f"x{suffix}", "--quiet", cwd=out)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert answer.refused() == f"cannot write x{suffix}: File too large"
    assert [path.name for path in out.iterdir()] == [f"x{suffix}"]
    assert (out / f"x{suffix}").read_text(encoding="utf-8") == "old"


def test_from_python(place: Path) -> None:
    """`roofline.simulate` keeps its inputs too, and another call may write there."""
    before = _sums(place)
    words = {"trace": "t.csv", "rows": "t.csv"}
    with pytest.raises(InputError, match=r"cannot write t\.csv: it is a trace that this command reads"):
        roofline.simulate("gpt2", "h100-sxm", **words)
    assert _sums(place) == before
    roofline.simulate("gpt2", "h100-sxm", trace="t.csv", rows="lengths.csv")
    assert Path("lengths.csv").read_text(encoding="utf-8").count("\n") == 51
