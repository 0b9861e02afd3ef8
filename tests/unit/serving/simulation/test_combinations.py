"""Which options of `simulate` are simulated together, and which are refused together."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline.errors import InputError
from roofline.serving.simulation.combinations import MECHANISMS, NOT_TOGETHER, Mechanism
from roofline.serving.simulation.result import Simulation
from roofline.serving.simulation.step_tables import shared_tables

_DRAFT = {"speculative_model": "llama-3.2-1b", "num_speculative_tokens": 3, "acceptance": 0.6}
_NGRAM = {"speculative_method": "ngram", "num_speculative_tokens": 3, "acceptance": 0.6}
OPTIONS: dict[Mechanism, dict[str, Any]] = {
    "pools": {"disaggregated": True, "prefill_replicas": 1, "decode_replicas": 1},
    "autoscale": {"autoscale": "min=1,max=2,start-up=2 s"},
    "failures": {"failures": "mtbf=20 s,repair=2 s"},
    "kv_offload": {"kv_offload": "20 GB"},
    "swap": {"preemption": "swap"},
    "speculation": _NGRAM,
    "draft": _DRAFT,
    "gate": {"admission": "token-bucket:2000"},
    "queue_limit": {"admission": "queue:4"},
    "slo": {"admission": "slo", "ttft": "0.3 s"},
    "max_wait": {"scheduler": "sjf", "max_wait": "1 s"},
    "fair": {"scheduler": "fair"},
    "ordered": {"scheduler": "sjf"},
    "lora": {"lora_adapters": "3"},
}
FLAGS: dict[Mechanism, str] = {
    "pools": "--disaggregated", "autoscale": "--autoscale", "failures": "--failures", "kv_offload": "--kv-offload",
    "swap": "--preemption swap", "speculation": "--speculative-method", "draft": "--speculative-model",
    "gate": "--admission token-bucket:2000", "queue_limit": "--admission queue:4", "slo": "--admission slo",
    "max_wait": "--max-wait", "fair": "--scheduler fair", "ordered": "--scheduler sjf", "lora": "--lora-adapters",
}  # fmt: skip
PAIRS = [
    pair
    for pair in combinations(MECHANISMS, 2)
    if not {name for name in OPTIONS[pair[0]] if name != "ttft"} & set(OPTIONS[pair[1]])  # one option cannot be given twice
]


def served(**options: Any) -> Simulation:
    """Forty requests of conversations with something in common."""
    common = {
        "input_len": 300,
        "output_len": 60,
        "rate": 8,
        "requests": 40,
        "system_prompt": 64,
        "num_gpu_blocks_override": 200,
    }
    return roofline.simulate("llama-3.1-8b", "h100-sxm", **{**common, **options})


def test_every_pair_is_looked_at() -> None:
    """All mechanisms have options, and all pairs that are refused can be given."""
    assert set(OPTIONS) == set(FLAGS) == set(MECHANISMS)
    known = {frozenset(pair) for pair in PAIRS}
    assert {frozenset(pair) for pair in NOT_TOGETHER} <= known
    assert len(NOT_TOGETHER) == len({frozenset(pair) for pair in NOT_TOGETHER})


@pytest.mark.parametrize("pair", PAIRS, ids="+".join)
def test_a_pair_is_served_or_refused(pair: tuple[Mechanism, Mechanism]) -> None:
    """One error names both options and says why; or all requests are served, and the single steps agree."""
    options = {**OPTIONS[pair[0]], **OPTIONS[pair[1]]}
    # NB: a model as a draft is speculative decoding too
    meant = {*pair, *(["speculation"] if "draft" in pair else [])}
    reasons = [why for refused, why in NOT_TOGETHER.items() if set(refused) <= meant]
    if reasons:
        with pytest.raises(InputError) as error:
            served(**options)
        assert any(reason in str(error.value) for reason in reasons)
        assert all(FLAGS[name] in str(error.value) for name in pair)
        return
    # of the others' options no time of a step depends
    with shared_tables("+".join(name for name in pair if name in ("pools", "speculation", "draft", "lora"))):
        result, stepwise = served(**options), served(**options, stepwise=True)
    counts = result.requests
    assert (counts.arrived, counts.unfinished) == (40, 0)
    assert counts.completed + counts.shed + counts.failed == 40
    assert counts == stepwise.requests
    for name in ("ttft_s", "tpot_s", "e2e_s"):
        one, other = getattr(result, name), getattr(stepwise, name)
        assert one.mean == pytest.approx(other.mean, rel=1e-9)
        assert one.max == pytest.approx(other.max, rel=1e-9)


@pytest.mark.parametrize("name", [name for one, name in NOT_TOGETHER if one == "pools"])
def test_colocated_pools_are_pools(name: Mechanism, tmp_path: Path) -> None:
    """The same holds of a file of colocated pools; a scheduler may be in it."""
    path = tmp_path / "pools.yaml"
    path.write_text("kind: pools\ncolocated: {a: {}, b: {}}\n")
    with pytest.raises(InputError, match=f"--pools and {FLAGS[name]}"):
        served(pools=path, **OPTIONS[name])
    path.write_text("kind: pools\ncolocated: {a: {}, b: {scheduler: fair}}\n")
    with pytest.raises(InputError, match="--pools and --scheduler fair"):
        served(pools=path)


def test_no_drafts_are_no_speculation() -> None:
    """With no drafted tokens nothing is in the way."""
    options = {**_DRAFT, "num_speculative_tokens": 0}
    assert served(**OPTIONS["pools"], **options).requests.completed == 40
    assert served(**OPTIONS["fair"], **options).requests.completed == 40
    assert served(**OPTIONS["pools"], admission="all").requests.completed == 40
