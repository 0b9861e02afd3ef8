"""What an engine is started with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from roofline.predict.request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A replica to be started: `longest` tokens a sequence; `pool` is prefill or decode where the two are apart."""

    request: Request
    longest: int
    pool: str | None = None
    prefix_caching: bool = False


@dataclass(frozen=True, slots=True)
class EngineFlags:
    """An engine by name and version. `flags`: its command line for a replica; None where it has no such option."""

    name: str
    flags: Callable[[Start], list[str] | None]
    version: str | None = None
    """None: that of the request's engine."""

    def label(self, request: Request) -> str:
        """`vllm@0.19`."""
        return f"{self.name}@{self.version or request.engine.version}"
