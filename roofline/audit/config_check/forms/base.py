"""A form in which repositories hold deployments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from roofline.audit.config_check.documents import Document
from roofline.audit.config_check.run import Run


@dataclass(frozen=True, slots=True)
class Form:
    """A form by its keys: which documents are of it, and the engines that one of them starts.

    `order`: forms are asked in this order, those with keys of their own first.
    """

    title: str
    keys: str
    order: int
    matches: Callable[[Document], bool]
    runs: Callable[[Document], Iterator[Run]]
