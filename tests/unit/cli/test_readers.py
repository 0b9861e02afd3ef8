"""Inputs without an end, of many gigabytes, out of pipes, under names that no file can have: one message each, at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roofline.specs.library import shipped

pytestmark = pytest.mark.slow

Run = Callable[..., Any]
ROOT = Path(__file__).resolve().parents[3]
ON = ("-H", "h100-sxm")
LIMIT = 4 * 10**9
"""Bytes of address space: less than the files have."""
SIZE = 20 * 10**9
LOAD = ("--rate", "1", "--input-len", "9", "--output-len", "9", "--ttft", "1 s", "--tpot", "1 s")
READERS = {
    "model": ("analyze", "{}.json", *ON),
    "model in YAML": ("analyze", "{}.yaml", *ON),
    "hardware": ("analyze", "gpt2", "-H", "{}.yaml"),
    "records": ("validate", "{}.csv"),
    "records to fit": ("calibrate", "{}.csv", *ON),
    "serving points": ("validate", "--serving", "{}.csv"),
    "log": ("compare", "gpt2", *ON, "--engine-log", "{}.log"),
    "bench": ("compare", "gpt2", *ON, "--bench", "{}.json"),
    "trace": ("trace", "{}.csv"),
    "lengths": ("simulate", "gpt2", *ON, "--rate", "1", "--output-len", "9", "--input-len", "file:{}.csv"),
    "traffic": ("simulate", "gpt2", *ON, "--workload", "{}.yaml"),
    "deployment": ("plan", "--check", "{}.yaml", *LOAD, *ON),
    "result": ("report", "--from", "{}.json", "-q", "-o", "page.html"),
    "rows": ("report", "--from", "{}.csv", "-q", "-o", "page.html"),
    "prices": ("plan", "gpt2", *ON, *LOAD, "--price", "{}.yaml"),
}


def _words(words: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(word.format(name) for word in words)


@pytest.mark.skipif(sys.platform != "linux", reason="holes in files, and a limit of memory")
@pytest.mark.parametrize("words", READERS.values(), ids=READERS)
def test_twenty_gigabytes(process: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    """A file that is a hole: refused with its size and the limit, without being read."""
    (path,) = (tmp_path / word.removeprefix("file:") for word in _words(words, "hole") if "hole." in word)
    with path.open("wb") as file:
        file.truncate(SIZE)
    message = process(*_words(words, "hole"), cwd=tmp_path, limit=LIMIT).refused()
    assert "has 20,000,000,000 bytes; of " in message
    assert " are read" in message


@pytest.mark.skipif(sys.platform != "linux", reason="a device, and a limit of memory")
@pytest.mark.parametrize("words", READERS.values(), ids=READERS)
def test_a_device_without_an_end(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    """Under a name that the command takes: refused as what it is."""
    monkeypatch.chdir(tmp_path)
    for suffix in ("json", "yaml", "csv", "log"):
        Path(f"zero.{suffix}").symlink_to("/dev/zero")
    assert "is a device, not a regular file; " in run(*_words(words, "zero")).refused()


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no such device")
@pytest.mark.parametrize("words", [("analyze", "/dev/zero", *ON), ("simulate", "gpt2", *ON, "--trace", "/dev/zero")])
def test_the_device_itself(run: Run, words: tuple[str, ...]) -> None:
    """By its own name."""
    assert "/dev/zero: is a device, not a regular file" in run(*words).refused()


def _shell(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", line.replace("roofline ", f"{sys.executable} -m roofline ", 1)], capture_output=True, text=True,
        check=False, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such shell")
def test_pipes(run: Run, tmp_path: Path) -> None:
    """`<(...)` and /dev/stdin give what the file gives, of a model in YAML, a config.json, hardware and a trace."""
    config = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 256, "intermediate_size": 1024,
        "num_attention_heads": 8, "num_key_value_heads": 4, "num_hidden_layers": 2, "vocab_size": 1000, "head_dim": 32,
        "max_position_embeddings": 4096, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (tmp_path / "t.csv").write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n0,100,20\n1,50,20\n", encoding="utf-8")
    expected = json.loads(run("analyze", tmp_path / "config.json", *ON, "--json").out)
    for line in (
        "roofline analyze <(cat config.json) -H h100-sxm --json",
        "cat config.json | roofline analyze /dev/stdin -H h100-sxm --json",
        "roofline analyze /dev/stdin -H h100-sxm --json <config.json",
        f"roofline analyze config.json -H <(cat {shipped('hardware') / 'h100-sxm.yaml'}) --json",
    ):
        done = _shell(tmp_path, line)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["phases"] == expected["phases"]
    done = _shell(tmp_path, f"cat {shipped('models') / 'gpt2.yaml'} | roofline analyze /dev/stdin -H t4 --json")
    assert json.loads(done.stdout)["phases"] == json.loads(run("analyze", "gpt2", "-H", "t4", "--json").out)["phases"]
    done = _shell(tmp_path, "cat t.csv | roofline trace /dev/stdin --json")
    assert json.loads(done.stdout)["requests"] == 2
    done = _shell(tmp_path, "yes '# no end' | roofline analyze /dev/stdin -H t4")
    assert (done.returncode, done.stdout) == (2, "")
    assert "/dev/stdin: has more than " in done.stderr


LONG = "x" * 5000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("analyze", LONG, *ON), "unknown model 'xxx"),
        (("analyze", f"{LONG}.yaml", *ON), "no such file: no name is that long"),
        (("analyze", f"./{LONG}", *ON), "no such file: no name is that long"),
        (("analyze", "gpt2", "-H", LONG), "unknown hardware 'xxx"),
        (("compare", "gpt2", *ON, "--bench", LONG), "no such file: no name is that long"),
        (("compare", "gpt2", *ON, "--engine-log", LONG), "no such file: no name is that long"),
        (("validate", LONG), "no such file"),
        (("validate", "--serving", LONG), "no such file: no name is that long"),
        (("trace", LONG), "no such file: no name is that long"),
        (("report", "--from", LONG, "-q", "-o", "x.html"), "no such file: no name is that long"),
        (("plan", "--check", LONG, "--rate", "1", *ON), "no such file: no name is that long"),
        (("sweep", f"{LONG}.yaml"), "is not there"),
        (("sweep", LONG, *ON), "unknown model 'xxx"),
        (("bench", "show", LONG), "no such folder"),
        (("models", "check", LONG), "unknown model 'xxx"),
        (("simulate", "gpt2", *ON, "--workload", LONG), "xxx"),
        (("simulate", "gpt2", *ON, "--rate", "1", "--input-len", f"file:{LONG}", "--output-len", "9"), "no such file"),
        (("claim", f"llama-3.1-8b on h100-sxm: 3500 tok/s {'very ' * 60}fast"), "very"),
        (("claim", "llama-3.1-8b-on-h100-sxm-is-fast-" * 20), "nothing is claimed"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else "",
)
def test_names_that_no_file_can_have(run: Run, words: tuple[str, ...], said: str) -> None:
    """Refused as unknown or as no file; nothing is said of writing."""
    message = run(*words).refused()
    assert said in message
    assert "cannot write" not in message
    assert "File name too long" not in message


def test_a_result_under_such_a_name(run: Run) -> None:
    """Here it is about writing."""
    assert "File name too long" in run("analyze", "gpt2", *ON, "-o", f"{LONG}.json").refused()


@pytest.mark.parametrize("rate", ["1e15", "1e-300"])
def test_rates_beyond_all_sense(run: Run, rate: str) -> None:
    """They are numbers above 0, so that the message says which are taken: those from 1e-9 to 1e9."""
    words = ("plan", "gpt2", *ON, "--rate", rate, "--input-len", "9", "--output-len", "9", "--ttft", "1 s", "--tpot", "1 s")
    assert f"from 1e-9 to 1e9 requests/s, not '{rate}'" in run(*words).refused()
    assert "above 0" in run(*words[:5], "0", *words[6:]).refused()


def test_shadowed_ids(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of one's own under the id of a shipped one is named in the text, once; a new id is no such file."""
    for kind, name in (("models", "gpt2"), ("hardware", "t4")):
        (tmp_path / kind).mkdir()
        text = (shipped(kind) / f"{name}.yaml").read_text(encoding="utf-8")  # type: ignore[arg-type]
        (tmp_path / kind / f"{name}.yaml").write_text(text, encoding="utf-8")
        (tmp_path / kind / "mine.yaml").write_text(text.replace(f"name: {name}", "name: mine"), encoding="utf-8")
    run("models", "list")  # takes the variable away
    monkeypatch.setenv("ROOFLINE_PATH", str(tmp_path))
    out = run("analyze", "gpt2", "-H", "t4", "-vv").out
    for kind, name in (("models", "gpt2"), ("hardware", "t4")):
        path = tmp_path / kind / f"{name}.yaml"
        assert f"{path} · given · of ROOFLINE_PATH, instead of the shipped file of that id" in " ".join(out.split())
        listed = run(kind, "list").out
        assert f"instead of shipped files, by ROOFLINE_PATH: {name} is {path} " in " ".join(listed.split())
        assert listed.count("ROOFLINE_PATH") == 1
    assert "ROOFLINE_PATH" not in run("analyze", "mine", "-H", "l4", "-vv").out
