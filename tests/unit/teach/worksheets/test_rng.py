"""Choices are those of SHA-256, and nothing else: a seed means the same for ever."""

from __future__ import annotations

from hashlib import sha256

from roofline.teach.worksheets.problem import Rng


def test_numbers_are_digests_of_key_and_counter() -> None:
    """The n-th number is the digest of `key#n`, as a whole number, modulo the end."""
    rng = Rng(1, "kv-cache-per-token", 7, 0)
    for count in range(5):
        digest = int(sha256(f"1/kv-cache-per-token/7/0#{count}".encode()).hexdigest(), 16)
        assert rng.below(1000) == digest % 1000


def test_choices_stay_within_and_meet_everything() -> None:
    """A step of a range, an item of a list, a permutation."""
    rng = Rng("reach")
    assert {rng.integer(10, 20, 5) for _ in range(200)} == {10, 15, 20}
    assert {rng.integer(3, 9, 4) for _ in range(200)} == {3, 7}  # 11 is beyond
    assert {rng.choice("abc") for _ in range(200)} == set("abc")
    assert sorted(rng.shuffled(range(9))) == list(range(9))
    assert len({tuple(rng.shuffled("abc")) for _ in range(300)}) == 6  # 3! orders
