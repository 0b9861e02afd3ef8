"""Files of org/name[@revision] on Hugging Face, fetched and cached by huggingface_hub (extra `hub`)."""

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
    try:
        return _download(wanted, "config.json")
    except ImportError:
        raise MissingExtraError(
            f"{wanted.name} is no file or folder here{hint}; fetching it from Hugging Face", "hub"
        ) from None
    except Exception as error:  # noqa: BLE001 - whatever it raises is about the name or the network
        raise InputError(f"{_named(wanted)} cannot be fetched from Hugging Face: {_cause(error)}{hint}") from None


@cache
def fetch_if_any(wanted: Repository, file: str) -> Path | None:
    """The path of another file of a repository, which `fetch` has reached; None if the repository does not have it.

    Raises:
        InputError: whether it has the file cannot be found out: it is not in the cache, and there is no network.
    """
    try:
        return _download(wanted, file)
    except Exception as error:  # noqa: BLE001 - as above
        if _kind(error) == "EntryNotFoundError":
            return None
        raise InputError(f"{file} of {_named(wanted)} cannot be fetched: {_cause(error)}") from None


def _download(wanted: Repository, file: str) -> Path:
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # read when the library is imported
    import huggingface_hub

    logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)  # it tells of every retry; the last error is enough
    return Path(huggingface_hub.hf_hub_download(wanted.name, file, revision=wanted.revision))


def _named(wanted: Repository) -> str:
    return f"{wanted.name} at {wanted.revision}" if wanted.revision else wanted.name


def _kind(error: Exception) -> str | None:
    """The first class in an error's ancestry that has a text in `_CAUSES`."""
    return next((ancestor.__name__ for ancestor in type(error).__mro__ if ancestor.__name__ in _CAUSES), None)


def _cause(error: Exception) -> str:
    if (kind := _kind(error)) is not None:
        return _CAUSES[kind]
    text = str(error).strip()
    return f"{type(error).__name__}{': ' + text.splitlines()[0] if text else ''}"
