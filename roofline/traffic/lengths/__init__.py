"""Distributions of lengths, in tokens: `1024`, `uniform:128:2k`, `lognormal:1155:900`, `file:lengths.txt`, ...

A kind of distribution is a file in `kinds`; `parse_lengths` finds them by walking that package.
"""

from roofline.traffic.lengths.base import Lengths
from roofline.traffic.lengths.parse import forms, kinds, parse_lengths

__all__ = ["Lengths", "forms", "kinds", "parse_lengths"]
