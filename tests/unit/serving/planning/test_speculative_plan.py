"""Plans with speculative decoding: against the simulator, and what candidates say of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from roofline.audit.config_check import check
from roofline.errors import InputError
from roofline.predict.compiled import Compiled
from roofline.predict.compiled_rounds import CompiledRounds
from roofline.predict.drafts import resolve
from roofline.serving.planning.plan import plan
from roofline.serving.planning.result import Plan
from roofline.serving.queueing.replica import step_seconds
from roofline.serving.simulation.simulate import simulate
from roofline.specs.workload import Segment

DRAFT: dict[str, Any] = {"speculative_model": "llama-3.2-1b", "num_speculative_tokens": 4, "acceptance": 0.7}
LIMITS: dict[str, Any] = {"max_num_seqs": 256, "max_num_batched_tokens": 8192}
OBJECTIVES: dict[str, Any] = {"ttft": "5 s", "tpot": "50 ms", "dtype": "bf16", "max_gpus": 1, "mode": "colocated"}


def planned(**options: Any) -> Plan:
    """Llama 3.1 8B on one H100."""
    return plan("llama-3.1-8b", hardware="h100-sxm", **OBJECTIVES, **options)


@pytest.mark.slow
@pytest.mark.parametrize("output_len", ["400", "lognormal:300:200:1000", "uniform:1:60"])
def test_a_plan_is_what_the_simulator_sees(output_len: str) -> None:
    """8 requests/s: mean TTFT and TPOT within 5 %, TPOT at the 95th percentile within 7 %, as without drafts."""
    load: dict[str, Any] = {"rate": 8, "input_len": 1000, "output_len": output_len}
    best = planned(**load, **LIMITS, **DRAFT).candidates[0].performance
    seen = simulate("llama-3.1-8b", "h100-sxm", **load, requests=4000, **LIMITS, **DRAFT)
    assert best.ttft.mean == pytest.approx(seen.ttft_s.mean, rel=0.05)
    assert best.tpot.mean == pytest.approx(seen.tpot_s.mean, rel=0.05)
    assert best.tpot.at == pytest.approx(seen.tpot_s.p95, rel=0.07)


@pytest.mark.slow
def test_a_closed_loop_is_what_the_simulator_sees() -> None:
    """32 clients: TPOT and the rate within 3 %."""
    load: dict[str, Any] = {"input_len": 1000, "output_len": 400}
    best = planned(concurrency=32, **load, **LIMITS, **DRAFT).candidates[0]
    seen = simulate("llama-3.1-8b", "h100-sxm", workload="closed:32", **load, requests=2000, **LIMITS, **DRAFT)
    assert best.performance.tpot.mean == pytest.approx(seen.tpot_s.mean, rel=0.03)
    assert best.requests_per_s == pytest.approx(seen.throughput["requests_per_s"], rel=0.03)


@pytest.mark.parametrize("options", [DRAFT, {"speculative_method": "ngram", "num_speculative_tokens": 3, "acceptance": 0.5}])
def test_compiled_rounds_are_rounds(options: dict[str, Any]) -> None:
    """Arrays of batches: the bound is exactly that of `Speculation.round`, the estimate within 1 %."""
    request, speculation = resolve("llama-3.1-8b", "h100-sxm", batch=1, input_len=1, context=1, **options)
    assert speculation is not None
    import numpy as np

    batch = np.array([1.0, 8, 64, 256])
    steps = CompiledRounds(request, "decode", speculation)
    took = step_seconds(steps, (Segment(batch, 1, 2000, decode=True),), batch)
    for at, count in enumerate((1, 8, 64, 256)):
        whole = speculation.round(count, 2000)
        assert took["bound"][at] == pytest.approx(whole.bound, rel=1e-9)
        assert took["estimate"][at] == pytest.approx(whole.estimate, rel=0.01)
    # beside a round a prompt adds what it adds to a step of as many tokens, and to one of the draft, which it passes too
    mixed, verified = (Segment(8, 1, 2000, decode=True), Segment(1, 500, 0)), 1 + options["num_speculative_tokens"]
    expected = 0.0
    for one, tokens in ((request, verified), (speculation.draft.request, 1)):
        if one is not None:
            decodes = Segment(8, tokens, 2000, decode=True)
            both, alone = (Compiled(one, "decode").times(step).bound for step in ((decodes, mixed[1]), (decodes,)))
            expected += float(both - alone)
    assert steps.times(mixed).bound - steps.times(mixed[:1]).bound == pytest.approx(expected)
    assert steps.times(mixed[1:]).bound == pytest.approx(speculation.prefill(mixed[1:]).bound)


def test_candidates_say_what_is_drafted() -> None:
    """The engine's flags, the deployment, the notes, the file of the draft; and fewer slots beside the draft."""
    load: dict[str, Any] = {"rate": 8, "input_len": 1000, "output_len": 400}
    result, without = planned(**load, **DRAFT), planned(**load)
    best = result.candidates[0]
    pool = best.pools[0]
    flags = next(line for name, line in pool.engine_flags.items() if name.startswith("vllm"))
    config = json.loads(flags[flags.index("--speculative-config") + 1])
    assert config == {"method": "draft_model", "num_speculative_tokens": 4, "model": "meta-llama/Llama-3.2-1B-Instruct"}
    assert [name.split("@")[0] for name in pool.engine_flags] == ["vllm"]
    assert pool.deployment["speculative"]["acceptance"] == 0.7
    assert any("a round gives 2.77 tokens" in note for note in best.notes)
    assert result.inputs["draft"]["name"] == "llama-3.2-1b"
    assert "speculative" not in without.candidates[0].pools[0].deployment


def test_no_drafted_tokens_are_no_speculation() -> None:
    """K = 0 is the plan without, but for what is assumed."""
    load: dict[str, Any] = {"rate": 8, "input_len": 1000, "output_len": 400}
    none = planned(**load, speculative_method="ngram", num_speculative_tokens=0, acceptance=0.5).to_dict()
    plain = planned(**load).to_dict()
    assert none.pop("assumptions") != plain.pop("assumptions")
    assert none == plain


def test_pipelines_are_left_out() -> None:
    """With the reason; an option that is missing is an error."""
    load: dict[str, Any] = {"rate": 1, "input_len": 100, "output_len": 50}
    with pytest.raises(InputError, match="over pipeline stages is not modelled"):
        plan("llama-3.1-8b", hardware="dgx-h100", **load, **DRAFT, pipeline_parallel_size=2, ttft="5 s", tpot="1 s")
    with pytest.raises(InputError, match="--acceptance is needed"):
        planned(**load, speculative_model="llama-3.2-1b", num_speculative_tokens=4)


def test_a_deployment_is_checked_with_drafts(tmp_path: Path) -> None:
    """`--check`: the file's replica, timed with rounds."""
    file = tmp_path / "compose.yaml"
    command = "vllm serve x --max-model-len 4096 --max-num-seqs 64"
    file.write_text(f"services:\n  llm:\n    image: vllm/vllm-openai\n    command: {command}\n")
    load: dict[str, Any] = {"rate": 2, "input_len": 1000, "output_len": 400, "ttft": "5 s", "tpot": "50 ms"}
    drafted, plain = (check(file, model="llama-3.1-8b", hardware="h100-sxm", **load, **options) for options in (DRAFT, {}))
    assert drafted.candidate is not None
    assert plain.candidate is not None
    tpots = [one.candidate.performance.tpot.mean for one in (drafted, plain) if one.candidate is not None]
    assert (tpots[0] or 0) < 0.8 * (tpots[1] or 0)
