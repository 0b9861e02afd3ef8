"""Flags and Python options made into specs: names, units, ranges. Every wrong value is one error that names the flag."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from roofline.errors import InputError, UnitError, UnknownNameError
from roofline.predict.options import ALIASES, DEPLOYMENT, HARDWARE, of_groups
from roofline.specs.assumption import Assumption
from roofline.specs.deployment import Conventions, Deployment
from roofline.specs.engine import Engine
from roofline.specs.hardware import Hardware
from roofline.units import parse_count, parse_quantity

SHORT = {short: ALIASES[short] for short in ("tp", "pp", "dp", "ep")}
"""Names of parallel sizes by their short forms."""
COUNTS = {entry.name: int(entry.minimum) for entry in of_groups(DEPLOYMENT) if entry.kind == "count"}
"""The smallest value of each option of a deployment that is a whole number."""
OVERRIDES = {entry.name: entry.unit for entry in of_groups((HARDWARE,))}
"""Units of the figures of the hardware that a request can replace, by option."""


@dataclass
class Options:
    """Options by name, handed out once: what is left over at the end is unknown."""

    given: dict[str, Any]
    known: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, options: dict[str, Any]) -> Options:
        """Options under their long names; None means not given."""
        found: dict[str, Any] = {}
        for name, value in options.items():
            full = ALIASES.get(name, name)
            if value is not None and found.get(full) is not None:
                msg = f"{name} and {full} are the same option: give one of them"
                raise InputError(msg)
            found[full] = found.get(full) if value is None else value
        return cls(found)

    def take(self, name: str, default: Any = None) -> Any:
        """The value of an option, which is known from now on."""
        self.known.add(name)
        value = self.given.pop(name, None)
        return default if value is None else value

    def done(self) -> None:
        """Refuse what nobody asked for."""
        if self.given:
            raise UnknownNameError("option", next(iter(self.given)), self.known | set(ALIASES))


def quantity(name: str, value: Any, unit: str) -> float:
    """A figure from a flag, with its unit, or from Python, as a number in base units."""
    flag = f"--{name.replace('_', '-')}"
    try:
        number = parse_quantity(value, unit) if isinstance(value, str) else float(value)
    except (UnitError, TypeError, ValueError) as error:
        raise InputError(f"{flag}: {error}") from None
    if not 0 < number < math.inf:
        raise InputError(f"{flag} must be more than 0, not {value}")
    return number


def override(hardware: Hardware, options: Options, notes: list[Assumption]) -> Hardware:
    """Hardware with the figures that the user put in the place of its own."""
    figures = {}
    for name, unit in OVERRIDES.items():
        if (value := options.take(name)) is not None:
            figures["memory_bytes" if name == "memory" else name] = quantity(name, value, unit)
            why = "for every dtype" if name == "peak_flops" else "in place of the file's"
            notes.append(Assumption(name, value, "given", why))
    return Hardware(hardware.accelerator, hardware.node, figures)


def deployment(options: Options, engine: Engine, engine_given: bool, notes: list[Assumption]) -> Deployment:
    """The deployment that the options describe, and on record what the engine's defaults fill in."""
    values = {name: options.take(name) for name in Deployment.model_fields if name not in ("conventions", "engine")}
    values = {name: value for name, value in values.items() if value is not None}
    conventions = {name: value for name in Conventions.model_fields if (value := options.take(name)) is not None}
    for read in (values, conventions):
        for name, least in COUNTS.items():
            if name in read:
                read[name] = parse_count(read[name], name.replace("_", "-"), minimum=least)
    found: Deployment = validated(
        Deployment, {**values, "engine": engine.name, "conventions": validated(Conventions, conventions)}
    )

    label = f"{engine.name}@{engine.version}"
    why = "its defaults, and its blocks for the allocated KV cache"
    notes.append(Assumption("engine", label, "given" if engine_given else "default", why))
    for name in ("gpu_memory_utilization", "block_size", "max_num_batched_tokens"):
        why = "the most tokens for which activations are held at a time" if name == "max_num_batched_tokens" else ""
        given = getattr(found, name)
        if given is None:
            notes.append(Assumption(name, getattr(engine, name), "default", why))
        else:
            notes.append(Assumption(name, given, "given", why))
    notes.append(Assumption("reserve", found.reserve, "given" if found.reserve else "default", "bytes kept free"))
    if options.take("enable_prefix_caching"):
        notes.append(
            Assumption("enable_prefix_caching", True, "given", "--shared-prefix says how many cached tokens are common")
        )
    return found


def validated(spec: type[Any], values: dict[str, Any]) -> Any:
    """A spec from flags; a wrong value is an `InputError` that names the flag and what is allowed."""
    try:
        return spec(**values)
    except ValidationError as error:
        detail = error.errors()[0]
        name = "-".join(str(part) for part in detail["loc"]).replace("_", "-")
        text = str(detail["msg"]).removeprefix("Value error, ").removeprefix("Input ")
        message = f"--{name} {text}" if text.startswith("should") else f"--{name}: {text}"
        if "unknown" not in text:
            message += f", not {detail['input']!r}"
        raise InputError(message) from None
