"""vLLM's own file of flags, for `vllm serve --config`: keys are flags without their dashes.

Source: https://docs.vllm.ai/en/latest/configuration/serve_args.html.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from roofline.audit.config_check.documents import Document
from roofline.audit.config_check.forms.base import Form
from roofline.audit.config_check.run import Run
from roofline.audit.config_check.servers.base import Setting
from roofline.audit.config_check.servers.vllm import SERVER


def _matches(document: Document) -> bool:
    known = {*SERVER.flags, *SERVER.switches}
    return any(SERVER.full(f"--{key}") in known for key in document.file.data)


def _runs(document: Document) -> Iterator[Run]:
    settings = []
    for key in document.file.data:
        value = document.get(key)
        said = document.at(key, value=value)
        name = "--model" if key == "model_tag" else f"--{key}"
        if value is None:
            continue
        if isinstance(value, bool):
            settings.append(Setting(name, value, said))
        else:
            settings.append(Setting(name, value if isinstance(value, str) else json.dumps(value), said))
    yield Run(
        where="the flags",
        document=document,
        server=SERVER,
        place=document.at(),
        settings=tuple(settings),
    )


FORM = Form("a file of flags for vllm serve --config", "flags such as model and tensor-parallel-size", 3, _matches, _runs)
