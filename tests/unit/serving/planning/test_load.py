"""What a plan makes of traffic: means, rates, the longest request; and the devices that its limits allow."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from roofline.errors import InputError
from roofline.serving.planning.load import Load, Query, Service
from roofline.serving.planning.plan import _check_lengths
from roofline.serving.traffic.build import single
from roofline.serving.traffic.classes import RequestClass, Traffic
from roofline.specs.library import load_hardware


def classes(*given: dict[str, Any]) -> tuple[RequestClass, ...]:
    """In the terms of the command; prompts of 1,000 tokens and outputs of 101 if they do not say otherwise."""
    parts = [single(**{"input_len": 1000, "output_len": 101, **one}).classes[0] for one in given]
    return tuple(replace(one, name=f"class {k}") for k, one in enumerate(parts))


def load_of(*given: dict[str, Any], **traffic: Any) -> Load:
    return Load.of(Traffic(classes=classes(*given), **traffic))


def test_means_are_weighted_by_the_arrivals() -> None:
    """Three quarters of 8 requests/s, and a peak of 1.5 times as many."""
    load = load_of({"rate": 6, "burstiness": 2}, {"rate": 2, "input_len": "uniform:2000:3000", "output_len": 11}, peak=1.5)
    assert (load.rate, load.mean_rate, load.concurrency) == (12, 8, None)
    assert [one.mix.share for one in load.services] == [0.75, 0.25]
    assert load.mean_input == 0.75 * 1000 + 0.25 * 2500
    assert load.mean_output == 0.75 * 101 + 0.25 * 11
    assert (load.longest, load.beyond) == (3011, 3011)
    assert not load.retained
    prompts = load.mix[1].prompts
    assert (prompts == np.sort(prompts)).all()
    assert prompts.mean() == pytest.approx(2500)


def test_clients_are_weights_too() -> None:
    """Ten clients, and 11.6 at the peak, of which there are whole ones."""
    load = load_of({"concurrency": 2}, {"concurrency": 8, "input_len": 500, "output_len": 1}, peak=1.16)
    assert (load.rate, load.mean_rate, load.concurrency) == (None, None, 12)
    assert load.mean_input == pytest.approx(600)
    assert load.mean_output == pytest.approx(21)


def test_bursts_of_all_classes() -> None:
    """Squares of the coefficients of variation are weighted, at most 3 in the formulas."""
    for bursts, cv in [
        ((1, 1), 1),
        ((2, 2), 2),
        ((2, 1), (0.75 * 4 + 0.25) ** 0.5),
        ((1, 2), (0.75 + 0.25 * 4) ** 0.5),
        ((9, 1), 3),
        ((0.5, 0.5), 0.5),
    ]:
        load = load_of(*({"rate": rate, "burstiness": one} for rate, one in zip((3, 1), bursts, strict=True)))
        assert load.cv == pytest.approx(cv)
        assert load.burstiness == max(bursts)


def test_the_longest_request() -> None:
    """The end of the lengths; where that is far or open 99.9 % of the requests, in whole 1,024 tokens."""
    for lengths, longest, beyond in [
        ({"input_len": 1000, "output_len": 101}, 1101, 1101),
        ({"input_len": "uniform:1:1000", "output_len": "uniform:1:100"}, 1100, 1100),
        # 99.9 % are within 999 and 100 + 90: twice that holds all, and the next has three times as many
        ({"input_len": 1000, "output_len": "lognormal:100:10:1000"}, 2000, 2000),
        ({"input_len": 1000, "output_len": "lognormal:100:10:2000"}, 2048, 3000),
        ({"input_len": 1000, "output_len": "lognormal:100:10"}, 2048, None),
        ({"input_len": "lognormal:100:10", "output_len": 1000}, 2048, None),
        ({"input_len": "lognormal:100:10", "output_len": 10}, 1024, None),
        # a conversation: its turns with their answers, and the system prompt
        ({"input_len": 100, "output_len": 50, "turns": 3, "think": "1 s", "system_prompt": 64}, 514, 514),
        ({"input_len": 100, "output_len": 50, "system_prompt": 64}, 214, 214),
        # 5,100 and 3,000 + 3.09 x 100
        ({"input_len": 100, "output_len": "lognormal:3k:100", "system_prompt": 5000}, 9216, None),
    ]:
        load = load_of({"rate": 1, **lengths})
        assert (load.longest, load.beyond) == (longest, beyond)


def test_the_longest_request_of_all_classes() -> None:
    """One without an end has all without."""
    short, long, open_end = {"rate": 1}, {"rate": 1, "input_len": 5000}, {"rate": 1, "output_len": "lognormal:100:10"}
    for given, ends in (((short, long), (5101, 5101)), ((long, open_end), (5101, None)), ((short, open_end), (2048, None))):
        load = load_of(*given)
        assert (load.longest, load.beyond) == ends
    # one without a conversation beside one: both of its lengths at their ends, as alone
    wide, talk = (
        {"rate": 1, "input_len": "lognormal:2k:500", "output_len": "lognormal:2k:500"},
        {"rate": 1, "system_prompt": 64},
    )
    assert load_of(wide, talk).longest == load_of(wide).longest == 9216


def test_prompts_that_the_cache_has() -> None:
    """A share, or the first tokens; a conversation or a system prompt of one class has all of them retained."""
    hit, first, neither = (
        load_of({"rate": 1, "prefix_hit": 0.3}),
        load_of({"rate": 1, "cached_prefix": 200}),
        load_of({"rate": 1}),
    )
    assert [load.mix[0].computed[0] for load in (hit, first, neither)] == [700, 800, 1000]
    assert [load.has_cached_prompts for load in (hit, first, neither)] == [True, True, False]
    assert load_of({"rate": 1, "prefix_hit": 0.3}, {"rate": 1}).has_cached_prompts
    both = load_of({"rate": 3, "system_prompt": 200}, {"rate": 1, "input_len": 40})
    assert [turns.mean_prompt for _, turns in both.retained] == [1200, 40]
    assert both.has_cached_prompts
    assert both.mean_input == 0.75 * 1200 + 0.25 * 40
    assert load_of({"concurrency": 3, "system_prompt": 200}).mean_input == 1200


def test_what_is_only_simulated() -> None:
    """Adapters, and clients that hold conversations; turns at a rate are planned."""
    talk = {"turns": 3, "think": "1 s", "input_len": 100, "output_len": 50}
    assert len(load_of({"rate": 2}, {"rate": 2, **talk}).retained) == 2
    with pytest.raises(InputError, match="class 'class 1' has clients that hold conversations"):
        load_of({"concurrency": 2}, {"concurrency": 2, **talk})
    (one,) = classes({"rate": 2})
    with pytest.raises(InputError, match="class 'class 0' has a LoRA adapter"):
        Load.of(Traffic(classes=(replace(one, adapter="poet"),)))


def test_requests_that_no_deployment_serves() -> None:
    """Of 1,101 tokens each, or of 2,001.5 on average, from 2 to 4,001: a limit that even those do not keep to."""
    model: Any = SimpleNamespace(name="m", max_position_embeddings=1101)
    equal, spread = load_of({"rate": 1}), load_of({"rate": 1, "input_len": "uniform:1:4000", "output_len": 1})
    _check_lengths(model, equal, {})
    _check_lengths(model, spread, {"max_model_len": 2002})
    for load, fixed, message in (
        (equal, {"max_model_len": 1100}, "every request has 1,101 tokens or more, beyond --max-model-len"),
        (spread, {"max_model_len": 2001}, "the mean request has 2,002 tokens or more, beyond --max-model-len"),
        (spread, {}, "beyond the 1,101 tokens that m was made for"),
    ):
        with pytest.raises(InputError, match=message):
            _check_lengths(model, load, fixed)


def test_objectives_that_are_set() -> None:
    mix: Any = None
    assert Service("a", mix, 1.0, None, 0.95).objectives == {"ttft": 1}
    assert Service("a", mix, None, 0.02, 0.95).objectives == {"tpot": 0.02}
    assert Service("a", mix, 0.0, 0.0, 0.95).objectives == {"ttft": 0, "tpot": 0}


def test_devices_that_the_limits_allow() -> None:
    """The least of what is allowed, owned and offered."""
    for limits, devices in [
        ({}, 2**60),
        ({"max_gpus": 12}, 12),
        ({"inventory": {"dgx-h100": 16}}, 16),
        ({"inventory": {"h100-sxm": 3}}, 3),  # of the node's accelerator
        ({"inventory": {"h100-sxm": 3, "dgx-h100": 16}}, 16),
        ({"inventory": {"l40s": 8}}, 0),
        ({"available": 5}, 5),
        ({"available": 5, "max_gpus": 4}, 4),
        ({"available": 5, "max_gpus": 9, "inventory": {"dgx-h100": 6}}, 5),
        ({"available": None, "max_gpus": 9}, 9),
        ({"max_gpus": 0}, 0),
    ]:
        given = {"max_gpus": None, "inventory": None, **limits}
        price = SimpleNamespace(available=limits["available"]) if "available" in limits else None
        query: Any = SimpleNamespace(**given, prices=SimpleNamespace(of=lambda hardware, price=price: price))
        assert Query.devices(query, load_hardware("dgx-h100")[0]) == devices
