"""Which model, hardware and how many replicas: what was given beside a file comes before what it says."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from roofline import files
from roofline.audit.config_check.documents import Said
from roofline.audit.config_check.hardware import by_label
from roofline.audit.config_check.run import Run
from roofline.audit.engine_logs import names
from roofline.errors import InputError, SpecError
from roofline.specs.source import Assumption
from roofline.units import parse_count


@dataclass
class Record:
    """Where options come from."""

    notes: list[Assumption] = field(default_factory=list)

    def add(self, name: str, value: object, origin: Any, why: str) -> None:
        """Put a choice on record."""
        self.notes.append(Assumption(name, value, origin, why))


def model_of(run: Run, said: Said | None, given: Any, record: Record) -> Any:
    """The model: as given, else what a path or a name in the file means, for `load_model`."""
    if given is not None:
        if said is not None:
            record.add("model", str(given), "given", f"in place of the file's {said.value} ({said.place})")
        return given
    if said is None:
        raise SpecError(
            "the file does not say the model: give MODEL, an id, a YAML file or a config.json", path=run.place.path,
            line=run.place.line,
        )  # fmt: skip
    if (beside := _beside(said)) is not None:
        return beside
    try:
        found = names.model(str(said.value))
    except InputError:
        raise said.wrong(
            f"{said.value!r:.120} is no model that is shipped: give MODEL on the command line, an id, a YAML file or a "
            "config.json"
        ) from None
    if found != said.value:
        record.add("model", found, "given", f"{said.place} of the file names {said.value}: the same dimensions")
    return found


def hardware_of(run: Run, given: Any, record: Record) -> Any:
    """Likewise; of a cluster's label the accelerator that it stands for."""
    said = run.hardware
    if given is not None:
        if said is not None:
            record.add("hardware", str(given), "given", f"in place of the file's {said.value} ({said.place})")
        return given
    if said is None:
        raise SpecError(
            f"the file does not say the hardware: give --hardware, an id or a YAML file{_or_key(run.hardware_key)}",
            path=run.place.path, line=run.place.line,
        )  # fmt: skip
    found = _beside(said) or by_label(str(said.value))
    if found is None:
        raise said.wrong(
            f"{said.value!r:.120} is no hardware that is known: give --hardware (`roofline hardware list` shows all)"
        )
    if found != said.value:
        record.add("hardware", found, "given", f"{said.place} of the file names {said.value}")
    return found


def _beside(said: Said) -> str | None:
    """A path in the file, seen from its folder."""
    text = str(said.value)
    path = said.path.parent / Path(text).expanduser()
    return str(path) if path.suffix in (".yaml", ".yml", ".json") and files.is_file(path) else None


def replicas_of(run: Run, given: Any, record: Record) -> int:
    """How many there are: as given, as the file says, or as its form means where it says nothing."""
    said = run.replicas
    if given is not None:
        found = parse_count(given, "replicas", minimum=1)
        if said is not None and said.value != found:
            record.add("replicas", found, "given", f"in place of the file's {said.value} ({said.place})")
        else:
            record.add("replicas", found, "given", "")
        return found
    if said is not None:
        record.add("replicas", said.value, "given", f"{said.place} of the file")
        return int(said.value)
    if run.replicas_default is None:
        raise SpecError(
            f"the file does not say how many replicas there are: give --replicas{_or_key(run.replicas_key)}",
            path=run.place.path, line=run.place.line,
        )  # fmt: skip
    record.add("replicas", run.replicas_default[0], "default", run.replicas_default[1])
    return run.replicas_default[0]


def _or_key(key: str) -> str:
    return f", or the key {key}" if key else ""
