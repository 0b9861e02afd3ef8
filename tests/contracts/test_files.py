"""One door to a user's files: no module but `roofline.files` opens one by itself."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import roofline

PACKAGE = Path(roofline.__file__).resolve().parent
EXEMPT = {
    "files.py": "it is the door",
    "measure/bench/records_file.py": "appends to its own table, a record at a time, and locks it",
    "measure/bench/counters.py": "hands a list to a process of its own, in a temporary folder, and is that process",
    "measure/bench/collectives.py": "has a temporary folder in which processes meet",
    "measure/bench/serve.py": "has a temporary folder into which PyTorch writes a trace",
    "measure/bench/decode_loop.py": "opens /dev/null in place of stderr",
    "measure/bench/devices/cpu.py": "reads /proc and /sys",
    "cli/commands/doctor.py": "reads what is installed: pyproject.toml, metadata, the version of torch",
    "cli/app.py": "opens /dev/null instead of streams that are closed",
    "formulas/javascript/cache.py": "reads sources of the package",
    "formulas/javascript/program.py": "reads a file of the package",
    "formulas/javascript/python_source.py": "reads sources of the package",
    "torch/__init__.py": "has a temporary folder into which PyTorch writes a trace",
    "teach/lessons/build.py": "builds the lessons of this repository",
    "report/figure_files.py": "likewise",
    "teach/lessons/published.py": "likewise",
    "teach/lessons/execute.py": "likewise",
    "teach/term/build.py": "reads texts of the package, and writes the folder of a term",
    "report/page_program.py": "reads files of the package",
    "report/page.py": "likewise",
}
OPENS = {"FileIO", "open", "read_text", "read_bytes", "write_text", "write_bytes", "exists", "is_file", "is_dir"}
TEMPORARY = {"tempfile", "mmap"}
TABLES = {
    "read_csv",
    "read_parquet",
    "read_table",
    "read_metadata",
    "read_schema",
    "write_table",
    "ParquetWriter",
    "ParquetFile",
}
"""What takes a path as well as an open file."""
BUFFERS = {"BytesIO", "BufferReader"}


def _is_buffer(node: ast.expr) -> bool:
    """Whether an argument is an open file or bytes: by the names that they have here."""
    if isinstance(node, ast.Call):
        return (node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")) in BUFFERS
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name in {"file", "_file", "sink", "table"}


def _opened(source: str) -> list[str]:
    """Calls by which a module would open a file, look for one or make a temporary one."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            lines += [f"{node.lineno}: import {name}" for name in names if name in TEMPORARY]
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id == "open":
            lines.append(f"{node.lineno}: open(")
        if isinstance(node.func, ast.Attribute):
            name, on = node.func.attr, getattr(node.func.value, "id", "")
            if name in OPENS and on != "files":
                lines.append(f"{node.lineno}: .{name}(")
            # `write_table(table, where)` has the file second; of a writer it takes the table alone
            where = node.args[name == "write_table" :]
            if name in TABLES and where and not _is_buffer(where[0]):
                lines.append(f"{node.lineno}: .{name}(")
    return lines


@pytest.mark.slow
def test_no_module_opens_files_by_itself() -> None:
    """Limits, what is an input and what may be overwritten are known in one place alone."""
    modules = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
    opened = {
        name: lines for name, path in modules.items() if name not in EXEMPT and (lines := _opened(path.read_text("utf-8")))
    }
    assert len(modules) > 300
    assert opened == {}


@pytest.mark.parametrize("name", EXEMPT)
def test_exemptions_are_needed(name: str) -> None:
    """A module that opens nothing any more is taken off the list."""
    assert _opened((PACKAGE / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "source",
    [
        "open('x')", "path.open()", "Path(x).read_text()", "path.write_bytes(b'')", "import tempfile", "path.exists()",
        "pd.read_csv(path)", "pq.write_table(table, path)", "from tempfile import mkstemp", "os.open(x, 0)",
    ],
)  # fmt: skip
def test_the_probe_sees_them(source: str) -> None:
    """Each way of opening a file that the package has had."""
    assert _opened(source)


@pytest.mark.parametrize(
    "source", ["files.read_text(x, 1)", "pd.read_csv(file)", "pq.write_table(table, sink)", "text.replace('a', 'b')"]
)
def test_the_probe_sees_nothing_else(source: str) -> None:
    """The door itself, and what is open already."""
    assert not _opened(source)
