"""What lessons are made of: small values that show themselves, in a notebook as Markdown and on a page as HTML.

A lesson (`lessons/NN_name.py` in the repository) is plain text and plain Python; every number in it is computed by the toolkit:

    formula("kv_bytes_per_token", "llama-3.1-8b")          a formula of the toolkit: symbols, numbers put in, value
    table(("model", "bytes"), rows)                          a table of computed numbers
    draw("attention-heads", kind="gqa")                    a drawing; with choices, several of which a reader chooses
    figure(curves(...)) / figure(bars(...))                  a plot, light and dark, with its numbers
    say(f"...")                                            text with computed numbers in it
    predict(question, choices or number, why=...)            a question that is answered before the answer is shown
    takeaway(text)                                           the sentence to go home with
    worked(title, problem, *solution)                        a problem, its solution hidden
    exercise("kv-cache-per-token", seed=1)                   a problem of the worksheets, checked in the page
    published("F02", computed)                               a published figure, what we compute, and the verdict
    play(...)                                                what a reader moves, with formulas and a picture that follow
    lesson(...)                                              the head: goals, prerequisites, plan

They have no `_repr_html_`: notebooks would prefer it to Markdown, whose formulas and hidden answers they show well. A page
takes `html`.
"""

from roofline.teach.lessons.drawn import draw
from roofline.teach.lessons.figures import bars, curves, figure
from roofline.teach.lessons.formula import formula
from roofline.teach.lessons.items import lesson, say, show, table, takeaway
from roofline.teach.lessons.live.play import play
from roofline.teach.lessons.published import published
from roofline.teach.lessons.questions import exercise, predict, worked
from roofline.teach.quantities import amount

__all__ = [
    "amount", "bars", "curves", "draw", "exercise", "figure", "formula", "lesson", "play", "predict", "published", "say",
    "show", "table", "takeaway", "worked",
]  # fmt: skip
