"""The part of a lesson that a reader moves: controls, and beside them numbers, formulas and pictures that follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import product
from typing import Any

from roofline.errors import InputError
from roofline.report.controls import LONGEST_TEXT, Control
from roofline.report.live import specs
from roofline.report.page import environment
from roofline.teach.lessons.derived import equation, title_of
from roofline.teach.lessons.item import Ids, Item
from roofline.teach.lessons.live import settings, template
from roofline.teach.lessons.live.program import program
from roofline.teach.lessons.live.run import Run, ran, shape
from roofline.teach.lessons.live.shown import Shown, shown
from roofline.teach.lessons.prose import checked, html_of, inline_of

Values = dict[str, Any]
# Controls that change the form of a formula, with values that stand for all of their forms.
_FORMS: dict[str, tuple[str, ...]] = {
    "attention": ("", "mla"),
    "window": ("0", "-1", "1024"),
    "tp": ("1", "2", "4", "8"),
}


class Play(Item):
    """Controls and what follows from them."""

    def __init__(
        self,
        intro: str,
        tries: Sequence[str],
        found: tuple[Control, ...],
        values: Values,
        block: dict[str, Any],
        models: Sequence[str],
        hardware: Sequence[str],
    ) -> None:
        for text in (intro, *tries):
            checked(text)
        self.intro, self.tries, self.controls, self.values, self.block = intro, tuple(tries), found, values, block
        self.models, self.hardware = tuple(models), tuple(hardware)
        self.first: Shown = shown(values, block)
        self.forms, self.of_shape = self._forms()

    def _forms(self) -> tuple[list[dict[str, str]], dict[str, dict[str, int]]]:
        """Every form of every formula once, and by the shape of a state which form it has."""
        listed: list[dict[str, str]] = []
        of_shape: dict[str, dict[str, int]] = {}
        for run in self._runs():
            found = of_shape.setdefault(shape(run), {})
            for key in self.block["formulas"]:
                if key not in found:
                    symbols, numbers = template.checked(key, run)
                    form = {"symbols": equation(symbols), "numbers": equation(numbers)}
                    if form not in listed:
                        listed.append(form)
                    found[key] = listed.index(form)
        return listed, of_shape

    def _runs(self) -> Iterator[Run]:
        keys = {control.key for control in self.controls}
        forms = [_FORMS[key] if key in keys else (None,) for key in _FORMS]
        seen: set[str] = set()
        for model, chosen in product(self.models, product(*forms)):
            changed = {key: value for key, value in zip(_FORMS, chosen, strict=True) if value is not None}
            run = ran({**self.values, "model": model, **changed})
            if shape(run) not in seen:
                seen.add(shape(run))
                yield run

    @property
    def data(self) -> Values:
        """What the page's script is given: the specs, the first state, what is shown, the forms of the formulas."""
        made = program()
        return {
            "specs": specs(made, self.models, self.hardware),
            "values": self.values,
            "block": self.block,
            "forms": self.forms,
            "of_shape": self.of_shape,
            "first": asdict(self.first),
        }

    def html(self, ids: Ids) -> str:
        """The first state, which readers without the script have."""
        del ids
        page = environment().get_template("play.html.j2")
        filled = [
            {
                "key": one.key,
                "title": inline_of(title_of(*one.key.split(":"))),
                **self._filled(one.key, dict(one.symbols)),
                "text": one.text,
                "value": one.value,
            }
            for one in self.first.formulas
        ]
        return page.render(
            intro=html_of(self.intro),
            tries=[inline_of(text) for text in self.tries],
            controls=self.controls,
            values={control.key: control.value for control in self.controls},
            longest_text=LONGEST_TEXT,
            shown=self.first,
            formulas=filled,
        )

    def _filled(self, key: str, symbols: dict[str, str]) -> dict[str, str]:
        form = self.forms[self.of_shape[self.first.shape][key]]
        return {"symbols": form["symbols"], "numbers": template.fill(form["numbers"], symbols)}

    def markdown(self) -> str:
        """The first state as a table; what can be moved is on the page of the lesson."""
        rows = "\n".join(f"| {tile.label} | {tile.cell.text} |" for tile in self.first.tiles)
        tries = "\n".join(f"* {text}" for text in self.tries)
        head = "The page of this lesson has controls for these.\n\n| quantity | value |\n|---|---:|"
        return f"{self.intro}\n\n{tries}\n\n{head}\n{rows}"


def play(
    intro: str,
    *,
    controls: Sequence[str],
    tiles: Sequence[str],
    formulas: Sequence[str],
    pictures: Sequence[str] = ("roofline",),
    models: Sequence[str] = ("llama-3.1-8b",),
    hardware: Sequence[str] = ("a100-sxm-80gb",),
    tries: Sequence[str] = (),
    **values: Any,
) -> Play:
    """Something to move. There is one in a lesson.

    `controls` are keys of `live/settings.py`, of which `values` sets some at first; `tiles` and `formulas` keys of
    `live/quantities.py`, formulas also `path:part` of an operator of the decode step; `pictures` of `live/pictures.py`;
    `tries` says what to try. The first of `models` and `hardware` is shown first.

    Raises:
        UnknownNameError, InputError: there is none of that name, or formula and page do not agree on a number.
    """
    if not (models and hardware):
        raise InputError("play: name a model and hardware")
    keys = list(dict.fromkeys(("model", *controls) if len(models) > 1 else controls))
    keys = list(dict.fromkeys((*keys, "hardware"))) if len(hardware) > 1 else keys
    first = {"model": models[0], "hardware": hardware[0], **settings.first_values(keys, values)}
    found = settings.controls(keys, first, models, hardware)
    named = {"tiles": list(tiles), "formulas": list(formulas), "pictures": list(pictures)}
    return Play(intro, tries, found, first, named, models, hardware)
