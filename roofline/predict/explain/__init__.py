"""Explanations: a number's formula in symbols, with numbers put in, and where it comes from.

The one package besides `formulas` that works with symbols: it builds the graph with symbols instead of numbers.
"""

from roofline.predict.explain.explain import QUANTITIES, Explainer, explain, explain_shape, explain_step, subjects
from roofline.predict.explain.explanation import Explanation

__all__ = ["QUANTITIES", "Explainer", "Explanation", "explain", "explain_shape", "explain_step", "subjects"]
