"""Distributions of lengths, in tokens: `1024`, `uniform:128:2k`, `lognormal:1155:900`, `file:lengths.txt`, ..."""

from roofline.serving.traffic.lengths.base import Kind, Lengths
from roofline.serving.traffic.lengths.parse import KINDS, around, forms, parse_lengths, parse_range

__all__ = ["KINDS", "Kind", "Lengths", "around", "forms", "parse_lengths", "parse_range"]
