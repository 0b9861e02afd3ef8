"""Kubernetes: what has a template of pods, and pods themselves.

Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/; `$(NAME)` in commands is filled in from `env`.
Labels of NVIDIA's feature discovery: https://github.com/NVIDIA/k8s-device-plugin, of GKE:
https://cloud.google.com/kubernetes-engine/docs/how-to/gpus.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from roofline.audit.config_check.command import started
from roofline.audit.config_check.documents import Document, Keys, Said
from roofline.audit.config_check.forms.base import Form
from roofline.audit.config_check.run import Run, whole
from roofline.audit.config_check.words import listed

_KINDS = ("Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "Job", "Pod")
_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
_PRODUCTS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "cloud.google.com/gke-accelerator")


def _matches(document: Document) -> bool:
    return document.get("apiVersion") is not None and document.get("kind") is not None


def _runs(document: Document) -> Iterator[Run]:
    kind = document.get("kind")
    if kind not in _KINDS:
        return
    pod: Keys = ("spec",) if kind == "Pod" else ("spec", "template", "spec")
    for index in range(len(document.entries(*pod, "containers"))):
        keys: Keys = (*pod, "containers", index)
        variables = _env(document.get(*keys, "env"))
        words, place = [], None
        for name in ("command", "args"):
            listed_here = document.get(*keys, name)
            if listed_here is None:
                continue
            if not isinstance(listed_here, list):
                raise document.wrong((*keys, name), "must be a list of texts, such as [vllm, serve, MODEL]")
            place = place or document.at(*keys, name)
            words += listed([document.at(*keys, name, at, value=each) for at, each in enumerate(listed_here)], variables)
        image = "" if document.get(*keys, "command") is not None else str(document.get(*keys, "image") or "")
        if (found := started(words, variables, image)) is None:
            continue
        called = document.get("metadata", "name")
        yield Run(
            replicas_key="spec.replicas",
            where=f"{kind} {called}, container {document.get(*keys, 'name')}",
            document=document,
            server=found[0],
            place=place or document.at(*keys),
            settings=tuple(found[1]),
            hardware=_product(document, pod),
            hardware_key="nodeSelector nvidia.com/gpu.product",
            replicas=whole(document.said("spec", "replicas"), "the number of replicas") if kind not in ("Pod", "Job") else None,
            replicas_default=None if kind == "DaemonSet" else (1, f"a {kind} has one where it says nothing"),
            gpus=_gpus(document, keys),
        )


def _env(entries: Any) -> dict[str, str]:
    """Variables with a value of their own; those from secrets and maps are not known."""
    return {
        str(each["name"]): str(each["value"])
        for each in entries if isinstance(each, dict) and "name" in each and each.get("value") is not None
    } if isinstance(entries, list) else {}  # fmt: skip


def _gpus(document: Document, keys: Keys) -> Said | None:
    for part in ("limits", "requests"):
        for resource in _RESOURCES:
            if (said := document.said(*keys, "resources", part, resource)) is not None:
                return whole(said, "the number of GPUs")
    return None


def _product(document: Document, pod: Keys) -> Said | None:
    """What the pods ask of their node, where it is one product."""
    for label in _PRODUCTS:
        if (said := document.said(*pod, "nodeSelector", label)) is not None:
            return said
    terms = (*pod, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    for term in range(len(document.entries(*terms))):
        for at, rule in enumerate(document.entries(*terms, term, "matchExpressions")):
            alone = isinstance(rule, dict) and rule.get("key") in _PRODUCTS and rule.get("operator") == "In"
            if alone and len(document.entries(*terms, term, "matchExpressions", at, "values")) == 1:
                return document.said(*terms, term, "matchExpressions", at, "values", 0)
    return None


FORM = Form("Kubernetes", f"apiVersion and kind: {', '.join(_KINDS[:-1])} or {_KINDS[-1]}", 1, _matches, _runs)
