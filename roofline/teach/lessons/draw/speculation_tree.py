"""Speculative decoding: draft tokens in a chain or a tree, one pass that verifies them, accepted and rejected ones."""

from __future__ import annotations

from typing import Literal

from roofline.predict.speculation import tokens_per_round
from roofline.teach.lessons.draw.canvas import Canvas, Drawing

_DRAFT = ("capital", "of", "Italy", "and")
_OWN = "France"
_TREE = {
    "": ("capital", "largest"),
    "capital": ("of", "city"),
    "largest": ("city", "town"),
    "capital of": ("Italy", "France"),
    "capital city": ("of", "in"),
    "largest city": ("in", "of"),
    "largest town": ("in", "of"),
}
"""Two candidates after each text: the likelier one first."""
_PATH = ("capital", "capital of", "capital of France")
_DEPTH = 3


def tree_tokens(candidates: tuple[float, ...], depth: int) -> float:
    """Return the expected tokens per round of a tree with the same candidates after each node: those accepted and one more.

    A node is accepted with the product of the chances on its path, and the expected number is the sum over nodes. With one
    candidate it is `tokens_per_round`.

    >>> tree_tokens((0.5,), 2), tree_tokens((0.5, 0.25), 2)  # 1 + 1/2 + 1/4; 1 + 3/4 + 9/16
    (1.75, 2.3125)
    """
    return sum(sum(candidates) ** level for level in range(depth + 1))


def draw(kind: Literal["chain", "tree"] = "chain", acceptance: float = 0.7, second: float = 0.15) -> Drawing:
    """Draw a round.

    Args:
        kind: of the draft.
        acceptance: chance that the model accepts a drafted token, or the first of two candidates, given that all before it
            were accepted.
        second: the same for the second candidate of a tree.
    """
    return _chain(acceptance) if kind == "chain" else _tree(acceptance, second)


def _chain(acceptance: float) -> Drawing:
    drafted, accepted = len(_DRAFT), 2
    expected = tokens_per_round(acceptance, drafted)
    canvas = Canvas(height=346)
    left, pitch, wide = 262.0, 100.0, 84.0
    canvas.label(f"draft: {drafted} small steps", 8, 31, hue="blue", strong=True)
    canvas.label("verify: 1 model step", 8, 99, hue="green", strong=True)
    canvas.label("output of the round", 8, 167, strong=True)
    canvas.label("chance to be accepted", 8, 250)
    canvas.box(162, 14, wide, 34, "is the", hue="grey", size=12)
    for number, token in enumerate(_DRAFT):
        x = left + number * pitch
        canvas.arrow((x - 16, 31), (x - 2, 31), hue="blue")
        canvas.box(x, 14, wide, 34, token, hue="blue", strong=True, size=12)
        canvas.arrow((x + wide / 2, 50), (x + wide / 2, 78), hue="green")
        if number < accepted:
            canvas.box(x, 150, wide, 34, token, hue="green", filled=True, size=12)
            canvas.label("accepted", x + wide / 2, 196, anchor="middle", size=11, hue="green")
        elif number == accepted:
            canvas.box(x, 150, wide, 34, _OWN, hue="orange", filled=True, size=12)
            canvas.label("rejected;", x + wide / 2, 196, anchor="middle", size=11, hue="red")
            canvas.label("model's own", x + wide / 2, 210, anchor="middle", size=11, hue="orange")
        else:
            canvas.box(x, 150, wide, 34, token, hue="grey", empty=True, dashed=True, size=12)
            canvas.label("discarded", x + wide / 2, 196, anchor="middle", size=11, hue="grey")
        canvas.arrow((x + wide / 2, 120), (x + wide / 2, 146), hue="green")
        chance = acceptance ** (number + 1)
        canvas.box(x + 8, 282 - 58 * chance, wide - 16, 58 * chance, hue="green", filled=True, round_=0)
        canvas.label(f"{chance:.2f}", x + wide / 2, 292, anchor="middle", size=12)
    canvas.box(
        162,
        80,
        left + drafted * pitch - 162,
        38,
        f"{drafted + 1} tokens of a sequence in one pass: weights are read once",
        hue="green",
        size=12,
    )
    canvas.box(left + drafted * pitch + 0, 150, 72, 34, "+ 1", hue="orange", dashed=True, empty=True, size=12)
    canvas.label("all accepted", left + drafted * pitch + 36, 196, anchor="middle", size=11, hue="grey")
    terms = " + ".join(
        [
            "1",
            *(
                f"{acceptance:g}{'' if power == 1 else chr(0x2070 + power) if power > 3 else '²³'[power - 2]}"
                for power in range(1, drafted + 1)
            ),
        ]
    )
    canvas.label(f"Expected tokens per round: {terms} = {expected:.3g}", 8, 326, strong=True)
    return canvas.drawing(
        "speculation-tree-chain",
        f"A round of speculation: {drafted} tokens drafted, {accepted} accepted",
        f"A draft proposes {drafted} tokens one after the other. The model verifies all in one step: the first "
        f"{accepted} are accepted, "
        "the next is rejected and replaced by the model's own token, the rest is discarded. If each is accepted "
        "with probability "
        f"{acceptance:g}, a round gives {expected:.3g} tokens on average.",
        f"The words and the acceptance of {acceptance:g} are examples: it depends on model, draft and text.",
    )


def _tree(acceptance: float, second: float) -> Drawing:
    expected = tree_tokens((acceptance, second), _DEPTH)
    chain = tokens_per_round(acceptance, _DEPTH)
    canvas = Canvas(height=346)
    top, row = 38.0, 31.0
    columns = (96.0, 270.0, 466.0)
    for words, x in (("first token", columns[0]), ("second", columns[1]), ("third", columns[2])):
        canvas.label(words, x + 46, 16, anchor="middle", size=12, strong=True)
    canvas.label("its chance", 640, 16, anchor="middle", size=12, strong=True)
    middle = top + 3.5 * row + 13
    canvas.box(8, middle - 16, 58, 32, "is the", hue="grey", size=12)

    def node(text: str, level: int, first: int, span: int, start: tuple[float, float], chance: float) -> int:
        number = 0
        for place, word in enumerate(_TREE.get(text, ())):
            path = f"{text} {word}".strip()
            own = chance * (acceptance if place == 0 else second)
            y = top + (first + place * span + (span - 1) / 2) * row + 13
            good = path in _PATH
            x = columns[level]
            canvas.line(start, (x, y), hue="green" if good else "grey", wide=2.6 if good else 1.2)
            canvas.box(x, y - 14, 92, 28, word, hue="green" if good else "grey", filled=good, size=12)
            number += 1
            if level == _DEPTH - 1:
                canvas.box(
                    600, y - 9, 110 * own / acceptance**_DEPTH, 18, hue="green" if good else "grey", filled=good, round_=0
                )
                canvas.label(f"{own:.3f}", 604 + 110 * own / acceptance**_DEPTH, y, size=11)
            else:
                number += node(path, level + 1, first + place * span, span // 2, (x + 92, y), own)
        return number

    nodes = node("", 0, 0, 4, (66, middle), 1.0)
    canvas.label(
        f"{nodes} drafted tokens are verified in one pass; the green path is accepted, up to a second candidate",
        8,
        306,
        size=12,
    )
    sums = acceptance + second
    canvas.label(
        f"Expected tokens per round: 1 + {sums:g} + {sums:g}² + {sums:g}³ = {expected:.3g}; of a chain of "
        f"{_DEPTH}: {chain:.3g}",
        8,
        332,
        strong=True,
    )
    return canvas.drawing(
        "speculation-tree-tree",
        f"A tree of drafts: {nodes} tokens verified at once",
        f"After each token the draft has two candidates, three levels deep: {nodes} tokens, verified in one pass "
        "with a mask that follows "
        f"the tree. One path is accepted. With chances of {acceptance:g} and {second:g} for the first and second "
        "candidate a round gives "
        f"{expected:.3g} tokens on average, and a chain of {_DEPTH} tokens {chain:.3g}.",
        f"The chances of a first and a second candidate, {acceptance:g} and {second:g}, are examples, as are the words. The "
        "chance of a path is the product of its own.",
    )
