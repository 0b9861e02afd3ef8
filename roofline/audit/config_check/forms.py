"""Forms in which repositories hold deployments: which engine a file starts, with which flags, on which devices.

Other packages add forms by the entry-point group `roofline.deployment_forms`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from roofline.audit.config_check.commands import Word, argument_words, find_server, script_commands
from roofline.audit.config_check.documents import Document, Keys, LocatedValue, read_documents
from roofline.audit.config_check.servers import SERVERS, VLLM, Server, Setting
from roofline.errors import SpecError, UnknownNameError
from roofline.predict.options import ALIASES
from roofline.registry import Registry
from roofline.specs.base import Spec
from roofline.specs.deployment import Conventions, Deployment


@dataclass(frozen=True, slots=True)
class EngineLaunch:
    """One engine that a file starts. What the file does not say is None.

    Attributes:
        where: the part of the file, in words, such as `service llm`.
        document: the document that holds it.
        server: the engine's server.
        place: place of what starts the engine.
        settings: flags as they were written.
        options: options of `analyze` by name, where the file has them instead of flags.
        model: an id, a path, or a name on Hugging Face.
        hardware: an id, a path, or a cluster's label of the device.
        hardware_key: key under which a file of this form names the hardware, for messages.
        replicas: number of replicas.
        replicas_key: key of their number, likewise.
        replicas_default: their number where the file says nothing, and why.
        gpus: number of devices that one replica is given.
    """

    where: str
    document: Document
    server: Server
    place: LocatedValue
    settings: tuple[Setting, ...]
    options: dict[str, LocatedValue] = field(default_factory=dict)
    model: LocatedValue | None = None
    hardware: LocatedValue | None = None
    hardware_key: str = ""
    replicas: LocatedValue | None = None
    replicas_key: str = ""
    replicas_default: tuple[int, str] | None = None
    gpus: LocatedValue | None = None


def _whole_number(value: LocatedValue | None, what: str, *, least: int = 1) -> LocatedValue | None:
    """A whole number of a file, also as text.

    Raises:
        SpecError: it is none.
    """
    if value is None:
        return None
    number: Any = value.value
    text = str(number).strip()
    if isinstance(number, bool) or not text.isascii() or not text.isdigit() or int(text) < least:
        raise value.error(f"{what} must be a whole number of at least {least}, not {str(number)[:60]!r}")
    return replace(value, value=int(text), block=False)


@dataclass(frozen=True, slots=True)
class DeploymentForm:
    """A file format of deployments.

    Attributes:
        title: its name in messages.
        keys: the keys that identify it, in messages.
        matches: whether a document is in this format.
        launches: yields the engines that a document starts; raises SpecError for wrong values.
    """

    title: str
    keys: str
    matches: Callable[[Document], bool]
    launches: Callable[[Document], Iterator[EngineLaunch]]


# Our own form: `kind: deployment`, with a command line, its words, or options of `analyze`.


class DeploymentFile(Spec):
    """The keys of a file of `kind: deployment`."""

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


def _roofline_matches(document: Document) -> bool:
    return bool(document.get("kind") == "deployment")


def _roofline_launches(document: Document) -> Iterator[EngineLaunch]:
    keys = document.file.validate(DeploymentFile)
    present = [name for name in ("command", "args", "options") if getattr(keys, name) is not None]
    if len(present) > 1 and not {"command", "args"} >= set(present):
        raise document.error((present[-1],), f"{present[0]} is given too: give one of command, args, options")
    named = _roofline_engine(document)
    server, settings = named or VLLM, list[Setting]()
    options: dict[str, LocatedValue] = {}
    if keys.command is not None or keys.args is not None:
        server, settings = _roofline_launched(document, named)
    elif keys.options is not None:
        options = _roofline_options(document)
    yield EngineLaunch(
        where="the deployment",
        document=document,
        server=server,
        place=document.at(present[0] if present else "kind"),
        settings=tuple(settings),
        options=options,
        model=document.located("model"),
        hardware=document.located("hardware"),
        hardware_key="hardware",
        replicas=_whole_number(document.located("replicas"), "the number of replicas"),
        replicas_key="replicas",
        gpus=_whole_number(document.located("gpus"), "the number of GPUs"),
    )


def _roofline_engine(document: Document) -> Server | None:
    if (engine := document.located("engine")) is None:
        return None
    if engine.value not in SERVERS:
        raise engine.error(str(UnknownNameError("engine", engine.value, SERVERS, list_all=True)))
    return SERVERS[engine.value]


def _roofline_launched(document: Document, named: Server | None) -> tuple[Server, list[Setting]]:
    words: list[Word] = []
    for key in ("command", "args"):
        value = document.get(key)
        if isinstance(value, str):
            for line in script_commands(document.at(key, value=value), {}):
                if (match := find_server(line, {})) is not None:
                    return match
            words += [word for line in script_commands(document.at(key, value=value), {}) for word in line]
        elif value is not None:
            words += argument_words([document.at(key, index, value=each) for index, each in enumerate(value)], {})
    if (match := find_server(words, {})) is not None:
        return match
    key = "command" if document.get("command") is not None else "args"
    if document.get("command") is None:  # flags alone
        server = named or VLLM
        if (match := find_server(words, {}, image=server.name)) is not None:
            return match
    starts = (
        "`vllm serve MODEL ...`, `python -m vllm.entrypoints.openai.api_server ...` or `python -m sglang.launch_server ...`"
    )
    raise document.error((key,), f"starts no engine that is known: {starts}")


def _roofline_options(document: Document) -> dict[str, LocatedValue]:
    allowed = {*Deployment.model_fields, *Conventions.model_fields, *ALIASES, "enable_prefix_caching"} - {"conventions"}
    options: dict[str, LocatedValue] = {}
    for key in document.get("options") or {}:
        option = document.at("options", key, value=document.get("options", key))
        name = ALIASES.get(key.replace("-", "_"), key.replace("-", "_"))
        if key.replace("-", "_") not in allowed:
            raise option.error(str(UnknownNameError("option", key, sorted(allowed))))
        if option.value is not None:
            options[name] = option
    return options


ROOFLINE_FORM = DeploymentForm("a deployment of roofline", "kind: deployment", _roofline_matches, _roofline_launches)


# Kubernetes: what has a template of pods, and pods themselves.
#
# Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/; `env` sets `$(NAME)` in commands.
# Labels of NVIDIA's feature discovery: https://github.com/NVIDIA/k8s-device-plugin, of GKE:
# https://cloud.google.com/kubernetes-engine/docs/how-to/gpus.

_KINDS = ("Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "Job", "Pod")
_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
_PRODUCTS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "cloud.google.com/gke-accelerator")


def _kubernetes_matches(document: Document) -> bool:
    return document.get("apiVersion") is not None and document.get("kind") is not None


def _kubernetes_launches(document: Document) -> Iterator[EngineLaunch]:
    kind = document.get("kind")
    if kind not in _KINDS:
        return
    pod: Keys = ("spec",) if kind == "Pod" else ("spec", "template", "spec")
    for index in range(len(document.entries(*pod, "containers"))):
        keys: Keys = (*pod, "containers", index)
        variables = _kubernetes_env(document.get(*keys, "env"))
        words, place = [], None
        for name in ("command", "args"):
            listed_here = document.get(*keys, name)
            if listed_here is None:
                continue
            if not isinstance(listed_here, list):
                raise document.error((*keys, name), "must be a list of texts, such as [vllm, serve, MODEL]")
            place = place or document.at(*keys, name)
            words += argument_words(
                [document.at(*keys, name, at, value=each) for at, each in enumerate(listed_here)], variables
            )
        image = "" if document.get(*keys, "command") is not None else str(document.get(*keys, "image") or "")
        if (match := find_server(words, variables, image)) is None:
            continue
        called = document.get("metadata", "name")
        yield EngineLaunch(
            replicas_key="spec.replicas",
            where=f"{kind} {called}, container {document.get(*keys, 'name')}",
            document=document,
            server=match[0],
            place=place or document.at(*keys),
            settings=tuple(match[1]),
            hardware=_kubernetes_product(document, pod),
            hardware_key="nodeSelector nvidia.com/gpu.product",
            replicas=_whole_number(document.located("spec", "replicas"), "the number of replicas")
            if kind not in ("Pod", "Job")
            else None,
            replicas_default=None if kind == "DaemonSet" else (1, f"a {kind} has one where it says nothing"),
            gpus=_kubernetes_gpus(document, keys),
        )


def _kubernetes_env(entries: Any) -> dict[str, str]:
    """Variables with a value of their own; those from secrets and maps are not known."""
    return {
        str(each["name"]): str(each["value"])
        for each in entries if isinstance(each, dict) and "name" in each and each.get("value") is not None
    } if isinstance(entries, list) else {}  # fmt: skip


def _kubernetes_gpus(document: Document, keys: Keys) -> LocatedValue | None:
    for part in ("limits", "requests"):
        for resource in _RESOURCES:
            if (gpus := document.located(*keys, "resources", part, resource)) is not None:
                return _whole_number(gpus, "the number of GPUs")
    return None


def _kubernetes_product(document: Document, pod: Keys) -> LocatedValue | None:
    """What the pods ask of their node, where it is one product."""
    for label in _PRODUCTS:
        if (product := document.located(*pod, "nodeSelector", label)) is not None:
            return product
    terms = (*pod, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    for term in range(len(document.entries(*terms))):
        for at, rule in enumerate(document.entries(*terms, term, "matchExpressions")):
            alone = isinstance(rule, dict) and rule.get("key") in _PRODUCTS and rule.get("operator") == "In"
            if alone and len(document.entries(*terms, term, "matchExpressions", at, "values")) == 1:
                return document.located(*terms, term, "matchExpressions", at, "values", 0)
    return None


KUBERNETES_FORM = DeploymentForm(
    "Kubernetes", f"apiVersion and kind: {', '.join(_KINDS[:-1])} or {_KINDS[-1]}", _kubernetes_matches, _kubernetes_launches
)


# Docker Compose: a service whose command starts an engine.
#
# Source: https://docs.docker.com/reference/compose-file/services/ and .../deploy/. Variables are those of `environment`, and
# the defaults in `${NAME:-default}`.


def _compose_matches(document: Document) -> bool:
    return isinstance(document.get("services"), dict)


def _compose_launches(document: Document) -> Iterator[EngineLaunch]:
    for name in document.get("services"):
        keys: Keys = ("services", name)
        service = document.get(*keys)
        if not isinstance(service, dict):
            continue
        variables = _compose_environment(service.get("environment"))
        words, place = [], None
        for key in ("entrypoint", "command"):
            words_here = _compose_words(document, (*keys, key), variables)
            place = place or (document.at(*keys, key) if words_here else None)
            words += words_here
        image = "" if service.get("entrypoint") is not None else str(service.get("image") or "")
        if (match := find_server(words, variables, image)) is None:
            continue
        replicas = document.located(*keys, "deploy", "replicas") or document.located(*keys, "scale")
        yield EngineLaunch(
            where=f"service {name}",
            document=document,
            server=match[0],
            place=place or document.at(*keys),
            settings=tuple(match[1]),
            replicas=_whole_number(replicas, "the number of replicas"),
            replicas_default=(1, "a service has one where it says nothing"),
            gpus=_compose_gpus(document, keys),
        )


def _compose_words(document: Document, keys: Keys, variables: dict[str, str]) -> list[Word]:
    value = document.get(*keys)
    if isinstance(value, list):
        return argument_words([document.at(*keys, at, value=each) for at, each in enumerate(value)], variables)
    # a text is divided into words as by a shell, but run by none
    return (
        [] if value is None else [word for line in script_commands(document.at(*keys, value=value), variables) for word in line]
    )


def _compose_environment(entries: Any) -> dict[str, str]:
    if isinstance(entries, dict):
        return {name: str(value) for name, value in entries.items() if value is not None and "$" not in str(value)}
    pairs = [str(each).partition("=") for each in entries] if isinstance(entries, list) else []
    return {name: value for name, equals, value in pairs if equals and "$" not in value}


def _compose_gpus(document: Document, keys: Keys) -> LocatedValue | None:
    devices = (*keys, "deploy", "resources", "reservations", "devices")
    for at, device in enumerate(document.entries(*devices)):
        if not isinstance(device, dict) or "gpu" not in document.entries(*devices, at, "capabilities"):
            continue
        if isinstance(named := device.get("device_ids"), list):
            return document.at(*devices, at, "device_ids", value=len(named))
        if device.get("count") not in (None, "all"):
            return _whole_number(document.located(*devices, at, "count"), "the number of GPUs")
    return None


COMPOSE_FORM = DeploymentForm("Docker Compose", "services", _compose_matches, _compose_launches)


# vLLM's own file of flags, for `vllm serve --config`: keys are flags without their dashes.
#
# Source: https://docs.vllm.ai/en/latest/configuration/serve_args.html.


def _vllm_config_matches(document: Document) -> bool:
    known = {*VLLM.flags, *VLLM.switches}
    return any(VLLM.full(f"--{key}") in known for key in document.file.data)


def _vllm_config_launches(document: Document) -> Iterator[EngineLaunch]:
    settings = []
    for key in document.file.data:
        value = document.get(key)
        source = document.at(key, value=value)
        name = "--model" if key == "model_tag" else f"--{key}"
        if value is None:
            continue
        if isinstance(value, bool):
            settings.append(Setting(name, value, source))
        else:
            settings.append(Setting(name, value if isinstance(value, str) else json.dumps(value), source))
    yield EngineLaunch(
        where="the flags",
        document=document,
        server=VLLM,
        place=document.at(),
        settings=tuple(settings),
    )


VLLM_CONFIG_FORM = DeploymentForm(
    "a file of flags for vllm serve --config",
    "flags such as model and tensor-parallel-size",
    _vllm_config_matches,
    _vllm_config_launches,
)


# Those with keys of their own first.
FORMS = Registry(
    "form of a deployment", (ROOFLINE_FORM, KUBERNETES_FORM, COMPOSE_FORM, VLLM_CONFIG_FORM), group="roofline.deployment_forms",
    key=attrgetter("title"), accepts=DeploymentForm,
)  # fmt: skip


def read_launch(path: Path) -> EngineLaunch:
    """Read the one engine that a file starts, in any known format.

    Raises:
        SpecError: a file that cannot be read, no known format, a wrong value, or not exactly one engine that is started.
    """
    documents = ((document, _form(document)) for document in read_documents(path))
    known = [(document, form) for document, form in documents if form is not None]
    if not known:
        listed = "; ".join(f"{form.title} ({form.keys})" for form in FORMS.values())
        raise SpecError(f"holds no deployment in a form that is known: {listed}", path=path, line=1)
    launches = [launch for document, form in known for launch in form.launches(document)]
    if not launches:
        titles = " and ".join(dict.fromkeys(form.title for _, form in known))
        raise SpecError(
            f"{titles}, but nothing in it starts vLLM or SGLang: "
            "no `vllm serve`, no `vllm.entrypoints.openai.api_server`, no `sglang.launch_server`",
            path=path,
            line=1,
        )
    if len(launches) > 1:
        listed = ", ".join(f"{launch.where} (line {launch.place.line})" for launch in launches)
        raise SpecError(f"starts {len(launches)} engines, and one is checked at a time: {listed}", path=path)
    return launches[0]


def _form(document: Document) -> DeploymentForm | None:
    return next((form for form in FORMS.values() if form.matches(document)), None)


def form_title(document: Document) -> str:
    """The title of the format of a document in which `read_launch` found an engine."""
    return next(form.title for form in FORMS.values() if form.matches(document))
