"""The engine that a file starts."""

from __future__ import annotations

from pathlib import Path

from roofline.audit.config_check.documents import Document, read_documents
from roofline.audit.config_check.forms import forms
from roofline.audit.config_check.run import Run
from roofline.errors import SpecError


def read_run(path: Path) -> Run:
    """The one engine that a file starts, in whatever form it is.

    Raises:
        SpecError: no form that is known, nothing in it that starts an engine, or more than one that does.
    """
    found = [(document, next((form for form in forms() if form.matches(document)), None)) for document in read_documents(path)]
    known = [(document, form) for document, form in found if form is not None]
    if not known:
        listed = "; ".join(f"{form.title} ({form.keys})" for form in forms())
        raise SpecError(f"holds no deployment in a form that is known: {listed}", path=path, line=1)
    runs = [run for document, form in known for run in form.runs(document)]
    if not runs:
        titles = " and ".join(dict.fromkeys(form.title for _, form in known))
        raise SpecError(
            f"{titles}, but nothing in it starts vLLM or SGLang: "
            "no `vllm serve`, no `vllm.entrypoints.openai.api_server`, no `sglang.launch_server`",
            path=path,
            line=1,
        )
    if len(runs) > 1:
        listed = ", ".join(f"{run.where} (line {run.place.line})" for run in runs)
        raise SpecError(f"starts {len(runs)} engines, and one is checked at a time: {listed}", path=path)
    return runs[0]


def form_of(document: Document) -> str:
    """The title of a document's form."""
    return next(form.title for form in forms() if form.matches(document))
