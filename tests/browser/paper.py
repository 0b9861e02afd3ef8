"""What is on the pages of a PDF."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

MAX_SHEETS, MAX_BYTES = 8, 1_000_000


def printed(page: Page, sheets: int = MAX_SHEETS) -> list[str]:
    """The words of each sheet of A4 that a page prints, without ligatures.

    Fails for a sheet without text, for more than `sheets`, for an image (all is vector graphics), and for more than 1 MB.
    """
    pdf = page.pdf(format="A4")
    numbers = pages_of(pdf)
    assert min(numbers) > 3, numbers
    assert len(numbers) <= sheets
    assert num_images(pdf) == 0
    assert len(pdf) <= MAX_BYTES
    return [" ".join(normalize("NFKC", sheet.extract_text()).split()) for sheet in _read(pdf).pages]


def pages_of(pdf: bytes) -> list[int]:
    """The number of texts that each page of a PDF draws. Skips the test where pypdf is missing."""
    numbers = []
    for page in _read(pdf).pages:
        contents = page.get_contents()
        operators = [] if contents is None else [operator for _, operator in contents.operations]
        numbers.append(sum(operator in (b"Tj", b"TJ") for operator in operators))
    return numbers


def num_images(pdf: bytes) -> int:
    """The number of images anywhere in a PDF, those inside patterns included."""
    reader = _read(pdf)
    objects = [reader.get_object(number) for number in range(1, reader.trailer["/Size"])]
    return sum(isinstance(entry, dict) and entry.get("/Subtype") == "/Image" for entry in objects)


def _read(pdf: bytes) -> Any:
    pypdf = pytest.importorskip("pypdf", reason="pypdf, which reads what was printed, is not installed")
    return pypdf.PdfReader(io.BytesIO(pdf))
