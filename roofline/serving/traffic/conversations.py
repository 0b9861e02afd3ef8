"""What prompts have in common: a system prompt, and the turns of a conversation.

A turn's prompt is all that came before it (the system prompt, earlier messages and their outputs) and a new message. The next
turn arrives a pause after the last token of this one: the time in which a user reads and writes, or an agent's tool runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline.errors import InputError, UnknownNameError
from roofline.serving.traffic.lengths import Lengths
from roofline.serving.traffic.scalars import parse_seconds

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class Pause:
    """Time between the last token of a turn and the next turn.

    Args:
        mean: s; 0: none.
        sd: standard deviation, s.
        shape: `constant`, `exponential` or `lognormal`.
    """

    mean: float = 0.0
    sd: float = 0.0
    shape: str = "constant"

    def __str__(self) -> str:
        values = f"{self.mean:g} s" + (f":{self.sd:g} s" if self.shape == "lognormal" else "")
        return values if self.shape == "constant" else f"{self.shape}:{values}"

    def sample(self, rng: np.random.Generator) -> float:
        """Draw a pause in seconds."""
        if self.shape == "exponential":
            return float(rng.exponential(self.mean))
        if self.shape == "lognormal" and self.mean:
            variance = math.log1p((self.sd / self.mean) ** 2)
            return float(rng.lognormal(math.log(self.mean) - variance / 2, math.sqrt(variance)))
        return self.mean

    def within(self, seconds: float) -> float:
        """Probability that a pause is shorter than `seconds`.

        >>> Pause(10.0).within(9.0), Pause(10.0).within(11.0), round(Pause(10.0, 10.0, "exponential").within(10.0), 4)
        (0.0, 1.0, 0.6321)
        """
        return 0.0 if seconds <= 0 else self._integrals(seconds)[0]

    def mean_up_to(self, seconds: float) -> float:
        """Mean of the shorter of a pause and `seconds`, in seconds: for how long a cache that forgets after `seconds` holds
        what the next turn needs.

        >>> Pause(10.0).mean_up_to(4.0), Pause(10.0).mean_up_to(40.0)
        (4.0, 10.0)
        >>> round(Pause(10.0, 10.0, "exponential").mean_up_to(10.0), 3)  # 10 (1 - 1/e)
        6.321
        """
        return 0.0 if seconds <= 0 else self._integrals(seconds)[1]

    def _integrals(self, seconds: float) -> tuple[float, float]:
        """P(Z < t) and E[min(Z, t)] = E[Z; Z < t] + t P(Z >= t), for t > 0."""
        if self.shape == "exponential" and self.mean:
            below = -math.expm1(-seconds / self.mean)
            return below, self.mean * below
        if self.shape == "lognormal" and self.mean and self.sd:
            if seconds == math.inf:
                return 1.0, self.mean
            variance = math.log1p((self.sd / self.mean) ** 2)
            z = (math.log(seconds / self.mean) + variance / 2) / math.sqrt(variance)
            below, part = (0.5 * math.erfc(-x / math.sqrt(2)) for x in (z, z - math.sqrt(variance)))
            return below, self.mean * part + seconds * (1 - below)
        return float(seconds > self.mean), min(self.mean, seconds)


def parse_pause(value: object) -> Pause:
    """Parse a pause: `0`, `10 s`, `exponential:10 s` or `lognormal:10 s:5 s` (mean and standard deviation).

    Raises:
        InputError: another form, or a time that is none.

    >>> parse_pause("lognormal:10 s:5 s")
    Pause(mean=10.0, sd=5.0, shape='lognormal')
    """
    if str(value).strip() == "0":
        return Pause()
    if not isinstance(value, str) or ":" not in value:
        return Pause(parse_seconds(value))
    shape, *texts = (part.strip() for part in value.split(":"))
    counts = {"exponential": 1, "lognormal": 2}
    if shape not in counts:
        raise UnknownNameError("pause", shape, counts, 'Allowed: a time such as "10 s", exponential:MEAN, lognormal:MEAN:SD.')
    if len(texts) != counts[shape]:
        raise InputError(f"must be {shape}:{':'.join(('MEAN', 'SD')[: counts[shape]])}, not {value[:60]!r}")
    times = [parse_seconds(text) for text in texts]
    return Pause(times[0], times[1] if len(times) > 1 else times[0], shape)


@dataclass(frozen=True, slots=True)
class Conversation:
    """What the requests of a class have in common.

    Args:
        system_prompt: tokens before the messages, the same in all conversations with the same system prompt.
        system_prompts: how many system prompts there are; each conversation has one of them, all equally likely.
        turns: of a conversation.
        think: the pause before each turn but the first.
    """

    system_prompt: int = 0
    system_prompts: int = 1
    turns: Lengths | None = None
    think: Pause = Pause()

    @property
    def mean_turns(self) -> float:
        """Turns of a conversation, on average."""
        return 1.0 if self.turns is None else self.turns.mean

    def draw_system_prompt(self, rng: np.random.Generator) -> int:
        """Draw the number of a system prompt."""
        return int(rng.integers(self.system_prompts)) if self.system_prompts > 1 else 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain data: tokens, counts and seconds."""
        return {
            "system_prompt": self.system_prompt,
            "system_prompts": self.system_prompts,
            "turns": None if self.turns is None else str(self.turns),
            "mean_turns": self.mean_turns,
            "think_s": self.think.mean,
        }


KEYS = ("system_prompt", "system_prompts", "turns", "think")
"""Keys of a class that say what its requests have in common."""


def parse_conversation(values: dict[str, Any], fail: Callable[[str, str], InputError]) -> Conversation | None:
    """Return what requests have in common, from parsed values by key (`KEYS`); None where nothing is given.

    Args:
        values: parsed values; None: not given.
        fail: makes an error of a key and what is wrong with it.

    Raises:
        InputError: keys that exclude or need each other.
    """
    given = {key: value for key in KEYS if (value := values.get(key)) is not None}
    if not given:
        return None
    if "system_prompts" in given and "system_prompt" not in given:
        raise fail("system_prompts", "says how many there are: give system_prompt, the tokens of each")
    if "think" in given and "turns" not in given:
        raise fail("think", "is the pause between the turns of a conversation: give turns")
    return Conversation(**given)
