"""Whether the files are of one model, and of the one that was given."""

from __future__ import annotations

from roofline.audit.engine_logs import names
from roofline.audit.engine_logs.benches import Bench
from roofline.audit.engine_logs.engine_log import EngineLog
from roofline.errors import InputError
from roofline.specs.library import ids
from roofline.specs.source import Assumption


def one_model(log: EngineLog | None, bench: Bench | None) -> None:
    """Refuse a log and a benchmark of different models. Names that are none of a shipped model's are let pass: a server may
    serve under any name.

    Raises:
        InputError: both names are known, and of different dimensions.
    """
    logged = None if log is None else log.argument("model")
    benched = None if bench is None else bench.model
    if logged is None or benched is None:
        return
    first, second = _shipped(logged), _shipped(benched)
    if first is not None and second is not None and first != second:
        raise InputError(
            f"the files are of different models: the log names {logged:.120}, the benchmark's result {benched:.120}; "
            "give files of one server, or MODEL to compare both with it"
        )


def contradictions(model: str, log: EngineLog | None, bench: Bench | None) -> list[Assumption]:
    """A note for each file that names another model than the one that was given (`model`, by its own name)."""
    found = []
    line = log.arguments["model"].line if log is not None and "model" in log.arguments else 0
    said = (
        (f"the log's {{}} (line {line})", None if log is None else log.argument("model")),
        ("the {} of the benchmark's result", None if bench is None else bench.model),
    )
    for words, name in said:
        if name is not None and (other := _shipped(name)) is not None and other != model:
            found.append(Assumption("model", model, "given", f"in place of {words.format(name[:120])}"))
    return found


def _shipped(name: str) -> str | None:
    """The id of the shipped model of a name; None where there is none, or the name is a folder that is here."""
    try:
        found = names.model(name)
    except InputError:
        return None
    return found if found in ids("models") else None
