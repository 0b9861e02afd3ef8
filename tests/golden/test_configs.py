"""Every config.json among the exact facts, as it was published: read to the last parameter, or refused with a reason."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from mutations import MUTATIONS, Config, places, problem
from mutations import Path as Place

from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.errors import RooflineError
from roofline.graph.build import build
from roofline.graph.sharding import caches, states
from roofline.predict.analyze import analyze
from roofline.predict.parameters import TWO_BYTES, count_parameters, kv_bytes_per_token
from roofline.specs.deployment import Conventions, Deployment
from roofline.specs.workload import decode, prefill

# Why a config is refused whose facts are known.
REFUSED = {
    "step-3.7-flash": "text_config",  # its keys stand outside of text_config, where the reference implementation does not look
}
# Facts that are of another thing than what we count.
_NO_KV = {
    "dbrx-132b": "its cache was not measured",
    "deepseek-v4-flash": "the facts have the window alone, not the compressed entries",
    "falcon-180b": "transformers caches keys and values once for each query head",
    "step-3.7-flash": "its cache was not measured",
}


@pytest.fixture(scope="session")
def configs(truth: Path) -> dict[str, Path]:
    """Paths by name."""
    found = {path.stem: path for path in sorted((truth / "truth" / "models" / "configs").glob("*.json"))}
    if not found:
        pytest.skip("no configs are there")
    return found


@pytest.fixture(scope="session")
def models(configs: dict[str, Path]) -> dict[str, Model]:
    """Those that are read."""
    return {name: load_model(path)[0] for name, path in configs.items() if name not in REFUSED}


def test_at_most_three_are_refused(configs: dict[str, Path]) -> None:
    """And each for the reason that is given above."""
    refused = {}
    for name, path in configs.items():
        try:
            load_model(path)
        except RooflineError as error:
            refused[name] = str(error)
    assert set(refused) == set(REFUSED)
    assert len(refused) <= 3
    for name, why in REFUSED.items():
        assert why in refused[name]


def test_parameters(models: dict[str, Model], facts: dict[str, Any]) -> None:
    """In total, active, and in the input tables."""
    for name, model in models.items():
        truth, counted = facts[name], count_parameters(model)
        found = (counted.total, counted.active, counted.embedding)
        assert found == (truth["total_params"], truth["active_params"], truth["embedding_params"]), name


def test_parameters_layer_by_layer(models: dict[str, Model], facts: dict[str, Any]) -> None:
    """Each layer holds as many as the module's."""
    for name, model in models.items():
        of_type = Counter[str]()
        for path, (operator, _) in build(model, Deployment(), TWO_BYTES, decode(1, 0)).items():
            if path.startswith("layers/"):
                layer = path.split("/")[1] if len(model.layer_types) > 1 else next(iter(model.layer_types))
                of_type[layer] += operator.parameters
        layers = [of_type[layer] for layer in model.layer_sequence]
        assert Counter(layers) == Counter({group["layer_total"]: 0 for group in facts[name]["per_layer_params"]}) + sum(
            (Counter({group["layer_total"]: group["n"]}) for group in facts[name]["per_layer_params"]), Counter()
        ), name


def test_correction_buffers_stand_apart(models: dict[str, Model], facts: dict[str, Any]) -> None:
    """What checkpoints hold beside parameters is listed, not counted."""
    for name, model in models.items():
        buffers = sum(count for part, count in model.apart.items() if not part.startswith("vision"))
        assert buffers == sum(facts[name]["persistent_buffers"].values()), name


def test_vision_towers_stand_apart(models: dict[str, Model], facts: dict[str, Any]) -> None:
    """With tower and projector a multimodal model has as many parameters as its class, where its config describes the tower."""
    towers = {
        name: sum(count for part, count in model.apart.items() if part.startswith("vision")) for name, model in models.items()
    }
    compared = {name: count for name, count in towers.items() if count and facts[name].get("multimodal_total_params")}
    assert {"gemma-3-12b", "gemma-4-31b-nvfp4", "qwen3.5-35b-a3b"} <= set(compared)
    for name, count in compared.items():
        assert facts[name]["total_params"] + count == facts[name]["multimodal_total_params"], name


def test_cache_below_every_window(models: dict[str, Model], facts: dict[str, Any]) -> None:
    """What one more token adds at two bytes an element."""
    for name, model in models.items():
        if (wanted := facts[name]["kv_bytes_per_token_bf16"]) is not None:
            assert kv_bytes_per_token(model) == wanted, name


def test_cache_of_a_sequence(models: dict[str, Model], facts: dict[str, Any], configs: dict[str, Path]) -> None:
    """Layers with a window (or chunk) of w tokens keep min(s, w) of them."""
    for name, model in models.items():
        if name in _NO_KV:
            continue
        kv = facts[name]["kv"]
        config = json.loads(configs[name].read_text(encoding="utf-8"))
        config = config.get("text_config", config)
        window = config.get("attention_chunk_size") or config.get("sliding_window")
        for length in (1, 100, 2047, 2048, 5000, 10**6):
            kept = min(length, window) if window and kv["window_layers_bytes_per_token"] else length
            wanted = kv["unbounded_layers_bytes_per_token"] * length + kv["window_layers_bytes_per_token"] * kept
            found = sum(cache.retained(length) * cache.elements * 2 * count for cache, count in caches(model, Deployment()))
            assert found == wanted, (name, length)


def test_state_of_a_sequence(models: dict[str, Model], facts: dict[str, Any]) -> None:
    """In the layout of transformers: all columns of the convolutions, recurrent state in fp32."""
    for name, model in models.items():
        found = sum(state.bytes(TWO_BYTES, allocated=False) * count for state, count in states(model, Deployment()))
        assert found == (facts[name]["state_bytes_per_seq"] or 0), name


def test_flop_of_pytorch(models: dict[str, Model], facts: dict[str, Any]) -> None:
    """Linear operators and attention equal the counter wherever it leaves nothing unexplained.

    The counter's conventions: no mask is discounted, logits at every position, MLA expanded at each step. What is not
    comparable (scans written out in chunks, rotations by products) is the residual of the facts.
    """
    conventions = Conventions(mask="full", logits="all", mla="expand")
    compared = 0
    for name, model in models.items():
        for case in facts[name]["flops"]:
            told = next((entry for entry in facts[name]["flops_reconciliation"] if entry["case"] == case["case"]), None)
            if told is None or told.get("residual") != 0:
                continue
            batch, new, cached = case["batch"], case["new_tokens"], case["ctx_before"]
            step = decode(batch, cached) if new == 1 else prefill(batch, new)
            graph = build(model, Deployment(conventions=conventions), TWO_BYTES, step)
            found = sum(operator.cost().matrix_flops * repeat for operator, repeat in graph.values())
            assert found == case.get("total_flops_routed_only", case["total_flops"]), (name, case["case"])
            compared += 1
    assert compared > 100


def test_analysed(configs: dict[str, Path]) -> None:
    """Every config can be asked about; hybrids and latent attention show operators of their own."""
    own = {
        "qwen3-next-80b-a3b": "linear_attention/core", "nemotron-h-56b": "mamba/", "deepseek-v3.2": "indexer",
        "deepseek-v2-lite": "attention/kv_a_proj",
    }  # fmt: skip
    for name, path in configs.items():
        if name in REFUSED:
            continue
        found = analyze(path, "h100-sxm", ignore_capacity=True)
        assert all(phase.cost.flops > 0 and phase.time.bound for phase in found.phases), name
        if name in own:
            assert any(own[name] in operator.path for operator in found.phases[-1].operators), name


def _every(configs: dict[str, Path]) -> list[tuple[str, Config, Place, str]]:
    found = []
    for name, path in configs.items():
        if name not in REFUSED:
            config = json.loads(path.read_text(encoding="utf-8"))
            for part in (config, config.get("text_config", {})):
                part.pop("quantization_config", None)  # its keys are tested elsewhere, and its patterns take their time
            found += [(name, config, place, mutation) for place in places(config) for mutation in MUTATIONS]
    return found


def test_mutants(configs: dict[str, Path]) -> None:
    """With one key wrong, a config is read right or refused by name: every seventh of all mutants, over 3,000 of them."""
    every = _every(configs)[::7]
    assert len(every) > 3000
    wrong = [f"{name}: {found}" for name, config, place, mutation in every if (found := problem(config, place, mutation))]
    assert not wrong, wrong[:10]
