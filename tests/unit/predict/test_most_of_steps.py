"""The largest batch of all steps, as the text names it."""

from __future__ import annotations

import pytest

import roofline

CARD = ("llama-3.1-8b", "a100-sxm-80gb")


@pytest.mark.parametrize(("replicas", "most"), [(1, 10), (2, 20)])
def test_not_more_than_the_engine_takes(replicas: int, most: int) -> None:
    """max_num_seqs is a replica's limit, whatever memory would hold."""
    memory = roofline.analyze(*CARD, batch=2, max_num_seqs=10, dp=replicas).memory
    assert memory.max_batch == memory.max_batch_of_steps == most


@pytest.mark.parametrize("segments", ["4x1@100,4x1@5000", "1x512@100", "32x1@4096,1x512@0"])
def test_segments_have_no_other_batch(segments: str) -> None:
    """A step given in segments has no one batch that could grow."""
    assert roofline.analyze(*CARD, segments=segments).memory.max_batch_of_steps is None


def test_segments_are_not_told_to_change_flags_they_refuse() -> None:
    """--batch and --context do not go with --segments."""
    memory = roofline.analyze(*CARD, segments="200x1@4095").memory
    assert not memory.fits
    assert memory.would_fit
    assert not [flag for flag in memory.would_fit if flag.startswith(("--batch", "--context"))]
