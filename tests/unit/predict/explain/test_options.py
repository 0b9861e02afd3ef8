"""What `analyze` prints with a flag, `explain` derives with the same flag."""

from __future__ import annotations

from typing import Any

import pytest

import roofline
from roofline.errors import InputError
from roofline.predict.explain.explain import Explainer


@pytest.mark.parametrize(
    ("model", "hardware", "options"),
    [
        ("llama-3.1-8b", "a100-sxm-80gb", {"batch": 4, "context": 2048, "shared_prefix": 512}),
        ("llama-3.1-8b", "a100-sxm-80gb", {"batch": 4, "input_len": 300, "attention": "eager", "mask": "full"}),
        ("llama-3.1-8b", "dgx-h100", {"batch": 8, "logits": "all", "tp": 4, "sequence_parallel": True}),
        ("mixtral-8x7b", "dgx-h100", {"batch": 64, "dp": 8, "ep": 8, "expert_imbalance": 1.5}),
        ("llama-3.1-8b", "dgx-h100", {"input_len": 4096, "cp": 4, "max_num_batched_tokens": 2048}),
    ],
)
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_every_operator(model: str, hardware: str, options: dict[str, Any], phase: str) -> None:
    """FLOP and bytes of each operator of a phase are those of its formula."""
    result = roofline.analyze(model, hardware, **options, ignore_capacity=True)
    operators = {"prefill": result.prefill, "decode": result.decode}[phase].operators
    for operator in operators:
        if operator.path == "engine":  # seconds that the engine adds: they have no FLOP and no bytes
            continue
        same(operator, roofline.explain(model, operator.path, hardware, phase=phase, **options))


@pytest.mark.parametrize(
    ("model", "hardware", "options"),
    [
        ("gpt-oss-20b", "h100-sxm", {"segments": "32x1@4k,1x512@1k"}),
        ("deepseek-v2-lite", "dgx-h100", {"segments": "30x1@4k,2x512@1k,4x700@0", "tp": 2}),
        ("llama-3.1-8b", "h100-sxm", {"segments": "3x1@100,5x1@200"}),  # of one kind, but not of one length
        ("mistral-7b-v0.1", "h200-sxm", {"segments": "1x300@200,1x5000@0"}),
    ],
)
def test_segments(model: str, hardware: str, options: dict[str, Any]) -> None:
    """Each operator of a mixed step, and its intensity, with symbols of each segment's own."""
    (phase,) = roofline.analyze(model, hardware, **options, ignore_capacity=True).phases
    for operator in phase.operators:
        if operator.path != "engine":
            same(operator, roofline.explain(model, operator.path, hardware, **options))
    intensity = roofline.explain(model, "arithmetic_intensity", hardware, **options).value
    assert intensity == pytest.approx(phase.cost.flops / phase.cost.bytes, rel=1e-9)


@pytest.mark.parametrize("acceptance", [0, 0.7, 1])
def test_speculative_decoding(acceptance: float) -> None:
    """Tokens and time of a round, and what would break even, are those of the analysis."""
    options = {"batch": 8, "speculative_model": "llama-3.2-1b", "num_speculative_tokens": 3, "acceptance": acceptance}
    rounds = roofline.analyze("llama-3.1-8b", "h100-sxm", **options).speculative

    def explained(subject: str) -> Any:
        return roofline.explain("llama-3.1-8b", subject, "h100-sxm", **options).value

    assert explained("tokens_per_round") == pytest.approx(rounds.tokens_per_round)
    assert explained("accepted_share") == pytest.approx(rounds.accepted_share)
    assert explained("speculative_tpot") == pytest.approx(rounds.tpot.estimate)
    assert explained("break_even_acceptance") == pytest.approx(rounds.break_even_acceptance)


@pytest.mark.every_case
@pytest.mark.parametrize("which", ["bound", "estimate", "floor"])
@pytest.mark.parametrize("output_len", [None, 12])
def test_requests_with_drafts(which: str, output_len: int | None) -> None:
    """TTFT is that of the model and of its draft; TPOT a round, at the mean of its contexts, over its tokens."""
    options = {"speculative_model": "llama-3.2-1b", "num_speculative_tokens": 3, "acceptance": 0.7, "output_len": output_len}
    given = {"batch": 8, "input_len": 300, **options}
    of_request = Explainer("llama-3.1-8b", "h100-sxm", **given)
    result = roofline.analyze("llama-3.1-8b", "h100-sxm", **given)
    tpot = result.request.tpot_s if result.request else result.speculative.tpot
    found = of_request.explain(f"tpot {which}")
    assert found.value == pytest.approx(getattr(tpot, which), rel=1e-12)
    numbers = {str(name): float(value) for name, value in found.numbers.items()}
    below = "" if which == "estimate" else f"_{which}"
    tokens = 1 + 0.7 + 0.7**2 + 0.7**3
    assert numbers["N"] == pytest.approx(tokens)
    assert found.value == pytest.approx((numbers[f"t_draft{below}"] + numbers[f"t_verify{below}"]) / tokens)
    assert f"mean of {9 if output_len else 1} context" in found.about
    alone, small = (
        getattr(roofline.analyze(model, "h100-sxm", batch=8, input_len=300, phase="prefill").prefill.pipeline, which)
        for model in ("llama-3.1-8b", "llama-3.2-1b")
    )
    prompts = of_request.explain(f"ttft {which}")
    numbers = {str(name): float(value) for name, value in prompts.numbers.items()}
    assert numbers[f"t_model{below}"] == pytest.approx(alone)
    if which != "estimate":  # of estimates without what the engine adds, which is once per round
        assert numbers[f"t_prompts{below}"] == pytest.approx(small)
    assert prompts.value == pytest.approx(sum(numbers.values()))
    assert ((found.low, found.high) == (tpot.low, tpot.high)) == (which == "estimate")


def test_a_draft_that_never_pays() -> None:
    """A draft that is larger than the model takes longer than it, so that two tokens are not worth a round."""
    options = {"speculative_model": "llama-3.1-8b", "num_speculative_tokens": 1, "acceptance": 0.5}
    result = roofline.explain("llama-3.2-1b", "break_even_acceptance", "h100-sxm", **options)
    assert result.value is None
    assert result.formula == "a + 1 = (t_draft + t_verify) / t_decode"
    assert result.substituted.startswith("1 + 1 < ")
    assert result.mathml.count("<math>") == result.substituted_mathml.count("<math>") == 1
    assert "<mo>=</mo>" in result.mathml
    assert "<mo>&lt;</mo>" in result.substituted_mathml
    assert result.substituted_mathml.endswith("</math>")
    assert "a" not in [name for name, _, _ in result.legend]


def test_speculative_decoding_is_asked_for() -> None:
    """Its quantities need its options; what memory holds beside a draft has no closed form, and says what the search finds."""
    with pytest.raises(InputError, match="--num-speculative-tokens"):
        roofline.explain("llama-3.1-8b", "tokens_per_round")
    options = {"speculative_method": "ngram", "num_speculative_tokens": 3, "acceptance": 0.7}
    found = roofline.analyze("llama-3.1-8b", "h100-sxm", **options).memory.max_batch
    with pytest.raises(InputError, match=f"finds {found} by search"):
        roofline.explain("llama-3.1-8b", "max_batch", "h100-sxm", **options)


def same(operator: Any, explanation: Any) -> None:
    """FLOP and bytes of an operator are those of its formula."""
    parts = {part.subject: part.value for part in explanation.parts}
    assert parts.get("matrix_flops", 0) == pytest.approx(operator.cost.matrix_flops, rel=1e-9), operator.path
    if "bytes" in parts:
        assert parts["bytes"] == pytest.approx(operator.cost.bytes, rel=1e-9), operator.path
