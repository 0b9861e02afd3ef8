"""What vLLM's scheduler does beside the rule of its budget, by hand.

Whole prompts at admission, blocks that are found again after a preemption, steps that are formed ahead. A step takes 1 s and a
quarter of a second for each prompt token in it; blocks have four tokens.
"""

from __future__ import annotations

from simulated import AffineStepTime, Event, Served, serve

from roofline.serving.simulation.kv_cache import EngineConfig
from roofline.serving.simulation.request import Request

A, B, C = 0, 1, 2
TIMES = AffineStepTime(1.0, token=0.25)


def served(name: str, room: EngineConfig, *requests: tuple[float, int, int]) -> Served:
    """Served in runs; step by step it is the same."""
    runs, steps = (
        serve(name, [Request(index, *one) for index, one in enumerate(requests)], TIMES, room, stepwise=stepwise)
        for stepwise in (False, True)
    )
    assert [event for _, event in runs.events if event[0] != "decode"] == [
        event for _, event in steps.events if event[0] != "decode"
    ]
    return runs


def tokens(found: Served) -> list[Event]:
    """First tokens, and ends."""
    return found.of("token", "end")


def test_a_prompt_is_let_in_whole() -> None:
    """A's 16 tokens take 4 of 6 blocks, and 4 of 20 tokens are left: enough for a first part of B, whose 12 tokens need 3.

    A: 1 + 16/4 = 5 s, then two steps, until 7. B waits as long, and takes 1 + 12/4.
    """
    found = served("vllm-v1", EngineConfig(6, 4, max_num_seqs=8, max_num_batched_tokens=20), (0.0, 16, 3), (0.0, 12, 1))
    assert found.of("admit") == [("admit", 0.0, A), ("admit", 7.0, B)]
    assert tokens(found) == [("token", 5.0, A), ("end", 7.0, A), ("token", 11.0, B), ("end", 11.0, B)]


def test_a_preempted_request_finds_blocks_again() -> None:
    """C is let in last and goes at 12, with 15 tokens in 4 blocks, of which 3 are full; nothing else is free.

    Blocks are taken again from the end of what it had: A and B have its unfinished and its third block. When they end, at 15
    with 8 tokens each (5, 9, 10, 11, 12, 13, 14, 15), the other two hold 8 of the 16 tokens that C needs: 8 are computed, in
    1 + 8/4 s instead of 1 + 16/4.
    """
    requests = ((0.0, 8, 8), (0.0, 8, 8), (1.5, 12, 6))
    for keeps, took in ((True, 3.0), (False, 5.0)):
        config = EngineConfig(10, 4, max_num_seqs=8, max_num_batched_tokens=16, enable_prefix_caching=keeps)
        found = served("vllm-v1", config, *requests)
        assert found.of("preempt") == [("preempt", 12.0, C)]
        assert found.of("end") == [("end", 15.0, A), ("end", 15.0, B), ("end", 15.0 + took + 1, C)]
        computed = found.of("mixed")[-1][4]
        assert computed == (((C, 8, 8),) if keeps else ((C, 16, 0),))


def test_blocks_that_others_took_are_lost() -> None:
    """As before, but A and B go on to 19 tokens: they take the other two blocks as well, and C finds nothing."""
    found = served(
        "vllm-v1",
        EngineConfig(10, 4, max_num_seqs=8, max_num_batched_tokens=16, enable_prefix_caching=True),
        (0.0, 8, 12),
        (0.0, 8, 12),
        (1.5, 12, 6),
    )
    assert found.of("mixed")[-1][4] == ((C, 16, 0),)
    assert found.of("end") == [("end", 19.0, A), ("end", 19.0, B), ("end", 25.0, C)]


def test_formed_ahead() -> None:
    """A's first token comes at 1 + 8/4 = 3, and a step takes 1 s; B comes at 3.5.

    Its prompt of 4 is in the step that begins at 4 (2 s); ahead that one is formed at 3, and B is in the next, from 5 to 7.
    """
    room, requests = EngineConfig(10, 4, max_num_seqs=8, max_num_batched_tokens=16), ((0.0, 8, 4), (3.5, 4, 1))
    for name, at in (("vllm-v1", 4.0), ("vllm-v1-async", 5.0)):
        found = served(name, room, *requests)
        assert found.of("admit") == [("admit", 0.0, A), ("admit", at, B)]
        assert found.of("token") == [("token", 3.0, A), ("token", at + 2, B)]
        assert found.of("end")[-1] == ("end", 7.0, A)  # three more steps, one of which takes 2 s


def test_slots_are_free_a_step_later() -> None:
    """Two slots. A and B: 1 + 8/4 = 3 s; B ends at 4. C is in the step from then on; ahead, in the next."""
    room, requests = EngineConfig(10, 4, max_num_seqs=2, max_num_batched_tokens=16), ((0.0, 4, 6), (0.0, 4, 2), (0.0, 4, 1))
    for name, at in (("vllm-v1", 4.0), ("vllm-v1-async", 5.0)):
        assert served(name, room, *requests).of("admit")[-1] == ("admit", at, C)


def test_blocks_are_free_a_step_later() -> None:
    """The same, with slots for all and 4 blocks: A and B have 2 each from 3 on, and C waits for one of B's."""
    room, requests = EngineConfig(4, 4, max_num_seqs=8, max_num_batched_tokens=8), ((0.0, 4, 4), (0.0, 4, 2), (0.0, 4, 1))
    for name, at in (("vllm-v1", 4.0), ("vllm-v1-async", 5.0)):
        found = served(name, room, *requests)
        assert found.of("admit")[-1] == ("admit", at, C)
        assert not found.of("preempt")


def test_an_engine_with_nothing_to_do_waits_for_its_step() -> None:
    """One slot: when A ends, at 2, nothing else runs, and B begins at once, ahead too. C comes when all is done."""
    room, requests = EngineConfig(10, 4, max_num_seqs=1, max_num_batched_tokens=16), ((0.0, 4, 1), (0.5, 4, 1), (9.0, 4, 1))
    for name in ("vllm-v1", "vllm-v1-async"):
        assert served(name, room, *requests).of("end") == [("end", 2.0, A), ("end", 4.0, B), ("end", 11.0, C)]


def test_when_an_arrival_is_seen() -> None:
    """Between two steps: B comes at 3.5, in the step from 3 to 4; A when nothing runs."""
    for name in ("vllm-v1", "vllm-v1-async"):
        requests = [Request(A, 0.0, 8, 4), Request(B, 3.5, 4, 1)]
        serve(name, requests, TIMES, EngineConfig(10, 4, max_num_seqs=8, max_num_batched_tokens=16))
        assert [request.seen_time for request in requests] == [0.0, 4.0]
