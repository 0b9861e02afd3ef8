"""Reading with a limit, and writing whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from roofline import files
from roofline.errors import InputError, SpecError

needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes in its folders")


def _fed(path: Path, content: bytes) -> threading.Thread:
    """A pipe into which a thread writes once."""
    os.mkfifo(path)

    def feed() -> None:
        with suppress(BrokenPipeError):  # the reader has seen enough
            path.write_bytes(content)

    thread = threading.Thread(target=feed)
    thread.start()
    return thread


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("none", "none: no such file"),
        ("file/inside", "file/inside: no such file: a part of its path is no folder"),
        ("x" * 300, "x: no such file: no name is that long"),
        ("null\0", "cannot be read: its name has a null character"),
        (".", "is a folder; a trace is needed"),
        ("large", "has 11 bytes; of a trace at most 10 are read"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, name: str, said: str) -> None:
    """One message each, with the path; nothing is said of writing."""
    (tmp_path / "file").touch()
    (tmp_path / "large").write_bytes(b"12345678901")
    with pytest.raises(SpecError, match=re.escape(said)) as caught:
        files.read_bytes(tmp_path / name, 10, "a trace")
    assert caught.value.path == tmp_path / name
    assert not files.is_file(tmp_path / name) or name == "large"
    assert "write" not in str(caught.value)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no such device")
def test_a_device() -> None:
    """It has no end."""
    with pytest.raises(SpecError, match="/dev/zero: is a device, not a regular file; a trace is needed"):
        files.read_bytes(Path("/dev/zero"), 10, "a trace")


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="this system has no /proc")
def test_the_limit_holds_where_the_size_is_not_known() -> None:
    """A file of /proc says that it has no bytes, and has some."""
    assert Path("/proc/self/maps").stat().st_size == 0
    with pytest.raises(SpecError, match="has more than 100 bytes; of a file at most 100 are read"):
        files.read_bytes(Path("/proc/self/maps"), 100)


@needs_pipes
def test_a_pipe(tmp_path: Path) -> None:
    """Read once, known for the command that read it; beyond the limit it is refused."""
    thread = _fed(tmp_path / "pipe", b"hello")
    with files.run():
        assert files.read_bytes(tmp_path / "pipe", 10) == b"hello"
        thread.join()
        assert files.read_text(tmp_path / "pipe", 10) == "hello"
    thread = _fed(tmp_path / "long", b"x" * 2**21)
    with pytest.raises(SpecError, match="has more than 1,048,576 bytes"):
        files.read_bytes(tmp_path / "long", 2**20)
    thread.join()


def test_inputs_are_known_within_a_run_alone(tmp_path: Path) -> None:
    """By any name of the file; not after the run, not those that were only looked into or were given up."""
    path = tmp_path / "input"
    path.write_text("old")
    (tmp_path / "link").symlink_to(path)
    with files.run(), files.run():  # a part of the outer one
        files.read_text(tmp_path / "link", 10, "a trace")
        with pytest.raises(InputError, match="input: it is a trace that this command reads; it would be overwritten"):
            files.write_whole(path, b"new")
        files.note_input(path, "the trace of the run")
        files.read_text(path, 10, "a trace")
        with pytest.raises(InputError, match="it is the trace of the run that"):
            files.check_target(tmp_path / "link")
        files.release(path)
        files.write_whole(path, b"new")
        assert files.read_text(path, 10, is_input=False) == "new"
        files.write_whole(path, b"newer")
        files.read_text(path, 10)
    files.write_whole(path, b"newest")
    assert path.read_text() == "newest"


def test_an_input_that_is_read_while_the_result_is_written(tmp_path: Path) -> None:
    """It is known at the end, and is what it was."""
    path = tmp_path / "input"
    path.write_text("old")

    def both() -> None:
        with files.run(), files.writing(path) as file:
            file.write(b"new")
            files.read_text(path, 10)

    with pytest.raises(InputError, match="it would be overwritten"):
        both()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, MemoryError])
def test_whatever_ends_it_early(tmp_path: Path, error: type[BaseException]) -> None:
    """No file beside the old one, which stays; the error is its own."""
    path = tmp_path / "result"
    path.write_text("old")

    def half() -> None:
        with files.writing(path) as file:
            file.write(b"x" * 10**6)
            raise error

    with pytest.raises(error):
        half()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("size", [10, 10**6], ids=["at the end", "on the way"])
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """The message names the file that was asked for, and nothing is left."""

    def full(file: files._Output, data: bytes) -> int:
        with files._naming(file._path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files._Output, "write", full)
    with pytest.raises(InputError, match=re.escape(f"cannot write {tmp_path / 'result'}: No space left on device")):
        files.write_whole(tmp_path / "result", b"x" * size)
    assert list(tmp_path.iterdir()) == []


def test_errors_of_other_files_are_their_own(tmp_path: Path) -> None:
    """What fails within the block and is not the writing is not called so."""

    def other() -> None:
        with files.writing(tmp_path / "result"):
            (tmp_path / "none").read_text()

    with pytest.raises(FileNotFoundError):
        other()
    assert list(tmp_path.iterdir()) == []


def test_long_names_and_permissions(tmp_path: Path) -> None:
    """A name of 255 bytes, of which one beside it could not be longer; and what `umask` leaves."""
    path = tmp_path / ("x" * 255)
    files.write_whole(path, b"new")
    (tmp_path / "other").touch()
    assert path.stat().st_mode == (tmp_path / "other").stat().st_mode
    with pytest.raises(InputError, match="File name too long"):
        files.write_whole(tmp_path / ("x" * 256), b"new")


def test_what_a_run_wrote_itself_it_may_read_and_write_again(tmp_path: Path) -> None:
    """As `bench run` does with the machine that it measures: the file is its result, not its input."""
    place = tmp_path / "hardware.yaml"
    with files.run():
        files.write_whole(place, b"first")
        assert files.read_bytes(place, 100) == b"first"
        files.write_whole(place, b"second")
    assert place.read_bytes() == b"second"


# Parquet


@pytest.fixture
def packed(tmp_path: Path) -> Callable[..., Path]:
    """Writes a table of columns as Parquet, compressed."""
    pa = pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
    pq = pytest.importorskip("pyarrow.parquet")

    def write(columns: dict[str, Any], **options: Any) -> Path:
        path = tmp_path / "t.parquet"
        pq.write_table(pa.table(columns), path, compression="zstd", **options)
        return path

    return write


def parquet(path: Path, **options: Any) -> Any:
    """The table in a file."""
    with files.open_input(path, 2**20) as file:
        return files.read_parquet(file, path, **options)


def test_parquet_is_as_it_was_written(packed: Callable[..., Path]) -> None:
    """Types, missing values and categories too; texts in lists are left out, numbers in them are not."""
    pa = pytest.importorskip("pyarrow")
    columns = {
        "count": [1, None, 3],
        "name": ["a", "a", None],
        "kind": pa.array(["x", "x", "y"]).dictionary_encode(),
        "blocks": [[1, 2], [], None],
        "tags": [["p"], [], None],
    }
    table = parquet(packed(columns))
    assert table.to_pydict() == {name: pa.array(column).to_pylist() for name, column in columns.items() if name != "tags"}
    assert pa.types.is_string(table.schema.field("name").type)
    assert pa.types.is_dictionary(table.schema.field("kind").type)


def test_parquet_with_too_many_rows(packed: Callable[..., Path]) -> None:
    """A row more than is allowed."""
    path = packed({"a": range(5)})
    assert parquet(path, max_rows=5).num_rows == 5
    with pytest.raises(SpecError, match="has 5 rows; at most 4 are read"):
        parquet(path, max_rows=4)


def test_parquet_that_unpacks_to_far_more(packed: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Four million equal numbers are 18 kB. The limits are lowered to a million, and 100 a byte."""
    import numpy as np

    path = packed({"a": np.zeros(4_000_000, np.int64)}, row_group_size=4_000_000)
    assert path.stat().st_size < 4_000_000 / 100
    assert parquet(path).num_rows == 4_000_000
    monkeypatch.setattr(files, "_FREE_VALUES", 1_000_000)
    monkeypatch.setattr(files, "_VALUES_PER_BYTE", 100)
    with pytest.raises(SpecError, match="which unpack to 4,000,000 values"):
        parquet(path)


def test_parquet_with_one_long_text_in_every_row(packed: Callable[..., Path]) -> None:
    """100,000 rows of one text of 30,000 characters, 3 GB in memory: it is there once, and known to be too long before."""
    pa = pytest.importorskip("pyarrow")
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 100_000, pa.int32()), ["x" * 30_000])
    path = packed({"session_id": text}, store_schema=False)
    assert path.stat().st_size < 10_000
    with pytest.raises(SpecError, match="'session_id': its texts have 3,000,000,000 bytes"):
        parquet(path)


def test_parquet_with_a_column_twice(tmp_path: Path) -> None:
    """Texts or numbers."""
    pa = pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
    pq = pytest.importorskip("pyarrow.parquet")
    for values in (["x"], [1]):
        pq.write_table(pa.table([pa.array(values)] * 2, names=["a", "a"]), tmp_path / "t.parquet")
        with pytest.raises(SpecError, match="column 'a' is there more than once"):
            parquet(tmp_path / "t.parquet")


def test_no_parquet(tmp_path: Path) -> None:
    """Said of what ends early and of what is something else."""
    pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
    for content in (b"PAR1", b"PAR1PAR1PAR1", b"a,b\n1,2\n"):
        (tmp_path / "t.parquet").write_bytes(content)
        with pytest.raises(SpecError, match="is no Parquet file, or a truncated one"):
            parquet(tmp_path / "t.parquet")


def test_what_a_killed_process_left(tmp_path: Path) -> None:
    """Half a file goes; one that is being written, one of another name, and what a user has named so stay."""
    pytest.importorskip("fcntl", reason="this system has no locks of this kind")
    stale, other, own = (tmp_path / name for name in (".out[1].json.0badc0de", ".out1.json.0badc0de", ".out[1].json.backup00"))
    for path in (stale, other, own):
        path.write_text("half", encoding="utf-8")
    target = tmp_path / "out[1].json"
    with files.writing(target) as file:
        file.write(b"whole")
        files.remove_stale_of(target)
        assert len(list(tmp_path.iterdir())) == 3  # the one that is written, and two that stay
    assert target.read_bytes() == b"whole"
    assert sorted(tmp_path.iterdir()) == sorted([other, own, target])


def test_removed_between_its_making_and_its_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process took the temporary file for a stale one: a second is made, and nothing is lost."""
    taken: list[Path] = []

    def take(descriptor: int, *, wait: bool = False) -> None:
        del descriptor, wait
        if not taken:
            taken.extend(tmp_path.iterdir())
            taken[0].unlink()

    monkeypatch.setattr(files, "lock", take)
    files.write_whole(tmp_path / "out.json", b"whole")
    assert len(taken) == 1
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"whole"]
