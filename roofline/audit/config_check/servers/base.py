"""An engine's server: the flags that it is started with, as far as they are the same thing as options of `analyze`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from roofline.audit.config_check.documents import Said
from roofline.blocks.model import Model
from roofline.specs.hardware import Hardware

_LEFT = re.compile(r"(?<!\\)\$[\w({]")


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag with a value. `name`: what it is here. `parse` raises ValueError with what is allowed."""

    name: str
    parse: Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Setting:
    """A flag as it was written: its value as text, true or false of a switch, and where it stands."""

    flag: str
    value: str | bool
    said: Said


@dataclass(frozen=True, slots=True)
class Default:
    """What an engine takes where nobody says it, and why that."""

    value: Any
    why: str


@dataclass(frozen=True, slots=True)
class Server:
    """An engine's server by name.

    Attributes:
        starts: where a command starts it; what follows are its flags, and the model if it is no flag.
        image: names of container images that start it by themselves.
        flags: those with a value that are understood, by their full name.
        switches: those without a value, likewise.
        aliases: other spellings to full names.
        unmodelled: flags that change performance in a way that is not modelled, and how.
        silent: flags that change no performance.
        several: of the silent ones, those that take more than one word.
        bare: those of all flags that are not understood which take no value.
        adapted: what was said as options of `analyze`, and notes on what is not quite the same.
        defaults: by model, hardware and options, what else is taken.
    """

    name: str
    starts: tuple[re.Pattern[str], ...]
    image: re.Pattern[str]
    flags: Mapping[str, Flag]
    switches: Mapping[str, str]
    aliases: Mapping[str, str]
    unmodelled: Mapping[str, str]
    silent: frozenset[str]
    several: frozenset[str]
    bare: frozenset[str]
    adapted: Callable[[Model, dict[str, Any]], tuple[dict[str, Any], list[str]]]
    defaults: Callable[[Model, Hardware, dict[str, Any]], dict[str, Default]]

    def full(self, flag: str) -> str:
        """The full name of a flag as it was written.

        `--tensor_parallel_size` and `-tp` are `--tensor-parallel-size`.
        """
        name = flag if not flag.startswith("--") else "--" + flag[2:].replace("_", "-")
        return self.aliases.get(name, name)


@dataclass(slots=True)
class Understood:
    """What settings mean: values under our names, each with its place; what is not in the times, in words; what is unknown."""

    values: dict[str, Said] = field(default_factory=dict)
    flags: dict[str, str] = field(default_factory=dict)
    """Under our names, the flags as they were written."""
    unmodelled: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def understand(server: Server, settings: list[Setting], given: Mapping[str, Any]) -> Understood:
    """The settings under our names; of a flag that is there twice the last counts. What is `given` needs no value here.

    Raises:
        SpecError: a value that the engine would refuse, or that a variable hides, with its place.
    """
    found = Understood()
    for setting in settings:
        flag = server.full(setting.flag)
        if (name := _switched(server, flag)) is not None:
            key, on = name
            found.values[key] = _at(setting, on if setting.value is True else _truth(setting) is on)
            found.flags[key] = setting.flag
        elif flag in server.flags:
            known = server.flags[flag]
            found.flags[known.name] = setting.flag
            if given.get(known.name) is not None:
                continue
            value = _value(known, setting)
            if value is not None:
                found.values[known.name] = _at(setting, value)
        elif flag in server.silent or _off(flag) in {*server.silent, *server.unmodelled}:
            continue
        elif (why := server.unmodelled.get(flag.split(".")[0])) is not None:
            if setting.value is not False:
                found.unmodelled.append(f"{setting.flag} {why}")
        else:
            found.unknown.append(setting.flag)
    found.unmodelled = list(dict.fromkeys(found.unmodelled))
    found.unknown = list(dict.fromkeys(found.unknown))
    return found


def _switched(server: Server, flag: str) -> tuple[str, bool] | None:
    """What a switch is here, and whether its plain form switches it on."""
    if flag in server.switches:
        return server.switches[flag], True
    plain = _off(flag)
    return None if plain is None or plain not in server.switches else (server.switches[plain], False)


def _off(flag: str) -> str | None:
    """What `--no-...` switches off."""
    return "--" + flag[5:] if flag.startswith("--no-") else None


def _truth(setting: Setting) -> bool:
    if isinstance(setting.value, bool):
        return setting.value
    if setting.value.lower() not in ("true", "false", "1", "0"):
        raise setting.said.wrong(f"{setting.flag} is switched on or off, true or false, not {setting.value[:60]!r}")
    return setting.value.lower() in ("true", "1")


def _value(known: Flag, setting: Setting) -> Any:
    if isinstance(setting.value, bool):
        raise setting.said.wrong(f"{setting.flag} needs a value")
    if _LEFT.search(setting.value):
        instead = f"--{known.name.replace('_', '-')}" if known.name != "model" else "MODEL"
        raise setting.said.wrong(
            f"{setting.flag} is {setting.value[:80]}, and nothing in the file sets that variable: "
            f"give {instead} on the command line"
        )
    try:
        return known.parse(setting.value)
    except ValueError as error:
        raise setting.said.wrong(f"{setting.flag} must be {error}, not {setting.value[:60]!r}") from None


def _at(setting: Setting, value: Any) -> Said:
    said = setting.said
    return Said(value, said.path, said.key, said.line, said.column)


def count(text: str) -> int:
    """A whole number of at least 1."""
    if not re.fullmatch(r"\s*\d+\s*", text) or int(text) < 1:
        raise ValueError("a whole number of at least 1")
    return int(text)


def share(text: str) -> float:
    """More than 0 and at most 1."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise ValueError("more than 0 and at most 1")
    return value


def dtype(text: str) -> str | None:
    """A format of numbers; None: as the checkpoint says."""
    from roofline.dtypes import parse_dtype
    from roofline.errors import RooflineError

    name = {"half": "fp16", "float": "fp32"}.get(text.strip().lower(), text)
    if name.strip().lower() == "auto":
        return None
    try:
        return parse_dtype(name).name
    except RooflineError:
        raise ValueError("auto, bfloat16, float16 (half) or float32 (float)") from None


def cache_dtype(text: str) -> str | None:
    """The format of the cache: an engine's own layouts of fp8 are fp8 too; None: as the activations."""
    return "fp8" if text.strip().lower().startswith("fp8") else dtype(text)


def named(text: str) -> str:
    """A name."""
    return text


def has_experts(model: Model) -> bool:
    """Whether a layer of the model has experts."""
    return any(block.experts is not None for block in model.blocks)
