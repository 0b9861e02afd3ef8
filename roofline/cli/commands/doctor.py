"""`roofline doctor`: what this installation consists of, for bug reports, and what is wrong with it.

It works where other commands cannot: with dependencies that are missing or too old, or a wrong `ROOFLINE_PATH`.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata, util
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import typer

from roofline.cli.options import JsonOption, QuietOption, output_option
from roofline.cli.output import Output, Result
from roofline.cli.tables import write, write_labelled
from roofline.documents import DATA_VERSION, __version__, envelope
from roofline.errors import RooflineError
from roofline.formatting import plural
from roofline.text import clean

PACKAGE = Path(__file__).resolve().parents[2]
_NVIDIA_SMI = ("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader,nounits")
_PATIENCE = 20.0
"""Seconds for `nvidia-smi`, which takes some on a machine with many devices."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="doctor")(doctor)


def doctor(
    json: JsonOption = False,
    output: Annotated[Path | None, output_option([".json"])] = None,
    quiet: QuietOption = False,
) -> None:
    """Check this installation: versions, extras, data files, GPUs. Attach its output to a bug report."""
    document = {**envelope({}), **examine()}
    Output(json, output, quiet).emit(Result(document, None, lambda: _show(document)))


_MODULES = {"markdown-it-py": "markdown_it", "ruamel.yaml.clib": "_ruamel_yaml"}
"""Dependencies that are imported under another name."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """What the package needs: `name>=bound`, for an extra ("": always); `inside` are extras of roofline that it names."""

    name: str
    bound: str
    extra: str = ""
    inside: tuple[str, ...] = ()

    @property
    def installed(self) -> str | None:
        """The version that is installed; None without one."""
        return _version(self.name)

    @property
    def module(self) -> str:
        """The name under which it is imported."""
        return _MODULES.get(self.name, self.name.replace("-", "_"))

    @property
    def problem(self) -> str | None:
        """What is wrong with the version that is installed; None if nothing is."""
        installed = self.installed
        if installed is None:
            return f"{self.name} is not installed"
        if _release(installed) < _release(self.bound):
            return f"{self.name} {installed} is older than {self.bound}, the oldest that works"
        return None

    def __str__(self) -> str:
        return f"{self.name}>={self.bound}"


def examine() -> dict[str, Any]:
    """Return what the installation consists of, without its envelope, as `roofline doctor --json` prints it."""
    problems: list[dict[str, str | None]] = []

    def wrong(what: str, mend: str | None) -> None:
        problems.append({"problem": what, "mend": mend})

    needed = requirements()
    for entry in needed:
        if not entry.extra and (why := entry.problem or _import_error(entry)) is not None:
            wrong(why, _pip(*([] if entry.problem else ["--force-reinstall"]), str(entry)))
    extras = {name: _extra(name, needed) for name in dict.fromkeys(entry.extra for entry in needed if entry.extra)}
    old = {str(entry): entry for one in extras.values() for entry in one if entry.installed and entry.problem}
    for entry in old.values():
        wrong(f"{entry.problem} with roofline", _pip(str(entry)))
    if (message := _version("roofline")) not in (None, __version__):
        wrong(f"the code is of version {__version__}, and what pip knows of it of version {message}", _pip("-e", "."))
    data = _data(wrong)
    gpus = _gpus(wrong)
    torch = _torch()
    if torch and gpus["devices"] and torch["cuda"] is None and torch["hip"] is None:
        wrong("torch was built without CUDA: `roofline bench` cannot measure the GPU", _pip("--force-reinstall", "torch"))
    return {
        "problems": problems,
        "roofline": {"version": __version__, "data_version": DATA_VERSION, "path": str(PACKAGE), "installed": _installed()},
        "python": {
            "version": platform.python_version(), "implementation": platform.python_implementation(),
            "executable": sys.executable,
        },
        "system": {
            "platform": platform.platform(), "machine": platform.machine(),
            "stdout": getattr(sys.stdout, "encoding", None), "file_names": sys.getfilesystemencoding(),
            "environment": {name: value for name, value in sorted(os.environ.items()) if _matters(name)},
        },
        "dependencies": [_described(entry) for entry in needed if not entry.extra],
        "extras": {name: [_described(entry) for entry in entries] for name, entries in extras.items()},
        "data": data,
        "gpus": gpus,
        "torch": torch,
    }  # fmt: skip


def _import_error(entry: Requirement) -> str | None:
    """Why a dependency that is installed cannot be imported; None if it can."""
    try:
        importlib.import_module(entry.module)
    except Exception as error:  # noqa: BLE001 - what is broken raises what it likes
        return f"{entry.name} {entry.installed} cannot be imported: {type(error).__name__}: {clean(error):.200}"
    return None


def _matters(name: str) -> bool:
    return name.startswith(("ROOFLINE_", "CUDA_VISIBLE", "HIP_VISIBLE")) or name in ("PYTHONUTF8", "PYTHONIOENCODING")


def _described(entry: Requirement) -> dict[str, Any]:
    content = asdict(entry)
    return {"name": content["name"], "needed": content["bound"], "installed": entry.installed}


def _pip(*words: str) -> str:
    """The command that installs into this environment, quoted as shells of all systems take it."""
    quoted = [f'"{word}"' if re.search(r"[ <>]", word) else word for word in (sys.executable, "-m", "pip", "install", *words)]
    return " ".join(quoted)


@cache
def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _release(version: str) -> tuple[int, ...]:
    """The numbers at the start of a version, without zeros at their end: 2.11.0+cu12 is (2, 11)."""
    numbers = [int(part) for part in re.match(r"[\d.]*", version)[0].split(".") if part]  # type: ignore[index]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


# Requirements

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9._-]+)\s*(?:\[([^]]*)\])?\s*\(?(?:>=\s*([\w.]+))?\)?\s*(?:;(.*))?")
_MARKER = re.compile(r"(\w+)\s*(<=|>=|==|!=|<|>)\s*[\"']([^\"']*)[\"']")


def requirements() -> list[Requirement]:
    """Return what the package needs here: of pyproject.toml in a checkout, else of the installed metadata."""
    return [entry for extra, text in _listed() if (entry := _requirement(text, extra)) is not None]


def _listed() -> Iterator[tuple[str, str]]:
    """Requirements as text, each with its extra, as far as that is known from where it stands."""
    try:
        project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    except (OSError, ValueError, KeyError):
        project = {}
    if project.get("name") == "roofline":
        yield from (("", text) for text in project["dependencies"])
        yield from ((extra, text) for extra, listed in project["optional-dependencies"].items() for text in listed)
    elif _version("roofline"):
        yield from (("", text) for text in metadata.requires("roofline") or ())


def _requirement(text: str, extra: str) -> Requirement | None:
    """A requirement; None where its marker says that it is not for this machine.

    NB: markers are comparisons joined by `and`, which are all that pyproject.toml has; a test compares with `packaging`.
    """
    match = _REQUIREMENT.fullmatch(text)
    if match is None:
        return None
    name, inside, bound, marker = match.groups()
    here = _environment()
    for variable, comparison, value in _MARKER.findall(marker or ""):
        if variable == "extra":
            extra = value
        elif not _holds(here[variable], comparison, value):
            return None
    listed = tuple(part.strip() for part in (inside or "").split(",") if part.strip()) if name == "roofline" else ()
    return Requirement(name, bound or "0", extra, listed)


def _environment() -> dict[str, str]:
    """What markers ask for."""
    return {
        "python_version": f"{sys.version_info.major}.{sys.version_info.minor}", "sys_platform": sys.platform,
        "platform_python_implementation": platform.python_implementation(),
    }  # fmt: skip


def _holds(here: str, comparison: str, value: str) -> bool:
    one, other = (_release(here), _release(value)) if value[:1].isdigit() else (here, value)
    below, equal = one < other, one == other  # type: ignore[operator]
    return {
        "<": below, "<=": below or equal, "==": equal, "!=": not equal, ">=": not below, ">": not (below or equal)
    }[comparison]  # fmt: skip


def _extra(name: str, needed: Iterable[Requirement]) -> list[Requirement]:
    """What an extra consists of, with that of the extras which it names."""
    listed: list[Requirement] = []
    for entry in needed:
        if entry.extra == name:
            listed += [part for other in entry.inside for part in _extra(other, needed)] if entry.inside else [entry]
    return listed


def _installed() -> str:
    """How the package came here: editable, as a wheel, or not by pip at all."""
    try:
        distribution = metadata.distribution("roofline")
    except metadata.PackageNotFoundError:
        return "run from its sources, not installed"
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    if origin.get("dir_info", {}).get("editable"):
        here = url2pathname(urlsplit(origin["url"]).path) == str(PACKAGE.parent)
        return "editable" if here else "run from its sources, another checkout is installed"
    here = Path(str(distribution.locate_file("roofline"))).resolve() == PACKAGE
    return "wheel" if here else "run from its sources, another is installed"


# What there is on the machine


def _data(wrong: Any) -> dict[str, Any]:
    """Data files of each kind: shipped, and of ROOFLINE_PATH."""
    content: dict[str, Any] = {"roofline_path": os.environ.get("ROOFLINE_PATH"), "kinds": {}}
    try:
        from roofline.specs.library import ON_PATH, ids, shipped
    except ImportError:  # the dependency that is missing has been named
        return content
    for kind in ON_PATH:
        try:
            count = sum(not path.name.startswith("_") for path in shipped(kind).glob("*.yaml"))
        except RooflineError as error:
            wrong(str(error), _pip("--force-reinstall", "roofline"))
            return content
        content["kinds"][kind] = {"shipped": count}
    try:
        for kind, counts in content["kinds"].items():
            own = {name: str(path) for name, path in ids(kind).items() if path.parent != shipped(kind)}
            instead = sorted(name for name in own if (shipped(kind) / f"{name}.yaml").is_file())
            counts |= {"own": len(own), "instead_of_shipped": instead}
    except RooflineError as error:
        unset = "Remove-Item Env:ROOFLINE_PATH" if sys.platform == "win32" else "unset ROOFLINE_PATH"
        wrong(str(error), unset)
    return content


def _gpus(wrong: Any) -> dict[str, Any]:
    """NVIDIA's GPUs and their driver, by `nvidia-smi`, which comes with it; whether there is that program."""
    if (program := shutil.which(_NVIDIA_SMI[0])) is not None:
        try:
            done = subprocess.run(  # noqa: S603 - a program of the driver, without a user's words
                (program, *_NVIDIA_SMI[1:]), capture_output=True, text=True, errors="replace", timeout=_PATIENCE, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            message = f"no answer in {_PATIENCE:.0f} s" if isinstance(error, subprocess.TimeoutExpired) else str(error)
        else:
            rows = [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines() if line.strip()]
            if done.returncode == 0 and all(len(row) == 3 for row in rows):
                devices = [_device(name, driver, f"{memory} MiB") for name, driver, memory in rows]
                return {"devices": devices, "nvidia_smi": True}
            message = (done.stderr.strip() or done.stdout.strip()).partition("\n")[0] or f"exit code {done.returncode}"
        wrong(f"nvidia-smi is installed and fails: {clean(message)}", program)
    return {"devices": [], "nvidia_smi": program is not None}


def _device(name: str, driver: str, memory: str) -> dict[str, str | None]:
    try:
        from roofline.specs.library import by_driver_name

        known = by_driver_name(name)
    except (ImportError, RooflineError):
        known = None
    return {"name": name, "driver": driver, "memory": memory, "hardware": known}


def _torch() -> dict[str, str | None] | None:
    """The version of torch and for what it was built, without importing it, which takes seconds; None without torch."""
    version = _version("torch")
    try:
        spec = util.find_spec("torch")
        text = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8") if spec and spec.origin else ""
    except (OSError, ImportError, ValueError):
        text = ""
    if version is None:
        return None
    built = {name: re.search(rf"^{name}\b[^=\n]*= *'([^']*)'", text, re.MULTILINE) for name in ("cuda", "hip")}
    return {"version": version, **{name: match[1] if match else None for name, match in built.items()}}


# Text


def _show(document: dict[str, Any]) -> None:
    problems = document["problems"]
    write(f"{plural(len(problems), 'problem')} found." if problems else "No problems found.", "bad" if problems else "good")
    for problem in problems:
        write(f"{problem['problem'].rstrip('.')}.", indent=2, hanging=4)
        if problem["mend"]:
            write(f"To mend it: {problem['mend']}", indent=4)
    write("")
    code, python, system = document["roofline"], document["python"], document["system"]
    variables = [f"{name}={value}" for name, value in system["environment"].items()]
    encodings = [f"{name.replace('_', ' ')} in {encoding}" for name in ("stdout", "file_names") if (encoding := system[name])]
    rows = [
        ("roofline", f"{code['version']} (data {code['data_version']}), {code['installed']}, {code['path']}"),
        ("Python", f"{python['version']} ({python['implementation']}), {python['executable']}"),
        ("System", f"{system['platform']}, {system['machine']}, {', '.join(encodings)}"),
        *([("Environment", ", ".join(variables))] if variables else []),
        ("Dependencies", ", ".join(map(_versions, document["dependencies"])) or "not known: no metadata"),
        ("Extras", _extras(document["extras"])),
        ("Data", _counts(document["data"])),
        ("GPUs", _devices(document["gpus"])),
        ("torch", _torch_text(document["torch"])),
    ]
    write_labelled((label, clean(text)) for label, text in rows)


def _versions(entry: dict[str, Any]) -> str:
    return f"{entry['name']} {entry['installed'] or 'missing'} (>= {entry['needed']})"


def _extras(extras: dict[str, list[dict[str, Any]]]) -> str:
    complete = [name for name, entries in extras.items() if all(entry["installed"] for entry in entries)]
    without = {
        name: ", ".join(entry["name"] for entry in entries if not entry["installed"])
        for name, entries in extras.items()
        if name not in complete
    }
    missing = ", ".join(f"{name} (without {what})" for name, what in without.items())
    parts = ([f"complete: {', '.join(complete)}"] if complete else []) + ([f"not complete: {missing}"] if missing else [])
    return "; ".join(parts) or "not known: no metadata"


def _counts(data: dict[str, Any]) -> str:
    parts = [f"{counts['shipped']} {kind}" for kind, counts in data["kinds"].items()]
    own = [f"{counts['own']} {kind}" for kind, counts in data["kinds"].items() if counts.get("own")]
    instead = [name for counts in data["kinds"].values() for name in counts.get("instead_of_shipped", ())]
    text = f"shipped: {', '.join(parts) or 'cannot be read'}"
    text += f"; by ROOFLINE_PATH: {', '.join(own)}" if own else ""
    return text + (f"; instead of shipped ones: {', '.join(instead)}" if instead else "")


def _devices(gpus: dict[str, Any]) -> str:
    if not gpus["devices"]:
        return "none listed" if gpus["nvidia_smi"] else "none listed: there is no nvidia-smi"
    lines = [
        f"{one['name']}, {one['memory']}, driver {one['driver']} ({one['hardware'] or 'not among the shipped hardware'})"
        for one in gpus["devices"]
    ]
    return "; ".join(f"{lines.count(line)} x {line}" for line in dict.fromkeys(lines))


def _torch_text(torch: dict[str, Any] | None) -> str:
    if torch is None:
        return "not installed"
    built = [f"{name.upper()} {torch[name]}" for name in ("cuda", "hip") if torch[name]]
    return f"{torch['version']}, built {'for ' + ', '.join(built) if built else 'without CUDA'}"
