"""What holds of every run of the simulator, whatever the scheduler: nothing is lost, nothing is computed for nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import Served, World, random_adapters, random_fleet, world

from roofline.serving.simulation.schedulers import SCHEDULERS
from roofline.serving.simulation.step_log import END, RUN

WORLDS = 1000


def apart(one: Served, other: Served) -> list[str]:
    """Events that differ, or whose times are more than 1e-9 apart (of a second, or of the time)."""
    found = []
    for index in range(len(one.replicas)):
        # the runs of decode steps are cut in another way: what they bring about is compared
        pairs = [[event for event in served.of(replica=index) if event[0] != "decode"] for served in (one, other)]
        if len(pairs[0]) != len(pairs[1]):
            found.append(f"{len(pairs[0])} events, and {len(pairs[1])}")
        for left, right in zip(*pairs, strict=False):
            times = {"mixed": (1, 2), "load": (1, 2), "shed": (1, 3)}.get(left[0], (1,))
            same = [value for place, value in enumerate(left) if place not in times] == [
                value for place, value in enumerate(right) if place not in times
            ]
            if not same or any(abs(left[at] - right[at]) > 1e-9 * max(1, abs(right[at])) for at in times):
                found.append(f"{left} and {right}")
                break
    return found


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, WORLDS, 100))
def test_runs_of_steps_are_the_steps_one_by_one(start: int) -> None:
    """1,000 worlds of all schedulers, ways to preempt, balancers, open and closed: the same events at the same times."""
    for seed in range(start, start + 100):
        one = world(seed)
        runs, steps = one.run(False), one.run(True)
        assert not apart(runs, steps), (seed, one.name, one.mode)
        assert runs.refused == steps.refused
        assert runs.shed == steps.shed
        assert [replica.batch.num_steps for replica in runs.replicas] == [replica.batch.num_steps for replica in steps.replicas]


@pytest.mark.parametrize("seed", [1909, 2651])
def test_a_router_sees_what_is_cached_in_the_midst_of_a_run(seed: int) -> None:
    """Worlds in which the prefix-aware router looks at caches while steps that have begun have taken, or freed, blocks."""
    one = world(seed)
    assert not apart(one.run(False), one.run(True))


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 300, 100))
def test_runs_of_steps_with_kv_cache_tiers(start: int) -> None:
    """300 worlds with one tier or two: loads begin and end at the same times too, and some are of preempted requests."""
    kinds: Counter[str] = Counter()
    for seed in range(start, start + 100):
        one = world(seed, tiered=True)
        runs, steps = one.run(False), one.run(True)
        assert not apart(runs, steps), (seed, one.name)
        preempted = set()
        for _, event in runs.events:
            if event[0] == "preempt":
                preempted.add(event[2])
            kinds[f"{event[0]} again" if event[0] == "loading" and event[2] in preempted else event[0]] += 1
    assert kinds["load"] > 200
    assert kinds["loading again"] > 50


@pytest.mark.slow
def test_the_worlds_have_what_can_go_wrong() -> None:
    """Every scheduler, thousands of preemptions of both kinds, and shed requests are in the first 300 of them."""
    kinds: Counter[str] = Counter()
    names = set()
    for seed in range(300):
        one = world(seed)
        names.add(one.name)
        kinds.update(event[0] for _, event in one.run(False).events)
    assert names == set(SCHEDULERS)
    assert kinds["preempt"] > 1000
    assert kinds["shed"] > 300
    assert kinds["swap"] > 300
    assert kinds["resume"] == kinds["swap"]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32).map(world), st.booleans())
def test_nothing_is_lost(one: World, stepwise: bool) -> None:
    """Every request ends, is refused or is shed; every block, seat and token comes back; time goes forward."""
    served = one.run(stepwise)
    ended = [int(index) for index in served.log.ends[:: len(END)]]
    assert sorted([*ended, *served.refused, *served.shed]) == list(range(len(one.requests)))
    for replica in served.replicas:
        assert replica.kv_cache.num_free_blocks == replica.kv_cache.num_gpu_blocks
        assert not replica.scheduler.running
        assert not replica.scheduler.waiting
        assert not replica.scheduler.swapped
        batch, scheduler, cache = replica.batch, replica.scheduler, replica.kv_cache
        assert (batch.num_sequences, batch.num_cached_tokens, batch.num_stalled, scheduler.num_swapped_tokens) == (0, 0, 0, 0)
        assert cache.num_retained_blocks == 0
        assert scheduler.num_prompt_tokens == 0
        if isinstance(cache.growth, Counter):
            assert not any(num for step, num in cache.growth.items() if step >= batch.num_steps)
        else:
            assert not any(cache.growth)
        assert batch.tokens_per_step == 0
    for index in range(len(served.replicas)):
        steps = served.of("decode", "mixed", replica=index)
        assert all(begins < ends for _, begins, ends, *_ in steps)
        assert all(left[2] <= right[1] for left, right in pairwise(steps))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32).map(world))
def test_every_token_is_computed(one: World) -> None:
    """Each prompt but what is cached of it, chunk after chunk, and each token of an answer but the last.

    It is more only where a cache was dropped, and then less only where others have computed the same.
    """
    served = one.run(False)
    computed: dict[int, int] = defaultdict(int)
    for index in range(len(served.replicas)):
        for _, _, _, _, chunks in served.of("mixed", replica=index):
            for request, new, before in chunks:
                computed[request] += new
                assert before + new <= one.requests[request][1] + one.requests[request][2]
    dropped = {event[2] for _, event in served.events if event[0] == "preempt"}
    refused = {*served.refused, *served.shed}
    ended = [
        dict(zip(END, served.log.ends[at : at + len(END)], strict=True)) for at in range(0, len(served.log.ends), len(END))
    ]
    cached = {int(row["index"]): int(row["cached"]) for row in ended}
    shares = served.replicas[0].kv_cache.prefixes is not None
    for request, (_, prompt, _, _) in enumerate(one.requests):
        if request in refused:
            assert computed[request] == 0
        elif request in dropped:
            assert computed[request] >= (1 if shares else prompt)
        else:
            assert computed[request] == prompt - cached[request]
    rows = [dict(zip(RUN, served.log.runs[at : at + len(RUN)], strict=True)) for at in range(0, len(served.log.runs), len(RUN))]
    decoded = sum(row["steps"] * row["tokens"] for row in rows)
    answers = [answer for request, (_, _, answer, _) in enumerate(one.requests) if request not in refused]
    tokens = decoded + sum(row["prompts"] for row in rows)
    if one.speculation is None:
        assert tokens == sum(answers)
    else:  # what a preempted sequence has of its next token is lost; what a round gives is rounded to a millionth
        lost = sum(event[0] in ("preempt", "swap") for _, event in served.events)
        assert -0.01 <= tokens - sum(answers) <= lost


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32).map(world))
def test_gaps_between_tokens_are_the_time_from_the_first_to_the_last(one: World) -> None:
    """Summed over all requests: what runs and gaps say of the times between tokens is what each request saw."""
    served = one.run(False)
    row = len(END)
    ends = [dict(zip(END, served.log.ends[at : at + row], strict=True)) for at in range(0, len(served.log.ends), row)]
    seen = sum(end["ended"] - end["first"] for end in ends)
    told = sum(seconds * many for seconds, many in zip(served.log.gaps[::2], served.log.gaps[1::2], strict=True))
    for at in range(0, len(served.log.runs), len(RUN)):
        run = dict(zip(RUN, served.log.runs[at : at + len(RUN)], strict=True))
        steps, first = run["steps"], run["seconds"] + run["lead"]
        told += (run["sequences"] - run["stalled"]) * first if run["sequences"] else 0.0
        told += run["sequences"] * ((steps - 1) * run["seconds"] + run["more"] * steps * (steps - 1) / 2)
    assert told == pytest.approx(seen, rel=1e-9, abs=1e-9)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32).map(world))
def test_who_is_refused_could_never_run(one: World) -> None:
    """Its last step needs more blocks than there are."""
    served = one.run(False)
    replica = served.replicas[0]
    for request, (_, prompt, answer, _) in enumerate(one.requests):
        ahead = 0  # slots of drafted tokens
        if one.speculation is not None and answer > 1:
            ahead = one.speculation.lengths.num_speculative_tokens + one.speculation.num_lookahead_tokens
        needs = replica.kv_cache.blocks_of(prompt + answer - 1 + ahead)
        assert (request in served.refused) == (needs > replica.kv_cache.num_gpu_blocks)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 300, 100))
def test_fleets_in_runs_of_steps_are_those_step_by_step(start: int) -> None:
    """300 worlds whose replicas start, drain and fail: the same events, scaling and failures; and no request is lost."""
    kinds: Counter[str] = Counter()
    for seed in range(start, start + 100):
        one, fleet = world(seed), random_fleet(seed)
        runs, steps = one.run(False, fleet=fleet), one.run(True, fleet=fleet)
        assert len(runs.replicas) == len(steps.replicas)
        assert not apart(runs, steps), (seed, one.name, one.mode)
        assert (runs.refused, runs.failed) == (steps.refused, steps.failed)
        counts = [(log.num_rounds, log.num_accepted_tokens) for log in (runs.log, steps.log)]
        assert counts[0] == counts[1]
        ended = [int(index) for index in runs.log.ends[:: len(END)]]
        assert sorted([*ended, *runs.refused, *runs.failed]) == list(range(len(one.requests)))
        left, right = runs.record, steps.record
        assert left is not None
        assert right is not None
        assert left.scaled == right.scaled
        counts = [(each.num_failures, each.num_retries, each.lost_output_tokens, each.lost_kv_tokens) for each in (left, right)]
        assert counts[0] == counts[1]
        for spans in ("held", "served", "repaired", "queued"):
            pairs = zip(sorted(getattr(left, spans)), sorted(getattr(right, spans)), strict=True)
            assert all(one == pytest.approx(other, abs=1e-6) for one, other in pairs)
        kinds.update(fails=left.num_failures, retries=left.num_retries, scaled=len(left.scaled), queued=len(left.queued))
    assert min(kinds.values()) > 100, kinds


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_nothing_is_lost_of_a_fleet(seed: int) -> None:
    """Every request ends, is refused or fails; the first token that a client saw is between its arrival and its last."""
    one, fleet = world(seed), random_fleet(seed)
    served = one.run(False, fleet=fleet)
    ended = [int(index) for index in served.log.ends[:: len(END)]]
    assert sorted([*ended, *served.refused, *served.failed]) == list(range(len(one.requests)))
    for at in range(0, len(served.log.ends), len(END)):
        end = dict(zip(END, served.log.ends[at : at + len(END)], strict=True))
        assert end["arrived"] <= end["first"] <= end["ended"]
    assert served.record is not None
    for begin, stop in (*served.record.held, *served.record.served, *served.record.repaired):
        assert 0 <= begin <= stop


@pytest.mark.parametrize("start", range(0, 300, 100))
def test_adapters_in_runs_of_steps_are_those_step_by_step(start: int) -> None:
    """300 worlds with fewer slots than adapters, every other one with a fleet that changes: the same events and loads."""
    loaded = 0
    for seed in range(start, start + 100):
        one, fleet, lora = world(seed), random_fleet(seed) if seed % 2 else None, random_adapters(seed)
        # what is not simulated together with adapters
        if one.mode != "recompute" or one.speculation is not None or not SCHEDULERS[one.name].queue().fifo:
            continue
        runs, steps = (one.run(stepwise, fleet=fleet, lora=lora) for stepwise in (False, True))
        assert not apart(runs, steps), (seed, one.name)
        assert runs.lora == steps.lora
        ended = [int(index) for index in runs.log.ends[:: len(END)]]
        assert sorted([*ended, *runs.refused, *runs.failed, *runs.shed]) == list(range(len(one.requests)))
        assert runs.lora.num_admitted == runs.lora.num_hits + runs.lora.num_loaded
        loaded += runs.lora.num_loaded
    assert loaded > 100
