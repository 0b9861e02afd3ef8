"""Explanations: a number's formula in symbols, with numbers put in, and where it comes from.

The one room beside `formulas` that works with symbols: it asks the graph with symbols in the place of numbers.
"""

from roofline.predict.explain.explain import QUANTITIES, explain, explain_step, subjects
from roofline.predict.explain.value import Explanation

__all__ = ["QUANTITIES", "Explanation", "explain", "explain_step", "subjects"]
