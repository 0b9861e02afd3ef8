"""Sections of a model's file that come in kinds (attention: gqa, mla; feed-forward: gated_mlp, moe, ...).

A kind is one file in `roofline.blocks`: its keys and what it costs, side by side. This module knows none of them. It
finds them by name when a model's schema is built, walking that package, and puts together a union that is discriminated
by `kind`.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import Field

from roofline.specs.base import Spec

Role = Literal["mixer", "mlp"]
_HOME = "roofline.blocks"


class Section(Spec):
    """A part of a layer, of one of several kinds. Each kind narrows `kind` to a literal of its own."""

    role: ClassVar[Role]
    kind: str


@cache
def kinds(role: Role) -> dict[str, type[Section]]:
    """Section classes of a role by kind."""
    home = importlib.import_module(_HOME)
    for module in pkgutil.iter_modules(home.__path__):
        importlib.import_module(f"{_HOME}.{module.name}")
    found: dict[str, type[Section]] = {}
    stack = list(Section.__subclasses__())
    while stack:
        section = stack.pop()
        stack += section.__subclasses__()
        literal = get_args(section.model_fields["kind"].annotation)
        if not literal or getattr(section, "role", None) != role:
            continue  # an abstract base
        if found.setdefault(literal[0], section) is not section:
            msg = f"two kinds of {role} named {literal[0]!r}: {found[literal[0]].__module__} and {section.__module__}"
            raise TypeError(msg)
    return dict(sorted(found.items()))


def union(role: Role) -> Any:
    """A pydantic type that accepts a section of any kind of that role."""
    return Annotated[reduce(or_, kinds(role).values()), Field(discriminator="kind")]
