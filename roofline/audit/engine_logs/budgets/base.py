"""What an engine leaves for its cache: a budget of parts, each with the room for error that it has."""

from __future__ import annotations

from dataclasses import dataclass

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes that something takes, and at least and at most so many."""

    name: str
    size: float
    low: float
    high: float
    why: str = ""

    @classmethod
    def around(cls, name: str, size: float, room: float, why: str = "") -> Part:
        """A size give or take some bytes."""
        return cls(name, size, size - room, size + room, why)


@dataclass(frozen=True, slots=True)
class Budget:
    """The share of a device that the engine takes, and what else is in it beside the cache."""

    share: float
    device: Part
    taken: tuple[Part, ...]

    @property
    def available(self) -> float:
        """Bytes for the cache."""
        return self.share * self.device.size - sum(part.size for part in self.taken)

    @property
    def band(self) -> tuple[float, float]:
        """Bytes for the cache where every part is off in the same direction would be too wide: parts are independent, so
        that their rooms add up in squares."""
        below = (self.share * (self.device.size - self.device.low)) ** 2 + sum(
            (part.high - part.size) ** 2 for part in self.taken
        )
        above = (self.share * (self.device.high - self.device.size)) ** 2 + sum(
            (part.size - part.low) ** 2 for part in self.taken
        )
        return self.available - below**0.5, self.available + above**0.5
