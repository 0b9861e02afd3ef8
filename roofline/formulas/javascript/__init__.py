"""From Python to JavaScript: the functions of this project, with everything that they need, for pages without a server."""

from roofline.formulas.javascript.cache import Translation, translated
from roofline.formulas.javascript.program import EVALUATED, Program

__all__ = ["EVALUATED", "Program", "Translation", "translated"]
