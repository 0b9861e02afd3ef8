"""What a file starts, whatever its form: an engine with flags, so many times, on so many devices of some hardware."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from roofline.audit.config_check.documents import Document, Said
from roofline.audit.config_check.servers.base import Server, Setting


@dataclass(frozen=True, slots=True)
class Run:
    """One engine of a file. What the file does not say is None.

    Attributes:
        where: what of the file it is, in words.
        document: where it stands.
        server: the engine.
        place: of what starts it.
        settings: flags as they were written.
        options: options of `analyze` under their own names, where the file has them so.
        hardware: an id, or what the driver calls the device.
        hardware_key: the words under which the file says or would say it.
        replicas: how many there are.
        replicas_key: likewise.
        replicas_default: how many the form means where it says nothing.
        gpus: devices that one replica is given.
    """

    where: str
    document: Document
    server: Server
    place: Said
    settings: tuple[Setting, ...]
    options: dict[str, Said] = field(default_factory=dict)
    model: Said | None = None
    hardware: Said | None = None
    hardware_key: str = ""
    replicas: Said | None = None
    replicas_key: str = ""
    replicas_default: tuple[int, str] | None = None
    gpus: Said | None = None


def whole(said: Said | None, what: str, *, least: int = 1) -> Said | None:
    """A whole number of a file, also as text.

    Raises:
        SpecError: it is none.
    """
    if said is None:
        return None
    value: Any = said.value
    text = str(value).strip()
    if isinstance(value, bool) or not text.isascii() or not text.isdigit() or int(text) < least:
        raise said.wrong(f"{what} must be a whole number of at least {least}, not {str(value)[:60]!r}")
    return Said(int(text), said.path, said.key, said.line, said.column)
