"""Sections of sparse and compressed attention: what belongs together, and what they become in a step."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

import roofline
from roofline.blocks.csa import CompressedAttentionBlock
from roofline.blocks.mla import LatentAttentionBlock
from roofline.blocks.model import Model
from roofline.errors import InputError
from roofline.graph.build import Graph, build
from roofline.graph.sharding import check_parallel
from roofline.operators.base import Operator
from roofline.predict.parameters import TWO_BYTES
from roofline.specs.deployment import Conventions, Deployment
from roofline.specs.workload import Step, decode, parse_segments, prefill

LATENT = {
    "kind": "mla", "num_attention_heads": 8, "q_lora_rank": 36, "kv_lora_rank": 24, "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8, "v_head_dim": 12,
}  # fmt: skip
COMPRESSED = {
    "kind": "csa", "num_attention_heads": 8, "head_dim": 20, "q_lora_rank": 36, "qk_rope_head_dim": 8, "o_groups": 4,
    "o_lora_rank": 14, "sliding_window": 9,
}  # fmt: skip
INDEXER = {"index_n_heads": 3, "index_head_dim": 10, "index_topk": 6}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"index_n_heads": 3, "index_topk": 6}, "index_n_heads and index_head_dim make an indexer together"),
        ({"index_head_dim": 3, "index_topk": 6}, "index_n_heads and index_head_dim make an indexer together"),
        ({**INDEXER, "index_topk": None}, "an indexer needs index_topk"),
        ({**INDEXER, "q_lora_rank": None}, "an indexer needs q_lora_rank"),
    ],
)
def test_what_an_indexer_needs(change: dict[str, Any], message: str) -> None:
    """Its two widths, how many keys it chooses, and compressed queries to make its own from."""
    with pytest.raises(ValidationError, match=message):
        LatentAttentionBlock.model_validate(LATENT | change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (INDEXER, "needs a compress_ratio"),
        ({"compress_ratio": 4, "index_topk": 6}, "an indexer has index_n_heads, index_head_dim and index_topk"),
        ({"o_groups": 3}, r"o_groups \(3\) must divide num_attention_heads \(8\)"),
        ({"qk_rope_head_dim": 21}, "qk_rope_head_dim"),
        ({"compress_ratio": 4, **INDEXER, "qk_rope_head_dim": 11}, "qk_rope_head_dim"),
    ],
)
def test_what_compressed_attention_needs(change: dict[str, Any], message: str) -> None:
    """All of an indexer or nothing of it; groups of as many heads each; no more rotated than there is."""
    with pytest.raises(ValidationError, match=message):
        CompressedAttentionBlock.model_validate(COMPRESSED | change)


def model(mixer: dict[str, Any], **changes: Any) -> Model:
    """Three layers of one type."""
    mlp = {"kind": "gated_mlp", "intermediate_size": 112}
    return Model.model_validate(
        {
            "schema_version": 1, "name": "small", "title": "Small", "hidden_size": 48, "vocab_size": 331,
            "max_position_embeddings": 4096, "tie_word_embeddings": False, "sources": {},
            "layer_types": {"layer": {"mixer": mixer, "mlp": mlp, **changes.pop("layer", {})}},
            "layers": [{"pattern": ["layer"], "repeat": 3}], **changes,
        }
    )  # fmt: skip


def graph(of: Model, step: Step, size: int = 1, **conventions: Any) -> Graph:
    """The operators of a step."""
    return build(of, Deployment(tensor_parallel_size=size, conventions=Conventions(**conventions)), TWO_BYTES, step)


def operator(found: Graph, path: str) -> Operator:
    """One of them, in a layer's attention."""
    return found[f"layers/attention/{path}"][0]


@pytest.mark.parametrize("layer", [{"norms": "both"}, {"norms": "post"}, {"parallel": True}])
def test_hyper_connections_want_plain_layers(layer: dict[str, Any]) -> None:
    """Streams are collapsed before a norm and a block, and expanded after it: nothing else is known."""
    with pytest.raises(ValidationError, match=r"layer_types.layer: hyper-connections \(hc_mult\) need norms: pre"):
        model(LATENT, hc_mult=4, layer=layer)


def test_sparse_prompts_are_absorbed() -> None:
    """Of 30 tokens, query i meets min(i, 6) keys: 1+2+3+4+5 + 25*6 = 165, in 8 heads of 24+8 and 24; the others 465."""
    step = prefill(1, 30)
    sparse = operator(graph(model(LATENT | INDEXER), step), "core")
    assert sparse.cost().matrix_flops == 2 * 165 * 8 * (32 + 24)
    assert sparse.cost().kv_read_bytes == 30 * 32 * 2
    masked = operator(graph(model(LATENT | INDEXER), step, mla="expand"), "core")
    assert masked.cost().matrix_flops == 2 * 465 * 8 * (16 + 8 + 12)
    full = operator(graph(model(LATENT | INDEXER), step, mask="full"), "core")
    assert full.cost().matrix_flops == 2 * 30 * 30 * 8 * (32 + 24)
    dense = operator(graph(model(LATENT), step), "core")
    assert dense.cost() == masked.cost()


def test_decode_reads_chosen_latents_and_all_keys_of_the_indexer() -> None:
    """After 100 tokens: 6 latents of 24+8 elements, and 101 keys of 10, of two bytes, in 5 sequences."""
    found = graph(model(LATENT | INDEXER), decode(5, 100))
    assert operator(found, "core").cost().kv_read_bytes == 5 * 6 * 32 * 2
    assert operator(found, "indexer/scores").cost().kv_read_bytes == 5 * 101 * 10 * 2
    assert operator(found, "indexer/top_k").cost().vector_flops == 5 * 101


def test_a_layer_that_shares_a_choice_has_no_indexer() -> None:
    """It has neither its weights nor its key; its attention is the same."""
    own, shared = (graph(model(LATENT | keys), decode(5, 100)) for keys in (INDEXER, {"index_topk": 6}))
    assert [path for path in own if path not in shared] == [path for path in own if "/indexer/" in path]
    assert operator(own, "core") == operator(shared, "core")
    kept = [LatentAttentionBlock.model_validate(LATENT | keys).cache().elements for keys in (INDEXER, {"index_topk": 6})]
    assert kept == [24 + 8 + 10, 24 + 8]


def test_the_prefix_is_scored_for_each_sequence_and_read_once() -> None:
    """Of 4 sequences with 50 tokens in common the indexer reads 50 + 4*51 keys of 10 elements; chosen latents differ."""
    found = graph(model(LATENT | INDEXER), decode(4, 100), shared_prefix=50)
    assert operator(found, "indexer/scores").cost().kv_read_bytes == (50 + 4 * 51) * 10 * 2
    assert operator(found, "core").cost().kv_read_bytes == 4 * 6 * 32 * 2


@pytest.mark.parametrize("mixer", [LATENT | INDEXER, COMPRESSED | INDEXER | {"compress_ratio": 4, "sinks": True}])
def test_heads_are_divided_and_the_indexer_is_not(mixer: dict[str, Any]) -> None:
    """Two devices: half the core and half the output projection each; scores, entries and caches on both."""
    alone, half = (graph(model(mixer), decode(2, 100), size) for size in (1, 2))
    for path, (found, _) in alone.items():
        if "/indexer/" in path or "/compressor/" in path or path.endswith("kv_write"):
            assert half[path][0] == found, path
    assert operator(half, "core").cost().matrix_flops * 2 == operator(alone, "core").cost().matrix_flops
    output = "o_proj" if mixer["kind"] == "mla" else "o_a_proj"
    assert operator(half, output).parameters * 2 == operator(alone, output).parameters


def test_sizes_that_groups_allow() -> None:
    """Heads and groups of the output are divided, so that 8 heads in 4 groups go on 1, 2 or 4 devices."""
    with pytest.raises(InputError, match=r"it must divide o_groups .4.*Sizes that work: 1, 2, 4"):
        check_parallel(model(COMPRESSED), Deployment(tensor_parallel_size=8))


def test_segments_of_compressed_attention() -> None:
    """A mixed step makes the entries that its segments complete: 2 of a prompt of 11, and 1 in 3 of the decoded sequences."""
    found = graph(model(COMPRESSED | {"compress_ratio": 4}), parse_segments("1x11@0,3x1@7,2x1@8"))
    assert operator(found, "compressor/norm").dims()["rows"] == 2 + 3
    assert operator(found, "compressor/write").cost().kv_write_bytes == 5 * 20 * 2
    held = [op.parameters for path, (op, _) in found.items() if "/compressor/compress/" in path]
    assert held == [4 * 20, 0, 0]


@pytest.mark.parametrize(
    ("name", "options", "topk", "words"),
    [
        ("deepseek-v3.2", {}, "2048", "a query attends to the keys"),
        ("deepseek-v3.2", {"mla": "expand"}, "2048", "all pairs are counted"),
        ("glm-5.2", {"mask": "full"}, "2048", "every one of the keys"),
        ("deepseek-v4-flash", {"mla": "expand"}, "512", "a query attends to the entries"),
    ],
)
def test_the_choice_is_on_record(name: str, options: dict[str, Any], topk: str, words: str) -> None:
    """The result says how many keys were counted, and in which form."""
    result = roofline.analyze(name, "h200-sxm", tp=8, dtype="fp8", **options)
    notes = {note.name: note for note in result.assumptions}
    assert notes["index_topk"].value == topk
    assert words in notes["index_topk"].why
    if not options:
        assert "every phase absorbs" in notes["mla"].why


def test_streams_of_hyper_connections() -> None:
    """Four streams of 48: 3 more copies after the embedding, projections of 192 to 24 around each block, 4 before the head."""
    found = graph(model(LATENT, hc_mult=4), decode(2, 10))
    assert found["embedding/streams"][0].cost().activation_bytes == 2 * 3 * 48 * 2
    assert found["layers/mlp/hc_proj"][0].parameters == 24 * 192 + 24
    assert found["layers/mlp/hc_collapse"][0].parameters == 3
    assert found["layers/mlp/norm"][0].cost().activation_bytes == 2 * 2 * 48 * 2  # no addition is fused with it
    assert found["final_hc_proj"][0].parameters == 4 * 192 + 4
    stream = roofline.load_model("deepseek-v4-flash").stream_width
    assert stream == 4 * 4096
