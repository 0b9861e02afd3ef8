"""The deployment to be checked: a file's engine with the options given by the user, and notes on where each comes from."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from roofline import files
from roofline.audit.config_check.documents import LocatedValue
from roofline.audit.config_check.forms import EngineLaunch
from roofline.audit.config_check.servers import ParsedFlags, parse_flags
from roofline.audit.engine_logs import names
from roofline.audit.engine_logs.names import scheme
from roofline.errors import InputError, RooflineError, SpecError
from roofline.serving.planning.load import Query
from roofline.specs.library import Input, by_driver_name, find, ids, text_of
from roofline.specs.source import Assumption
from roofline.units import parse_count

_SIZES = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
_COUNTS = (
    *_SIZES, "expert_parallel_size", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "block_size",
)  # fmt: skip
_OURS = ("chunked", "enable_prefix_caching")
"""Settings that are no options of `analyze`."""


@dataclass(frozen=True)
class CheckedDeployment:
    """A deployment to be checked, with a value for every option.

    Attributes:
        launch: the engine that the file starts.
        query: the load, the limits and the options, all of them fixed.
        max_num_seqs: maximum number of running sequences per data-parallel rank.
        longest: maximum length of a sequence in tokens; None: as many as memory holds.
        replicas: number of replicas.
        chunked: whether prompts are split into chunks (chunked prefill).
        places: places of the options that the file sets.
        flags: flags as the file writes them, by our names of the options.
        assumptions: where each option comes from.
        notes: what is not modelled in the times, in words.
        unknown: flags that are not known.
    """

    launch: EngineLaunch
    query: Query
    max_num_seqs: int
    longest: int | None
    replicas: int
    chunked: bool
    places: dict[str, LocatedValue]
    flags: dict[str, str]
    assumptions: tuple[Assumption, ...]
    notes: tuple[str, ...]
    unknown: tuple[str, ...]

    def flag(self, name: str) -> str:
        """The flag of an option as the file writes it, else as `--name-with-dashes`."""
        return self.flags.get(name, f"--{name.replace('_', '-')}")


def checked_deployment(
    launch: EngineLaunch, resolve: Callable[[str, str], Query], given: dict[str, Any], model: Any, hardware: Any, replicas: Any
) -> CheckedDeployment:
    """Combine what a file starts with the options of the user, which take precedence.

    Args:
        launch: the engine that the file starts.
        resolve: makes the query for a model and a hardware.
        given: options of `analyze` from the command line.
        model: replaces the file's, if not None.
        hardware: likewise.
        replicas: likewise.

    Raises:
        SpecError: a model, hardware or number of replicas that neither says, or a wrong value, with its place in the file.
        InputError: a wrong option of the user.
    """
    record = _Record()
    read = parse_flags(launch.server, list(launch.settings), {**given, "model": model})
    places = dict(read.values)
    of_command = places.pop("model", None)
    named_model = launch.model or of_command
    query = resolve(_model(launch, named_model, model, record), _hardware(launch, hardware, record))
    count = _replicas(launch, replicas, record)
    options, remarks = _adapted(launch, query, places, given)
    places |= launch.options
    if launch.settings:
        options = _formats(query, options, places, named_model, given, record)
    _record_options(options, places, read, given, record)
    options = _counted(launch, {**options, **{name: value for name, value in given.items() if value is not None}}, places)
    for name, default in launch.server.defaults(query.model, query.hardware[0], options).items():
        if options.get(name) is None:
            options[name] = default.value
            record.add(name, default.value, "default", default.why)
    return _put_together(launch, query, options, count, places, read, record, remarks)


def _adapted(
    launch: EngineLaunch, query: Query, places: dict[str, LocatedValue], given: dict[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Options of `analyze` for what the file says, with the sizes that are given instead of its own."""
    values = {name: value.value for name, value in places.items()}
    for name in _SIZES:
        if given.get(name) is not None:
            values[name] = parse_count(given[name], name.replace("_", "-"), minimum=1)
    try:
        options, remarks = launch.server.adapted(query.model, values)
    except ValueError as error:
        raise launch.place.error(str(error)) from None
    return options | {name: value.value for name, value in launch.options.items()}, remarks


def _record_options(
    options: dict[str, Any], places: dict[str, LocatedValue], read: ParsedFlags, given: dict[str, Any], record: _Record
) -> None:
    """Put on record where options come from, but for defaults."""
    for name, value in options.items():
        if given.get(name) is None and name not in _OURS:
            where = f"{places[name].place} of the file" if name in places else "what the file's flags mean together"
            record.add(name, value, "given", where)
    for name, value in given.items():
        if name in places and value is not None:
            record.add(name, value, "given", f"in place of the file's {places[name].value} ({places[name].place})")
        elif name in read.flags and value is not None:
            record.add(name, value, "given", f"in place of the file's {read.flags[name]}")


def _counted(launch: EngineLaunch, options: dict[str, Any], places: dict[str, LocatedValue]) -> dict[str, Any]:
    """Options of which numbers are numbers."""
    counted = dict(options)
    for name in _COUNTS:
        as_memory_holds = name == "max_model_len" and counted.get(name) == 0 and name not in launch.options
        if counted.get(name) is not None and not as_memory_holds:
            counted[name] = _count(counted[name], name, places)
    return counted


def _put_together(
    launch: EngineLaunch, query: Query, options: dict[str, Any], replicas: int, places: dict[str, LocatedValue],
    read: ParsedFlags, record: _Record, remarks: list[str],
) -> CheckedDeployment:  # fmt: skip
    max_num_seqs = int(options.pop("max_num_seqs"))
    length = options.pop("max_model_len", None)
    longest: int | None = query.model.max_position_embeddings
    if length is None:
        record.add("max_model_len", longest, "default", "the maximum of the model")
    else:
        longest = int(length) or None  # 0: as many as memory holds
    chunked = options.pop("chunked", True)
    notes = [*read.unmodelled, *remarks]
    if options.pop("enable_prefix_caching", True) is False and (
        query.load.retained or any(one.mix.cached for one in query.load.services)
    ):
        notes.append("prefix caching is off: the share of the prompts that the traffic has cached is computed again")
        services = tuple(replace(one, mix=replace(one.mix, hit=0.0, prefix=0), turns=None) for one in query.load.services)
        query = replace(query, load=replace(query.load, services=services))
    source = Input("deployment", launch.document.file.path.name, str(launch.document.file.path), launch.document.file.sha256)
    fixed = {name: value for name, value in options.items() if value is not None}
    query = replace(query, fixed=fixed, modes=("colocated",), inputs=(source, *query.inputs))
    return CheckedDeployment(
        launch=launch, query=query, max_num_seqs=max_num_seqs, longest=longest, replicas=replicas, chunked=chunked,
        places=places, flags=read.flags, assumptions=tuple(record.notes), notes=tuple(notes), unknown=tuple(read.unknown),
    )  # fmt: skip


def _count(value: Any, name: str, places: dict[str, LocatedValue]) -> int:
    try:
        return parse_count(value, name.replace("_", "-"), minimum=1)
    except InputError as error:
        raise (places[name].error(str(error)) if name in places else error) from None


def _formats(
    query: Query,
    options: dict[str, Any],
    places: dict[str, LocatedValue],
    model: LocatedValue | None,
    given: dict[str, Any],
    record: _Record,
) -> dict[str, Any]:
    """Formats: an engine's dtype is that of the activations, and of weights that are not quantised."""
    options = dict(options)
    called = str(model.value) if model is not None else ""
    dtype, method = options.pop("dtype", None), options.pop("quantization", None)
    already = bool(query.model.quantization) or given.get("quantization") is not None or given.get("dtype") is not None
    if method is not None and not already:
        try:
            options["quantization"] = scheme(str(method), called)
        except InputError:
            raise places["quantization"].error(
                f"{method!r:.60} does not tell the format of the weights: give --quantization on the command line"
            ) from None
    elif method is None and not already and (method_in_name := _in_name(called)) is not None:
        options["quantization"] = method_in_name
        record.add("quantization", method_in_name, "assumed", f"the model's name {called} says so")
    method = given.get("quantization") or options.get("quantization")
    if dtype is not None and not names.quantizes_activations(query.model, method):
        options["activation_dtype"] = dtype
        places.setdefault("activation_dtype", places["dtype"])
        if "quantization" not in options and not already:
            options["dtype"] = dtype
    return options


def _in_name(called: str) -> str | None:
    """The format of the weights that the name of a checkpoint has in it."""
    try:
        return scheme("compressed-tensors", called)
    except InputError:
        return None


@dataclass
class _Record:
    """Where options come from."""

    notes: list[Assumption] = field(default_factory=list)

    def add(self, name: str, value: object, origin: Any, why: str) -> None:
        """Put a choice on record."""
        self.notes.append(Assumption(name, value, origin, why))


def _model(launch: EngineLaunch, named: LocatedValue | None, given: Any, record: _Record) -> Any:
    """The model: as given, else what a path or a name in the file means, for `load_model`."""
    if given is not None:
        if named is not None:
            record.add("model", str(given), "given", f"in place of the file's {named.value} ({named.place})")
        return given
    if named is None:
        raise SpecError(
            "the file does not say the model: give MODEL, an id, a YAML file or a config.json", path=launch.place.path,
            line=launch.place.line,
        )  # fmt: skip
    if (path := _local_path(named)) is not None:
        return path
    try:
        model = names.model(str(named.value))
    except InputError:
        raise named.error(
            f"{named.value!r:.120} is no model that is shipped: give MODEL on the command line, an id, a YAML file or a "
            "config.json"
        ) from None
    if model != named.value:
        record.add("model", model, "given", f"{named.place} of the file names {named.value}: the same dimensions")
    return model


def _hardware(launch: EngineLaunch, given: Any, record: _Record) -> Any:
    """The hardware, likewise; for a cluster's label the accelerator that it means."""
    named = launch.hardware
    if given is not None:
        if named is not None:
            record.add("hardware", str(given), "given", f"in place of the file's {named.value} ({named.place})")
        return given
    if named is None:
        raise SpecError(
            f"the file does not say the hardware: give --hardware with an id or a YAML file{_or_key(launch.hardware_key)}",
            path=launch.place.path, line=launch.place.line,
        )  # fmt: skip
    hardware = _local_path(named) or _by_label(str(named.value))
    if hardware is None:
        raise named.error(
            f"{named.value!r:.120} is no hardware that is known: give --hardware (`roofline hardware list` shows all)"
        )
    if hardware != named.value:
        record.add("hardware", hardware, "given", f"{named.place} of the file names {named.value}")
    return hardware


def _local_path(value: LocatedValue) -> str | None:
    """A path in the file, relative to its folder."""
    text = str(value.value)
    path = value.path.parent / Path(text).expanduser()
    return str(path) if path.suffix in (".yaml", ".yml", ".json") and files.is_file(path) else None


def _replicas(launch: EngineLaunch, given: Any, record: _Record) -> int:
    """The number of replicas: as given, as the file says, or as its form means where it says nothing."""
    stated = launch.replicas
    if given is not None:
        count = parse_count(given, "replicas", minimum=1)
        if stated is not None and stated.value != count:
            record.add("replicas", count, "given", f"in place of the file's {stated.value} ({stated.place})")
        else:
            record.add("replicas", count, "given", "")
        return count
    if stated is not None:
        record.add("replicas", stated.value, "given", f"{stated.place} of the file")
        return int(stated.value)
    if launch.replicas_default is None:
        raise SpecError(
            f"the file does not say how many replicas there are: give --replicas{_or_key(launch.replicas_key)}",
            path=launch.place.path, line=launch.place.line,
        )  # fmt: skip
    record.add("replicas", launch.replicas_default[0], "default", launch.replicas_default[1])
    return launch.replicas_default[0]


def _or_key(key: str) -> str:
    return f", or the key {key}" if key else ""


# What clusters call accelerators, as our ids.

# Source: https://cloud.google.com/kubernetes-engine/docs/how-to/gpus, the values of cloud.google.com/gke-accelerator.
_GKE = {
    "nvidia-tesla-t4": "t4", "nvidia-l4": "l4", "nvidia-tesla-a100": "a100-sxm-40gb", "nvidia-a100-80gb": "a100-sxm-80gb",
    "nvidia-h100-80gb": "h100-sxm", "nvidia-h100-mega-80gb": "h100-sxm", "nvidia-h200-141gb": "h200-sxm",
    "nvidia-b200": "b200-sxm", "nvidia-gb200": "gb200",
}  # fmt: skip
_SHARED_GPU = re.compile(r"-SHARED$")
_DRIVER_NAMES = re.compile(r"^driver_names:\s*\[(.*)\]", re.MULTILINE)


def _by_label(text: str) -> str | None:
    """The id for an id, an alias, a path, or a label of a node: the driver's name with dashes for its blanks.

    >>> _by_label("NVIDIA-H100-80GB-HBM3"), _by_label("nvidia-l4"), _by_label("h100_sxm"), _by_label("NVIDIA-A30-MIG-1g.6gb")
    ('h100-sxm', 'l4', 'h100-sxm', None)
    """
    if text in _GKE:
        return _GKE[text]
    wanted = _folded(_SHARED_GPU.sub("", text))
    for path in ids("hardware").values():
        # NB: without parsing the files, of which there are many; `by_driver_name` does it for the one that is meant
        for listed in _DRIVER_NAMES.findall(text_of(path)):
            for name in listed.split(","):
                if _folded(name) == wanted and (entry := by_driver_name(name.strip(" \"'"))) is not None:
                    return entry
    try:
        path = find("hardware", text)
    except RooflineError:
        return None
    return path.stem if path in ids("hardware").values() else str(path)


def _folded(name: str) -> str:
    return re.sub(r"[\s_-]+", "-", name.strip(" \"'")).lower()
