"""Our own form: `kind: deployment`, with a command line, its words, or options of `analyze`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from roofline.audit.config_check.command import started
from roofline.audit.config_check.documents import Document, Said
from roofline.audit.config_check.forms.base import Form
from roofline.audit.config_check.run import Run, whole
from roofline.audit.config_check.servers import servers
from roofline.audit.config_check.servers.base import Server, Setting
from roofline.audit.config_check.servers.vllm import SERVER as _VLLM
from roofline.audit.config_check.words import Word, commands, listed
from roofline.errors import UnknownNameError
from roofline.predict.options import ALIASES
from roofline.specs.base import Spec
from roofline.specs.deployment import Conventions, Deployment


class DeploymentFile(Spec):
    """The keys of the file."""

    schema_version: Literal[1] = 1
    kind: Literal["deployment"]
    model: str | None = Field(default=None, description="an id, a path from this file's folder, or a name on Hugging Face")
    hardware: str | None = Field(default=None, description="an id or a path")
    replicas: Any = Field(default=None, description="how many there are")
    gpus: Any = Field(default=None, description="accelerators that one replica is given")
    engine: str | None = Field(default=None, description="vllm or sglang, where no command says it")
    command: str | list[Any] | None = Field(default=None, description="the line that starts a replica; or")
    args: list[Any] | None = Field(default=None, description="the engine's flags, as a list; or")
    options: dict[str, Any] | None = Field(default=None, description="options of `roofline analyze` by name")


def _matches(document: Document) -> bool:
    return bool(document.get("kind") == "deployment")


def _runs(document: Document) -> Iterator[Run]:
    found = document.file.validate(DeploymentFile)
    given = [name for name in ("command", "args", "options") if getattr(found, name) is not None]
    if len(given) > 1 and not {"command", "args"} >= set(given):
        raise document.wrong((given[-1],), f"{given[0]} is given too: give one of command, args, options")
    named = _engine(document)
    server, settings = named or _VLLM, list[Setting]()
    options: dict[str, Said] = {}
    if found.command is not None or found.args is not None:
        server, settings = _started(document, named)
    elif found.options is not None:
        options = _options(document)
    yield Run(
        where="the deployment",
        document=document,
        server=server,
        place=document.at(given[0] if given else "kind"),
        settings=tuple(settings),
        options=options,
        model=document.said("model"),
        hardware=document.said("hardware"),
        hardware_key="hardware",
        replicas=whole(document.said("replicas"), "the number of replicas"),
        replicas_key="replicas",
        gpus=whole(document.said("gpus"), "the number of GPUs"),
    )


def _engine(document: Document) -> Server | None:
    if (said := document.said("engine")) is None:
        return None
    known = {server.name: server for server in servers()}
    if said.value not in known:
        raise said.wrong(str(UnknownNameError("engine", said.value, known, list_all=True)))
    return known[said.value]


def _started(document: Document, named: Server | None) -> tuple[Server, list[Setting]]:
    words: list[Word] = []
    for key in ("command", "args"):
        value = document.get(key)
        if isinstance(value, str):
            for line in commands(document.at(key, value=value), {}):
                if (found := started(line, {})) is not None:
                    return found
            words += [word for line in commands(document.at(key, value=value), {}) for word in line]
        elif value is not None:
            words += listed([document.at(key, index, value=each) for index, each in enumerate(value)], {})
    if (found := started(words, {})) is not None:
        return found
    key = "command" if document.get("command") is not None else "args"
    if document.get("command") is None:  # flags alone
        server = named or _VLLM
        if (found := started(words, {}, image=server.name)) is not None:
            return found
    starts = (
        "`vllm serve MODEL ...`, `python -m vllm.entrypoints.openai.api_server ...` or `python -m sglang.launch_server ...`"
    )
    raise document.wrong((key,), f"starts no engine that is known: {starts}")


def _options(document: Document) -> dict[str, Said]:
    allowed = {*Deployment.model_fields, *Conventions.model_fields, *ALIASES, "enable_prefix_caching"} - {"conventions"}
    found: dict[str, Said] = {}
    for key in document.get("options") or {}:
        said = document.at("options", key, value=document.get("options", key))
        name = ALIASES.get(key.replace("-", "_"), key.replace("-", "_"))
        if key.replace("-", "_") not in allowed:
            raise said.wrong(str(UnknownNameError("option", key, sorted(allowed))))
        if said.value is not None:
            found[name] = said
    return found


FORM = Form("a deployment of roofline", "kind: deployment", 0, _matches, _runs)
