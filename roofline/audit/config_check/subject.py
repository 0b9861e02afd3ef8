"""What is checked: a file's engine with the options that were given beside it, and on record where each comes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from roofline.audit.config_check.documents import Said
from roofline.audit.config_check.given import Record, hardware_of, model_of, replicas_of
from roofline.audit.config_check.run import Run
from roofline.audit.config_check.servers.base import Understood, understand
from roofline.audit.engine_logs.names import scheme
from roofline.errors import InputError
from roofline.serving.planning.query import Query
from roofline.specs.library import Input
from roofline.specs.source import Assumption
from roofline.units import parse_count

_SIZES = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
_COUNTS = (
    *_SIZES, "expert_parallel_size", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "block_size",
)  # fmt: skip
_OURS = ("chunked", "enable_prefix_caching")
"""Settings that are no options of `analyze`."""


@dataclass(frozen=True)
class Subject:
    """A deployment with nothing left open.

    Attributes:
        run: what the file starts.
        question: the load, the limits and the options, of which every one is fixed.
        seats: sequences of a rank that the engine runs at most.
        longest: tokens of the longest sequence; None: as many as memory holds.
        replicas: how many there are.
        chunked: whether prompts are cut.
        places: where the file says an option.
        flags: how it calls it.
        assumptions: where each option comes from.
        notes: what is not in the times, in words.
        unknown: flags that are not known.
    """

    run: Run
    question: Query
    seats: int
    longest: int | None
    replicas: int
    chunked: bool
    places: dict[str, Said]
    flags: dict[str, str]
    assumptions: tuple[Assumption, ...]
    notes: tuple[str, ...]
    unknown: tuple[str, ...]

    def flag(self, name: str) -> str:
        """An option as the file calls it."""
        return self.flags.get(name, f"--{name.replace('_', '-')}")


def subject(
    run: Run, resolve: Callable[[str, str], Query], given: dict[str, Any], model: Any, hardware: Any, replicas: Any
) -> Subject:
    """Put together what the file says and what was given, which comes first.

    Args:
        run: what the file starts.
        resolve: the question for a model and a piece of hardware.
        given: options of `analyze` from the command line.
        model: in the place of the file's.
        hardware: likewise.
        replicas: likewise.

    Raises:
        SpecError: something that neither says, or a value that is wrong, with its place.
    """
    record = Record()
    read = understand(run.server, list(run.settings), {**given, "model": model})
    places = dict(read.values)
    of_command = places.pop("model", None)
    said_model = run.model or of_command
    question = resolve(model_of(run, said_model, model, record), hardware_of(run, hardware, record))
    many = replicas_of(run, replicas, record)
    options, remarks = _adapted(run, question, places, given)
    places |= run.options
    if run.settings:
        options = _formats(question, options, places, said_model, given, record)
    _told(options, places, read, given, record)
    options = _counted(run, {**options, **{name: value for name, value in given.items() if value is not None}}, places)
    for name, default in run.server.defaults(question.model, question.hardware[0], options).items():
        if options.get(name) is None:
            options[name] = default.value
            record.add(name, default.value, "default", default.why)
    return _put_together(run, question, options, many, places, read, record, remarks)


def _adapted(run: Run, question: Query, places: dict[str, Said], given: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Options of `analyze` for what the file says, with the sizes that are given in the place of its own."""
    values = {name: said.value for name, said in places.items()}
    for name in _SIZES:
        if given.get(name) is not None:
            values[name] = parse_count(given[name], name.replace("_", "-"), minimum=1)
    try:
        options, remarks = run.server.adapted(question.model, values)
    except ValueError as error:
        raise run.place.wrong(str(error)) from None
    return options | {name: said.value for name, said in run.options.items()}, remarks


def _told(options: dict[str, Any], places: dict[str, Said], read: Understood, given: dict[str, Any], record: Record) -> None:
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


def _counted(run: Run, options: dict[str, Any], places: dict[str, Said]) -> dict[str, Any]:
    """Options of which numbers are numbers."""
    found = dict(options)
    for name in _COUNTS:
        as_memory_holds = name == "max_model_len" and found.get(name) == 0 and name not in run.options
        if found.get(name) is not None and not as_memory_holds:
            found[name] = _count(found[name], name, places)
    return found


def _put_together(
    run: Run, question: Query, options: dict[str, Any], replicas: int, places: dict[str, Said], read: Understood,
    record: Record, remarks: list[str],
) -> Subject:  # fmt: skip
    seats = int(options.pop("max_num_seqs"))
    length = options.pop("max_model_len", None)
    longest: int | None = question.model.max_position_embeddings
    if length is None:
        record.add("max_model_len", longest, "default", "the most that the model was made for")
    else:
        longest = int(length) or None  # 0: as many as memory holds
    chunked = options.pop("chunked", True)
    notes = [*read.unmodelled, *remarks]
    if options.pop("enable_prefix_caching", True) is False and any(one.mix.hit for one in question.load.services):
        notes.append("prefix caching is off: the share of the prompts that the traffic has cached is computed all the same")
        services = tuple(replace(one, mix=replace(one.mix, hit=0.0)) for one in question.load.services)
        question = replace(question, load=replace(question.load, services=services))
    source = Input("deployment", run.document.file.path.name, str(run.document.file.path), run.document.file.sha256)
    fixed = {name: value for name, value in options.items() if value is not None}
    question = replace(question, fixed=fixed, modes=("colocated",), inputs=(source, *question.inputs))
    return Subject(
        run=run, question=question, seats=seats, longest=longest, replicas=replicas, chunked=chunked, places=places,
        flags=read.flags, assumptions=tuple(record.notes), notes=tuple(notes), unknown=tuple(read.unknown),
    )  # fmt: skip


def _count(value: Any, name: str, places: dict[str, Said]) -> int:
    try:
        return parse_count(value, name.replace("_", "-"), minimum=1)
    except InputError as error:
        raise (places[name].wrong(str(error)) if name in places else error) from None


def _formats(
    question: Query,
    options: dict[str, Any],
    places: dict[str, Said],
    model: Said | None,
    given: dict[str, Any],
    record: Record,
) -> dict[str, Any]:
    """Formats: an engine's dtype is that of the activations, and of weights that are not quantised."""
    options = dict(options)
    called = str(model.value) if model is not None else ""
    dtype, method = options.pop("dtype", None), options.pop("quantization", None)
    already = bool(question.model.quantization) or given.get("quantization") is not None or given.get("dtype") is not None
    if method is not None and not already:
        try:
            options["quantization"] = scheme(str(method), called)
        except InputError:
            raise places["quantization"].wrong(
                f"{method!r:.60} does not tell the format of the weights: give --quantization on the command line"
            ) from None
    elif method is None and not already and (found := _in_name(called)) is not None:
        options["quantization"] = found
        record.add("quantization", found, "assumed", f"the model's name {called} says so")
    if dtype is not None:
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
