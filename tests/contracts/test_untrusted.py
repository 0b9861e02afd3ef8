"""What a file of others must not be able to do: run code, reach the network, name other files, write markup, add plug-ins.

docs/security.md is the threat model, and says which test shows what; a test here keeps those names true.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import roofline

PACKAGE = Path(roofline.__file__).resolve().parent
ROOT = Path(__file__).resolve().parents[2]
REPORTS = ROOT / "reports"

# Code

MODULES = frozenset(
    """
    pickle marshal shelve dill cloudpickle joblib yaml code codeop runpy pty subprocess ctypes cffi webbrowser xmlrpc tarfile
    zipfile xml socket socketserver ssl http urllib ftplib smtplib poplib imaplib telnetlib requests aiohttp httpx websockets
    huggingface_hub distributed dask multiprocessing concurrent
    """.split()  # noqa: SIM905 - a list to read
)
"""Modules that run code, start processes, reach the network, or read archives and XML."""
BUILTINS = frozenset({"eval", "exec", "compile", "__import__", "input", "breakpoint"})
METHODS = frozenset({"import_module", "parse_expr", "lambdify", "from_string", "read_pickle", "to_pickle", "Markup", "loadtxt"})
OF_MODULES = {
    "os": re.compile("system|popen|exec|spawn|posix_spawn|startfile"),
    "torch": re.compile("load$|hub"),
    "np": re.compile("load|fromregex"),
    "numpy": re.compile("load|fromregex"),
    "pd": re.compile("eval|read_html|read_xml|read_sql|read_hdf"),
    "pandas": re.compile("eval|read_html|read_xml|read_sql|read_hdf"),
}
EXEMPT: dict[str, dict[str, str]] = {
    "__init__.py": {"import_module": "names of this package, from a table"},
    "registry.py": {"import_module": "references that a registry of this package was made with"},
    "cli/commands/doctor.py": {
        "import_module": "dependencies that this package names",
        "subprocess": "nvidia-smi, with a list of words and no shell",
    },
    "formulas/javascript/translator.py": {"import_module": "modules that sources of this package import"},
    "measure/bench/kernels/attention_packages.py": {"import_module": "names of packages, from a table"},
    "measure/bench/counters.py": {"subprocess": "the profiler of NVIDIA, with a list of words and no shell"},
    "measure/bench/devices/cpu.py": {"ctypes": "asks the C library for the free memory"},
    "predict/executors.py": {
        "concurrent": "processes of this one",
        "multiprocessing": "likewise",
        "distributed": "a cluster that the user names, which runs what it is sent",
    },
    "specs/huggingface/hub.py": {"huggingface_hub": "fetches org/name, with the extra `hub`"},
    "teach/lessons/execute.py": {"exec": "a lesson is code of this repository", "eval": "likewise", "compile": "likewise"},
    "teach/worksheets/page.py": {"Markup": "texts of this package, escaped piece by piece"},
    "teach/worksheets/lms.py": {"xml": "writes, and reads none", "zipfile": "likewise"},
    "report/figure_files.py": {"xml": "reads drawings that this package has made"},
    "teach/lessons/formula.py": {"xml": "reads formulas that this package has made"},
    "teach/lessons/slide_blocks.py": {"xml": "reads drawings that this package has made"},
}
"""What a module may use of the above, and why."""


_WORDS = re.compile(
    rf"\b(?:import (?:{'|'.join(MODULES)})|from (?:{'|'.join(MODULES)})|(?:{'|'.join((*BUILTINS, *METHODS))}|YAML|sympify)\(|"
    rf"(?:{'|'.join(OF_MODULES)})\.|shell|allow_pickle)"
)
"""What is in every module that uses any of it, and in few others: those are parsed."""


def _used(source: str) -> set[str]:
    """What a module uses that could run text as code, load objects, start processes, reach the network or unpack."""
    if not _WORDS.search(source):
        return set()
    tree = ast.parse(source)
    used: set[str] = set()
    own = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("roofline")
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            used |= {alias.name.partition(".")[0] for alias in node.names} & MODULES
        elif isinstance(node, ast.ImportFrom):
            used |= {(node.module or "").partition(".")[0]} & MODULES
        elif isinstance(node, ast.Call):
            used |= _called(node, own)
    return used - ({"urllib"} if re.search(r"^\s*from urllib\.parse import", source, re.MULTILINE) else set())


def _called(node: ast.Call, own: set[str]) -> set[str]:
    """The same of one call; `own` are names that are imported from this package."""
    keywords = {entry.arg: getattr(entry.value, "value", "?") for entry in node.keywords}
    used = {f"{name}=..." for name, value in keywords.items() if (name, value) in {("shell", True), ("allow_pickle", True)}}
    if isinstance(node.func, ast.Name):
        name = node.func.id
        used |= {name} & BUILTINS - own
    elif isinstance(node.func, ast.Attribute):
        name, on = node.func.attr, getattr(node.func.value, "id", "")
        if on in OF_MODULES and OF_MODULES[on].match(name):
            used.add(f"{on}.{name}")
    else:
        return used
    used |= {name} & METHODS
    if name == "YAML" and keywords.get("typ", "rt") not in ("rt", "safe"):
        used.add("YAML(typ=...)")
    if name == "sympify" and keywords.get("strict") is not True:
        used.add("sympify")  # it evaluates texts, unless it is strict
    return used


@pytest.mark.slow
@pytest.mark.same_calls
def test_nothing_evaluates_text_or_reaches_the_network() -> None:
    """Whatever a file holds is data: only these modules run code, start processes or open connections, for these reasons."""
    modules = {path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    assert len(modules) > 300
    used = {name: kinds for name, source in modules.items() if (kinds := _used(source))}
    assert used == {name: set(reasons) for name, reasons in EXEMPT.items()}


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("eval(text)", "eval"), ("exec(text, {})", "exec"), ("compile(text, '', 'exec')", "compile"),
        ("__import__(name)", "__import__"), ("import pickle", "pickle"), ("from pickle import loads", "pickle"),
        ("import yaml", "yaml"), ("YAML(typ='unsafe').load(text)", "YAML(typ=...)"), ("sympify(text)", "sympify"),
        ("sympy.sympify(text, strict=False)", "sympify"), ("importlib.import_module(name)", "import_module"),
        ("os.system(text)", "os.system"), ("os.execvp(text, [])", "os.execvp"), ("run(text, shell=True)", "shell=..."),
        ("import subprocess", "subprocess"), ("np.load(path)", "np.load"), ("read(x, allow_pickle=True)", "allow_pickle=..."),
        ("torch.load(path)", "torch.load"), ("pd.eval(text)", "pd.eval"), ("pd.read_pickle(path)", "read_pickle"),
        ("from urllib.request import urlopen", "urllib"), ("from xml.etree import ElementTree", "xml"),
        ("environment.from_string(text)", "from_string"), ("Markup(text)", "Markup"),
    ],
)  # fmt: skip
def test_the_probe_sees_it(source: str, what: str) -> None:
    """Each way of doing it."""
    assert _used(source) == {what}


@pytest.mark.parametrize(
    "source",
    [
        "from roofline.predict.compiled import compile\ncompile(model, hardware)", "re.compile(text)", "YAML(typ='safe')",
        "sympy.sympify(value, strict=True)", "json.loads(text)", "from urllib.parse import quote", "os.replace(a, b)",
    ],
)  # fmt: skip
def test_the_probe_sees_nothing_else(source: str) -> None:
    """What looks alike."""
    assert not _used(source)


def test_numbers_alone_become_symbols() -> None:
    """A text where SymPy is given a number is refused, and not evaluated."""
    sympy = pytest.importorskip("sympy")
    from roofline.formulas.symbolic import evaluate

    with pytest.raises(sympy.SympifyError):
        evaluate("__import__('os').getpid()", {})


# Markup

SAFE = {
    "deck.html.j2": {"slide.kicker", "slide.title", "slide.body", "slide.notes", "parts_json"},
    "lesson.html.j2": {"entry.title", "body", "controls_json"},
    "page.html.j2": {"formulas", "controls_json"},
    "parts.html.j2": {"figure | svg(width)"},
    "play.html.j2": {
        "intro", "text", "formula.title", "formula.symbols", "formula.numbers", "picture.svg", "picture.hand",
    },
    "shell.html.j2": {"style", "script"},
    "term.html.j2": {"text"},
    "worksheet.html.j2": {"keys"},
}  # fmt: skip
"""What templates do not escape: drawings and formulas, which escape their own texts; texts of lessons, in which HTML is text
(`roofline.teach.markdown`); JSON without a sign of markup (`as_json`); style and scripts of this package."""
MARKUP = re.compile(
    r"\b(innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment|document\.write|parseFromString|eval|Function|"
    r"importScripts|fetch|XMLHttpRequest|WebSocket|EventSource|sendBeacon|serviceWorker)\b(?!:)"
)
SCRIPTS = {
    "script/practice.js": {"innerHTML": "problems as the page was written, which its policy covers"},
    "script/plots.js": {"parseFromString": "drawings by the page's own program, which escapes texts"},
    "script/main.js": {"parseFromString": "formulas as the page was written"},
    "script/lesson.js": {"parseFromString": "formulas and drawings by the page's own program"},
}


@pytest.mark.same_calls
def test_templates_escape_what_is_not_listed() -> None:
    """Every `| safe` is a fragment that this package has made."""
    pattern = re.compile(r"\{\{ ?((?:(?!\{\{).)+?) \| safe ?\}\}")
    texts = {path.name: path.read_text(encoding="utf-8") for path in REPORTS.glob("*.j2")}
    unescaped = {name: set(pattern.findall(text)) for name, text in texts.items() if "safe" in text}
    assert {name: expressions for name, expressions in unescaped.items() if expressions} == SAFE
    assert not [name for name, text in texts.items() if "autoescape" in text]


@pytest.mark.same_calls
def test_scripts_make_no_markup_from_text() -> None:
    """Pages make elements and set their texts; only these scripts parse, and only what the page was written with."""
    paths = [*REPORTS.rglob("*.js"), *PACKAGE.rglob("*.js")]
    own = {path: path.read_text(encoding="utf-8") for path in paths if not path.name.startswith("plotly")}
    assert len(own) > 15
    code = {path: re.sub(r"/\*.*?\*/|(?<!:)//[^\n]*", "", text, flags=re.DOTALL) for path, text in own.items()}
    used = {
        path.relative_to(REPORTS).as_posix(): set(MARKUP.findall(text)) for path, text in code.items() if MARKUP.search(text)
    }
    assert used == {name: set(reasons) for name, reasons in SCRIPTS.items()}


# Commands that are shown


@pytest.mark.parametrize(
    "text",
    ["a b", "$(touch x)", "`touch x`", "a; touch x", "a\ntouch x", "'; touch x; '", '"$HOME"', "!x", "*", "~", "-o", "a\\"],
)
def test_commands_that_are_shown_have_no_more_words(text: str) -> None:
    """A shell reads a name of a file as one word, whatever it holds."""
    from roofline.predict.engine_command import shell_line

    words = ("roofline", "analyze", text, "--hardware", text)
    assert shlex.split(shell_line(words)) == list(words)
    done = subprocess.run(["sh", "-c", f"printf '%s\\0' {shell_line(words)}"], capture_output=True, text=True, check=True)
    assert done.stdout.split("\0")[:-1] == list(words)


# Plug-ins


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("-P",)], ids=["the folder on Python's path", "as the command starts"])
def test_plug_ins_come_from_installed_packages_alone(tmp_path: Path, flags: tuple[str, ...]) -> None:
    """The folder in which the command runs adds nothing, even if it looks like a package with a plug-in.

    The first case shows that it would, were it on the path: `python -m roofline` puts it there, as it does with any module;
    `roofline` does not.
    """
    about = tmp_path / "evil-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[roofline.routers]\nevil = evil:ROUTER\n")
    (tmp_path / "evil.py").write_text("print('evil ran')\nROUTER = None\n")
    code = "from roofline.serving.simulation.router import ROUTERS\nprint(sorted(ROUTERS))"
    done = subprocess.run(
        [sys.executable, *flags, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert ("evil ran" in done.stdout) == (not flags)
    assert ("round-robin" in done.stdout) == bool(flags), done.stderr


# The page


@pytest.mark.same_calls
def test_the_threat_model_names_tests_that_there_are() -> None:
    """Each `path::name` in docs/security.md is a test of that file, and each `path` a file."""
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text)
    assert len(named) >= 15
    for path, test in named:
        assert (ROOT / path).is_file(), path
        assert not test or f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), f"{path}::{test}"
