"""Worksheets: problems whose numbers are drawn from the shipped models and hardware, and whose answers the toolkit computes.

`sheet(topic, seed)` makes the same `Sheet` on every run and machine, for one version of the toolkit, of its data and of
`problem.FORMAT`. Faces: `markdown.py`, `notebook.py`, `classes.py` (a sheet a student and a key), and
`roofline.teach.worksheets.page`.

A template is one file in `templates/`, named after its id with underscores, with one name:

    TEMPLATE = Template(id="kv-cache-per-token", topic="kv-cache", minutes=4, draw=draw)

and `draw(rng)`, which gives a `Problem` or None (then it is drawn anew). In it:

* numbers come from `rng` alone (`rng.choice(...)`, `rng.whole(low, high, step)`), models and hardware by their ids through
  `facts.py`, which remembers what is slow: a draw should take less than a millisecond once all its choices were met;
* the answer is what a function of the toolkit gives; a `Mistake` is the same numbers in a wrong model, with a hint that says
  what is wrong and does not give the answer away. Mistakes that give the same number become one with both hints, the
  likelier first; where one is within two tolerances of the answer, the problem is drawn anew. What can never be a mistake
  here (query heads for KV heads in multi-head attention) is not listed;
* texts are paragraphs and lists of Markdown (`markup.py`), `$n_kv$` a symbol of the nomenclature by its name in code;
* `solution` is texts and `worked.Worked` steps, formulas that are written out when they are shown: with what `explain` says
  (`worked.explained`), what operators cost or hold (`worked.of_model`, `worked.of_operator`), or other symbols
  (`worked.formula`). The value of the last one is the answer: a test holds it against that.
"""

from roofline.teach.worksheets.sheet import Sheet, sheet
from roofline.teach.worksheets.template import TOPICS, by_topic, make, registry

__all__ = ["TOPICS", "Sheet", "by_topic", "make", "registry", "sheet"]
