"""Each scheduler, event by event, by hand: three requests, ten blocks of four tokens.

A step takes 1 s and a quarter of a second for each prompt token in it. A and B have prompts of 8 tokens, C of 12; C comes at
1.5 s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import pytest
from simulated import AffineStepTime, Event, LinearCosts, Served, serve

from roofline.serving.simulation.kv_cache import EngineConfig
from roofline.serving.simulation.preemption import PreemptionPolicy
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.scheduler import NoProgressError
from roofline.serving.simulation.step_time import Cell, Chunk

A, B, C = 0, 1, 2
TIMES = AffineStepTime(1.0, token=0.25)
ROOM = EngineConfig(num_gpu_blocks=10, block_size=4, max_num_seqs=8, max_num_batched_tokens=16)


def three(answers: tuple[int, int, int] = (12, 12, 6)) -> list[Request]:
    """A, B and C."""
    return [Request(A, 0.0, 8, answers[A]), Request(B, 0.0, 8, answers[B]), Request(C, 1.5, 12, answers[C])]


def stepwise_too(name: str, requests: tuple[int, int, int] = (12, 12, 6), room: EngineConfig = ROOM, **more: object) -> Served:
    """Served in runs; step by step it is the same but for where runs are cut."""
    runs = serve(name, three(requests), TIMES, room, **more)  # type: ignore[arg-type]
    steps = serve(name, three(requests), TIMES, room, stepwise=True, **more)  # type: ignore[arg-type]
    assert [event for _, event in runs.events if event[0] != "decode"] == [
        event for _, event in steps.events if event[0] != "decode"
    ]
    return runs


def steps(served: Served) -> list[Event]:
    """From, to, how often, how many decode, chunks: prompts as (request, new, before)."""
    return [
        (event[1], event[2], event[3], event[4], ()) if event[0] == "decode" else (event[1], event[2], 1, event[3], event[4])
        for event in served.of("decode", "mixed")
    ]


def ends(served: Served) -> dict[int, float]:
    """When each ended."""
    return {event[2]: event[1] for event in served.of("end")}


def test_vllm_v1() -> None:
    """Decodes beside prompts; the last let in goes when a block is missing.

    0: A and B, 2 blocks each; 16 tokens take 1 + 16/4 = 5 s. 5: A and B have their first token; their 9th goes into a third
    block each (6 of 10); C is let in with 3 blocks (9). 1 + 12/4 = 4. 9: C's first token. 9, 9 and 12 are cached: C takes the
    tenth block, and three steps of 1 s have room. 12: A and B are at 12 and need a block each: C, let in last, goes with its
    4 tokens and 4 blocks. A and B take 2 of them. 13: C needs 12 + 4 = 16 tokens, 4 blocks, and 2 are free. A and B have had
    6 tokens (at 5, 9, 10, 11, 12, 13): 6 more. 19: A and B end. C computes 16 tokens in 1 + 4 = 5 s, and has its 5th token at
    24; the 6th at 25.
    """
    served = stepwise_too("vllm-v1")
    assert steps(served) == [
        (0.0, 5.0, 1, 0, ((A, 8, 0), (B, 8, 0))),
        (5.0, 9.0, 1, 2, ((C, 12, 0),)),
        (9.0, 12.0, 3, 3, ()),
        (12.0, 13.0, 1, 2, ()),
        (13.0, 19.0, 6, 2, ()),
        (19.0, 24.0, 1, 0, ((C, 16, 0),)),
        (24.0, 25.0, 1, 1, ()),
    ]
    assert served.of("admit", "preempt", "token") == [
        ("admit", 0.0, A), ("admit", 0.0, B), ("token", 5.0, A), ("token", 5.0, B), ("admit", 5.0, C), ("token", 9.0, C),
        ("preempt", 12.0, C), ("admit", 19.0, C), ("token", 24.0, C),
    ]  # fmt: skip
    assert ends(served) == {A: 19, B: 19, C: 25}


def test_vllm_v1_cuts_prompts() -> None:
    """With 10 tokens a step: A's 8 and 2 of B's, 3.5 s. Then a token of A, B's last 6, and 3 of C's: 1 + 9/4 = 3.25 s."""
    served = stepwise_too("vllm-v1", room=EngineConfig(10, 4, 8, max_num_batched_tokens=10))
    assert steps(served)[:2] == [(0.0, 3.5, 1, 0, ((A, 8, 0), (B, 2, 0))), (3.5, 6.75, 1, 1, ((B, 6, 2), (C, 3, 0)))]


def test_vllm_v0() -> None:
    """Prompts in steps of their own, before decodes; the last arrived goes.

    5: C needs 3 blocks and one that stays free (1 % of 10, rounded up): 6 are free. 12 tokens alone take 4 s; A and B wait.
    9: all decode; 8, 8 and 12 are cached: each takes a block, ten. Four steps have room.
    13: A and B are at 12; C goes, with 5 tokens. A and B, which have had 5 as well, need 7 more.
    20: C computes 12 + 5 = 17 tokens in 1 + 17/4 = 5.25 s, and has its 6th token, the last.
    """
    served = stepwise_too("vllm-v0")
    assert steps(served) == [
        (0.0, 5.0, 1, 0, ((A, 8, 0), (B, 8, 0))),
        (5.0, 9.0, 1, 0, ((C, 12, 0),)),
        (9.0, 13.0, 4, 3, ()),
        (13.0, 14.0, 1, 2, ()),
        (14.0, 20.0, 6, 2, ()),
        (20.0, 25.25, 1, 0, ((C, 17, 0),)),
    ]
    assert served.of("preempt") == [("preempt", 13.0, C)]
    assert ends(served) == {A: 20, B: 20, C: 25.25}
    # the decode step at 9 ends at 10: A and B had waited since 5
    assert list(served.log.gaps) == [5.0, 2, 25.25 - 13, 1]


def test_vllm_v0_with_swap() -> None:
    """C's 16 cached tokens move out in 1 s before the step at 13, and in before its last step: its cache is not computed again.

    A and B: a step of 1 + 1 s until 15, six more until 21. C comes back with 5 blocks (16 tokens and the next): 1 + 1 s,
    until 23.
    """
    served = stepwise_too("vllm-v0", preemption=PreemptionPolicy("swap", LinearCosts(recompute=1.0, move=1 / 16)))
    assert steps(served)[3:] == [(13.0, 15.0, 1, 2, ()), (15.0, 21.0, 6, 2, ()), (21.0, 23.0, 1, 1, ())]
    assert served.of("swap", "resume", "preempt") == [("swap", 13.0, C), ("resume", 21.0, C)]
    assert ends(served) == {A: 21, B: 21, C: 23}
    assert list(served.log.gaps) == [5.0, 2, 23.0 - 13, 1]
    assert list(served.log.swapped) == [13.0, 16]


@pytest.mark.parametrize(("recompute", "kind"), [(0.1, "preempt"), (0.2, "swap")])
def test_the_cheaper_way(recompute: float, kind: str) -> None:
    """16 tokens take 2 s out and in: less than 16 x 0.2 s of computing them again, more than 16 x 0.1 s."""
    served = stepwise_too("vllm-v0", preemption=PreemptionPolicy("cheaper", LinearCosts(recompute=recompute, move=1 / 16)))
    assert served.of("swap", "preempt") == [(kind, 13.0, C)]


def test_a_host_that_is_full() -> None:
    """16 tokens do not fit where there is room for 15: they are computed again."""
    served = stepwise_too("vllm-v0", preemption=PreemptionPolicy("swap", LinearCosts(1.0, 1 / 16), host_tokens=15))
    assert served.of("swap", "preempt") == [("preempt", 13.0, C)]


def test_sarathi() -> None:
    """Chunks as vllm-v1, but blocks for the whole prompt, one to stay free, and the last arrived goes. 10 tokens a step.

    0: A's 8 tokens and 2 of B's: 3.5 s. 3.5: a token of A, B's 6, 3 of C's: 1 + 9/4. 6.75: tokens of A and B, 8 of C's 9.
    9.75: C's last: 1.25 s; its first token at 11. A, B, C have 3 blocks each, and 11, 10, 12 cached: C takes the tenth.
    12: A is at 12 and needs one: C goes, with 2 tokens. A has had 5 tokens (3.5, 6.75, 9.75, 11, 12), B 4.
    19: A ends. C's 14 tokens need 4 blocks and one to stay free: B has 5 of 10. 9 tokens beside B's last: 1 + 9/4, until 22.25.
    22.25: the other 5: 2.25 s, C's third token at 24.5; three more.
    """
    served = stepwise_too("sarathi", room=EngineConfig(10, 4, 8, max_num_batched_tokens=10))
    assert steps(served) == [
        (0.0, 3.5, 1, 0, ((A, 8, 0), (B, 2, 0))),
        (3.5, 6.75, 1, 1, ((B, 6, 2), (C, 3, 0))),
        (6.75, 9.75, 1, 2, ((C, 8, 3),)),
        (9.75, 11.0, 1, 2, ((C, 1, 11),)),
        (11.0, 12.0, 1, 3, ()),
        (12.0, 13.0, 1, 2, ()),
        (13.0, 19.0, 6, 2, ()),
        (19.0, 22.25, 1, 1, ((C, 9, 0),)),
        (22.25, 24.5, 1, 0, ((C, 5, 9),)),
        (24.5, 27.5, 3, 1, ()),
    ]
    assert served.of("preempt") == [("preempt", 12.0, C)]
    assert ends(served) == {A: 19, B: 22.25, C: 27.5}


def test_orca() -> None:
    """Blocks of the last step from the first: A 19 tokens, 5 blocks; B 8 + 3, 3 blocks; C 17, 5 blocks: it waits for B.

    5: three steps, until B has its 4 tokens at 8. Then C beside A: 1 + 12/4 = 4 s. A has had 5 tokens at 12, C one: C ends at
    17 with five more, A at 19.
    """
    served = stepwise_too("orca", (12, 4, 6))
    assert steps(served) == [
        (0.0, 5.0, 1, 0, ((A, 8, 0), (B, 8, 0))),
        (5.0, 8.0, 3, 2, ()),
        (8.0, 12.0, 1, 1, ((C, 12, 0),)),
        (12.0, 17.0, 5, 2, ()),
        (17.0, 19.0, 2, 1, ()),
    ]
    assert ends(served) == {A: 19, B: 8, C: 17}


def test_static() -> None:
    """The same, but C waits until the whole batch has ended: A at 16. B's blocks are kept as long."""
    served = stepwise_too("static", (12, 4, 6))
    assert steps(served) == [
        (0.0, 5.0, 1, 0, ((A, 8, 0), (B, 8, 0))),
        (5.0, 8.0, 3, 2, ()),
        (8.0, 16.0, 8, 1, ()),
        (16.0, 20.0, 1, 0, ((C, 12, 0),)),
        (20.0, 25.0, 5, 1, ()),
    ]
    assert ends(served) == {A: 16, B: 8, C: 25}


def test_sjf() -> None:
    """One slot: A (20 tokens) comes first and has it; then C (18) passes B (20)."""
    room = EngineConfig(10, 4, max_num_seqs=1, max_num_batched_tokens=16)
    served = stepwise_too("sjf", room=room)
    assert [event[2] for event in served.of("admit")] == [A, C, B]
    assert [event[2] for event in stepwise_too("vllm-v1", room=room).of("admit")] == [A, B, C]
    # A: 1 + 8/4 and 11 steps; C: 1 + 12/4 and 5; B as A
    assert ends(served) == {A: 14, C: 23, B: 37}


def test_priority() -> None:
    """As under vllm-v1 a block is missing at 12; it is not C that goes, let in last, but B, whose class is the last.

    B has 5 tokens by then (5, 9, 10, 11, 12) and frees 3 blocks; A takes one at 12. C, at 15, needs its fifth at 13: one is
    left. 13: B needs 13 tokens, 4 blocks; A has 4, C 5. C's 6th token comes at 14 (9, 10, 11, 12, 13, 14), and frees 5. 14:
    B's 13 tokens beside A: 1 + 13/4 = 4.25 s. A has had 7 tokens, and its 8th at 18.25: four more, until 22.25. B has its 6th
    at 18.25, and its 12th six steps later.
    """
    requests = [
        Request(A, 0.0, 8, 12, 0),
        Request(B, 0.0, 8, 12, 2),
        Request(C, 1.5, 12, 6, 1),
    ]
    served = serve("priority", requests, TIMES, ROOM)
    assert served.of("preempt") == [("preempt", 12.0, B)]
    assert ends(served) == {A: 22.25, C: 14, B: 24.25}


def test_priority_is_next() -> None:
    """One slot: B's class passes A's, whatever came first."""
    requests = [
        Request(0, 0.0, 4, 1, 0),
        Request(1, 0.1, 4, 1, 1),
        Request(2, 0.2, 4, 1, 0),
    ]
    served = serve("priority", requests, TIMES, EngineConfig(10, 4, max_num_seqs=1, max_num_batched_tokens=16))
    assert [event[2] for event in served.of("admit")] == [0, 2, 1]


def test_least_loaded() -> None:
    """A goes to the first replica, B to the second; of equal ones C, at 1.5 s, to the first; D to the second."""
    requests = [*three(), Request(3, 1.6, 4, 1)]
    served = serve("vllm-v1", requests, TIMES, ROOM, replicas=2, router="least-loaded")
    assert [event[2] for event in served.of("admit")] == [A, C]
    assert [event[2] for event in served.of("admit", replica=1)] == [B, 3]


def test_a_cached_prefix_is_not_computed() -> None:
    """As `test_vllm_v1`, but for 8 of the 12 prompt tokens of C, which the prefix cache has at each admission.

    5: C is let in with 3 blocks, as if it computed all, and computes 4 tokens: 1 + 4/4 = 2. 7: 9, 9 and 12 are cached, three
    steps. 10: A and B are at 12, and C goes with its 4 tokens. A and B have had 5 tokens (at 5, 7, 8, 9, 10): 7 more. 17: C has
    12 + 4 tokens, of which 8 are found: 1 + 8/4 = 3. 20: its 5th token; 21: the 6th.
    """
    requests = [*three()[:2], Request(C, 1.5, 12, 6, num_prefix_tokens=8)]
    for stepwise in (False, True):
        served = serve("vllm-v1", [copy(one) for one in requests], TIMES, ROOM, stepwise=stepwise)
        assert ends(served) == {A: 17, B: 17, C: 21}
        assert [event[4] for event in served.of("mixed")] == [((A, 8, 0), (B, 8, 0)), ((C, 4, 8),), ((C, 8, 8),)]
    for name in ("orca", "static", "vllm-v0", "sarathi", "sglang"):
        first = serve(name, [Request(A, 0.0, 12, 2, num_prefix_tokens=8)], TIMES, ROOM)
        assert first.of("mixed")[0][4] == ((A, 4, 8),), name
        assert ends(first) == {A: 3}, name  # 1 + 4/4, and a step


def test_closed_loop() -> None:
    """One client, half a second between answer and question: 1 + 4/4 s and two steps of 1 s each time."""
    requests = [Request(index, 0.0, 4, 3) for index in range(3)]
    served = serve("vllm-v1", requests, TIMES, ROOM, clients=[0.25], think=0.5)
    assert ends(served) == {0: 4.25, 1: 8.75, 2: 13.25}


def test_a_step_of_its_own_for_a_long_prompt() -> None:
    """Prompts that may not be cut: 20 tokens in a step of at most 16, alone."""
    requests = [Request(0, 0.0, 20, 1), Request(1, 0.0, 4, 1)]
    for name in ("vllm-v0", "orca", "static"):
        served = serve(name, requests := [Request(0, 0.0, 20, 1), Request(1, 0.0, 4, 1)], TIMES, ROOM)
        assert steps(served) == [(0.0, 6.0, 1, 0, ((0, 20, 0),)), (6.0, 8.0, 1, 0, ((1, 4, 0),))]
    assert len(requests) == 2


def test_whole_prompts_in_the_microbatches_of_a_pipeline() -> None:
    """Two microbatches have 10 of 20 tokens each, and a prompt that may not be cut goes with one of them.

    Two prompts of 12 are longer than a microbatch's part, and have one each; of one budget of 20 the second would have to wait.
    7 and 7 go apart, 3 beside the second 7, and the other 3 waits: of one budget there would be room for it (20 of 20).
    """
    for lengths, expected in (((12, 12, 3), ([12, 12], [3])), ((7, 7, 3, 3), ([7, 7, 3], [3]))):
        requests = [Request(index, 0.0, length, 1) for index, length in enumerate(lengths)]
        served = serve("orca", requests, TIMES, EngineConfig(100, 4, 16, 20, num_microbatches=2))
        assert [[new for _, new, _ in step[-1]] for step in steps(served)] == list(expected)


@dataclass(frozen=True)
class Falling:
    """Steps of 2 s less a hundredth for each cached token, as next to a jump of a fitted time; prompts take a second."""

    def cells(self, sequences: int) -> list[Cell]:
        """One."""
        return [(math.inf, 2.0, -0.01)]

    def mixed(self, sequences: int, cached: int, chunks: Sequence[Chunk]) -> float:
        """The same, or a second."""
        return 1.0 if chunks else 2.0 - 0.01 * cached


def test_steps_that_get_shorter() -> None:
    """Ten prompt tokens, then steps of 1.9, 1.89, 1.88, ... s: who comes at 6 s is seen at 1 + 1.9 + 1.89 + 1.88 = 6.67 s."""
    for stepwise in (False, True):
        requests = [Request(0, 0.0, 10, 30), Request(1, 6.0, 4, 1)]
        served = serve("vllm-v1", requests, Falling(), EngineConfig(100, 4, 8, 16), stepwise=stepwise)
        assert served.of("admit")[1] == ("admit", pytest.approx(6.67), 1)
        # 25 more steps at 14 to 38 cached tokens, of which the first shares the second of the prompt
        assert ends(served)[0] == pytest.approx(6.67 + 1 + sum(2 - 0.01 * cached for cached in range(14, 39)))


def test_refused() -> None:
    """40 tokens at the last step fit ten blocks, 41 do not; one block for a state takes four tokens of them."""
    requests = [Request(0, 0.0, 30, 11), Request(1, 0.0, 30, 12)]
    assert serve("vllm-v1", requests, TIMES, ROOM).refused == [1]
    requests = [Request(0, 0.0, 30, 7), Request(1, 0.0, 30, 8)]
    served = serve("vllm-v1", requests, TIMES, EngineConfig(10, 4, 8, 16, num_fixed_blocks=1))
    assert served.refused == [1]
    why = served.replicas[0].refusal(Request(1, 0.0, 30, 8))
    assert why == "needs 11 blocks at its last token, and there are 10"


def test_a_watchdog_says_why() -> None:
    """A request that needs more blocks than there are, and was not refused: who, and what is missing."""
    from roofline.serving.simulation.replica import Replica
    from roofline.serving.simulation.schedulers import SCHEDULERS

    replica = Replica(SCHEDULERS["vllm-v0"], TIMES, EngineConfig(2, 4, 8, 16))
    replica.accept(Request(7, 1.0, 12, 1), 1.0)
    with pytest.raises(
        NoProgressError, match=r"request 7 \(12 tokens to compute\) waits.*2 of 2 blocks are free, 0 of 8 slots"
    ):
        replica.advance(math.inf)
