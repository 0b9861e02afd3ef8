"""Docker Compose: a service whose command starts an engine.

Source: https://docs.docker.com/reference/compose-file/services/ and .../deploy/. Variables are those of `environment`, and the
defaults in `${NAME:-default}`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from roofline.audit.config_check.command import started
from roofline.audit.config_check.documents import Document, Keys, Said
from roofline.audit.config_check.forms.base import Form
from roofline.audit.config_check.run import Run, whole
from roofline.audit.config_check.words import Word, commands, listed


def _matches(document: Document) -> bool:
    return isinstance(document.get("services"), dict)


def _runs(document: Document) -> Iterator[Run]:
    for name in document.get("services"):
        keys: Keys = ("services", name)
        service = document.get(*keys)
        if not isinstance(service, dict):
            continue
        variables = _environment(service.get("environment"))
        words, place = [], None
        for key in ("entrypoint", "command"):
            found_here = _words(document, (*keys, key), variables)
            place = place or (document.at(*keys, key) if found_here else None)
            words += found_here
        image = "" if service.get("entrypoint") is not None else str(service.get("image") or "")
        if (found := started(words, variables, image)) is None:
            continue
        replicas = document.said(*keys, "deploy", "replicas") or document.said(*keys, "scale")
        yield Run(
            where=f"service {name}",
            document=document,
            server=found[0],
            place=place or document.at(*keys),
            settings=tuple(found[1]),
            replicas=whole(replicas, "the number of replicas"),
            replicas_default=(1, "a service has one where it says nothing"),
            gpus=_gpus(document, keys),
        )


def _words(document: Document, keys: Keys, variables: dict[str, str]) -> list[Word]:
    value = document.get(*keys)
    if isinstance(value, list):
        return listed([document.at(*keys, at, value=each) for at, each in enumerate(value)], variables)
    # a text is divided into words as by a shell, but run by none
    return [] if value is None else [word for line in commands(document.at(*keys, value=value), variables) for word in line]


def _environment(entries: Any) -> dict[str, str]:
    if isinstance(entries, dict):
        return {name: str(value) for name, value in entries.items() if value is not None and "$" not in str(value)}
    pairs = [str(each).partition("=") for each in entries] if isinstance(entries, list) else []
    return {name: value for name, equals, value in pairs if equals and "$" not in value}


def _gpus(document: Document, keys: Keys) -> Said | None:
    devices = (*keys, "deploy", "resources", "reservations", "devices")
    for at, device in enumerate(document.entries(*devices)):
        if not isinstance(device, dict) or "gpu" not in document.entries(*devices, at, "capabilities"):
            continue
        if isinstance(named := device.get("device_ids"), list):
            return document.at(*devices, at, "device_ids", value=len(named))
        if device.get("count") not in (None, "all"):
            return whole(document.said(*devices, at, "count"), "the number of GPUs")
    return None


FORM = Form("Docker Compose", "services", 2, _matches, _runs)
