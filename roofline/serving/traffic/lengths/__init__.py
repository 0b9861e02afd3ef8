"""Distributions of lengths, in tokens: `1024`, `uniform:128:2k`, `lognormal:1155:900`, `file:lengths.txt`, ...

A kind of distribution is a file in the package `kinds`; `parse_lengths` finds them by walking it.
"""

from roofline.serving.traffic.lengths.base import Lengths
from roofline.serving.traffic.lengths.parse import forms, parse_lengths

__all__ = ["Lengths", "forms", "parse_lengths"]
