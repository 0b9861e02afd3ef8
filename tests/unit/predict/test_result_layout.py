"""The JSON of `analyze`, key by key as CONTRACT section 3 lists it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

import roofline
from roofline.documents import SCHEMA_VERSION
from roofline.predict.duration import Duration
from roofline.predict.result import Rates, rates_of

NUMBER, MAYBE, TEXT, MAYBE_TEXT, WHOLE, MAYBE_WHOLE, YES_NO = (
    (int, float),
    (int, float, type(None)),
    (str,),
    (str, type(None)),
    (int,),
    (int, type(None)),
    (bool,),
)
SPAN = dict.fromkeys(("bound", "estimate", "low", "high"), MAYBE)
WORK = {
    "flops": dict.fromkeys(("matrix", "vector", "total"), NUMBER),
    "bytes": dict.fromkeys(("weights", "activations", "kv_read", "kv_write", "state_read", "state_write", "total"), NUMBER),
    "link_bytes": NUMBER,
    "arithmetic_intensity": MAYBE,
    "bound_by": MAYBE_TEXT,
    "time_s": {**SPAN, "sum": MAYBE},
    "tokens_per_s": {"bound": MAYBE, "estimate": MAYBE},
    "mfu": MAYBE,
    "mbu": MAYBE,
}
OPERATOR = {"path": TEXT, "kind": TEXT, "dims": dict, "dtype": TEXT, "repeat": WHOLE, **WORK}
PHASE = {"phase": TEXT, "batch": WHOLE, "new_tokens": WHOLE, "cached_tokens": WHOLE, **WORK, "operators": [OPERATOR]}
LAYOUT: dict[str, Any] = {
    "schema_version": WHOLE,
    "tool_version": TEXT,
    "data_version": TEXT,
    "inputs": dict,
    "model": {
        "name": TEXT,
        "parameters": {"total": WHOLE, "active": WHOLE, "embedding": WHOLE, "apart": dict},
        "layers": WHOLE,
        "context_length": WHOLE,
        "source": (str, list),
    },
    "hardware": {
        "name": TEXT,
        "devices": WHOLE,
        "peak_flops": dict,
        "bandwidth": NUMBER,
        "memory_bytes": NUMBER,
        "ridge_point": NUMBER,
    },
    "deployment": {
        "weight_dtype": TEXT,
        "activation_dtype": TEXT,
        "kv_dtype": TEXT,
        "tensor_parallel": WHOLE,
        "pipeline_parallel": WHOLE,
        "data_parallel": WHOLE,
        "expert_parallel": WHOLE,
        "context_parallel": WHOLE,
        "sequence_parallel": YES_NO,
        "engine": TEXT,
        "backend": MAYBE_TEXT,
    },
    "memory": {
        "weights_bytes": NUMBER,
        "kv_bytes_per_token": NUMBER,
        "kv_bytes_per_sequence": {"mathematical": NUMBER, "allocated": NUMBER},
        "state_bytes_per_sequence": {"mathematical": NUMBER, "allocated": NUMBER},
        "activation_bytes": NUMBER,
        "reserved_bytes": NUMBER,
        "usable_bytes": NUMBER,
        "needed_bytes": NUMBER,
        "missing_bytes": NUMBER,
        "fits": YES_NO,
        "max_batch": WHOLE,
        "max_context": MAYBE_WHOLE,
        "kv_capacity_tokens": WHOLE,
    },
    "phases": [PHASE],
    "request": {"ttft_s": SPAN, "tpot_s": SPAN, "e2e_s": SPAN},
    "limits": {"critical_batch": {"linear": MAYBE, "step": MAYBE_WHOLE}, "max_batch_by_context": list},
    "assumptions": [{"name": TEXT, "value": object, "origin": TEXT, "why": TEXT}],
}


def _differences(found: Any, layout: Any, where: str) -> list[str]:
    """Keys of the layout that are missing or hold another type."""
    if isinstance(layout, dict):
        if not isinstance(found, dict):
            return [f"{where} is no object"]
        missing = [f"{where}.{key} is missing" for key in layout if key not in found]
        return missing + [
            text for key in layout if key in found for text in _differences(found[key], layout[key], f"{where}.{key}")
        ]
    if isinstance(layout, list):
        if not isinstance(found, list) or not found:
            return [f"{where} is no filled list"]
        return [text for index, item in enumerate(found) for text in _differences(item, layout[0], f"{where}[{index}]")]
    types = layout if isinstance(layout, tuple) else (layout,)
    right = isinstance(found, types) and not (isinstance(found, bool) and bool not in types and object not in types)
    return [] if right else [f"{where} is {found!r}"]


CASES: dict[str, dict[str, Any]] = {
    "dense": {"model": "llama-3.1-8b", "hardware": "h100-sxm", "output_len": 10},
    "does not fit": {"model": "llama-3.1-70b", "hardware": "h100-sxm", "output_len": 1},
    "windows, no limit": {"model": "mistral-7b-v0.1", "hardware": "h100-sxm", "output_len": 10},
    "experts over a node": {
        "model": "deepseek-v3",
        "hardware": "dgx-h100",
        "tp": 8,
        "ep": 8,
        "output_len": 10,
        "ignore_capacity": True,
    },
    "no vector rate": {"model": "gpt2", "hardware": "gaudi3", "output_len": 2},
}


@pytest.fixture(params=CASES, scope="module")
def document(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The parsed JSON of one case."""
    options = dict(CASES[request.param])
    loaded: dict[str, Any] = json.loads(
        roofline.analyze(options.pop("model"), options.pop("hardware"), **options).to_json(), parse_constant=pytest.fail
    )
    return loaded


def test_layout(document: dict[str, Any]) -> None:
    """Every documented key is there, with a value of its type."""
    phase_without_operators = {**PHASE, "operators": list}
    assert _differences(document, {**LAYOUT, "phases": [phase_without_operators]}, "") == []


def test_operators_have_the_keys_of_a_phase(document: dict[str, Any]) -> None:
    """An operator has path, kind, dims, dtype, repeat and the phase's own numbers."""
    wrong = {
        text.partition("].operators[")[2].partition("]")[2]
        for phase in document["phases"]
        for text in _differences(phase, {"operators": [OPERATOR]}, "phases[]")
    }
    assert wrong == set()


def test_first_keys(document: dict[str, Any]) -> None:
    """A reader finds the versions and the inputs first; each input has a hash of its text."""
    assert list(document)[:4] == ["schema_version", "tool_version", "data_version", "inputs"]
    assert document["schema_version"] == SCHEMA_VERSION
    assert all(len(entry["sha256"]) == 64 for entry in document["inputs"].values())


def test_totals_of_the_document(document: dict[str, Any]) -> None:
    """Totals are sums of their parts, also over operators; intensity is their quotient; link bytes are apart."""
    for phase in document["phases"]:
        for part in (phase, *phase["operators"]):
            assert part["flops"]["total"] == pytest.approx(part["flops"]["matrix"] + part["flops"]["vector"], rel=1e-12)
            assert part["bytes"]["total"] == pytest.approx(sum(v for k, v in part["bytes"].items() if k != "total"), rel=1e-12)
        assert phase["arithmetic_intensity"] == pytest.approx(phase["flops"]["total"] / phase["bytes"]["total"], rel=1e-12)
        for key in ("flops", "bytes"):
            assert phase[key]["total"] == pytest.approx(sum(op[key]["total"] for op in phase["operators"]), rel=1e-12)


def test_values_of_choice(document: dict[str, Any]) -> None:
    """Names come from the documented sets."""
    assert {phase["phase"] for phase in document["phases"]} <= {"prefill", "decode", "mixed"}
    assert {note["origin"] for note in document["assumptions"]} <= {"given", "default", "assumed", "transferred"}
    binds = {op["bound_by"] for phase in document["phases"] for op in phase["operators"]}
    assert binds <= {"compute", "memory", "link", "overhead", None}


def test_times_are_null_together(document: dict[str, Any]) -> None:
    """Where it does not fit and capacity counts, every time is null; elsewhere every bound is a number and bound <= sum."""
    timed = document["memory"]["fits"] or document["model"]["name"] == "deepseek-v3"
    for phase in document["phases"]:
        for part in (phase, *phase["operators"]):
            if timed:
                assert 0 <= part["time_s"]["bound"] <= part["time_s"]["sum"] * (1 + 1e-12)
            else:
                assert set(part["time_s"].values()) == {None}
        assert timed is (phase["tokens_per_s"]["bound"] is not None)


def test_no_number_is_beyond_json(document: dict[str, Any]) -> None:
    """No NaN and no infinity anywhere, and dimensions are plain numbers."""

    def numbers(value: Any) -> list[float]:
        if isinstance(value, dict):
            return [n for item in value.values() for n in numbers(item)]
        if isinstance(value, list):
            return [n for item in value for n in numbers(item)]
        return [value] if isinstance(value, (int, float)) else []

    assert all(math.isfinite(number) for number in numbers(document))
    assert all(
        isinstance(v, (int, float)) for phase in document["phases"] for op in phase["operators"] for v in op["dims"].values()
    )


def test_pairs_of_context_and_batch(document: dict[str, Any]) -> None:
    """`max_batch_by_context` is a list of pairs of whole numbers, contexts rising."""
    pairs = document["limits"]["max_batch_by_context"]
    assert all(isinstance(n, int) for pair in pairs for n in pair)
    assert [len(pair) for pair in pairs] == [2] * len(pairs)
    assert [context for context, _ in pairs] == sorted({context for context, _ in pairs})


def test_request_only_when_asked() -> None:
    """Without --output-len there is no `request`."""
    assert "request" not in roofline.analyze("gpt2", "t4").to_dict()


def test_numbers_of_the_document_are_those_of_the_result() -> None:
    """`to_json` says what the attributes say."""
    result = roofline.analyze("llama-3.1-8b", "h100-sxm", batch=3)
    document = json.loads(result.to_json())
    decode = document["phases"][1]
    assert decode["flops"]["matrix"] == result.decode.cost.matrix_flops  # type: ignore[union-attr]
    assert decode["time_s"]["bound"] == result.decode.time.bound  # type: ignore[union-attr]
    assert document["memory"]["max_batch"] == result.memory.max_batch


def test_frame() -> None:
    """A tidy table: one row an operator and phase, base units, totals as in the phases."""
    result = roofline.analyze("llama-3.1-8b", "h100-sxm", batch=3)
    frame = result.to_frame()
    assert len(frame) == sum(len(phase.operators) for phase in result.phases)
    sums = frame.groupby("phase")[["matrix_flops", "bytes", "time_bound_s"]].sum()
    for phase in result.phases:
        assert sums.loc[phase.name, "matrix_flops"] == pytest.approx(phase.cost.matrix_flops, rel=1e-12)
        assert sums.loc[phase.name, "bytes"] == pytest.approx(phase.cost.bytes, rel=1e-12)
        assert sums.loc[phase.name, "time_bound_s"] == pytest.approx(phase.time.bound, rel=1e-12)


def test_rates_and_shares_of_results() -> None:
    """Amounts over each time, the ends swapped; shares at the estimate, else at the bound; nothing of what takes no time."""
    span = Duration(4.0, 9.0, 5.0, 2.0, 10.0, 1.0)
    assert rates_of(20.0, span) == Rates(floor=20.0, bound=5.0, estimate=4.0, low=2.0, high=10.0)
    assert rates_of(20.0, Duration(0.0, None)) == Rates(None, None, None, None, None)
    assert (rates_of(20.0, span).best, rates_of(20.0, Duration(4.0, None)).best) == (4.0, 5.0)
    result = roofline.analyze("llama-3.1-8b", "dgx-h100", tp=2, batch=8)
    for phase in result.phases:
        assert phase.tokens_per_s == rates_of(phase.produced_tokens, phase.pipeline)
        assert (phase.pipeline_s, phase.time_s, phase.phase) == (phase.pipeline.bound, phase.time, phase.name)
        for one in (*phase.operators, phase):
            cost = one.cost
            parts = (cost.weight_bytes, cost.activation_bytes, cost.kv_read_bytes, cost.kv_write_bytes)
            assert one.bytes.total == cost.bytes == sum(parts)
            assert (one.flops.matrix, one.flops.vector) == (cost.matrix_flops, cost.vector_flops)
            assert one.flops.total == cost.matrix_flops + cost.vector_flops
            assert one.link_bytes == cost.link_bytes
            if cost.bytes:
                assert one.arithmetic_intensity == pytest.approx(one.flops.total / cost.bytes)
        for operator in phase.operators:
            if operator.kind == "overhead":
                assert (operator.bound_by, operator.arithmetic_intensity) == ("overhead", None)
            else:
                assert operator.mfu == pytest.approx(operator.times.matrix / operator.time.estimate)
                assert operator.mbu == pytest.approx(operator.times.memory / operator.time.estimate)
                assert operator.bound_by == operator.times.bound_by
    bare = replace(result.phases[0].operators[0], time=Duration(2.0, None))
    assert bare.mbu == pytest.approx(bare.times.memory / 2)
