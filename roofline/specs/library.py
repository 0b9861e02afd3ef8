"""Files of models, hardware, engines, prices and kernel rules by name: paths, folders of `ROOFLINE_PATH`, and shipped files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from roofline import files
from roofline.errors import AmbiguousNameError, InputError, SpecError, UnknownNameError
from roofline.specs.base import Spec
from roofline.specs.engine import Engine, EngineSteps
from roofline.specs.fit import Fit, Spread
from roofline.specs.hardware import Accelerator, Hardware, Node
from roofline.specs.yaml_file import MAX_BYTES, YamlFile, read_trusted, read_yaml

if TYPE_CHECKING:
    from roofline.specs.huggingface.hub import Repository

S = TypeVar("S", bound=Spec)
H = TypeVar("H")

Kind = Literal["models", "hardware", "engines", "prices", "kernels", "reports"]

ON_PATH: tuple[Kind, ...] = ("models", "hardware", "engines", "prices", "kernels")
"""Kinds of which folders of `ROOFLINE_PATH` may hold files."""
_LISTED = f"{', '.join(f'{kind}/' for kind in ON_PATH[:-1])} or {ON_PATH[-1]}/"

_NOUN = {
    "models": "model", "hardware": "hardware", "engines": "engine", "prices": "prices", "kernels": "kernel rules",
    "reports": "report",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Input:
    """A file that a result was computed from.

    Attributes:
        role: such as `model`, `hardware`, `engine log`.
        name: its id, or name of the file.
        path: of the file; `shipped` for files of this package.
        sha256: of its content, in hex.
    """

    role: str
    name: str
    path: str
    sha256: str


@cache
def shipped(kind: Kind) -> Path:
    """The folder of shipped files of a kind: inside the installed package, else beside it in a checkout.

    Raises:
        SpecError: there is none: the installation is broken.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "_library" / kind, package.parent / kind):
        if files.is_folder(folder):
            return folder
    msg = f"the installation is broken: no folder {kind!r} in {package / '_library'} or {package.parent}"
    raise SpecError(msg)


def folders(kind: Kind) -> list[Path]:
    """Folders that are searched for files of a kind, in this order: those of `ROOFLINE_PATH`, then the shipped one.

    Raises:
        InputError: an entry of `ROOFLINE_PATH` that is not a folder, or has no folder of any kind.
    """
    listed = [_entry(entry) / kind for entry in os.environ.get("ROOFLINE_PATH", "").split(os.pathsep) if entry]
    return [*(folder for folder in listed if files.is_folder(folder)), shipped(kind)]


def _entry(entry: str) -> Path:
    """A folder that `ROOFLINE_PATH` names."""
    path = _path(entry)
    if not files.is_folder(path):
        what = "is a file" if files.exists(path) else "does not exist"
        raise InputError(f"ROOFLINE_PATH: {entry} {what}; each entry must be a folder that holds {_LISTED}")
    if not any(files.is_folder(path / kind) for kind in ON_PATH):
        raise InputError(f"ROOFLINE_PATH: {entry} has no folder {_LISTED}")
    return path


def ids(kind: Kind) -> dict[str, Path]:
    """Ids of a kind in alphabetical order, each with its file. Of several files with one id the first folder's counts.

    Raises:
        InputError: a wrong entry of `ROOFLINE_PATH`.
    """
    paths: dict[str, Path] = {}
    for folder in folders(kind):
        for path in sorted(folder.glob("*.yaml")):
            if not path.name.startswith("_"):
                paths.setdefault(path.stem, path)
    return dict(sorted(paths.items()))


def find(kind: Kind, name: object, *, abbreviated: bool = True) -> Path:
    """The file of an id, an alias, or a path. A path need not exist.

    Args:
        kind: the folder that ids are looked up in, such as "models".
        name: an id or alias in any spelling (case, spaces and underscores do not matter), a path, with a suffix or a slash, the
            name on Hugging Face (`org/name`) of a known model, or the first part of the id of one hardware, such as `b200`.
        abbreviated: whether the first part of an id will do.

    Raises:
        UnknownNameError: nothing has that name; the nearest names are in the message.
        AmbiguousNameError: several ids begin with it, such as "a100".
        SpecError: a folder of a model without a config.json.
        InputError: neither text nor a path, a wrong entry of `ROOFLINE_PATH`, or a model that Hugging Face does not give.
        MissingExtraError: a model on Hugging Face, and the library that fetches it is not installed.
    """
    if isinstance(name, os.PathLike):
        return _in_folder(kind, Path(name))
    if not isinstance(name, str):
        msg = f"{_NOUN[kind]} must be an id or the path of a YAML file, not {name!r:.100}"
        raise InputError(msg)
    if is_path(name):
        return _by_path(kind, name)
    key = re.sub(r"[\s_]+", "-", name.strip().lower())
    for folder in folders(kind):  # most names are ids: that takes no list of all of them
        if key and files.is_file(path := folder / f"{key}.yaml"):
            return path
    known = ids(kind)
    aliases = {alias: path for path in known.values() for alias in _aliases(path)}
    if key in aliases:
        return aliases[key]
    what = _NOUN[kind]
    if family := [entry for entry in known if re.match(re.escape(key) + r"(-|(?<=\d)(?!\d))", entry)] if key else []:
        if abbreviated and kind == "hardware" and len(family) == 1:
            return known[family[0]]
        raise AmbiguousNameError(what, name, family)
    also = ", of a config.json or of a GGUF file" if kind == "models" else ""
    hint = f"`roofline {kind} list` shows all; the path of a YAML file{also} works too."
    if kind == "models" and files.is_folder(_path(name)):
        hint = f"There is a folder of that name here: write ./{name} for the model in it."
    raise UnknownNameError(what, name, [*known, *aliases], hint)


def _by_path(kind: Kind, name: str) -> Path:
    """The file at a path; of a folder its config.json, and of a name on Hugging Face the one that is there."""
    path = _path(name)
    if "\0" in name:
        msg = f"{name!r} is no path"
        raise SpecError(msg)
    if kind == "models" and not files.exists(path) and (known := _on_hugging_face(name)) is not None:
        return known
    if kind == "models" and (wanted := hub_repository(name)) is not None:
        from roofline.specs.huggingface.hub import fetch

        return fetch(wanted, _similar(wanted.name))
    return _in_folder(kind, path)


def _in_folder(kind: Kind, path: Path) -> Path:
    """Of a folder the config.json in it, else the GGUF file, or the first part of one, if there is one model."""
    if kind != "models" or not files.is_folder(path):
        return path
    if files.is_file(path / "config.json"):
        return path / "config.json"
    parts = [file for file in sorted(path.glob("*.gguf")) if not file.name.startswith("mmproj")]
    models = [file for file in parts if not re.search(r"-(?!00001)\d{5}-of-\d{5}\.gguf$", file.name)]
    if len(models) == 1:
        return models[0]
    if models:
        raise SpecError(f"is a folder with {len(models)} GGUF models: name one of {_few(models)}", path=path)
    raise SpecError(f"is a folder without a config.json{_stored_without_config(path)}", path=path)


def bare_checkpoint(name: str | os.PathLike[str]) -> Path | None:
    """The folder that a path names, where it has safetensors files or their index and no config.json; None for all else."""
    path = _path(os.fspath(name))
    if not is_path(os.fspath(name)) and not isinstance(name, os.PathLike):
        return None
    if not files.is_folder(path) or files.is_file(path / "config.json"):
        return None
    return path if any(path.glob("*.safetensors")) or any(path.glob("*.safetensors.index.json")) else None


def _stored_without_config(folder: Path) -> str:
    """What a folder without a config.json has instead, as the end of an error."""
    held = sorted(folder.glob("*.safetensors")) + sorted(folder.glob("*.safetensors.index.json"))
    if not held:
        return ""
    from roofline.specs.huggingface.safetensors import read_checkpoint, sizes_in_words, stored_sizes

    try:
        checkpoint = read_checkpoint(folder)
    except SpecError:
        checkpoint = None
    text = f" beside {_few(held)}; it says what layers the tensors make up, so put that of the model there"
    if checkpoint is not None:
        text += f". In the folder: {sizes_in_words(stored_sizes(checkpoint))} (`roofline models show` has more)"
    return text


def _few(paths: list[Path]) -> str:
    names = [path.name for path in paths]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def hub_repository(name: str | os.PathLike[str]) -> Repository | None:
    """The model on Hugging Face that `org/name[@revision]` stands for; None for other names, for a name that a known model
    has there, and where a file has the name.
    """
    from roofline.specs.huggingface.hub import repository

    if not isinstance(name, str) or "/" not in name or files.exists(_path(name)) or _on_hugging_face(name) is not None:
        return None
    return repository(name)


def _on_hugging_face(name: str) -> Path | None:
    """The file of the known model whose `hf_id` is `org/name`, in any case; None where there is none."""
    key = name.strip().lower()
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", key):
        return None
    for path in ids("models").values():
        if (match := re.search(r"^hf_id:\s*[\"']?([\w.-]+/[\w.-]+)", text_of(path), re.MULTILINE)) and match[1].lower() == key:
            return path
    return None


def _similar(name: str) -> str:
    """Shipped models whose id is near the name of one on Hugging Face."""
    import difflib

    near = difflib.get_close_matches(name.rpartition("/")[2].lower(), ids("models"), n=3, cutoff=0.7)
    return f" (shipped: {', '.join(near)})" if near else ""


def _path(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:  # ~user who is not known
        return Path(text)


def is_path(name: str) -> bool:
    """Return whether a text is a path rather than an id: with a separator (of two on Windows), `~` or a file suffix.

    NB: no look into the working directory for a bare name: a folder called `gpt2` must not hide the model.
    """
    suffix = Path(name).suffix.lower()
    return "/" in name or os.sep in name or name.startswith("~") or suffix in (".yaml", ".yml", ".json", ".gguf")


def _aliases(path: Path) -> list[str]:
    """Aliases of a file, without parsing all of it."""
    match = re.search(r"^aliases:\s*(\[.*?\]|(?:\n\s*- .*)+)", text_of(path), re.MULTILINE | re.DOTALL)
    return [alias.lower() for alias in re.findall(r"[\w.-]*\w", match[1])] if match else []


def text_of(path: Path) -> str:
    """The text of a file, to search without parsing it; empty where it cannot be read."""
    try:
        return files.read_text(path, MAX_BYTES, is_input=False)
    except SpecError:
        return ""


_COUNTED = re.compile(r"\s*(\d{1,6})\s*[x×*]\s*([a-z].*|[~./].*)", re.IGNORECASE)


def split_count(name: H) -> tuple[int | None, H | str]:
    """The number of devices that a name of hardware begins with, and the name; None where it has none.

    >>> split_count("8xh100-sxm"), split_count("8 x H100 SXM"), split_count("h100-sxm")
    ((8, 'h100-sxm'), (8, 'H100 SXM'), (None, 'h100-sxm'))

    Raises:
        InputError: the number is 0.
    """
    if not isinstance(name, str) or (match := _COUNTED.fullmatch(name)) is None or files.exists(_path(name)):
        return None, name
    if not (count := int(match[1])):
        raise InputError(f"hardware {name!r}: at least 1 device is needed")
    return count, match[2]


def load_hardware(name: str | os.PathLike[str]) -> tuple[Hardware, list[Input]]:
    """Load hardware by id, alias or path, with the files that it was read from; a node is loaded with its accelerator.

    Raises:
        UnknownNameError, AmbiguousNameError: no hardware, or several, have that name.
        SpecError: the file does not exist or is no valid hardware; the message has line and column.
        InputError: a number of devices before the name, which `roofline.predict.request.sized` reads.
    """
    count, single = split_count(name)
    if count is not None:
        raise InputError(f"hardware {name!r}: a number of devices means nothing here: write {single}")
    path = find("hardware", name)
    spec, digest = _hardware(path)
    if isinstance(spec, Accelerator):
        return Hardware(spec), [input_of("hardware", spec.name, path, digest)]
    try:
        sibling = find("hardware", _sibling(path, spec.accelerator))
        accelerator, inside = _hardware(sibling)
    except (UnknownNameError, AmbiguousNameError) as error:
        raise _at(read_yaml(path), "accelerator", f"accelerator: {error}") from None
    if not isinstance(accelerator, Accelerator):
        raise _at(read_yaml(path), "accelerator", "the accelerator of a node is a node")
    used = [input_of("node", spec.name, path, digest), input_of("hardware", accelerator.name, sibling, inside)]
    return Hardware(accelerator, spec), used


def by_driver_name(name: str) -> str | None:
    """The id of the accelerator that the driver calls `name`, case-sensitive; None where no file has that name.

    Raises:
        SpecError: a file of hardware that has the name and is not valid.
    """
    for entry, path in ids("hardware").items():
        # NB: most files are passed by without being parsed; a name of a slice of a card (MIG) is in none of them
        if name and name in text_of(path):
            hardware, _ = load_hardware(str(path))
            if hardware.node is None and name in hardware.accelerator.driver_names:
                return entry
    return None


def _sibling(node: Path, accelerator: str) -> str | Path:
    """A node's accelerator: a file beside the node's, by its id or a path from there, or what the id means elsewhere."""
    path = node.parent / (accelerator if is_path(accelerator) else f"{accelerator}.yaml")
    return path if files.exists(path) or is_path(accelerator) else accelerator


def _hardware(path: Path) -> tuple[Accelerator | Node, str]:
    """An accelerator or a node, as the file says, with a hash of its text."""
    if _ours(path):
        if (card := read_trusted(path, Accelerator)) is not None:
            return card
        if (node := read_trusted(path, Node)) is not None:
            return node
    file = read_yaml(path)
    if (kind := file.data.get("kind")) == "accelerator":
        return file.validate(Accelerator), file.sha256
    if kind == "node":
        return file.validate(Node), file.sha256
    raise _at(file, "kind", f"kind must be accelerator or node, not {kind!r}")


def engine_names() -> list[str]:
    """Names of the engines, each also with the versions of its files: vllm, vllm@0.19.

    Raises:
        InputError: a wrong entry of `ROOFLINE_PATH`.
    """
    pairs = [entry.rsplit("-", 1) for entry in ids("engines")]
    return sorted({name for engine, version in pairs for name in (engine, f"{engine}@{version}")})


DEFAULT_VERSIONS = {"vllm": "0.19", "sglang": "0.5"}
"""Versions that a name alone stands for: answers stay comparable until another version is asked for."""


def load_engine(name: str, *, newest: bool = False) -> tuple[Engine, Input]:
    """Load the defaults of an engine by NAME or NAME@VERSION; without a version, as `DEFAULT_VERSIONS` says, else the newest.

    A file holds for its version and for those before it back to the next older file: 0.31 is read from 0.32's. One for 0.5
    holds for every 0.5.x as well, up to where a file for some 0.5.y says that it holds (`since`).

    Args:
        name: the engine.
        newest: take the newest file for a version that is newer still.

    Raises:
        UnknownNameError: no such engine.
        InputError: no rules for that version.
        SpecError: a file that is not valid.
    """
    wanted, _, version = name.partition("@")
    version = version or DEFAULT_VERSIONS.get(wanted.lower(), "")
    known = {tuple(entry.rsplit("-", 1)): path for entry, path in ids("engines").items()}
    versions = {_release(label): (label, path) for (engine, label), path in known.items() if engine == wanted.lower()}
    if not versions:
        raise UnknownNameError("engine", wanted, {engine for engine, _ in known})
    release = _release(version)
    holding = [
        numbers
        for numbers in sorted(versions)
        if not version or (release[: len(numbers)] <= numbers and not _superseded(release, numbers, versions))
    ]
    if version and not (release and (holding or newest)):
        files = ", ".join(versions[numbers][0] for numbers in sorted(versions))
        raise InputError(f"no rules are known for {wanted} {version}. Rules are known up to each of: {files}.")
    label, path = versions[holding[0] if version and holding else max(versions)]
    engine, digest = read_spec(path, Engine)
    return engine, input_of("engine", f"{wanted}@{label}", path, digest)


def _superseded(wanted: tuple[int, ...], numbers: tuple[int, ...], versions: dict[tuple[int, ...], tuple[str, Path]]) -> bool:
    """Whether a version that a file's begins is of a more exact file: 0.5.6 is of 0.5.9's, which holds since 0.5.3."""
    if wanted[: len(numbers)] != numbers or len(wanted) == len(numbers):
        return False
    exact = [longer for longer in sorted(versions) if len(longer) > len(numbers) and longer[: len(numbers)] == numbers]
    if not exact:
        return False
    since = read_spec(versions[exact[0]][1], Engine)[0].since
    return since is not None and wanted >= _release(since)


def _release(version: str) -> tuple[int, ...]:
    """The numbers of a version; none where it has none.

    >>> _release("0.19.1"), _release("1.0rc2")
    ((0, 19, 1), (1, 0))
    """
    leading = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return tuple(map(int, leading[1].split("."))) if leading else ()


def fit_files() -> dict[str, list[Path]]:
    """Files of fitted kernels by accelerator, one per backend: `fits/<accelerator>/<backend>.yaml` in folders of hardware."""
    fits: dict[str, dict[str, Path]] = {}
    for folder in folders("hardware"):
        for path in sorted(folder.glob("fits/*/*.yaml")):
            fits.setdefault(path.parent.name, {}).setdefault(path.stem, path)
    return {name: list(paths.values()) for name, paths in sorted(fits.items())}


def load_fit(path: Path) -> tuple[Fit, Input]:
    """Load fitted kernels from a file.

    Raises:
        SpecError: no such file, or no valid fit; the message has line and column.
    """
    trusted = read_trusted(path, Fit) if _ours(path) else None
    if trusted is None:
        file = read_yaml(path)
        if (kind := file.data.get("kind")) != "fit":
            raise _at(file, "kind", f"kind must be fit, not {kind!r}")
    fit, digest = trusted or (file.validate(Fit), file.sha256)
    name = f"{fit.accelerator}/{fit.backend}"
    return fit, input_of(f"fit {name}", name, path, digest)


def load_prior() -> tuple[Fit, Input]:
    """Load what is expected of kernels where nothing was measured, by op; the first file in the folders of hardware counts.

    Raises:
        SpecError: no such file, or one that is not valid.
    """
    for folder in folders("hardware"):
        if files.is_file(path := folder / "fits" / "_prior.yaml"):
            return load_fit(path)
    msg = "the installation is broken: no fits/_prior.yaml in the folders of hardware"
    raise SpecError(msg)


def load_engine_steps(names: Iterable[str]) -> tuple[EngineSteps, Input] | None:
    """Load what an engine adds to the kernels of a step, of the first of these engines that was measured; None: of none.

    Raises:
        SpecError: a file that is not valid.
    """
    for name in names:
        for folder in folders("engines"):
            if files.is_file(path := folder / "steps" / f"{name}.yaml"):
                steps, digest = read_spec(path, EngineSteps)
                return steps, input_of("engine steps", name, path, digest)
    return None


def measured_engines() -> list[str]:
    """The names of the engines whose steps were measured (`engines/steps/*.yaml`), sorted."""
    return sorted({path.stem for folder in folders("engines") for path in folder.glob("steps/*.yaml")})


def load_spread() -> Spread:
    """Load how much further transferred estimates may be off; the first file in the folders of hardware counts.

    Raises:
        SpecError: no such file, or one that is not valid.
    """
    for folder in folders("hardware"):
        if files.is_file(path := folder / "fits" / "_spread.yaml"):
            return read_spec(path, Spread)[0]
    msg = "the installation is broken: no fits/_spread.yaml in the folders of hardware"
    raise SpecError(msg)


def read_spec(path: Path, spec: type[S]) -> tuple[S, str]:
    """Read a YAML file as a spec, with the SHA-256 of its text in hex.

    Raises:
        SpecError: no such file, or a wrong key or value; the message has line and column.
    """
    if _ours(path) and (trusted := read_trusted(path, spec)) is not None:
        return trusted
    file = read_yaml(path)
    return file.validate(spec), file.sha256


def _at(file: YamlFile, key: str, problem: str) -> SpecError:
    """An error at a key of a file."""
    line, column = file.marks.get((key,), (1, 1))
    return SpecError(problem, path=file.path, line=line, column=column)


def shadowed(path: str | Path) -> str | None:
    """The id of the shipped file that a file of `ROOFLINE_PATH` replaces; None where it replaces none."""
    place = Path(path)
    for kind in ON_PATH:
        if place.parent in folders(kind)[:-1] and files.is_file(shipped(kind) / place.name):
            return place.stem
    return None


def shipped_as(path: Path) -> str | None:
    """A shipped file in words, such as "the hardware h100-sxm"; None for a file that is not shipped."""
    place = path.resolve()
    return next((f"the {_NOUN[kind]} {place.stem}" for kind in ON_PATH if place.parent == shipped(kind)), None)


def _ours(path: Path) -> bool:
    """Whether it is shipped."""
    return any(path.is_relative_to(shipped(kind)) for kind in ON_PATH)


def input_of(role: str, name: str, path: Path, sha256: str) -> Input:
    """Record that a file was read, so that the command does not write over it; returns the entry for the result."""
    files.note_input(path, f"the {role}")
    return Input(role, name, "shipped" if _ours(path) else str(path), sha256)
