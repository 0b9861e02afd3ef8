"""What is on the pages of a PDF."""

from __future__ import annotations

import io

import pytest


def pages_of(pdf: bytes) -> list[int]:
    """The number of texts that each page of a PDF draws. Skips the test where pypdf is missing."""
    pypdf = pytest.importorskip("pypdf", reason="pypdf, which reads what was printed, is not installed")
    numbers = []
    for page in pypdf.PdfReader(io.BytesIO(pdf)).pages:
        contents = page.get_contents()
        operators = [] if contents is None else [operator for _, operator in contents.operations]
        numbers.append(sum(operator in (b"Tj", b"TJ") for operator in operators))
    return numbers
