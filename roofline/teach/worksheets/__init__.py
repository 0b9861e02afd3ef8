"""Worksheets: problems whose numbers are drawn from the shipped models and hardware, and whose answers the toolkit computes.

`sheet(topic, seed)` makes the same `Sheet` on every run and machine, for one version of the toolkit, of its data and of
`problem.FORMAT`. `export.py` writes it as Markdown and as a notebook, `page.py` as a page that checks answers;
`sheet.answer_rows` is the answer key of a class.

A template is one file in `templates/`, named after its id with underscores, with one name:

    TEMPLATE = Template(id="kv-cache-per-token", topic="kv-cache", minutes=4, draw=draw)

and a line in `templates/__init__.py`, where its place is its place on the sheet; another package adds one by an entry point
in the group `roofline.worksheets`. `draw(rng)` returns a `Problem`, or None to be called again. In it:

* numbers come from `rng` alone (`rng.choice(...)`, `rng.integer(low, high, step)`), models and hardware by their ids through
  `facts.py`, which caches what is slow: a draw should take less than a millisecond once all its choices were met;
* the answer is what a function of the toolkit returns; a `Mistake` is the same numbers in a wrong model, with a hint that
  says what is wrong and does not give the answer away (`pitfalls.py` has those that several templates share). Mistakes that
  give the same number become one with both hints, the likelier first; if one is within two tolerances of the answer, the
  problem is drawn again. A mistake that cannot be made here (query heads for KV heads in multi-head attention) is not listed;
* texts are Markdown, `$n_kv$` a symbol of the nomenclature by its name in code;
* `solution` is texts and `Worked` steps, formulas that are written out when they are printed: from `explain`
  (`worked.explained`), from the costs of operators (`worked.of_model`, `worked.of_operator`), or of other symbols
  (`worked.formula`). The value of the last one is the answer: a test checks that.
"""

from roofline.teach.worksheets.problem import TOPICS, make
from roofline.teach.worksheets.sheet import Sheet, by_topic, sheet
from roofline.teach.worksheets.templates import TEMPLATES

__all__ = ["TEMPLATES", "TOPICS", "Sheet", "by_topic", "make", "sheet"]
