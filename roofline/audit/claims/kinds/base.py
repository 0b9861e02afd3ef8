"""What a kind of claim has to say about itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roofline.audit.claims.roof import Reach, Roof
from roofline.specs.assumption import Assumption

if TYPE_CHECKING:
    from roofline.audit.claims.case import Case


def nothing_known(case: Case) -> Reach:
    """Of some kinds there is no estimate."""
    del case
    return Reach()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How one kind of claim is judged: its ceiling, what is reached in practice, the derivation in lines, and what was
    assumed where the claim says nothing. `judges` lists (kind, phase) of the claims."""

    judges: tuple[tuple[str, str], ...]
    roof: Callable[[Case], Roof]
    derive: Callable[[Case, Roof], list[str]]
    assume: Callable[[Case, Roof], list[Assumption]]
    reach: Callable[[Case], Reach] = nothing_known
