"""The machine: `hardware.yaml`, made of the best rates that its records show, and `environment.json`, on what and with what
the records of a folder were made."""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from roofline import files
from roofline.cost import ZERO
from roofline.documents import __version__
from roofline.errors import InputError
from roofline.measure.bench.devices import Device
from roofline.measure.bench.point import PACKAGES
from roofline.measure.bench.records_file import RECORDS_FILE
from roofline.measure.records.columns import COLUMNS, dtypes
from roofline.measure.records.ops import RECORD_OPS, Call
from roofline.measure.records.read import read
from roofline.specs.hardware import MATRIX_DTYPES
from roofline.specs.library import by_driver_name, load_hardware

HARDWARE_FILE = "hardware.yaml"
_MATRIX_OPS = ("gemm", "bmm", "attention_prefill", "attention_decode", "mla_prefill", "mla_decode")
_LONG = 64 * 2**20  # bytes of a transfer whose latency no longer matters


def shipped_id(device: Device) -> str | None:
    """The id of the shipped accelerator with the device's driver name; None where there is none.

    NB: a slice of a card (MIG) has a driver name of its own, and is not the card.
    """
    return by_driver_name(device.name)


def gpu_id(device: Device) -> str:
    """The value of the column `gpu` in records of a device: the shipped id, or that of the hardware.yaml next to them."""
    return shipped_id(device) or measured_id(device)


def measured_id(device: Device) -> str:
    """The id of a device in the hardware.yaml that `write_hardware` writes."""
    return f"{device.slug}-measured"


@dataclass(slots=True)
class _Ceilings:
    """The best rates of a folder: FLOP/s by dtype, bytes/s of memory, of the link to the host and of that to other ranks."""

    peaks: dict[str, float] = field(default_factory=dict)
    bandwidth: float = 0.0
    host_link: float = 0.0
    link: float = 0.0
    ceilings: bool = False
    """Whether there are square GEMMs among the records: those of operators alone are no peak."""


def _best_rates(folder: Path) -> _Ceilings:
    """The best rates in the records of a folder, by the fastest tenth of each point's samples.

    Raises:
        InputError: if the folder has no records.
    """
    best = _Ceilings()
    for row in read([folder / RECORDS_FILE]).frame.to_dict("records"):
        seconds = (row["latency_p10_us"] if row["latency_p10_us"] > 0 else row["latency_us"]) * 1e-6
        if row["op"] in _MATRIX_OPS and (unit := dtypes(row["dtype"]).matrix) in MATRIX_DTYPES:
            rate = _cost(row).matrix_flops / seconds  # NB: of a host without units for bf16, int4 weights may be faster
            best.peaks[unit] = max(best.peaks.get(unit, 0.0), rate)
            best.ceilings |= row["op"] == "gemm" and row["m"] == row["n"] == row["k"]
        elif row["op"] in ("copy_d2d", "add") and row["cache"] == "cold":
            best.bandwidth = max(best.bandwidth, _cost(row).bytes / seconds)
        elif row["op"] in ("copy_h2d", "copy_d2h") and row["pinned"] == "true" and row["bytes"] >= _LONG and not row["kernel"]:
            best.host_link = max(best.host_link, row["bytes"] / seconds)
        elif row["world"] > 1:
            best.link = max(best.link, _cost(row).link_bytes / seconds)
    return best


def _cost(row: dict[Any, Any]) -> Any:
    numbers = {name: row[name] for name, column in COLUMNS.items() if column.kind == "count" and row[name] >= 0}
    if not row["window"] > 0:
        numbers.pop("window", None)
    operators = RECORD_OPS[row["op"]].operators(Call(dtypes(row["dtype"]), numbers, {"kernel": row["kernel"]}))
    return sum((operator.cost() * repeat for operator, repeat in operators.values()), ZERO)


def write_hardware(folder: Path, device: Device) -> bool:
    """Write the hardware.yaml of a folder: the best rates in its records, in FLOP/s and byte/s.

    Args:
        folder: with `records.csv`.
        device: which was measured; gives its name, memory and cache size.

    Returns:
        Whether it was written: not if the records have no square GEMM or no cold pass over memory yet.

    Raises:
        InputError: if the records cannot be read, or the file cannot be written.
    """
    best = _best_rates(folder)
    if not best.ceilings or not best.bandwidth:
        return False
    shipped = shipped_id(device)
    day = datetime.now(UTC).date().isoformat()

    def fact(value: str, note: str = "") -> str:
        return f"{{value: {value}, source: measured, grade: B{f', note: {json.dumps(note)}' if note else ''}}}"

    by_memory = "of the fastest cold pass (read, write, copy or add), by the p10 of its samples"
    lines = [
        "# Written by `roofline bench run` from the records beside it: the best rates that were seen, not a datasheet's.",
        "schema_version: 1",
        "kind: accelerator",
        f"name: {measured_id(device)}",
        f"title: {json.dumps(f'{device.name} (as measured)', ensure_ascii=False)}",
        f"vendor: {'nvidia' if device.kind == 'cuda' else 'host'}",
        f"architecture: {json.dumps(device.facts().get('capability') or platform.machine())}",
        *([f"aliases: [{shipped}]"] if shipped else []),
        "peak_flops:",
        *(
            f"  {dtype}: {fact(f'{best.peaks[dtype] / 1e9:.6g} GFLOP/s', 'of the fastest GEMM, by the p10 of its samples')}"
            for dtype in MATRIX_DTYPES
            if dtype in best.peaks
        ),
        "memory:",
        "  type: as measured",
        f"  label: {fact(f'{device.memory_bytes} B')}",
        f"  reported: {fact(f'{device.memory_bytes} B')}",
        f"  bandwidth: {fact(f'{best.bandwidth / 1e9:.6g} GB/s', by_memory)}",
        f"l2: {fact(f'{device.cache_bytes} B', 'last cache before memory')}",
    ]
    if best.link:
        note = "of the fastest collective, by the bytes that a ring sends"
        lines.append(f"links: [{{name: between ranks, per_direction: {fact(f'{best.link / 1e9:.6g} GB/s', note)}}}]")
    if best.host_link:
        note = "of the fastest copy from or to pinned memory"
        lines.append(f"host_link: {{name: host, per_direction: {fact(f'{best.host_link / 1e9:.6g} GB/s', note)}}}")
    lines += ["sources:", f"  measured: {{title: records.csv and environment.json in this folder, read: {day}}}"]
    files.write_whole(folder / HARDWARE_FILE, ("\n".join(lines) + "\n").encode())
    load_hardware(folder / HARDWARE_FILE)  # what we write, we can read
    return True


_ENVIRONMENT_FILE = "environment.json"
_MAX_BYTES = 2**26
_ENVIRONMENT_VERSION = 1
_LIBRARIES = (
    *("torch", "numpy", "triton", "nvidia-ml-py"),
    *(package.distribution for package in PACKAGES.values()),
    *(f"nvidia-{name}{major}" for name in ("cudnn", "cublas", "nccl") for major in ("", "-cu12", "-cu13")),
)


def now() -> str:
    """The current time in UTC to the second, in ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Environment:
    """The `environment.json` of a folder: device, host and libraries, and one entry per run.

    Args:
        folder: of the records.
        device: which is measured.
        gpu: its id in the records.

    Raises:
        InputError: if the folder has such a file with other content.
    """

    def __init__(self, folder: Path, device: Device, gpu: str) -> None:
        self.path = folder / _ENVIRONMENT_FILE
        self.device = device
        before = self._before()
        self.content: dict[str, Any] = {
            "schema_version": _ENVIRONMENT_VERSION,
            "roofline": __version__,
            "gpu": gpu,
            "device": device.facts(),
            "host": {"system": platform.system(), "machine": platform.machine(), "libc": " ".join(platform.libc_ver())},
            "python": platform.python_version(),
            "libraries": {name: installed for name in _LIBRARIES if (installed := _version(name))},
            "noise": before.get("noise") or device.noise(),
            "suspects": before.get("suspects", []),
            "runs": before.get("runs", []),
        }

    @property
    def suspects(self) -> list[str]:
        """The texts of points during which a run died."""
        return list(self.content["suspects"])

    @property
    def not_run(self) -> set[str]:
        """The texts of points that earlier runs could not run, or left out."""
        listed = [entry for run in self.content["runs"] for entry in run.get("not_run") or ()]
        return {str(entry["point"]) for entry in listed if isinstance(entry, dict) and "point" in entry}

    def suspect(self, point: str) -> None:
        """Record that a run died during a point."""
        if point not in self.content["suspects"]:
            self.content["suspects"].append(point)

    def _before(self) -> dict[str, Any]:
        try:
            content = json.loads(files.read_text(self.path, _MAX_BYTES, is_input=False)) if files.exists(self.path) else {}
        except (InputError, ValueError):
            content = None
        if (
            not isinstance(content, dict)
            or not _all(content.get("runs", []), dict)
            or not _all(content.get("suspects", []), str)
        ):
            msg = f"{self.path}: is not the environment of a run; move it away, or name another folder"
            raise InputError(msg)
        if content.get("schema_version", _ENVIRONMENT_VERSION) != _ENVIRONMENT_VERSION:
            by = f"roofline {content.get('roofline')!s:.40}"
            raise InputError(f"{self.path}: a later version has written it ({by}): update roofline, or name another folder")
        return content

    def begin(self, arguments: dict[str, Any], points: int) -> None:
        """Record the start of a run with its arguments and number of points, and write the file.

        Raises:
            InputError: if it cannot be written.
        """
        for earlier in self.content["runs"]:
            if earlier.get("outcome") == "running":  # one run at a time has the folder: that one is dead
                earlier["outcome"] = "killed"
        run = {"started": now(), "ended": None, "outcome": "running", **arguments, "points": points, "records": 0}
        self.content["runs"].append(run | {"before": self.device.state(), "after": None, "not_run": []})
        self.write()

    def end(self, outcome: str, records: int, not_run: list[dict[str, str]]) -> None:
        """Record the end of a run, and write the file.

        Args:
            outcome: "done", "budget", "interrupted" or "failed".
            records: the number of records that the run added.
            not_run: `point` and `why` of each point that could not run.

        Raises:
            InputError: if it cannot be written.
        """
        self.content["runs"][-1] |= {
            "ended": now(),
            "outcome": outcome,
            "records": records,
            "after": self.device.state(),
            "not_run": not_run,
        }
        self.write()

    def write(self) -> None:
        """Write the whole file at once.

        Raises:
            InputError: if it cannot be written.
        """
        text = json.dumps(self.content, indent=1, ensure_ascii=False, allow_nan=False)
        files.write_whole(self.path, f"{text}\n".encode())


def _all(value: Any, kind: type) -> bool:
    """Whether a value is a list of such."""
    return isinstance(value, list) and all(isinstance(entry, kind) for entry in value)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
