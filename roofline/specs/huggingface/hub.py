"""org/name[@revision] on Hugging Face: its config.json alone, fetched and kept by huggingface_hub (extra `hub`)."""

from __future__ import annotations

import logging
import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from roofline.errors import InputError, MissingExtraError

# A name of the hub: neither `./x` nor `~/x` is one.
_NAME = re.compile(r"(?P<repo>\w[\w.-]*/\w[\w.-]*)(?:@(?P<revision>[\w./-]+))?")
_FILES = (".yaml", ".yml", ".json")

# What the library raises, by name, so that every version of it is understood. The first in an error's ancestry counts.
_CAUSES = {
    "GatedRepoError": "its owner asks for a login: `hf auth login`, and accept its terms on its page",
    "RepositoryNotFoundError": "there is no such model, or it is not open to you",
    "RevisionNotFoundError": "it has no such revision",
    "LocalEntryNotFoundError": "it cannot be reached, and is not in the cache of huggingface_hub",
    "OfflineModeIsEnabled": "it is not in the cache of huggingface_hub, and HF_HUB_OFFLINE is set",
    "EntryNotFoundError": "it has no config.json",
    "HFValidationError": "that is no name that Hugging Face allows",
}


@dataclass(frozen=True, slots=True)
class Repository:
    """A model on Hugging Face, and the branch, tag or commit that is meant (None: its main branch)."""

    name: str
    revision: str | None = None


def repository(name: str) -> Repository | None:
    """The repository on Hugging Face that a name stands for; None if it does not have the form org/name[@revision].

    >>> repository("meta-llama/Llama-3.1-8B@main")
    Repository(name='meta-llama/Llama-3.1-8B', revision='main')
    >>> [repository(name) for name in ("gpt2", "./models/mine", "models/mine.yaml", "a/b/c")]
    [None, None, None, None]
    """
    match = _NAME.fullmatch(name)
    if match is None or Path(match["repo"]).suffix.lower() in _FILES:
        return None
    return Repository(match["repo"], match["revision"])


@cache
def fetch(wanted: Repository, hint: str = "") -> Path:
    """The path of a model's config.json in the cache of huggingface_hub; it is downloaded if it is not there.

    Args:
        wanted: the repository and its revision.
        hint: a sentence that is added to errors.

    Raises:
        MissingExtraError: huggingface_hub is not installed.
        InputError: the model, its revision or the file does not exist, needs a login, or cannot be reached.
    """
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # read when the library is imported
    try:
        import huggingface_hub
    except ImportError:
        raise MissingExtraError(
            f"{wanted.name} is no file or folder here{hint}; fetching it from Hugging Face", "hub"
        ) from None
    logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)  # it tells of every retry; the last error is enough
    try:
        return Path(huggingface_hub.hf_hub_download(wanted.name, "config.json", revision=wanted.revision))
    except Exception as error:  # noqa: BLE001 - whatever it raises is about the name or the network
        at = f" at {wanted.revision}" if wanted.revision else ""
        raise InputError(f"{wanted.name}{at} cannot be fetched from Hugging Face: {_cause(error)}{hint}") from None


def _cause(error: Exception) -> str:
    for ancestor in type(error).__mro__:
        if ancestor.__name__ in _CAUSES:
            return _CAUSES[ancestor.__name__]
    text = str(error).strip()
    return f"{type(error).__name__}{': ' + text.splitlines()[0] if text else ''}"
