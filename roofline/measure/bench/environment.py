"""`environment.json`: on what, with what, and when the records of a folder were made."""

from __future__ import annotations

import json
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from roofline import files
from roofline.errors import InputError
from roofline.measure.bench.devices.base import Device
from roofline.version import __version__

FILE = "environment.json"
MAX_BYTES = 2**26
_LIBRARIES = (
    *("torch", "numpy", "triton", "nvidia-ml-py"),
    *(f"nvidia-{name}{major}" for name in ("cudnn", "cublas", "nccl") for major in ("", "-cu12", "-cu13")),
)


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Environment:
    """The environment of a folder: what stays the same, and one entry a run. Written anew at each change."""

    def __init__(self, folder: Path, device: Device, gpu: str) -> None:
        self.path = folder / FILE
        self.device = device
        before = self._before()
        self.content: dict[str, Any] = {
            "schema_version": 1,
            "roofline": __version__,
            "gpu": gpu,
            "device": device.facts(),
            "host": {"system": platform.system(), "machine": platform.machine(), "libc": " ".join(platform.libc_ver())},
            "python": platform.python_version(),
            "libraries": {name: found for name in _LIBRARIES if (found := _version(name))},
            "noise": before.get("noise") or device.noise(),
            "suspects": before.get("suspects", []),
            "runs": before.get("runs", []),
        }

    @property
    def suspects(self) -> list[str]:
        """Points in which a run died."""
        return list(self.content["suspects"])

    def suspect(self, point: str) -> None:
        """A run died in a point."""
        if point not in self.content["suspects"]:
            self.content["suspects"].append(point)

    def _before(self) -> dict[str, Any]:
        try:
            found = json.loads(files.read_text(self.path, MAX_BYTES, is_input=False)) if files.exists(self.path) else {}
        except (InputError, ValueError):
            found = None
        if not isinstance(found, dict) or not _all(found.get("runs", []), dict) or not _all(found.get("suspects", []), str):
            msg = f"{self.path}: is not the environment of a run; move it away, or name another folder"
            raise InputError(msg)
        return found

    def begin(self, arguments: dict[str, Any], points: int) -> None:
        """A run starts."""
        for earlier in self.content["runs"]:
            if earlier.get("outcome") == "running":  # one run at a time has the folder: that one is dead
                earlier["outcome"] = "killed"
        run = {"started": now(), "ended": None, "outcome": "running", **arguments, "points": points, "records": 0}
        self.content["runs"].append(run | {"before": self.device.state(), "after": None, "not_run": []})
        self.write()

    def end(self, outcome: str, records: int, not_run: list[dict[str, str]]) -> None:
        """A run ends: done, budget, interrupted, failed."""
        self.content["runs"][-1] |= {
            "ended": now(),
            "outcome": outcome,
            "records": records,
            "after": self.device.state(),
            "not_run": not_run,
        }
        self.write()

    def write(self) -> None:
        """All of it, at once."""
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
