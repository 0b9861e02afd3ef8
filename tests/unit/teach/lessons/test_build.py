"""What is built: pages, notebooks that run, figures whose colours are in them; the same bytes each time."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from importlib.metadata import distribution
from itertools import pairwise
from pathlib import Path

import pytest
from executed_lessons import FOLDER, NAMES, done
from figure_samples import SAMPLES
from packaging.requirements import Requirement

from roofline.errors import InputError
from roofline.report.figure_files import plain_svg
from roofline.report.svg import svg
from roofline.teach.lessons.build import SETUP, WHEEL, build, notebook, page, write_png
from roofline.teach.lessons.execute import cells, execute
from roofline.teach.lessons.figures import Plot

pytestmark = pytest.mark.slow

SMALL = """# %% [markdown]
# # 1. Small
#
# About little.

# %%
from roofline.teach.lessons import bars, figure, lesson, predict
lesson(1, "Small", "about", goals=["g"], prerequisites=["p"], plan=[(50, "All")])

# %% [markdown]
# ## All

# %% tags=["open"]
print("hello")

# %%
figure(bars("kinds", "Kinds", ("share", "%"), {"one": {"a": 0.25}}))

# %%
predict("Is it?", ["yes", "no"], answer="yes", why="So.")
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "01_small.py").write_text(SMALL, encoding="utf-8")
    return tmp_path


def test_everything_is_written(folder):
    built = build(folder / "sources", folder / "to", png=False)
    names = {path.relative_to(folder / "to").as_posix() for path in built.files}
    pictures = {"figures/01-kinds.svg", "figures/01-kinds-dark.svg"}
    assert names == {"01_small.html", "decks/01_small.html", "index.html", "notebooks/01_small.ipynb"} | pictures
    assert "PNG" in built.left_out
    text = (folder / "to" / "01_small.html").read_text(encoding="utf-8")
    assert "hello" in text
    assert "http-equiv" in text
    assert not re.search(r'(?:src|href)="(?!#|data:|index\.html|\d\d_)', text), "a page needs nothing else"


def test_the_same_bytes_each_time(folder):
    lesson = folder / "sources" / "01_small.py"
    assert page(execute(lesson)) == page(execute(lesson))
    assert notebook(execute(lesson)) == notebook(execute(lesson))


def test_the_code_of_a_question_is_not_on_the_page(folder):
    """It holds the answer; the code to be read is there."""
    text = page(execute(folder / "sources" / "01_small.py"))
    assert "predict(" not in text
    assert "print(&quot;hello&quot;)" in text


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("# # 1. Small", "# Small"), "the first cell is the title"),
        (('lesson(1, "Small", "about", ', "dict("), r"one cell shows lesson\(...\); here are 0"),
        (("# About little.", "About little."), "a line of Markdown begins with"),
        (('print("hello")', "1 / 0"), "division by zero"),
    ],
    ids=["no title", "no head", "no comment", "an error"],
)
def test_what_is_wrong_is_told(folder, change, why):
    path = folder / "sources" / "01_small.py"
    path.write_text(SMALL.replace(*change), encoding="utf-8")
    with pytest.raises((InputError, ZeroDivisionError), match=why):
        execute(path)


def test_an_error_says_where_its_cell_is(folder):
    path = folder / "sources" / "01_small.py"
    path.write_text(SMALL.replace('print("hello")', "1 / 0"), encoding="utf-8")
    with pytest.raises(ZeroDivisionError) as raised:
        execute(path)
    line = SMALL.splitlines().index('print("hello")') + 1
    assert raised.value.__notes__ == [f"in the cell of 01_small.py that begins in line {line}"]


def test_the_course_is_built(tmp_path, monkeypatch, capsys):
    """By its script, all of it, from lessons that were executed for other tests too."""
    spec = importlib.util.spec_from_file_location("build_course", FOLDER / "build.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    monkeypatch.setattr("roofline.teach.lessons.build.execute", lambda path: done(path.stem))
    monkeypatch.setattr(sys, "argv", ["build.py", str(tmp_path)])
    monkeypatch.setattr(script, "README", tmp_path / "README.md")
    script.README.write_text((FOLDER / "README.md").read_text(encoding="utf-8"), encoding="utf-8")
    script.main()
    shown = capsys.readouterr().out
    written = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    pages = {f"{name}.html" for name in NAMES} | {"index.html"} | {f"notebooks/{name}.ipynb" for name in NAMES}
    assert pages <= written
    assert f"notebooks/{WHEEL}" in written, shown
    assert [f"executing {name}" for name in NAMES] == [line for line in shown.splitlines() if line.startswith("executing")]
    figures = [item for name in NAMES for item in done(name).items() if isinstance(item, Plot)]
    assert sum(name.endswith(".svg") for name in written) == 2 * len(figures), "light and dark"
    assert sum(name.endswith(".png") for name in written) == (0 if "no PNG" in shown else 2 * len(figures))
    assert (tmp_path / "README.md").read_text(encoding="utf-8").count("50 |\n") == len(NAMES), "the table of extents"
    for before, name in pairwise(NAMES):
        assert f'href="{name}.html"' in (tmp_path / f"{before}.html").read_text(encoding="utf-8")
        assert f'href="{before}.html"' in (tmp_path / f"{name}.html").read_text(encoding="utf-8")


def test_an_empty_folder_is_told(tmp_path):
    with pytest.raises(InputError, match="has no lesson"):
        build(tmp_path, tmp_path / "to")


def test_notebooks_install_the_wheel_beside_them():
    """The name on PyPI is not the project's: whoever registers it would own the students' notebooks."""
    installs = [line.strip() for line in SETUP.splitlines() if "pip install" in line]
    assert installs
    assert all(re.fullmatch(r"%pip install -q \./roofline-\S+\.whl", line) for line in installs)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_valid_and_has_its_outputs(name):
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    text = notebook(done(name))
    nbformat.validate(nbformat.reads(text, as_version=4))
    made = json.loads(text)["cells"]
    code = [cell for cell in made if cell["cell_type"] == "code"]
    assert "".join(code[0]["source"]) == SETUP
    assert len(made) == len(cells(done(name).path)) + 1
    shown = [output for cell in code for output in cell["outputs"]]
    assert sum("text/markdown" in output.get("data", {}) for output in shown) > 10


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_computes_what_its_lesson_does(name):
    """Its cells are the lesson's, and the kernel runs them as they stand: no line is a command of IPython's."""
    inputs = pytest.importorskip("IPython.core.inputtransformer2", reason="IPython is not installed")
    made = [cell for cell in json.loads(notebook(done(name)))["cells"] if cell["cell_type"] == "code"]
    code = ["".join(cell["source"]) for cell in made[1:]]
    assert code == [executed.cell.text for executed in done(name).cells if executed.cell.kind == "code"]
    for text in code:
        assert inputs.TransformerManager().transform_cell(text) == f"{text}\n"


def test_a_notebook_runs(tmp_path, monkeypatch):
    """In a kernel of its own, as a student runs it: one of the lessons that have items of all kinds."""
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    name = NAMES[0]
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[4]))
    for variable in ("HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(variable, str(tmp_path))  # where kernels write: this user may have no home
    made = nbformat.reads(notebook(done(name)), as_version=4)
    client = nbclient.NotebookClient(made, timeout=1200, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}})
    with client.setup_kernel():
        for at, cell in enumerate(made.cells):
            client.execute_cell(cell, at)
    markdown = [
        "".join(output.data["text/markdown"])
        for cell in made.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "text/markdown" in output.get("data", {})
    ]
    wanted = [item.value.markdown() for item in done(name).cells if hasattr(item.value, "markdown")]
    assert markdown == wanted


FRESH = """\
import json, sys, zipfile
site, notebook = sys.argv[1:]
sys.path.append(site)
class Shell:  # of IPython: what `%pip install -q ./WHEEL` leaves behind where dependencies are installed
    def run_line_magic(self, magic, line):
        assert magic == "pip", magic
        zipfile.ZipFile(line.split()[-1]).extractall(site)
names = {"__name__": "__main__", "get_ipython": Shell}
for cell in json.load(open(notebook, encoding="utf-8")):
    exec(compile(cell, "cell", "exec"), names)
import roofline
assert roofline.__file__.startswith(site), roofline.__file__
print(len([name for name in sys.modules if name.partition(".")[0] in ("IPython", "jupytext", "nbformat", "pytest", "typst")]))
"""


def runtime(name="roofline", *, known=None):
    """The distributions that roofline needs at run time, without its extras."""
    known = {} if known is None else known
    for line in distribution(name).requires or ():
        needed = Requirement(line)
        if (needed.marker is None or needed.marker.evaluate({"extra": ""})) and needed.name not in known:
            known[needed.name] = distribution(needed.name)
            runtime(needed.name, known=known)
    return known


@pytest.fixture
def fresh(tmp_path):
    """Runs cells in a Python that has what roofline depends on, and neither roofline nor what its extras install."""
    site = tmp_path / "site"
    site.mkdir()
    for one in runtime().values():
        for top in {Path(str(file)).parts[0] for file in one.files} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(one.locate_file(top))

    def run(cells):
        inputs = pytest.importorskip("IPython.core.inputtransformer2", reason="IPython is not installed")
        code = [inputs.TransformerManager().transform_cell(text) for text in cells]
        (tmp_path / "cells.json").write_text(json.dumps(code), encoding="utf-8")
        command = [sys.executable, "-I", "-S", "-c", FRESH, str(site), str(tmp_path / "cells.json")]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    return run


def test_a_fresh_machine_without_the_wheel_is_told_to_get_it(fresh, tmp_path):
    """One sentence that names the file, the folder, and what to do."""
    done = fresh([SETUP])
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"FileNotFoundError: {WHEEL} is not in {tmp_path}: upload it from the folder of the notebooks (")
    assert done.stderr.count("Traceback") == 1


def test_a_notebook_runs_on_a_fresh_machine(fresh, tmp_path):
    """Its first cell installs the wheel beside it, and all others run, with what that wheel depends on and nothing else."""
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir"]
    subprocess.run([*wheel, str(tmp_path), str(FOLDER.parent)], check=True)
    made = json.loads(notebook(done(NAMES[1])))["cells"]
    ran = fresh(["".join(cell["source"]) for cell in made if cell["cell_type"] == "code"])
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "0", "extras were imported"


def test_png_with_the_extra(tmp_path):
    """Two pixels of the file for each of the picture."""
    path = tmp_path / "one.svg"
    path.write_text(plain_svg(svg(SAMPLES[0])), encoding="utf-8")
    written, why = write_png([path])
    if why:
        pytest.skip(why)
    head = written[0].read_bytes()[:24]
    assert head.startswith(b"\x89PNG")
    width = float(re.search(r'width="([\d.]+)"', path.read_text(encoding="utf-8"))[1])
    assert int.from_bytes(head[16:20]) == pytest.approx(2 * width, abs=1)
