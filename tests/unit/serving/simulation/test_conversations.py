"""Conversations, system prompts, hashed traces, and routers that look at them, by hand.

A step takes 1 s and a quarter of a second for each prompt token in it; blocks have four tokens.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from simulated import AffineStepTime, sent, serve

import roofline
from roofline.errors import InputError, SpecError
from roofline.serving.simulation.kv_cache import EngineConfig
from roofline.serving.simulation.prefix_cache import ENDLESS, Content
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.workload import Workload, read_workload
from roofline.serving.traffic import read_trace
from roofline.serving.traffic.resample import resampled

TIMES = AffineStepTime(1.0, token=0.25)
ROOM = EngineConfig(40, 4, max_num_seqs=8, max_num_batched_tokens=64, enable_prefix_caching=True)
SHARED: Content = ((-1, 10),)


def asked(**given: Any) -> Workload:
    """A workload from options."""
    return read_workload(notes=[], **given)


def after(index: int) -> Content:
    """Ten tokens that others have too, then its own."""
    return (*SHARED, (index, ENDLESS))


def test_a_shared_prompt_is_computed_once() -> None:
    """A's 14 tokens take 1 + 14/4 = 4.5 s. B comes at 5 with the same first ten, of which two full blocks are cached.

    Six tokens of 14 are computed, in 1 + 6/4 s. Without the cache they are 14.
    """
    for caching, took in ((True, 2.5), (False, 4.5)):
        room = EngineConfig(40, 4, 8, 64, enable_prefix_caching=caching)
        requests = [Request(0, 0.0, 14, 1, content=after(0)), Request(1, 5.0, 14, 1, content=after(1))]
        found = serve("vllm-v1", requests, TIMES, room)
        assert found.of("end") == [("end", 4.5, 0), ("end", 5 + took, 1)]
        assert requests[1].num_hit_tokens == (8 if caching else 0)


def test_a_prompt_is_found_in_the_step_that_computes_it() -> None:
    """Both come at once: B is admitted after A, whose blocks are on record. 14 and 6 tokens: 1 + 20/4 s."""
    requests = [Request(0, 0.0, 14, 1, content=after(0)), Request(1, 0.0, 14, 1, content=after(1))]
    found = serve("vllm-v1", requests, TIMES, ROOM)
    assert found.of("end") == [("end", 6.0, 0), ("end", 6.0, 1)]


def test_the_cache_that_was_taken_is_computed_again() -> None:
    """Eight blocks. A leaves four, the last not full; B (25 tokens: 7 blocks) takes the fresh ones, and three of A's.

    They go from A's end: its first block is left, and C finds four tokens; none where B takes an eighth for its second token.
    """
    requests = [
        Request(0, 0.0, 14, 1, content=after(0)), Request(1, 10.0, 25, 1), Request(2, 30.0, 14, 1, content=after(2)),
    ]  # fmt: skip
    serve("vllm-v1", requests, TIMES, EngineConfig(8, 4, 8, 64, enable_prefix_caching=True))
    assert [request.num_hit_tokens for request in requests] == [0, 0, 4]
    requests = [
        Request(0, 0.0, 14, 1, content=after(0)), Request(1, 10.0, 28, 1), Request(2, 30.0, 14, 1, content=after(2)),
    ]  # fmt: skip
    requests[1].max_tokens = 2
    serve("vllm-v1", requests, TIMES, EngineConfig(8, 4, 8, 64, enable_prefix_caching=True))
    assert requests[2].num_hit_tokens == 0


def test_turns_of_a_conversation() -> None:
    """A system prompt of 100; each turn adds 20 and an answer of 10: prompts of 120, 150, 180; ten seconds apart."""
    found = asked(rate=1, input_len=20, output_len=10, system_prompt=100, turns=3, think="10 s", requests=30)
    requests = sent(found)
    first = [request for request in requests if request.session == 0]
    assert [request.num_prompt_tokens for request in first] == [120, 150, 180]
    start = first[0].arrival_time
    assert [request.arrival_time - start for request in first] == pytest.approx([0, 10, 20])
    assert len({request.content for request in first}) == 1
    assert first[0].content is not None
    assert first[0].content[0][1] == 100
    assert len(requests) == 30
    # a conversation every three seconds on average: requests arrive once a second
    starts = [request.arrival_time for request in sent(asked(rate=1, input_len=9, output_len=9, turns=3, requests=9000))]
    assert max(starts) == pytest.approx(9000, rel=0.05)


def test_clients_hold_conversations() -> None:
    """Two clients, six requests: conversations of two turns without a pause, a second between two of a client."""
    found = asked(workload="closed:2:1:prompts=3", input_len=20, output_len=10, turns=2)
    assert [request.num_prompt_tokens for request in sent(found)] == [20, 50] * 3
    assert [request.client for request in sent(found)] == [0, 0, 1, 1, 0, 0]


def test_system_prompts_are_drawn() -> None:
    """Three of them, equally likely, each with a text of its own."""
    requests = list(
        asked(rate=5, input_len=20, output_len=5, system_prompt=64, system_prompts=3, requests=3000).open_requests((0,))
    )
    texts = [request.content[0] for request in requests if request.content]
    assert {end for _, end in texts} == {64}
    counts = [sum(text == one for text, _ in texts) for one in {text for text, _ in texts}]
    assert counts == pytest.approx([1000] * 3, rel=0.1)
    assert {request.num_prompt_tokens for request in requests} == {84}


def test_hashed_traces(tmp_path: Path) -> None:
    """Mooncake's lines: the second prompt has the first block of the first; blocks have 512 tokens, times are milliseconds."""
    path = tmp_path / "trace.jsonl"
    path.write_text(
        '{"timestamp": 0, "input_length": 1000, "output_length": 5, "hash_ids": [7, 8]}\n'
        '{"timestamp": 27000, "input_length": 600, "output_length": 5, "hash_ids": [7, 9]}\n'
    )
    trace = read_trace(path)
    assert trace.rate == pytest.approx(1 / 27)
    first, second = asked(trace=trace).open_requests((0,))
    assert first.content is not None
    assert second.content is not None
    assert first.content[0] == second.content[0]
    assert [end for _, end in first.content] == [512, 1000, ENDLESS]
    assert second.content[1][0] != first.content[1][0]
    path.write_text('{"timestamp": 0, "input_length": 1025, "output_length": 5, "hash_ids": [7, 8]}\n')
    with pytest.raises(SpecError, match=":1: hash_ids has 2 blocks of 512 tokens; a prompt of 1,025 tokens has 3"):
        read_trace(path)
    path.write_text('{"timestamp": 0, "input_length": 1025}\n')
    with pytest.raises(SpecError, match="must be an object with timestamp"):
        read_trace(path)


def test_traces_of_conversations(tmp_path: Path) -> None:
    """The second row goes on with the first (100 and 10 tokens); the third is too short, and begins anew."""
    path = tmp_path / "trace.csv"
    path.write_text("arrived_at,num_prefill_tokens,num_decode_tokens,session_id\n0,100,10,a\n5,130,10,a\n6,90,10,a\n7,90,10,\n")
    contents = [request.content for request in asked(trace=path).open_requests((0,))]
    assert contents[0] == contents[1]
    assert contents[2] not in (contents[0], None)
    assert contents[3] == ((3, ENDLESS),)


def test_content_goes_with_resampled_requests(tmp_path: Path) -> None:
    """Each request of a resampled trace has the blocks and the conversation that the original has beside its lengths."""
    path = tmp_path / "trace.csv"
    rows = [
        f"{index},{512 * (1 + index % 3)},{index + 1},s{index},{' '.join(['7', '8', '9'][: 1 + index % 3])}"
        for index in range(60)
    ]
    path.write_text("arrived_at,num_prefill_tokens,num_decode_tokens,session_id,hash_ids\n" + "\n".join(rows) + "\n")
    trace = read_trace(path)
    other = resampled(trace, 3)
    assert other.sessions is not None
    assert other.hashes is not None
    assert other.outputs.tolist() != trace.outputs.tolist()
    assert other.sessions.tolist() == [output - 1 for output in other.outputs.tolist()]
    assert [len(blocks) * 512 for blocks in other.hashes] == other.prompts.tolist()


def _routed(router: str, *requests: Request) -> list[int]:
    """The replica of each request, of two."""
    found = serve("vllm-v1", list(requests), TIMES, ROOM, replicas=2, router=router)
    return [next(at for at, event in found.events if event[0] == "end" and event[2] == index) for index in range(len(requests))]


def test_routers() -> None:
    """A (14 tokens) goes to the first replica; then come B (no content, 30 tokens), C with A's prefix, and D."""
    requests = ((0.0, 14, after(0)), (0.5, 30, None), (20.0, 14, after(2)), (20.0, 14, None))

    def made() -> list[Request]:
        return [Request(index, time, num, 1, content=content) for index, (time, num, content) in enumerate(requests)]

    assert _routed("round-robin", *made()) == [0, 1, 0, 1]
    assert _routed("least-loaded", *made()) == [0, 1, 0, 1]
    shuffled = [Request(0, 0.0, 14, 9), Request(1, 0.0, 30, 9), Request(2, 0.5, 8, 9), Request(3, 0.5, 8, 9)]
    # 14 against 30 tokens, then 22 against 30
    assert _routed("least-tokens", *shuffled) == [0, 1, 0, 0]
    # with the prefix on the first replica, busier though it is with D's forerunner
    busy = [*made()[:2], Request(2, 19.9, 30, 9), Request(3, 20.0, 14, 1, content=after(3))]
    assert _routed("prefix-aware", *busy) == [0, 1, 0, 0]
    turns = [Request(index, float(index), 8, 9, session=session) for index, session in enumerate((5, 6, 6, 5))]
    assert _routed("session-sticky", *turns) == [0, 1, 1, 0]
    assert set(_routed("power-of-two", *made())) <= {0, 1}


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"think": "5 s"}, "--think: is the pause between the turns of a conversation: give turns"),
        ({"system_prompts": 3}, "--system-prompts: says how many there are: give system_prompt"),
        (
            {"turns": 3, "prefix_hit": 0.5},
            "prefix_hit says what is cached, and with turns or a system prompt that is simulated",
        ),
        ({"turns": 3, "think": "gamma:3"}, "--think: unknown pause 'gamma'"),
        ({"turns": 3, "think": "lognormal:3 s"}, "--think: must be lognormal:MEAN:SD"),
        ({"turns": 0}, "--turns"),
    ],
)
def test_wrong_options(given: dict[str, Any], error: str) -> None:
    """Each says what it needs."""
    with pytest.raises(InputError, match=error):
        asked(rate=1, input_len=20, output_len=10, **given)


def test_hit_rate_is_a_result() -> None:
    """One request at a time, a system prompt of 160 (ten blocks) and 16 tokens: all but the first find 160 of 176 tokens."""
    found = roofline.simulate(
        "llama-3.1-8b", "h100-sxm", workload="closed:1", requests=11, input_len=16, output_len=4, system_prompt=160, warm_up=0
    )
    assert found.prefix_hit_rate == pytest.approx(10 * 160 / (11 * 176))
    without = roofline.simulate(
        "llama-3.1-8b", "h100-sxm", workload="closed:1", requests=11, input_len=16, output_len=4, system_prompt=160, warm_up=0,
        enable_prefix_caching=False,
    )  # fmt: skip
    assert without.prefix_hit_rate is None
    assert without.ttft_s.mean > found.ttft_s.mean
    assert not math.isnan(found.ttft_s.mean)


def test_windows_have_no_hit_rate() -> None:
    """Blocks of layers with windows are found by rules of their own, which are not simulated: no rate, and it is said."""
    found = roofline.simulate("gemma-3-12b", "h100-sxm", rate=4, requests=20, input_len=30, output_len=4, system_prompt=160)
    assert found.prefix_hit_rate is None
    assert [note.value for note in found.assumptions if note.name == "prefix_caching"] == [False]
