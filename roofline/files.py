"""The one door to a user's files.

Inputs are read here, and never more of them than a limit. Results are written here: whole or not at all, and never over an
input of the same command.
"""

from __future__ import annotations

import errno
import glob
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from roofline.errors import InputError, MissingExtraError, SpecError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

Identity = tuple[int, int]
"""Device and inode: the same for every name of a file."""

_CHUNK = 2**20
_NO_FILE = {
    errno.ENOENT: "no such file",
    errno.ENOTDIR: "no such file: a part of its path is no folder",
    errno.ENAMETOOLONG: "no such file: no name is that long",
}


@dataclass(slots=True)
class _Run:
    """What one command has read: what each input is, and the content of pipes, which can be read only once."""

    inputs: dict[Identity, str] = field(default_factory=dict)
    written: set[Identity] = field(default_factory=set)
    """What the command has written itself: it may read that, and write it again."""
    pipes: dict[Identity, bytes] = field(default_factory=dict)


_RUN: ContextVar[_Run | None] = ContextVar("run", default=None)


@contextmanager
def run() -> Iterator[None]:
    """Mark the extent of a command: files that it reads are remembered, and `check_target` refuses to write over them.

    A `run` inside another is part of that one.
    """
    if _RUN.get() is not None:
        yield
        return
    token = _RUN.set(_Run())
    try:
        yield
    finally:
        _RUN.reset(token)


# Looking


def _stat(path: Path | str) -> os.stat_result | None:
    """The state of what is at a path, through links; None where there is nothing, also where no name can be such."""
    try:
        return Path(path).stat()
    except (OSError, ValueError):  # a name with a null character is a ValueError
        return None


def exists(path: Path | str) -> bool:
    """Return whether there is something at a path; False also for text that cannot be a path."""
    return _stat(path) is not None


def is_file(path: Path | str) -> bool:
    """Return whether there is a regular file at a path, links followed."""
    return (state := _stat(path)) is not None and stat.S_ISREG(state.st_mode)


def is_folder(path: Path | str) -> bool:
    """Return whether there is a folder at a path, links followed."""
    return (state := _stat(path)) is not None and stat.S_ISDIR(state.st_mode)


def _is_pipe(path: Path | str) -> bool:
    """Whether there is a pipe at a path, such as `/dev/stdin` or what a shell's `<(...)` stands for."""
    return (state := _stat(path)) is not None and stat.S_ISFIFO(state.st_mode)


def identity(path: Path | str) -> Identity | None:
    """Return device and inode of the file at a path, the same for all its names; None where there is none."""
    return None if (state := _stat(path)) is None else (state.st_dev, state.st_ino)


def _special(mode: int) -> str | None:
    """What is neither a regular file nor a folder, by its name."""
    kinds = ((stat.S_ISFIFO, "pipe"), (stat.S_ISSOCK, "socket"), (stat.S_ISCHR, "device"), (stat.S_ISBLK, "device"))
    return next((name for test, name in kinds if test(mode)), None)


# Reading


def note_input(path: Path | str, what: str) -> None:
    """Record that the command reads a file, so that it is not written over.

    Args:
        path: of the file; one that the command has written itself is not recorded.
        what: what the file is, with its article, such as "a trace"; messages say it.
    """
    if (current := _RUN.get()) is not None and (key := identity(path)) is not None and key not in current.written:
        current.inputs[key] = what


def note_read(path: Path, what: str) -> None:
    """Record that the command reads a file, unless a more specific `note_input` has been made; same arguments."""
    if (current := _RUN.get()) is not None and (key := identity(path)) is not None and key not in current.written:
        current.inputs.setdefault(key, what)


def release(path: Path | str) -> None:
    """Remove a file from the record: the command may write it, for it was only looked into."""
    if (current := _RUN.get()) is not None and (key := identity(path)) is not None:
        current.inputs.pop(key, None)


def begins_with(path: Path, start: bytes) -> bool:
    """Return whether a regular file begins with these bytes; False for anything else, and where it cannot be read."""
    if not is_file(path):
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(start)) == start
    except OSError:
        return False


def read_bytes(path: Path, limit: int, what: str = "a file", *, is_input: bool = True) -> bytes:
    """Return the content of a file or pipe. Within one `run` a pipe can be read repeatedly.

    Args:
        path: of the file.
        limit: bytes; a larger file is refused.
        what: what is read, for messages, with its article.
        is_input: whether the command must not write over it; False for files that it keeps itself, or only looks into.

    Raises:
        SpecError: no such file, a folder, a device, larger than the limit, cannot be read.
    """
    current, key = _RUN.get(), identity(path)
    if current is not None and key in current.pipes:
        return current.pipes[key]
    parts = []
    with open_input(path, limit, what, is_input=is_input) as file:
        size = 0 if (state := _stat(path)) is None else state.st_size
        while part := file.read(max(size + 1, _CHUNK)):
            parts.append(part)
    content = b"".join(parts)
    if current is not None and key is not None and _is_pipe(path):
        current.pipes[key] = content
    return content


def read_text(path: Path, limit: int, what: str = "a text file", *, is_input: bool = True, encoding: str = "utf-8") -> str:
    """Return the text of a file or pipe; arguments as of `read_bytes`.

    Raises:
        SpecError: as `read_bytes`, and where the content is not text in `encoding`.
    """
    try:
        return read_bytes(path, limit, what, is_input=is_input).decode(encoding)
    except UnicodeDecodeError:
        raise SpecError(f"is not a text file (UTF-8); {what} is needed", path=path) from None


@contextmanager
def open_input(path: Path, limit: int, what: str = "a file", *, is_input: bool = True) -> Iterator[io.BufferedReader]:
    """Open a file or pipe to read bytes from; arguments and errors as of `read_bytes`, the limit applies while reading."""
    file: io.BufferedReader = io.BufferedReader(_Input(path, limit, what), _CHUNK)
    with file:
        if is_input:
            note_read(path, what)
        yield file


@contextmanager
def open_again(path: Path, limit: int, what: str = "a file") -> Iterator[IO[bytes]]:
    """Open a file or pipe as `open_input`; within one `run` also a pipe can be opened repeatedly, which is held in memory."""
    if _is_pipe(path):
        yield io.BytesIO(read_bytes(path, limit, what))
    else:
        with open_input(path, limit, what) as file:
            yield file


def _too_large(path: Path, size: str, limit: int, what: str) -> SpecError:
    return SpecError(f"has {size} bytes; of {what} at most {limit:,} are read", path=path)


class _Input(io.RawIOBase):
    """A file of which at most `limit` bytes are read, whatever size the system reports."""

    def __init__(self, path: Path, limit: int, what: str) -> None:
        self._path, self._limit, self._what, self._count = path, limit, what, 0
        self._file: io.FileIO | None = None
        try:
            state = path.stat()
            if stat.S_ISDIR(state.st_mode):
                raise SpecError(f"is a folder; {what} is needed", path=path)
            if (kind := _special(state.st_mode)) not in (None, "pipe"):
                raise SpecError(f"is a {kind}, not a regular file; {what} is needed", path=path)
            if state.st_size > limit:
                raise _too_large(path, f"{state.st_size:,}", limit, what)
            self._file = io.FileIO(path)
        except (OSError, ValueError) as error:
            raise self._failed(error) from None

    def _failed(self, error: OSError | ValueError) -> SpecError:
        if isinstance(error, OSError) and error.errno in _NO_FILE:
            return SpecError(_NO_FILE[error.errno], path=self._path)
        why = "its name has a null character" if isinstance(error, ValueError) else error.strerror or error
        return SpecError(f"cannot be read: {why}", path=self._path)

    @property
    def _open(self) -> io.FileIO:
        assert self._file is not None  # noqa: S101 - narrows the type: it was opened
        return self._file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._open.seekable()

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        return self._open.seek(offset, whence)

    def tell(self) -> int:
        return self._open.tell()

    def readinto(self, buffer: WriteableBuffer, /) -> int | None:
        try:
            size = self._open.readinto(buffer)
        except OSError as error:
            raise self._failed(error) from None
        # a file may grow, a pipe has no size, and neither have the files of /proc
        self._count = self.tell() if self.seekable() else self._count + (size or 0)
        if self._count > self._limit:
            raise _too_large(self._path, f"more than {self._limit:,}", self._limit, self._what)
        return size

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        super().close()


# Parquet, which packs: a few kB can stand for billions of equal values, or for one long text in each of them

MAX_PARQUET_ROWS = 2**26
_MAX_VALUES, _FREE_VALUES, _VALUES_PER_BYTE = 2**31, 2**27, 256
_FREE_UNPACKED, _MAX_RATIO = 2**30, 300
_MAX_TEXT = 2**31


def read_parquet(file: IO[bytes], path: Path, *, max_rows: int = MAX_PARQUET_ROWS) -> Any:
    """Return the content of a Parquet file as a PyArrow table, if memory holds it.

    Texts inside lists and structures are left out: no table that is read here has any.

    Args:
        file: open and seekable, as of `open_input`.
        path: of the file, for messages.
        max_rows: rows; more are refused.

    Raises:
        SpecError: no Parquet, a damaged file, or one that unpacks to more than a file of its size may.
        MissingExtraError: PyArrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError("reading Parquet", "parquet") from None
    try:
        about = pq.read_metadata(file)
        if about.num_rows > max_rows:
            raise SpecError(f"has {about.num_rows:,} rows; at most {max_rows:,} are read", path=path)
        _check_unpacked(about, file.seek(0, os.SEEK_END), path)
        schema = about.schema.to_arrow_schema()
        if len(set(schema.names)) < len(schema.names):
            twice = next(name for index, name in enumerate(schema.names) if name in schema.names[:index])
            raise SpecError(f"column {twice!r:.60} is there more than once", path=path)
        columns = [about.schema.column(index) for index in range(about.num_columns)]
        nested = {
            one.path.partition(".")[0] for one in columns if one.physical_type == "BYTE_ARRAY" and one.path not in schema.names
        }
        chosen = [name for name in schema.names if name not in nested]
        texts = [one.path for one in columns if one.physical_type == "BYTE_ARRAY" and one.path in chosen]
        texts = [name for name in texts if _is_text(pa.types, schema.field(name).type)]
        # each text once, not once a row, until their length is known
        table = pq.read_table(file, columns=chosen if nested else None, read_dictionary=texts)
        for name in texts:
            _check_texts(table.column(name), name, path)
        return table.cast(pa.schema([schema.field(name) for name in table.column_names], table.schema.metadata))
    except (pa.ArrowException, OSError) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise SpecError(f"is no Parquet file, or a truncated one ({why:.120})", path=path) from None


def _is_text(types: Any, kind: Any) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind))


def _check_unpacked(about: Any, size: int, path: Path) -> None:
    """Refuse a Parquet file that would be too large in memory, by its own description."""
    groups = [about.row_group(index) for index in range(about.num_row_groups)]
    values = sum(group.column(index).num_values for group in groups for index in range(group.num_columns))
    unpacked = sum(group.total_byte_size for group in groups)
    if values > min(_MAX_VALUES, max(_FREE_VALUES, _VALUES_PER_BYTE * size)) or unpacked > max(
        _FREE_UNPACKED, _MAX_RATIO * size
    ):
        raise SpecError(
            f"has {size:,} bytes, which unpack to {values:,} values in {unpacked:,} bytes: far more than tables of measured or "
            "computed numbers do",
            path=path,
        )


def _check_texts(column: Any, name: str, path: Path) -> None:
    """Refuse a column of a Parquet file whose texts, repeated in its rows, would be too long in memory."""
    import pyarrow.compute as pc

    length = 0
    for chunk in column.chunks:
        length += pc.sum(pc.take(pc.binary_length(chunk.dictionary), chunk.indices)).as_py() or 0
    if length > _MAX_TEXT:
        raise SpecError(f"column {name!r:.60}: its texts have {length:,} bytes; at most {_MAX_TEXT:,} are read", path=path)


# Writing


def check_target(path: Path) -> Path:
    """Return the file that a result would be written to: the path with links resolved.

    Raises:
        InputError: no such folder, or one that is read-only; a folder, a pipe or a device; an input of this command.
    """
    try:
        state = path.stat()
    except FileNotFoundError:
        state = None
    except (OSError, ValueError) as error:
        raise _refused(path, error) from None
    if state is not None:
        if stat.S_ISDIR(state.st_mode):
            raise InputError(f"cannot write {path}: it is a folder")
        if (kind := _special(state.st_mode)) is not None:
            raise InputError(f"cannot write {path}: it is a {kind}, not a regular file")
        current = _RUN.get()
        if current is not None and (what := current.inputs.get((state.st_dev, state.st_ino))) is not None:
            raise InputError(f"cannot write {path}: it is {what} that this command reads; it would be overwritten")
    target = path.resolve()
    if not is_folder(target.parent):
        raise InputError(f"cannot write {path}: there is no folder {path.parent} ({os.strerror(errno.ENOENT)})")
    if not os.access(target.parent, os.W_OK):
        raise InputError(f"cannot write {path}: the folder {path.parent} is read-only ({os.strerror(errno.EACCES)})")
    return target


def _refused(path: Path, error: OSError | ValueError) -> InputError:
    return InputError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}")


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Errors of the system as errors of writing a file."""
    try:
        yield
    except OSError as error:
        raise _refused(path, error) from None


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """Open a binary file to write to, which appears at its path whole or not at all.

    The bytes go to a temporary file in the same folder, which is renamed at the end. If the block is left early, it is removed
    and an older file stays as it was. A link stays a link, and the file that it points to is written.

    Raises:
        InputError: a place that `check_target` refuses; an error of the system, such as a full disk.
    """
    target = check_target(path)
    raw: _Output | None = None
    # the name is known before the file is there, so that it can be removed whenever a signal comes
    temporary = _temporary(target)
    try:
        with _naming(path):
            raw = _Output(path, temporary, _mode(target))
            if not exists(temporary):  # `remove_stale` of another process came between its making and its lock
                raw.close()
                temporary = _temporary(target)
                raw = _Output(path, temporary, _mode(target))
        file = io.BufferedWriter(raw, 2**16)
        yield file
        file.flush()
        with _naming(path):
            os.fsync(raw.fileno())
            raw.close()
            check_target(path)  # what was read meanwhile counts too
            temporary.replace(target)
            if (current := _RUN.get()) is not None and (key := identity(target)) is not None:
                current.written.add(key)
    finally:
        if raw is not None:
            with suppress(OSError):
                raw.close()  # first, so that the buffer is not written once more
        temporary.unlink(missing_ok=True)


_NAME = 60
"""Characters of a file's name that are in that of its temporary file: more could be too long together."""


def _temporary(target: Path) -> Path:
    return target.with_name(f".{target.name[:_NAME]}.{os.urandom(4).hex()}")


def remove_stale(folder: Path, pattern: str) -> None:
    """Remove temporary files of `writing` whose process was killed, or went down with its machine.

    One that a process still writes to is locked, and stays. Files that cannot be removed stay without a word.

    Args:
        folder: of the files that were to be written.
        pattern: their names, as of `fnmatch`.
    """
    with suppress(OSError):
        for path in folder.glob(f".{pattern}.{'[0-9a-f]' * 8}"):
            with suppress(OSError), path.open("rb") as file:
                lock(file.fileno())
                path.unlink()


def remove_stale_of(path: Path) -> None:
    """Remove temporary files that were to become this file, as `remove_stale`."""
    target = path.resolve()
    remove_stale(target.parent, glob.escape(target.name[:_NAME]))


def lock(descriptor: int, *, wait: bool = False) -> None:
    """Lock an open file against other processes until it is closed. Where the system has no `fcntl` nothing happens.

    Args:
        descriptor: of the file.
        wait: whether to wait for another process that has locked it.

    Raises:
        BlockingIOError: another process has locked it, and `wait` is False.
        OSError: the file system has no locks.
    """
    try:
        import fcntl
    except ImportError:
        return
    fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def _mode(target: Path) -> int | None:
    """Permissions of the file that is replaced; None where there is none."""
    return None if (state := _stat(target)) is None else stat.S_IMODE(state.st_mode)


class _Output(io.FileIO):
    """A new file, whose errors name the one that it becomes."""

    def __init__(self, path: Path, temporary: Path, mode: int | None) -> None:
        self._path = path
        super().__init__(temporary, "xb")
        with suppress(OSError):  # a file system without locks
            lock(self.fileno(), wait=True)
        if mode is not None:
            temporary.chmod(mode)

    def write(self, data: ReadableBuffer, /) -> int:
        with _naming(self._path):
            return super().write(data)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file at once, whole or not at all.

    Raises:
        InputError: as of `writing`.
    """
    with writing(path) as file:
        file.write(data)
