"""Read a profiler's trace whatever its format."""

from __future__ import annotations

import zlib
from pathlib import Path

from roofline import files
from roofline.errors import SpecError
from roofline.measure.profile import kineto, nsight_compute, nsight_systems
from roofline.measure.profile.csv_tables import open_table
from roofline.measure.profile.trace import Trace

_HEAD = 2**12
_READABLE = (
    "What can be read: Chrome traces of the PyTorch profiler (.json, .json.gz), SQLite exports of Nsight Systems (nsys export "
    "--type sqlite), CSV of nsys stats --report cuda_gpu_trace, and CSV of Nsight Compute (ncu --csv --page raw)"
)
_NSYS_EXPORT = "nsys export --type sqlite --output {stem}.sqlite {name}"
_EXPORTS = {
    ".nsys-rep": ("a report of Nsight Systems", _NSYS_EXPORT),
    ".qdrep": ("a report of Nsight Systems", _NSYS_EXPORT),
    ".qdstrm": ("a raw stream of Nsight Systems", "QdstrmImporter --input-file {name}, and then the export"),
    ".ncu-rep": ("a report of Nsight Compute", "ncu --import {name} --csv --page raw > {stem}.csv"),
}
"""Binary reports by their suffix: what they are, and the command that makes a file of them that can be read."""
_MAGIC = {b"NVR\0": ".ncu-rep"}
_PACKED = {b"PK\x03\x04": "zip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2", b"\xfd7zXZ": "xz"}


def read_trace(path: str | Path, progress: kineto.Progress | None = None) -> Trace:
    """Read a trace of the PyTorch profiler, of Nsight Systems or of Nsight Compute. The content tells which.

    Args:
        path: a Chrome trace in JSON, gzip-compressed or not; a SQLite export or a CSV of Nsight Systems; a CSV of Nsight
            Compute.
        progress: called with the MB read, and of all, while a Chrome trace is read.

    Raises:
        SpecError: no such file, a folder or a pipe, empty, of an unknown format, a binary report (with the command that
            exports it), damaged, or without kernels.
    """
    path = Path(path)
    with files.open_input(path, kineto.MAX_BYTES, "a profiler trace") as file:
        if not file.seekable():
            raise SpecError(f"is a pipe; save the trace to a file first. {_READABLE}", path=path)
        head = file.read(_HEAD)
    if not head:
        raise SpecError("the file is empty", path=path)
    suffix = next((suffix for magic, suffix in _MAGIC.items() if head.startswith(magic)), path.suffix.lower())
    if suffix in _EXPORTS:
        what, command = _EXPORTS[suffix]
        export = command.format(name=path.name, stem=path.stem)
        raise SpecError(f"is {what}, which only NVIDIA's tools read. Export it first: {export}", path=path)
    if head.startswith(nsight_systems.MAGIC):
        return nsight_systems.read_nsight_systems(path)
    packed = next((name for magic, name in _PACKED.items() if head.startswith(magic)), None)
    if packed is not None:
        raise SpecError(f"is compressed ({packed}); unpack it first", path=path)
    content = _unpacked(path, head)
    if content.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"["):
        return kineto.read_kineto(path, progress)
    if content is not head:
        raise SpecError("is compressed (gzip), and holds no JSON; unpack it first if it is a CSV or SQLite export", path=path)
    return _read_text(path, head)


def _unpacked(path: Path, head: bytes) -> bytes:
    """The start of the content of a gzip file; of others the start itself."""
    if not head.startswith(b"\x1f\x8b"):
        return head
    try:
        return zlib.decompressobj(wbits=31).decompress(head, _HEAD)
    except zlib.error as error:
        raise SpecError(f"is a damaged gzip file ({error})", path=path) from None


def _read_text(path: Path, head: bytes) -> Trace:
    is_utf16 = head.startswith((b"\xff\xfe", b"\xfe\xff"))
    if b"\0" in head and not is_utf16:
        raise SpecError(f"is a binary file of a format that is not read. {_READABLE}", path=path)
    headers = (nsight_compute.is_header, nsight_systems.is_timeline, nsight_systems.is_summary)
    with open_table(path, lambda cells: any(is_header(cells) for is_header in headers)) as table:
        header, errors = table.header, table.errors
    if nsight_compute.is_header(header) or (not header and errors):
        return nsight_compute.read_nsight_compute(path)  # which reports the errors
    if header:
        return nsight_systems.read_nsight_systems(path)
    raise SpecError(f"is no trace that can be read: no line is the header of a known table. {_READABLE}", path=path)
