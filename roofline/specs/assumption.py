"""What was assumed for the user: every choice that shaped a result, and where it came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Origin = Literal["given", "default", "assumed", "transferred"]


@dataclass(frozen=True, slots=True)
class Assumption:
    """A choice. `given` by the user, a documented `default`, `assumed` because a fact was missing, or `transferred`
    from something similar."""

    name: str
    value: object
    origin: Origin
    why: str
