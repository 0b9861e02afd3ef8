"""The inside of one Python function as JavaScript."""

from __future__ import annotations

from roofline.formulas.javascript.calls import Calls
from roofline.formulas.javascript.comprehensions import Comprehensions
from roofline.formulas.javascript.functions import Functions
from roofline.formulas.javascript.statements import Statements


class Body(Calls, Comprehensions, Functions, Statements):
    """Writes every node that is translated."""
