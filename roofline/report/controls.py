"""Controls of a page: what a reader can set, as data that both the template and the page's script read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

Value = float | str | bool
"""What a control holds: a number, the value of a choice, a switch, a text."""

LONGEST_TEXT = 200
"""Characters of a text control; the address of a page is no place for more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One entry of a list: the value that the state holds, and the text that is shown."""

    value: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """One setting of a page, with its initial value.

    Args:
        key: name in the page's state.
        low: lower end of a number.
        high: upper end of a number.
        step: numbers are whole multiples of it above `low`: with whole `low` and `step` they stay integers.
        log: a number's slider is logarithmic.
        slider: ends of a logarithmic slider whose number may be lower or higher, and 0 where `zero` is given.
        unit: shown after a number ("tokens"); nothing is converted by it.
        zero: what a 0 is shown as, where it stands for "no number"; its box is empty then.
        group: heading under which controls stand together.
        needs: another control's key, and the value it must have for this one to be shown; a hidden one keeps its value.

    Raises:
        ValueError: the value is not of its kind, not among the choices, or a number outside its range or steps.
    """

    key: str
    label: str
    kind: Literal["number", "choice", "switch", "text"]
    value: Value
    choices: tuple[Choice, ...] = ()
    low: float | None = None
    high: float | None = None
    step: float | None = None
    log: bool = False
    slider: tuple[float, float] | None = None
    unit: str = ""
    zero: str = ""
    help: str = ""
    group: str = "Settings"
    needs: tuple[str, Value] | None = None

    def __post_init__(self) -> None:
        if self.kind == "number":
            self._check_number()
        elif self.kind == "choice":
            if self.value not in [choice.value for choice in self.choices]:
                raise ValueError(f"{self.key}: {self.value!r} is none of its choices")
        elif not isinstance(self.value, bool if self.kind == "switch" else str):
            raise ValueError(f"{self.key}: {self.value!r} is no value of a {self.kind}")

    def _check_number(self) -> None:
        if isinstance(self.value, bool | str) or self.low is None or self.high is None:
            raise ValueError(f"{self.key}: a number needs a value, a low and a high end")
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.key}: {self.value} is not within {self.low} to {self.high}")
        if self.log and (self.low if self.slider is None else self.slider[0]) <= 0:
            raise ValueError(f"{self.key}: a logarithmic slider starts above 0")
        if self.step is not None and abs((steps := (self.value - self.low) / self.step) - round(steps)) > 1e-9 * max(1, steps):
            raise ValueError(f"{self.key}: {self.value} is no whole number of steps above {self.low}")

    @property
    def text(self) -> str:
        """The value as text, for print and for readers without JavaScript.

        >>> Control(key="batch", label="Batch", kind="number", value=8, low=1, high=64, step=1, unit="sequences").text
        '8 sequences'
        """
        if isinstance(self.value, bool):
            return "on" if self.value else "off"
        if self.kind == "choice":
            return next(choice.text for choice in self.choices if choice.value == self.value)
        if self.zero and self.value == 0:
            return self.zero
        number = self.value if isinstance(self.value, str) else written(self.value)
        return f"{number} {self.unit}".strip()


def number_control(
    key: str,
    label: str,
    values: Mapping[str, Any],
    low: float,
    high: float,
    unit: str,
    group: str,
    text: str,
    *,
    needs: tuple[str, Value] | None = None,
) -> Control:
    """A whole number of `values`, logarithmic where it is never 0; `text` is its help."""
    value = float(values[key])
    return Control(
        key=key,
        label=label,
        kind="number",
        value=value,
        low=low,
        high=high,
        step=1,
        log=low > 0,
        unit=unit,
        help=text,
        group=group,
        needs=needs,
    )


def optional_control(
    key: str,
    label: str,
    values: Mapping[str, Any],
    ends: tuple[float, float],
    unit: str,
    zero: str,
    group: str,
    *,
    text: str = "",
    whole: bool = False,
    needs: tuple[str, Value] | None = None,
) -> Control:
    """A number above zero, or none where `zero` says what that means.

    Its slider goes over the ends; what is typed may be a hundred times above them. `text` is its help.
    """
    value = float(values[key])
    return Control(
        key=key,
        label=label,
        kind="number",
        value=value,
        low=0,
        high=max(100 * ends[1], value),
        step=1 if whole else None,
        log=True,
        slider=ends,
        unit=unit,
        zero=zero,
        help=text,
        group=group,
        needs=needs,
    )


def choice_control(
    key: str,
    label: str,
    listed: Sequence[tuple[str, str]],
    values: Mapping[str, Any],
    group: str,
    *,
    needs: tuple[str, Value] | None = None,
) -> Control:
    """One of several values, each with its text."""
    choices = tuple(Choice(value=value, text=text) for value, text in listed)
    value = str(values[key])
    return Control(key=key, label=label, kind="choice", value=value, choices=choices, group=group or "Model", needs=needs)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageState:
    """What the controls of a page are set to, by key, and the state that is pinned for comparison, if one is.

    `pinned` may leave out controls: they have the value that they begin with.
    """

    state: Mapping[str, Any]
    pinned: Mapping[str, Any] | None = None


FIRST_STATE = PageState(state={})
"""The state that a page begins with."""


def with_state(controls: Sequence[Control], state: Mapping[str, Any]) -> tuple[Control, ...]:
    """The controls, set to the values of a state; those without one keep theirs.

    Raises:
        ValueError: a value that its control cannot have, or a key that no control has.
    """
    known = {control.key for control in controls}
    if unknown := [key for key in state if key not in known]:
        raise ValueError(f"{unknown[0]!r} is no control of the page")
    return tuple(_set(control, state[control.key]) if control.key in state else control for control in controls)


def _set(control: Control, value: Any) -> Control:
    if control.kind != "number":
        return replace(control, value=value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{control.key}: {value!r} is no number")  # noqa: TRY004 - as of any other wrong value
    return replace(control, value=float(value))


def values_of(controls: Sequence[Control]) -> dict[str, Value]:
    """What controls are set to, by key: integers where they have whole steps."""
    return {control.key: int(control.value) if control.step == 1 else control.value for control in controls}


def written(value: float) -> str:
    """A number as JavaScript's `String(value)` writes it: the shortest digits that read back as the same number.

    >>> [written(value) for value in (8, 0.1, 1e21, 123456789012345680000, 1e-6, 1.5e-7, float("inf"))]
    ['8', '0.1', '1e+21', '123456789012345680000', '0.000001', '1.5e-7', 'Infinity']
    """
    if value != value:  # noqa: PLR0124 - not a number
        return "NaN"
    sign, magnitude = "-" if value < 0 else "", abs(value)
    if magnitude == float("inf"):
        return f"{sign}Infinity"
    mantissa, _, power = f"{float(magnitude)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(power or 0) - (len(whole + fraction) - len(digits))  # digits before the point
    digits = digits.rstrip("0")
    if not digits:
        return "0"
    if point > 21 or point < -5:
        tail = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{tail}e{point - 1:+d}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    if len(digits) <= point:
        return f"{sign}{digits}{'0' * (point - len(digits))}"
    return f"{sign}{digits[:point]}.{digits[point:]}"
