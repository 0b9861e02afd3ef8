"""What is on the pages of a PDF."""

from __future__ import annotations

import re
import zlib


def pages_of(pdf: bytes) -> list[int]:
    """The texts that each page of a PDF draws, as far as the operators in its streams tell."""
    objects = dict(re.findall(rb"\n(\d+) 0 obj\b(.*?)\bendobj", pdf, re.DOTALL))
    found = []
    for body in objects.values():
        if re.search(rb"/Type\s*/Page\b", body):
            (contents,) = re.findall(rb"/Contents (\d+) 0 R", body)
            stream = re.search(rb"stream\r?\n(.*?)\r?\nendstream", objects[contents], re.DOTALL)[1]
            found.append(len(re.findall(rb"T[jJ]\b", zlib.decompress(stream))))
    return found
