"""Drafts looked up in the text so far: n-grams that have come before. They cost the accelerator nothing."""

from __future__ import annotations

from typing import Any

from roofline.predict.request import Request
from roofline.predict.speculative.asked import Asked
from roofline.predict.speculative.draft import Draft
from roofline.specs.assumption import Assumption

NAME = "ngram"


def draft(request: Request, asked: Asked, options: dict[str, Any]) -> Draft:
    """No steps, no weights, no caches."""
    del request, asked, options
    why = "looked up on the host while the accelerator works; how often a match is found is part of --acceptance"
    return Draft(name="n-grams of the text", notes=(Assumption("draft", "no cost", "assumed", why),))
