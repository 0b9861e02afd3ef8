"""From the names in a log to what is shipped: models by their names on Hugging Face, devices by what the driver calls them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from roofline import files
from roofline.errors import InputError, RooflineError
from roofline.specs.library import by_driver_name, find, ids, text_of

# What fine-tuning and quantising put behind a name: the dimensions stay those of the base.
_SUFFIX = re.compile(
    r"[-_.](?:instruct|it|chat|hf|base|fp8|fp8-dynamic|dynamic|awq|gptq|int4|int8|w4a16|w8a8|w8a16|quantized|bnb|4bit|8bit|"
    r"nvfp4|mxfp4|marlin|g128|autoround|[a-z0-9]*tuned)$"
)
_HF_ID = re.compile(r"^hf_id:\s*(\S+)", re.MULTILINE)
_CACHED = re.compile(r"models--([^/]+?)--([^/]+)")


def model(name: str) -> str:
    """What `find("models", ...)` takes for the model that an engine was started with: a folder or file that is here, else a
    shipped id with the same dimensions.

    >>> model("meta-llama/Llama-3.1-8B-Instruct"), model("neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8")
    ('llama-3.1-8b', 'llama-3.1-8b')
    >>> model("/cache/models--Qwen--Qwen3-32B/snapshots/9216db5781bf")
    'qwen3-32b'

    Raises:
        InputError: nothing shipped is this model.
    """
    if os.sep in name and files.is_file(Path(name) / "config.json"):
        return name
    cached = _CACHED.search(name)
    wanted = f"{cached[1]}/{cached[2]}" if cached else name.rstrip("/")
    known = ids("models")
    for entry, path in known.items():
        match = _HF_ID.search(text_of(path))
        if match and match[1].strip("\"'").lower() == wanted.lower():
            return entry
    for base in _bases(wanted.rpartition("/")[2].lower()):
        found = _known(base, known)
        if found is not None:
            return found
    raise InputError(f"the log's model {name!r:.120} is none that is shipped: give MODEL, an id, a YAML file or a config.json")


def _bases(name: str) -> list[str]:
    """A name with one suffix less at a time, each with and without Meta's prefix, and in the spelling of ids."""
    found = []
    for _ in range(8):
        found += [name, name.removeprefix("meta-")]
        shorter = _SUFFIX.sub("", name)
        if shorter == name:
            break
        name = shorter
    return found


def _known(name: str, known: dict[str, Path]) -> str | None:
    """The id of a shipped model by its own name or an alias of it."""
    if name in known:
        return name
    if not re.fullmatch(r"[\w.-]{1,200}", name):
        return None
    try:
        return find("models", name).stem
    except RooflineError:
        return None


def device(name: str, known: Callable[[str], str | None] = by_driver_name) -> str | None:
    """The accelerator whose name stands in the name of a file of tuned kernels, where blanks are underscores.

    >>> device("NVIDIA_H100_80GB_HBM3")
    'h100-sxm'
    """
    return known(name.replace("_", " "))
