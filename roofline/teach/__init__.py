"""Worksheets and lessons."""
