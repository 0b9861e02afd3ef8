"""Figures as static pictures: for readers without JavaScript, and for paper."""

from roofline.report.svg.picture import svg

__all__ = ["svg"]
