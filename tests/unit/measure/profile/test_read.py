"""Traces by their content: each format goes to its reader, whatever its name; what cannot be read says so in one error."""

from __future__ import annotations

import gzip
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from roofline import files
from roofline.errors import InputError
from roofline.measure.profile import kineto
from roofline.measure.profile.read import read_trace
from roofline.measure.profile.trace import Trace

NCU = '"ID","Process ID","Kernel Name","Stream","gpu__time_duration.sum"\n"","","","","us"\n"0","1","k","7","2"\n'
NSYS = "Start (ns),Duration (ns),CorrId,GrdX,Strm,Name\n10,2000,1,1,7,k\n"
SUMMARY = "Time (%),Total Time (ns),Instances,Avg (ns),Name\n100,2000,1,2000,k\n"


@pytest.mark.parametrize(
    ("content", "source"),
    [
        (NCU, "Nsight Compute"),
        ("==PROF== Connected to process 1\nresult: 1,2\n" + NCU, "Nsight Compute"),
        (NSYS, "Nsight Systems"),
        (SUMMARY, "Nsight Systems"),
        ("Time (%),Total Time (ns),Num Calls,Avg (ns),Name\n1,1,1,1,cudaMalloc\n\n" + NSYS, "Nsight Systems"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_text(content: str, source: str, encoding: str, tmp_path: Path) -> None:
    """The header of the table decides, not the suffix."""
    path = tmp_path / "trace.txt"
    path.write_text(content, encoding=encoding)
    trace = read_trace(path)
    assert trace.source == source
    assert trace.kernels.names == ["k"]
    assert trace.kernels.duration_s[0] == pytest.approx(2e-6)


def test_sqlite(tmp_path: Path) -> None:
    """Also with characters in its path that an address would take as its own."""
    path = tmp_path / "50% of #1?.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute('CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, "end", name)')
        database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (0, 1000, 'k')")
    path.chmod(0o400)
    with files.run():
        assert read_trace(str(path)).source == "Nsight Systems"
        with pytest.raises(InputError, match="it is a profiler trace that this command reads"):
            files.check_target(path)


@pytest.mark.parametrize("packed", [False, True])
def test_json(packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Chrome trace is read by the reader of Kineto's, which gets the report of progress."""
    calls = []

    def read_kineto(path: Path, progress: object) -> Trace:
        calls.append((path, progress))
        return Trace(path, "PyTorch profiler")

    monkeypatch.setattr(kineto, "read_kineto", read_kineto)
    path = tmp_path / "trace.bin"
    content = b'\n {"traceEvents": []}'
    path.write_bytes(gzip.compress(content) if packed else content)

    def progress(done: int, total: int | None) -> None:
        raise AssertionError

    assert read_trace(path, progress).source == "PyTorch profiler"
    assert calls == [(path, progress)]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.json", b"", ["the file is empty"]),
        ("run.nsys-rep", b"\x01\x02\0", ["of Nsight Systems", "nsys export --type sqlite --output run.sqlite run.nsys-rep"]),
        ("run.qdrep", b"\x01\x02\0", ["nsys export --type sqlite --output run.sqlite run.qdrep"]),
        ("run.ncu-rep", b"NVR\0", ["a report of Nsight Compute", "ncu --import run.ncu-rep --csv --page raw > run.csv"]),
        ("copy.dat", b"NVR\0\1\2", ["a report of Nsight Compute", "ncu --import copy.dat"]),
        ("run.pftrace", b"\x0a\x10\0\0\x12", ["a binary file of a format that is not read", "What can be read", ".json.gz"]),
        ("run.zip", b"PK\x03\x04\0", ["is compressed (zip)"]),
        ("run.csv.gz", gzip.compress(NCU.encode()), ["is compressed (gzip)", "unpack it first"]),
        ("run.json.gz", b"\x1f\x8b\xff\xff\xff\xff", ["is a damaged gzip file"]),
        ("run.csv", b"a,b\n1,2\n", ["no line is the header of a known table", "What can be read"]),
        ("run.csv", b"==ERROR== ERR_NVGPUCTRPERM\n", ["printed no table, but an error", "ERR_NVGPUCTRPERM"]),
        ("cut.sqlite", b"SQLite format 3\0\x10\0", ["cut.sqlite", "truncated or damaged"]),
    ],
)  # fmt: skip
def test_what_is_not_read(name: str, content: bytes, words: list[str], tmp_path: Path) -> None:
    """One error in a line, with the file and the way out."""
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        read_trace(path)
    assert all(word in str(error.value) for word in [name, *words]), error.value
    assert "\n" not in str(error.value)


def test_no_file_a_folder_and_a_pipe(tmp_path: Path) -> None:
    """None of them is a trace."""
    with pytest.raises(InputError, match="no such file"):
        read_trace(tmp_path / "none.json")
    with pytest.raises(InputError, match="is a folder; a profiler trace is needed"):
        read_trace(tmp_path)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    descriptor = os.open(pipe, os.O_RDWR)  # so that neither end waits for the other
    try:
        with pytest.raises(InputError, match="is a pipe; save the trace to a file first"):
            read_trace(pipe)
    finally:
        os.close(descriptor)
