"""What attention and its indexers read and write, with shared prefixes, eager scores and context parallelism, by hand."""

from __future__ import annotations

from roofline.operators.collectives import AllReduce
from roofline.operators.index_scores import IndexScores
from roofline.operators.latent_attention import LatentAttention


def test_keys_of_a_shared_prefix_are_read_once() -> None:
    """Three sequences of 8 keys share 4: 3 x 4 of their own and 4, of 8 elements in 2 bytes."""
    scores = IndexScores(batch=3, new=1, cached=7, n_heads=2, head_dim=8, shared_prefix=4)
    assert scores.cost().kv_read_bytes == (3 * (8 - 4) + 4) * 8 * 2


def _latent(**options: object) -> LatentAttention:
    return LatentAttention(batch=1, n_heads=2, r_kv=16, d_nope=4, d_rope=2, d_v=3, **options)  # type: ignore[arg-type]


def test_eager_scores_cross_memory_four_times() -> None:
    """Two new tokens after three: each of 2 x 2 queries has a row of 5 scores, which is written, read, written and read."""
    fused, eager = (_latent(new=2, cached=3, eager=on).cost().activation_bytes for on in (False, True))
    assert eager - fused == 4 * (2 * 2) * 5 * 2


def test_partial_sums_of_context_parallel_devices_are_fp32() -> None:
    """On two devices with half of the keys each, each of 2 queries leaves a logarithm of 4 bytes too."""
    whole, divided = (_latent(new=1, cached=7, absorbed=True, key_ranks=ranks).cost() for ranks in (None, 2))
    assert divided.activation_bytes - whole.activation_bytes == 2 * 4
    assert divided.kv_read_bytes == whole.kv_read_bytes / 2 == 4 * (16 + 2) * 2


def test_peers_in_a_node() -> None:
    """Of a group over every second device, 8 neighbours have 4; a lone member counts as a pair."""
    assert AllReduce(elements=1, world=8).peers(8) == 8
    assert AllReduce(elements=1, world=8, stride=2).peers(8) == 4
    assert AllReduce(elements=1, world=8, stride=8).peers(8) == 2
