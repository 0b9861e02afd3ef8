"""What the bodies of slides are made of: blocks of text, tables, formulas and pictures, with their heights.

Heights are estimated, rather too large than too small, for slides of 1280 x 720 pixels in letters of Arimo's width: what does
not fit is divided, so that no slide is cut off, whichever program shows it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from math import ceil, inf
from xml.etree import ElementTree as ET

from roofline.report.axes import text_width
from roofline.report.figure import Figure
from roofline.report.html import escape
from roofline.report.svg import svg
from roofline.teach.lessons.formula import Formula, equation
from roofline.teach.lessons.items import Table
from roofline.teach.lessons.published import Published
from roofline.teach.markdown import html_of, inline_of, plain

SIZES = (46, 40, 34, 28)
"""Pixels of the letters of a slide's text; `deck.css` has the same. A slide takes the largest that fits."""
WIDE, TALL = 1152.0, 720.0
HEAD, TITLE_LINE, KICKER, FOOT = 68.0, 47.0, 30.0, 62.0
"""Pixels above and below a title, of each of its lines, of the line above it, and at the foot."""
PICTURE_WIDE, SIDE_WIDTH = 1216.0, 920.0
"""Width of a picture below its title, and beside it."""
SMALLEST, _SCALE = 18.0, 1.75
"""Pixels of the smallest letter of a picture; how many times its size a figure is shown."""
_GAP, _LINE = 20.0, 1.36
_TEXT = 0.88
"""Width of a text on a slide as a share of `text_width`, which is rather too wide for long ones."""
ROOMY = 0.94
"""The share of a slide that text may fill before its letters get smaller."""
MOST_ROWS, MOST_WORDS, MOST_SOLVED, MOST_COMPARED = 9, 80, 95, 110
"""Rows of a table on a slide; words of a slide on which several things stand together, of a problem with its solution, and of a
table of published figures."""


class Block(ABC):
    """A part of a slide's body, with its height."""

    optional = False
    """Whether it goes to the notes if the slide has no space for it."""

    @abstractmethod
    def html(self) -> str:
        """Return it as HTML."""

    @abstractmethod
    def height(self, size: float) -> float:
        """Return its estimated height in pixels in letters of `size` pixels."""

    def split(self, size: float, space: float) -> tuple[Block, Block] | None:
        """Return what fits into `space` pixels, and the rest; None if it cannot be divided so."""
        del size, space
        return None


def num_lines(text: str, size: float, wide: float = WIDE) -> int:
    """The number of lines of a paragraph of Markdown."""
    lines, used = 1, 0.0
    blank = _wide(" ", size)
    for word in _words(text):
        width = _wide(word, size)
        if used > 0 and used + width > wide:
            lines, used = lines + 1, 0.0
        used += width + blank
    return lines


def _wide(text: str, size: float) -> float:
    return _TEXT * text_width(text.replace("\u00a0", " "), size)


def _words(text: str) -> list[str]:
    """What a line cannot be broken in."""
    return re.split(r"[ \n]+", plain(text).strip(" \n"))


_UNITS = "[kKMGTP]i?B|[kMGTP]?FLOP|[mµn]?s|%|k?W|J|USD|bytes?|tokens?|times|million|billion"
_UNIT = re.compile(rf"(?<=\d) (?=(?:{_UNITS})(?:/\w+)?(?:[\s.,;:)*]|$))")


def bound(text: str) -> str:
    r"""Return Markdown in which no line ends between a number and its unit, or within a product.

    >>> bound("It is 15.0 GB, so 7 ms at 2 TB/s.").split(" ")
    ['It', 'is', '15.0\xa0GB,', 'so', '7\xa0ms', 'at', '2\xa0TB/s.']
    """
    return re.sub(r"(?<=\d) x (?=\d)", "\u00a0x\u00a0", _UNIT.sub("\u00a0", text))


_BRACKETED = re.compile(r"\((<math>(?:(?!</math>).)*</math>)\)[.,;:]?")

_CODE_SPAN, _HYPHENED = re.compile(r"(?<=<code>)[^<]+"), re.compile(r"\S*-\S+")


def unbroken(html: str) -> str:
    """Return HTML in which no line ends between a bracket and the symbol in it, or at a hyphen of code."""
    html = _CODE_SPAN.sub(lambda match: _HYPHENED.sub(r'<span class="whole">\g<0></span>', match[0]), html)
    return _BRACKETED.sub(lambda match: f'<span class="whole">{match[0]}</span>', html)


class Prose(Block):
    """A paragraph."""

    def __init__(self, text: str, kind: str = "") -> None:
        self.text, self.kind = bound(text), kind

    def html(self) -> str:
        """A paragraph, or what its Markdown says."""
        html = unbroken(html_of(self.text))
        return html.replace("<p>", f'<p class="{self.kind}">') if self.kind else html

    def height(self, size: float) -> float:
        """Its lines."""
        size = {"note": 24.0, "lead": 1.5 * size}.get(self.kind, size)
        return num_lines(self.text.removeprefix("> "), size) * size * _LINE + _GAP

    def split(self, size: float, space: float) -> tuple[Block, Block] | None:
        """Between sentences."""
        parts = sentences(self.text)
        for at in range(len(parts) - 1, 0, -1):
            first = Prose(" ".join(parts[:at]), self.kind)
            if first.height(size) <= space:
                return first, Prose(" ".join(parts[at:]), self.kind)
        return None


class Note(Prose):
    """A remark on a table or a figure, which is on the slide if there is space."""

    optional = True

    def __init__(self, text: str) -> None:
        super().__init__(text, "note")

    def split(self, size: float, space: float) -> None:
        """Not divided."""


class Points(Block):
    """A list. `first` is the number of its first entry; 0: it has no numbers."""

    def __init__(self, entries: Sequence[str], first: int = 0, kind: str = "") -> None:
        self.entries, self.first, self.kind = tuple(map(bound, entries)), first, kind

    def html(self) -> str:
        """A list, or a paragraph if it has one entry without a number."""
        if len(self.entries) == 1 and not self.first and not self.kind:
            return f"<p>{unbroken(inline_of(self.entries[0]))}</p>\n"
        listed = "".join(f"<li>{unbroken(inline_of(entry))}</li>\n" for entry in self.entries)
        start = f' start="{self.first}"' if self.first > 1 else ""
        return f"<ol{start}>\n{listed}</ol>\n" if self.first else f"<ul>\n{listed}</ul>\n"

    def height(self, size: float) -> float:
        """The lines of its entries."""
        return sum(num_lines(entry, size, WIDE - 1.5 * size) * size * _LINE + 0.4 * size for entry in self.entries) + _GAP

    def split(self, size: float, space: float) -> tuple[Block, Block] | None:
        """Between entries."""
        for at in range(len(self.entries) - 1, 0, -1):
            first = Points(self.entries[:at], self.first, self.kind)
            if first.height(size) <= space:
                return first, Points(self.entries[at:], self.first and self.first + at, self.kind)
        return None


class Choices(Block):
    """What one may choose from, and the right one, which a press marks."""

    def __init__(self, choices: Sequence[str], right: int) -> None:
        self.choices, self.right = tuple(map(bound, choices)), right

    def html(self) -> str:
        """A list with letters."""
        entries = ""
        for at, text in enumerate(self.choices):
            kind, mark = (
                (' class="right"', '<span class="mark" data-step="1"> ✓ right</span>') if at == self.right else ("", "")
            )
            entries += f"<li{kind}>{inline_of(text)}{mark}</li>\n"
        return f'<ol class="choices" type="A">\n{entries}</ol>\n'

    def height(self, size: float) -> float:
        """The lines of its entries."""
        return sum(num_lines(f"{text} ✓ right", size, WIDE - 4 * size) * size * _LINE + 16 for text in self.choices) + _GAP


class Answer(Block):
    """A number to be guessed, and the right one, which appears with a press."""

    def __init__(self, right: str) -> None:
        self.right = right

    def html(self) -> str:
        """An invitation and the answer."""
        unit = ", with its unit" if re.search(r"[A-Za-z]", self.right) else ""
        return f'<p class="quiet">Write down a number{unit}.</p>\n<p class="big" data-step="1">{inline_of(self.right)}</p>\n'

    def height(self, size: float) -> float:
        """Two lines, one of them large."""
        return size * _LINE + num_lines(self.right, 1.5 * size) * 1.5 * size * _LINE + 2 * _GAP


class Cells(Block):
    """A table, or some of its rows."""

    def __init__(self, table: Table, caption: str = "") -> None:
        self.table, self.caption = table, caption

    def html(self) -> str:
        """The table; `{title}` is the id of what names it."""
        head = f'<p class="caption">{inline_of(self.caption)}</p>\n' if self.caption else ""
        return head + self.table.grid("{title}")

    def height(self, size: float) -> float:
        """Its rows, with columns as wide as a browser makes them."""
        letters = min(max(0.82 * size, 23.0), 34.0)
        widths = column_widths(self.table, letters, WIDE)
        tall = sum(
            max(num_lines(cell, letters, max(wide, 1.0)) for cell, wide in zip(row, widths, strict=True)) * letters * 1.3 + 15
            for row in (self.table.columns, *self.table.rows)
        )
        return tall + (size * _LINE + 8 if self.caption else 0.0) + _GAP

    def split(self, size: float, space: float) -> tuple[Block, Block] | None:
        """Between rows, at least two of which are on each side."""
        for at in range(len(self.table.rows) - 2, 1, -1):
            first = Cells(rows_of(self.table, 0, at), self.caption)
            if first.height(size) <= space:
                return first, Cells(rows_of(self.table, at, len(self.table.rows)), self.caption)
        return None


_PAD = 40.0
"""Pixels between columns."""


def column_widths(table: Table, letters: float, wide: float) -> list[float]:
    """Return the widths of a table's columns: what their texts take, or less, but as much as their longest word."""
    columns = [[table.columns[at], *(row[at] for row in table.rows)] for at in range(len(table.columns))]
    whole = [max(_wide(plain(cell), letters) for cell in column) + 4 for column in columns]
    least = [max(_wide(word, letters) for cell in column for word in _words(cell)) for column in columns]
    left = wide - _PAD * (len(columns) - 1)
    if sum(whole) <= left:
        return whole
    share = max(left - sum(least), 0.0) / max(sum(whole) - sum(least), 1.0)
    return [low + share * (high - low) for low, high in zip(least, whole, strict=True)]


def rows_of(table: Table, start: int, end: int) -> Table:
    """Return some rows of a table."""
    return _table(table.columns, table.rows[start:end], table)


_QUANTITY = re.compile(r"\d[\d,.]* \S{1,7}")


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], whole: Table) -> Table:
    """A part of a table, with short quantities that are not broken before their unit."""
    unbroken = [[cell.replace(" ", "\u00a0") if _QUANTITY.fullmatch(cell) else bound(cell) for cell in row] for row in rows]
    return Table(columns, unbroken, whole.title, whole.note)


class Equation(Block):
    """A formula: symbols, numbers, value."""

    def __init__(self, formula: Formula, caption: str = "", *, brief: bool = False) -> None:
        self.formula, self.caption = formula, caption
        self.lines = formula.lines[-1:] if brief else formula.lines
        self.pieces = [
            [_math_size(piece) for piece in ET.fromstring(f"<x>{equation(line)}</x>")]  # noqa: S314 - made by our own `mathml`
            for line in self.lines
        ]

    def brief(self) -> Equation:
        """Numbers and value alone, where there is no space for symbols."""
        return Equation(self.formula, self.caption, brief=True)

    def _share(self) -> int:
        """Letters that are smaller by a number of tenths, where a term would else be wider than the slide."""
        widest = max((wide for line in self.pieces for wide, _ in line), default=0.0)
        return min(max(ceil(10 - 10 * WIDE / (widest * 1.15 * SIZES[-1] + 1)), 0), 4)

    def html(self) -> str:
        """Its lines."""
        lines = "".join(f"<p>{equation(line)}</p>\n" for line in self.lines)
        smaller = f" smaller-{self._share()}" if self._share() else ""
        head = f'<p class="caption">{inline_of(self.caption)}</p>\n' if self.caption else ""
        return f'{head}<div class="equation{smaller}">\n{lines}<p class="value">= {escape(self.formula.value)}</p>\n</div>\n'

    def height(self, size: float) -> float:
        """Its lines, broken at sums."""
        letters = 1.15 * size * (1 - self._share() / 10)
        if any(wide * letters > WIDE for line in self.pieces for wide, _ in line) and size > SIZES[-1]:
            return 10 * TALL
        tall = 1.6 * letters
        for line in self.pieces:
            used, high = 0.0, 0.0
            for wide, deep in line:
                if used and (used + wide) * letters > WIDE:
                    tall, used, high = tall + high * letters + 10, 0.0, 0.0
                used, high = used + wide, max(high, deep)
            tall += high * letters + 14
        return tall + (size * _LINE + 8 if self.caption else 0.0) + _GAP


_LETTER, _SIGN = 0.58, 1.15


def _math_size(node: ET.Element) -> tuple[float, float]:
    """The estimated width and height of MathML, in letters."""
    inside = [_math_size(child) for child in node]
    if not inside:
        text = (node.text or "").strip("\u2061\u2062\u2063")
        wide = len(text) * _LETTER
        return (
            _SIGN if node.tag == "mo" and text in ("=", "+", "\u2212", "\u22c5", "<", "\u2264") else wide
        ), 1.35 if text else 0.0
    widths, heights = zip(*inside, strict=True)
    if node.tag == "mfrac":
        return max(widths) + 0.3, sum(heights)
    if node.tag in ("msub", "msup", "msubsup"):
        return widths[0] + 0.72 * max(widths[1:]) + 0.05, heights[0] + 0.25
    return sum(widths) + 0.08 * len(inside), max(heights)


class Legend(Block):
    """What the symbols of a formula mean, where there is space."""

    optional = True

    def __init__(self, formula: Formula) -> None:
        self.formula = formula

    def html(self) -> str:
        """A table."""
        return f'<div class="legend">\n{self.formula.symbols()}</div>\n'

    def height(self, size: float) -> float:
        """Its rows."""
        del size
        return sum(num_lines(about, 22, 800) * 29 + 9 for _, _, about in self.formula.explanation.legend) + 38 + _GAP


class Verdict(Block):
    """A published figure beside the computed one."""

    def __init__(self, published: Published, caption: bool) -> None:
        self.published, self.caption = published, caption

    def html(self) -> str:
        """Three terms."""
        entry = self.published
        head = f'<p class="caption">{escape(entry.row.id)}: {escape(entry.about)}</p>\n' if self.caption else ""
        return (
            f'{head}<dl class="verdict" data-verdict="{entry.row.verdict}">\n'
            f"<dt>published</dt><dd>{inline_of(bound(entry.row.printed))}</dd>\n"
            f"<dt>computed</dt><dd>{inline_of(bound(entry.computed))}</dd>\n"
            f"<dt>verdict</dt><dd><strong>{entry.verdict}</strong>. {inline_of(bound(entry.row.holds))}</dd>\n</dl>\n"
        )

    def height(self, size: float) -> float:
        """Its lines."""
        entry = self.published
        texts = (entry.row.printed, entry.computed, f"{entry.verdict}. {entry.row.holds}")
        tall = sum(num_lines(text, size, WIDE - 7 * size) * size * _LINE + 12 for text in texts)
        return tall + (num_lines(f"F00: {entry.about}", size) * size * _LINE + 8 if self.caption else 0.0) + _GAP


class Compared(Cells):
    """Published figures as a table, with what is computed and what holds."""

    def __init__(self, listed: Sequence[Published]) -> None:
        rows = [
            (f"{entry.row.id}: {entry.about}", entry.row.printed, entry.computed, f"**{entry.verdict}**. {entry.row.holds}")
            for entry in listed
        ]
        table = _table(("figure", "published", "computed", "verdict"), rows, Table((), (), "", ""))
        table.right = (False,) * 4
        super().__init__(table)

    @property
    def words(self) -> int:
        """Of all its cells."""
        return sum(len(plain(cell).split()) for row in self.table.rows for cell in row)


_CODE, _SMALL_CODE, _COLUMNS = 21.0, 18.5, 88
"""Pixels of the letters of code, of code with longer lines, and how many of the former a line has."""


class Code(Block):
    """Code, or what it printed."""

    def __init__(self, text: str) -> None:
        self.text = text

    def html(self) -> str:
        """A box."""
        kind = "" if self.letters == _CODE else ' class="long"'
        return f"<pre{kind}><code>{escape_lines(self.text)}</code></pre>\n"

    @property
    def letters(self) -> float:
        """Their pixels."""
        return _CODE if max(map(len, self.text.splitlines()), default=0) <= _COLUMNS else _SMALL_CODE

    def height(self, size: float) -> float:
        """Its lines."""
        del size
        columns = _COLUMNS * _CODE / self.letters
        return sum(max(ceil(len(line) / columns), 1) for line in self.text.splitlines()) * self.letters * _LINE + 40 + _GAP

    def split(self, size: float, space: float) -> tuple[Block, Block] | None:
        """Where an empty line is, or else anywhere."""
        lines = self.text.splitlines()
        fitting = [at for at in range(1, len(lines)) if Code("\n".join(lines[:at])).height(size) <= space]
        if not fitting:
            return None
        at = next((at for at in reversed(fitting) if not lines[at].strip() and at > fitting[-1] / 2), fitting[-1])
        return Code("\n".join(lines[:at])), Code("\n".join(lines[at:]).strip("\n"))


def escape_lines(text: str) -> str:
    """Return code with HTML's special characters escaped, line feeds as they are."""
    return "\n".join(escape(line) for line in text.splitlines())


class Picture(Block):
    """A picture that fills what is left of its slide.

    Attributes:
        draw: makes it as SVG, of a height in pixels.
        tall: how high it is; how high it has to be at least, before it is fitted.
    """

    def __init__(self, draw: Callable[[float], str], least: float = inf) -> None:
        self.draw, self.tall, self.svg = draw, least, ""

    def fit(self, tall: float) -> None:
        """Draw it `tall` pixels high."""
        self.tall, self.svg = tall, self.draw(tall)

    def html(self) -> str:
        """The picture."""
        return f'<div class="picture">{self.svg}</div>\n'

    def height(self, size: float) -> float:
        """All of it."""
        del size
        return self.tall


class Plan(Block):
    """The parts of a lesson with their minutes, in two columns."""

    def __init__(self, parts: Sequence[tuple[int, str]]) -> None:
        self.parts = parts

    def html(self) -> str:
        """A list with numbers."""
        listed = "".join(f"<li>{inline_of(part)} <span>{minutes} min</span></li>\n" for minutes, part in self.parts)
        return f'<ol class="parts">\n{listed}</ol>\n'

    def height(self, size: float) -> float:
        """Half of its lines."""
        del size
        return ceil(len(self.parts) / 2) * 2 * 26 * _LINE


class Remember(Block):
    """What to remember, below what shows it."""

    def __init__(self, block: Block) -> None:
        self.block = block

    def html(self) -> str:
        """The text in a box with a mark."""
        return f'<div class="remember">\n{self.block.html()}</div>\n'

    def height(self, size: float) -> float:
        """That of the text, on a narrower line."""
        return self.block.height(1.04 * size)


class Step(Block):
    """A block that a press shows."""

    def __init__(self, block: Block, step: int = 1) -> None:
        self.block, self.step = block, step

    def html(self) -> str:
        """The block in a box of its own."""
        return f'<div data-step="{self.step}">\n{self.block.html()}</div>\n'

    def height(self, size: float) -> float:
        """That of the block."""
        return self.block.height(size)


class Link(Block):
    """A link as a line of its own."""

    def __init__(self, link: str) -> None:
        self.link = link

    def html(self) -> str:
        """The line."""
        return self.link

    def height(self, size: float) -> float:
        """A line."""
        return size * _LINE + _GAP


# Pictures


def plotted(figure: Figure, tall: float) -> str:
    """Return a figure as a picture as wide as a slide and `tall` pixels high, with letters that can be read from afar."""
    wide, first = PICTURE_WIDE / _SCALE, 200.0
    rest = size_of(svg(figure, wide, first))[1] - first
    return svg(figure, wide, max(tall / _SCALE - rest, 100.0))


def size_of(picture: str) -> tuple[float, float]:
    """The width and the height of a picture, in its own pixels."""
    match = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', picture)
    return (float(match[1]), float(match[2])) if match else (1.0, 1.0)


_FONT = re.compile(r'(?<=font-size=")[\d.]+(?=")')


def enlarged(picture: str, smallest: float) -> str:
    """Return a drawing with no letter smaller than `smallest`, in its own pixels."""
    return _FONT.sub(lambda match: f"{max(float(match[0]), smallest):.4g}", picture)


def drawn_at(picture: str, tall: float, most: float) -> str:
    """Return a drawing for a slide's width and `tall` pixels, not larger than `most` times its size: then with a margin."""
    wide, high = size_of(picture)
    scale = min(PICTURE_WIDE / wide, tall / high, most)
    svg = enlarged(picture, SMALLEST / scale)
    above = (tall / scale - high) / 2
    return svg.replace(f'viewBox="0 0 {wide:g} {high:g}"', f'viewBox="0 {-above:.4g} {wide:g} {high + 2 * above:.5g}"', 1)


# Markdown in pieces

_ABBREVIATED = re.compile(r"(?:\b(?:e\.g|i\.e|cf|vs|al|etc|Fig|Sec|No)\.|\b[A-Z]\.|:)[\"”)*_]*$")


def sentences(text: str) -> list[str]:
    """Return the sentences of a paragraph; none ends inside bold or code.

    >>> sentences("**Why 153?** It is 2.0 of 3. See e.g. Ainslie et al. (2023).")
    ['**Why 153?**', 'It is 2.0 of 3.', 'See e.g. Ainslie et al. (2023).']
    """
    pieces = re.split(r"\s+", " ".join(text.split()))
    listed: list[str] = []
    current: list[str] = []
    for word in pieces:
        current.append(word)
        so_far = " ".join(current)
        is_end = re.search(r"[.!?][\"”)*_]*$", word) and not _ABBREVIATED.search(word)
        if is_end and so_far.count("**") % 2 == 0 and so_far.count("`") % 2 == 0 and so_far.count("(") <= so_far.count(")"):
            listed.append(so_far)
            current = []
    if current:
        listed.append(" ".join(current))
    return listed


_JOINING = re.compile(r"^(?:And|But|So|Now|Then) (?=\S+ \S+ )")


def _capital(text: str) -> str:
    return re.sub(r"^\W*[^\W\d_]", lambda match: match[0].upper(), text)


def key_sentences(text: str) -> list[str]:
    """Return the sentences of a paragraph that have a bold phrase; after one that is bold as a whole the next one as well.

    >>> key_sentences("Much is said. A **ridge** divides. **Why?** Since it does. The end.")
    ['A **ridge** divides.', '**Why?** Since it does.']
    """
    chosen: list[str] = []
    follows = False
    for sentence in sentences(text):
        if follows:
            chosen[-1] += f" {sentence}"
            follows = False
        elif "**" in sentence:
            chosen.append(_capital(_JOINING.sub("", sentence)))
            follows = re.fullmatch(r"\*\*[^*]+\*\*", sentence) is not None
    return chosen


_ENTRY = re.compile(r"(?:[*+-]|(\d+)\.)\s+")


def chunks(text: str) -> Iterator[tuple[str, str]]:
    """Yield the pieces of a Markdown text: "heading", "list", "table", "code" or "prose", and the text."""
    for fenced, block in groupby(re.split(r"(```.*?```)", text, flags=re.DOTALL), lambda piece: piece.startswith("```")):
        for piece in block:
            if fenced:
                yield "code", "\n".join(piece.splitlines()[1:-1])
                continue
            for paragraph in re.split(r"\n\s*\n", piece):
                stripped = paragraph.strip()
                if stripped.startswith("#"):
                    head, _, rest = stripped.partition("\n")
                    yield "heading", head.lstrip("# ")
                    stripped = rest.strip()
                if stripped:
                    yield "table" if stripped.startswith("|") else "list" if _ENTRY.match(stripped) else "prose", stripped


def points(text: str) -> Points:
    """Return a list in Markdown as a block."""
    entries: list[str] = []
    number = _ENTRY.match(text)
    for line in text.splitlines():
        if match := _ENTRY.match(line):
            entries.append(line[match.end() :].strip())
        else:
            entries[-1] += f" {line.strip()}"
    return Points(entries, int(number[1]) if number and number[1] else 0)


def cells_of(text: str) -> Cells:
    """Return a table in Markdown as a block."""
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in text.splitlines()]
    return Cells(Table(rows[0], rows[2:], "", ""))


def whole(text: str) -> list[Block]:
    """Return a text in Markdown as blocks, all of it."""
    make: dict[str, Callable[[str], Block]] = {"list": points, "table": cells_of, "code": Code}
    return [make.get(kind, Prose)(piece) for kind, piece in chunks(text)]


def joined_lists(blocks: Sequence[Block]) -> list[Block]:
    """Join lists without numbers that follow one another."""
    joined: list[Block] = []
    for block in blocks:
        last = joined[-1] if joined else None
        if isinstance(block, Points) and isinstance(last, Points) and not block.first and not last.first:
            joined[-1] = Points((*last.entries, *block.entries))
        else:
            joined.append(block)
    return joined


def narrowed(table: Table) -> list[Table]:
    """The table, or several with some of its columns each and the first one in all of them, where it is too wide."""
    letters, space = 23.0, WIDE

    def is_wide(columns: Sequence[int]) -> bool:
        some = _columns_of(table, columns)  # with what cannot be broken
        least = column_widths(some, letters, 0.0)
        return sum(least) + _PAD * len(columns) > space

    pieces: list[list[int]] = [[0]]
    for at in range(1, len(table.columns)):
        if len(pieces[-1]) > 1 and is_wide([*pieces[-1], at]):
            pieces.append([0])
        pieces[-1].append(at)
    return [rows_of(table, 0, len(table.rows))] if len(pieces) == 1 else [_columns_of(table, piece) for piece in pieces]


def _columns_of(table: Table, columns: Sequence[int]) -> Table:
    return _table([table.columns[at] for at in columns], [[row[at] for at in columns] for row in table.rows], table)
