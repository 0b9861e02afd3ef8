"""What the pages say is so: commands run, outputs are shown as they are, links lead somewhere, versions agree."""

from __future__ import annotations

import contextlib
import doctest
import functools
import importlib
import importlib.util
import io
import locale
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import threading
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import roofline
from roofline import files
from roofline.blocks.model_files import load_model
from roofline.cli.app import main
from roofline.cli.commands import COMMANDS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "benchmarks/*.md", "measurements/*.md", "reports/*.md")
    for path in ROOT.glob(pattern)
    if "_generated" not in path.parts
)

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^(?:\$ )?(?:\.venv/bin/)?(roofline .*?)(?:\s+# exit (\d))?$")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Shown:
    """A command in a page, the exit code beside it, the lines of output beneath it, and what was written before it."""

    page: str
    line: int
    command: str
    code: int
    output: tuple[str, ...]
    before: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def commands() -> list[Shown]:
    """Every line of a fenced block that calls the program; what follows it in a `console` block is its output."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for block in _BLOCK.finditer(text):
            first = text.count("\n", 0, block.start(2)) + 1
            lines, measured = block[2].splitlines(), []
            for index, line in enumerate(lines):
                if (match := _COMMAND.match(line)) is None:
                    continue
                following = []
                if block[1] == "console":
                    for after in lines[index + 1 :]:
                        if after.startswith("$ "):
                            break
                        following.append(after)
                shown = Shown(_name(page), first + index, match[1], int(match[2] or 0), tuple(following), tuple(measured))
                found.append(shown)
                if " -o " in match[1] and not shown.code:
                    measured.append(match[1])
    return found


Done = subprocess.CompletedProcess[str]


def in_process_of_its_own(command: str, folder: Path) -> Done:
    """A documented command as a user runs it."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    arguments = [sys.executable, "-m", "roofline", *shlex.split(command)[1:]]
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8", "COLUMNS": "80"}
    if command.startswith("roofline bench run") and "--budget" not in command:
        arguments += ["--budget", "45"]  # a reader has the 20 minutes that a page speaks of
    options = {"cwd": folder, "env": environment, "capture_output": True, "encoding": "utf-8", "timeout": 1200}
    return subprocess.run(arguments, check=False, **options)


def in_this_process(command: str, folder: Path) -> Done:
    """The same by the program's entry point, with streams of its own and empty caches; it leaves the process as it was."""
    arguments = ["roofline", *shlex.split(command)[1:]]
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    _clear_caches()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", arguments)
        patch.setenv("COLUMNS", "80")
        patch.chdir(folder)
        before = _state()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as left:
            main()
        assert _state() == before, f"{command}: it leaves something behind"
    texts = (stream.buffer.getvalue().decode("utf-8") for stream in (out, err))
    return subprocess.CompletedProcess(arguments, int(left.value.code or 0), *texts)


def _state() -> dict[str, object]:
    """What one command could leave to the next."""
    for library in ("pandas", "scipy.optimize", "scipy.special", "sympy"):
        importlib.import_module(library)  # which adds filters of warnings when it is loaded
    return {
        "environment": dict(os.environ),
        "folder": Path.cwd(),
        "files of a command": files._RUN.get(),
        "signals": {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)},
        "warnings": list(warnings.filters),
        "paths": list(sys.path),
        "threads": threading.active_count(),
        "locale": locale.setlocale(locale.LC_ALL),
        "random": random.getstate(),
    }


def _clear_caches() -> None:
    """A command begins as in a new process, which has computed nothing yet."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "roofline":
            for value in list(vars(module).values()):
                if isinstance(value, functools._lru_cache_wrapper):
                    value.cache_clear()


def alone(shown: Shown) -> bool:
    """Whether a command runs in a process of its own: those that README shows, and those that load torch."""
    return shown.page == "README.md" or shown.command.startswith(
        ("roofline bench run", "roofline bench list", "roofline bench serve")
    )


@cache
def run(command: str, folder: Path) -> Done:
    """A documented command in a folder, each once."""
    first = next((shown for shown in commands() if shown.command == command and alone(shown)), None)
    return in_this_process(command, folder) if first is None else in_process_of_its_own(command, folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with our measurements and documents where a checkout has them, and with the reader's own `my-gpu.yaml`."""
    folder = tmp_path_factory.mktemp("documented")
    measured = (ROOT / "measurements" / "amd-epyc-x2" / "2026-11-20" / "hardware.yaml").read_text(encoding="utf-8")
    if importlib.util.find_spec("torch") is not None:  # which measures this machine, and its records have its name
        from roofline.measure.bench import devices, machine

        measured = measured.replace("amd-epyc-x2-measured", machine.gpu_id(devices.device("cpu")))
    (folder / "my-gpu.yaml").write_text(measured, encoding="utf-8")
    (folder / "measurements").symlink_to(ROOT / "measurements")
    (folder / "docs").symlink_to(ROOT / "docs")
    return folder


def test_there_are_commands_to_run() -> None:
    """The pattern that finds them finds what the README shows first."""
    found = commands()
    assert "roofline analyze llama-3.1-8b --hardware a100-sxm-80gb" in {shown.command for shown in found}
    assert {shown.code for shown in found} == {0, 1, 2}
    assert any(shown.output for shown in found)


@pytest.mark.parametrize("shown", commands(), ids=str)
def test_command_runs_and_shows_its_output(shown: Shown, folder: Path) -> None:
    """The exit code is 0, or the one that stands beside the command; lines shown are its lines, in order (`...` leaves out)."""
    if re.match(r"roofline bench (run|list|serve)", " ".join([*shown.before, shown.command])):
        pytest.importorskip("torch", reason="measuring needs torch")
    if re.search(r" -o \S+\.(png|pdf)\b", " ".join([*shown.before, shown.command])):
        pytest.importorskip("typst", reason="the extra 'figures' is not installed")
    for earlier in shown.before:  # later commands of a block look at what it wrote
        assert run(earlier, folder).returncode == 0
    done = run(shown.command, folder)
    assert done.returncode == shown.code, done.stderr[-500:]
    assert "Traceback" not in done.stderr
    lines = iter(line.rstrip() for line in done.stdout.splitlines())
    for wanted in shown.output:
        if wanted not in ("...", ""):
            assert wanted in lines, f"not in the output, or not in this order: {wanted!r}"


@pytest.mark.night
def test_one_process_gives_what_a_process_of_its_own_gives(folder: Path) -> None:
    """Exit codes and both streams are the same, of every documented command of README that writes no file."""
    shown = [one for one in commands() if one.page == "README.md" and " -o " not in one.command]
    assert {one.code for one in shown} == {0, 1}
    for one in shown:
        here, there = in_this_process(one.command, folder), run(one.command, folder)
        assert (here.returncode, here.stdout) == (there.returncode, there.stdout), one.command
        assert here.stderr.replace("`roofline ", "`python -m roofline ") == there.stderr, one.command


def _examples() -> list[str]:
    """Files of docs/examples, as commands name them."""
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "examples").rglob("*") if path.is_file())


@pytest.mark.parametrize("example", _examples())
def test_every_example_is_used_by_a_command(example: str) -> None:
    """Users copy examples: each, or its folder, is an argument of a command on a page, which the test above runs."""
    arguments = {Path(part) for shown in commands() for argument in shlex.split(shown.command) for part in argument.split(",")}
    places = {Path(example), Path(example).parent} - {Path("docs/examples")}
    assert places & arguments, f"no command on any page takes {example}"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_commands_in_running_text_exist(page: Path) -> None:
    """`roofline xyz` in a sentence or a table names a command that there is."""
    named = set(re.findall(r"`roofline ([a-z]+)\b", page.read_text(encoding="utf-8")))
    assert named <= set(COMMANDS)


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_python_in_pages_runs(page: Path) -> None:
    """Examples in `python` blocks give what they show."""
    source = "\n".join(block[2] for block in _BLOCK.finditer(page.read_text(encoding="utf-8")) if block[1] == "python")
    if not source:
        pytest.skip("no Python in it")
    if "import torch" in source:
        pytest.importorskip("torch", reason="PyTorch is not installed")
    test = doctest.DocTestParser().get_doctest(source, {}, _name(page), str(page), 0)
    report: list[str] = []
    outcome = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=report.append)
    assert outcome.attempted > 0
    assert outcome.failed == 0, "".join(report)


def test_the_model_that_extending_shows(tmp_path: Path) -> None:
    """Put where the page says, it is found by its id, and is what the repository asks of a model's file."""
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    (text,) = (block[2] for block in _BLOCK.finditer(page) if block[1] == "yaml" and "hidden_size" in block[2])
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "my-model.yaml").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "roofline", "models", "check", "my-model"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ROOFLINE_PATH": str(tmp_path)}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    model, _ = load_model(str(tmp_path / "models" / "my-model.yaml"))
    assert all(source.url.startswith("https://") for source in model.sources.values())  # as test_library_files.py asks


@cache
def _generated() -> frozenset[str]:
    """Pages that are written when the site is built."""
    pytest.importorskip("latex2mathml", reason="latex2mathml is not installed")
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        from generate.write import texts
    finally:
        sys.path.remove(str(ROOT / "docs"))
    return frozenset(texts())


def _anchor(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_somewhere(page: Path) -> None:
    """Links between files name files that are there, and headings that are in them."""
    for target in _LINK.findall(_BLOCK.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"\w+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if "_generated" in file.parts:
            assert file.relative_to(ROOT / "docs" / "_generated").as_posix() in _generated()
            continue
        assert file.exists(), f"{target} is not there"
        assert file.is_relative_to(ROOT)
        if anchor:
            headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {_anchor(heading) for heading in headings}, f"no heading for {target}"


def _in_toctrees(page: Path) -> set[Path]:
    """Pages that the toctrees of a page name."""
    listed = re.findall(r"^:::\{toctree\}\n(.*?)^:::$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names = [line for text in listed for line in text.splitlines() if line and not line.startswith(":")]
    return {(page.parent / f"{name}.md").resolve() for name in names}


def test_every_page_is_in_a_toctree() -> None:
    """A page that nothing leads to is not read. Decisions are listed by a page that is written when the site is built."""
    docs = ROOT / "docs"
    pages = {page for page in PAGES if page.is_relative_to(docs) and not page.is_relative_to(docs / "decisions")}
    listed = set().union(*map(_in_toctrees, pages))
    assert {page for page in listed if "_generated" not in page.parts} == pages - {docs / "index.md"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(path.stem, marks=pytest.mark.night if path.stem == "build_closed_loop" else ())
        for path in sorted((ROOT / "docs").glob("build_*.py"))
    ],
)
def test_generated_pages_are_up_to_date(name: str) -> None:
    """Writing them again changes nothing."""
    script = ROOT / "docs" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, script)
    assert spec is not None
    assert spec.loader is not None
    builder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(builder)
    assert builder.PAGE.read_text(encoding="utf-8") == builder.page(), f"run {script.relative_to(ROOT)}"
    for path, text in getattr(builder, "files", dict)().items():
        assert path.read_text(encoding="utf-8") == text, f"run {script.relative_to(ROOT)}"


def test_changelog_has_this_version() -> None:
    """Each version has its section, the current one included, below what is not yet released."""
    sections = re.findall(r"^## \[(.*?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sections[0] == "Unreleased"
    assert roofline.__version__ in sections


def test_citation_has_this_version() -> None:
    """The file that says how to cite it, and the package, are of one version and licence."""
    from ruamel.yaml import YAML

    citation = YAML(typ="safe").load(ROOT / "CITATION.cff")
    assert citation["version"] == roofline.__version__
    assert citation["license"] == "Apache-2.0"
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").split()[:2] == ["Apache", "License"]
