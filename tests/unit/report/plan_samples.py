"""Plans whose numbers can be followed by hand, in the layout of `roofline plan --json`."""

from __future__ import annotations

import math
from copy import deepcopy
from typing import Any

RATE = 50.0
INPUT, OUTPUT = 1000.0, 200.0
"""Mean tokens of a prompt and of an answer."""
PRICES = {"h100-sxm": (3.0, 2.0, 5.0), "l40s": (1.0, 0.8, 1.5)}
"""An hour of a device: the value, and the ends of its range."""


def pool(role: str, max_rate: float, devices: int, rate: float = RATE, spare: int = 0, binds: str = "tpot") -> dict[str, Any]:
    """Replicas of tp = devices, as many as the rate needs."""
    return {
        "role": role, "replicas": math.ceil(rate / max_rate) + spare, "spare": spare, "devices": devices,
        "deployment": {"tensor_parallel": devices, "pipeline_parallel": 1, "data_parallel": 1, "expert_parallel": 1,
                       "context_parallel": 1, "max_num_seqs": 256, "max_num_batched_tokens": 8192},
        "engine_flags": {"sglang@0.5": ["python3", "-m", "sglang.launch_server"],
                         "vllm@0.19": ["vllm", "serve", "org/model", "--tensor-parallel-size", str(devices), "it's"]},
        "max_rate": max_rate, "binds": binds, "running": 10.0,
    }  # fmt: skip


def times(mean: float) -> dict[str, float]:
    """A mean, and twice of it at the percentile."""
    return {"mean": mean, "p50": mean, "pP": 2 * mean, "p95": 2 * mean, "low": mean / 2, "high": 2 * mean, "bound": mean / 4}


def candidate(hardware: str, pools: list[dict[str, Any]], ttft: float, tpot: float, rate: float = RATE) -> dict[str, Any]:
    """With what follows from its pools: devices, cost, headroom. Prompts are a quarter of the cost of a pool for both."""
    devices = sum(one["devices"] * one["replicas"] for one in pools)
    price, low, high = PRICES[hardware]
    hour = price * devices
    share = 0.25 if len(pools) == 1 else pools[0]["devices"] * pools[0]["replicas"] / devices
    most = min(pools, key=lambda one: one["max_rate"] * (one["replicas"] - one["spare"]))
    breaks = most["max_rate"] * (most["replicas"] - most["spare"])
    return {
        "hardware": hardware, "title": hardware.upper(), "devices": devices,
        "replicas": sum(one["replicas"] for one in pools), "spare": 0, "mode": "colocated", "precision": "fp8",
        "deployment": pools[-1]["deployment"], "engine_flags": pools[-1]["engine_flags"], "pools": pools,
        "ttft_s": times(ttft), "tpot_s": times(tpot),
        "classes": {"requests": {"ttft_s": times(ttft), "tpot_s": times(tpot)}},
        "throughput": {"requests_per_s": rate, "output_tokens_per_s": rate * OUTPUT, "input_tokens_per_s": rate * INPUT},
        "utilisation": 0.6, "running": 10.0, "cost_per_hour": hour, "cost_per_hour_range": [low * devices, high * devices],
        "cost_per_hour_scaled": None,
        "cost_per_million_tokens": {
            "input": hour / 3600 * share / (rate * INPUT) * 1e6, "output": hour / 3600 * (1 - share) / (rate * OUTPUT) * 1e6,
            "total": hour / 3600 / (rate * (INPUT + OUTPUT)) * 1e6,
        },
        "currency": "USD", "price": f"{price:.2f} USD/h (given)",
        "power": {"watts_at_most": 700.0 * devices, "joules_per_output_token_at_most": 1.0, "pue": 1.0},
        "binds": most["binds"], "breaks_first": {"what": most["binds"], "rate": breaks}, "headroom": breaks / rate - 1,
        "basis": "estimate", "notes": [f"a remark on {hardware}"],
    }  # fmt: skip


def plan(**more: Any) -> dict[str, Any]:
    """Three candidates for 50 requests/s: 3 h100 (9 an hour), 3 h100 in two pools (9), 10 l40s in pairs (10)."""
    listed = [
        candidate("h100-sxm", [pool("both", 20.0, 1)], 0.05, 0.010),
        candidate("h100-sxm", [pool("prefill", 40.0, 1, binds="ttft"), pool("decode", 55.0, 1, binds="memory")], 0.04, 0.012),
        candidate("l40s", [pool("both", 12.0, 2)], 0.2, 0.030),
    ]
    found = {
        "schema_version": 2, "tool_version": "0.1.0", "data_version": "2026.11.20",
        "inputs": {"model": {"name": "a-model", "path": "shipped", "sha256": "0123456789abcdef" * 4}},
        "model": {"name": "a-model", "source": []},
        "traffic": {
            "rate": RATE, "mean_rate": RATE, "concurrency": None, "peak_factor": 1.0,
            "classes": [{
                "name": "requests", "rate": RATE, "concurrency": None, "input_len": "1000", "output_len": "200",
                "mean_input": INPUT, "mean_output": OUTPUT, "ttft_s": 2.0, "tpot_s": 0.05, "percentile": 0.95,
                "prefix_hit": 0.0, "burstiness": 1.0,
            }],
        },
        "limits": {"max_gpus": None, "max_cost": None, "inventory": None, "spare": 0, "modes": ["colocated", "disaggregated"]},
        "rank": "cost", "candidates": listed, "pareto": [0, 1], "infeasible": None,
        "considered": {"deployments": 8, "fit": 6, "meet": 4, "within_limits": 3},
        "refused": [{"hardware": "l40s", "precision": "bf16", "layout": {"tp": 1}, "why": "weights take 90 GiB"}],
        "assumptions": [{"name": "percentile", "value": 0.95, "origin": "default", "why": "of the requests"}],
    }  # fmt: skip
    return deepcopy({**found, **more})


def offered() -> dict[str, Any]:
    """Two h100 at 2 an hour and the rest at 4 (3 to 5): three are 8, 7 to 9. Of l40s there are twelve with a price."""
    found = plan()
    offers = {
        "h100-sxm": [(2, 2.0, 2.0, 2.0), (None, 4.0, 3.0, 5.0)],
        "l40s": [(12, 1.0, 0.8, 1.5)],
    }
    for one in found["candidates"]:
        one["offers"] = [
            {"count": count, "price": price, "range": [low, high], "kind": "rented", "note": ""}
            for count, price, low, high in offers[one["hardware"]]
        ]
        if one["hardware"] == "h100-sxm":
            costs = one["cost_per_million_tokens"]
            one["cost_per_million_tokens"] = {name: cost * 8 / one["cost_per_hour"] for name, cost in costs.items()}
            one |= {"cost_per_hour": 8.0, "cost_per_hour_range": [7.0, 9.0]}
    return found


def closed() -> dict[str, Any]:
    """64 clients instead of a rate."""
    found = plan()
    found["traffic"] |= {"rate": None, "mean_rate": None, "concurrency": 64}
    found["traffic"]["classes"][0] |= {"rate": None, "concurrency": 64}
    for one in found["candidates"]:
        one["headroom"] = one["breaks_first"]["rate"] = None
    return found


def infeasible() -> dict[str, Any]:
    """Nothing is quick enough."""
    relax = {"constraint": "tpot", "from": 0.001, "to": 0.0035, "why": "h100-sxm, fp8, tp=4 reaches it with almost no load"}
    nearest = {"hardware": "h100-sxm", "layout": {"tp": 4}, "precision": "fp8", "ttft_s": 2.0, "tpot_s": 0.0035}
    return plan(
        candidates=[], pareto=[], infeasible={"nearest": nearest, "relax": [relax]},
        considered={"deployments": 8, "fit": 6, "meet": 0, "within_limits": 0},
    )  # fmt: skip
