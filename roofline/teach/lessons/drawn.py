"""Drawings as items of a lesson: one, or several of which a reader chooses."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from roofline.errors import InputError
from roofline.report.figure_files import plain_svg
from roofline.report.html import escape
from roofline.teach.lessons.draw import DRAWINGS
from roofline.teach.lessons.draw.canvas import Drawing
from roofline.teach.lessons.items import Item
from roofline.teach.markdown import Ids, checked, inline_of


class Drawn(Item):
    """A drawing with its caption; of several, one is shown, by a row of choices that needs no script."""

    def __init__(self, drawings: Sequence[Drawing], choices: Sequence[str], about: str) -> None:
        for drawing in drawings:
            checked(drawing.note)
        self.drawings, self.choices, self.about = tuple(drawings), tuple(choices), about

    @property
    def key(self) -> str:
        """The key of the first drawing."""
        return self.drawings[0].key

    def html(self, ids: Ids) -> str:
        """Caption and picture, or the choices and their pictures."""
        if len(self.drawings) == 1:
            return f'<figure class="drawn" id="figure-{ids.once(self.key)}">\n{_framed(self.drawings[0])}</figure>\n'
        name = ids.fresh("drawing")
        inputs = "".join(
            f'<label><input type="radio" name="{name}"{" checked" if not number else ""}> {escape(choice)}</label>\n'
            for number, choice in enumerate(self.choices)
        )
        frames = "".join(f'<div class="frame">\n{_framed(drawing)}</div>\n' for drawing in self.drawings)
        ids.once(self.key)
        return (
            f'<figure class="drawn" id="figure-{self.key}">\n'
            f'<fieldset class="choices">\n<legend>{escape(self.about)}</legend>\n'
            f"{inputs}</fieldset>\n{frames}</figure>\n"
        )

    def markdown(self) -> str:
        """The pictures as data in the notebook, one below the other."""
        parts = []
        for number, drawing in enumerate(self.drawings):
            data = b64encode(plain_svg(drawing.svg).encode()).decode()
            choice = f" ({self.choices[number]})" if self.choices else ""
            words = drawing.words.replace("[", "(").replace("]", ")")
            parts.append(f"**{drawing.title}**{choice}\n\n![{words}](data:image/svg+xml;base64,{data})\n\n{drawing.note}")
        return "\n\n".join(parts)

    def plain(self) -> str:
        """What can be seen, in words."""
        return "\n".join(f"{drawing.title}. {drawing.words}" for drawing in self.drawings)


def _framed(drawing: Drawing) -> str:
    note = f'<span class="note">{inline_of(drawing.note)}</span>\n' if drawing.note else ""
    title = escape(drawing.title)
    return (
        f'<figcaption>\n<span class="title">{title}</span>\n{note}</figcaption>\n'
        f'<div class="still" role="group" tabindex="0" aria-label="{title}">{drawing.svg}</div>\n'
    )


def draw(
    name: str, choices: Mapping[str, Mapping[str, Any]] | None = None, *, about: str = "Shown", **parameters: Any
) -> Drawn:
    """Return a drawing, or several of the same kind of which a reader chooses one.

    Args:
        name: a key of `DRAWINGS`.
        choices: by what a reader chooses, what of the parameters is another; None: one drawing.
        about: what is chosen, for the head of the choices.
        **parameters: of the drawing.

    Raises:
        UnknownNameError: no drawing of that name.
        InputError: two choices draw pictures of one key, or there is one choice.
    """
    make = DRAWINGS[name]
    if choices is None:
        return Drawn([make(**parameters)], (), about)
    drawings = [make(**{**parameters, **own}) for own in choices.values()]
    if len(drawings) < 2 or len({drawing.key for drawing in drawings}) < len(drawings):
        raise InputError(f"{name}: choices are two or more, and each drawing has a key of its own")
    return Drawn(drawings, tuple(choices), about)
