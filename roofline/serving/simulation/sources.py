"""Requests that arrive because others have ended: clients of a closed loop, and turns of conversations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

from roofline.serving.simulation.prefix_cache import ENDLESS, Content
from roofline.serving.simulation.request import Request
from roofline.serving.traffic.trace import HASHED, Trace

if TYPE_CHECKING:
    from roofline.serving.simulation.workload import Workload

_SHARED = -1
_SESSIONS = -(1 << 40)
_HASHES = -(1 << 50)
"""Texts are numbers: those of shared prompts from -1 down, of conversations and of hashed blocks from here down; from 0 on each
is of one request."""


def shared_text(class_index: int, number: int = 0) -> int:
    """Return the text of a system prompt of a class."""
    return _SHARED - class_index - (number << 16)


def traced_content(trace: Trace) -> Callable[[int, int, int], Content] | None:
    """Return what the prompts of a trace are, by number, prompt tokens and output tokens of requests in their order; None where
    the trace does not say.

    Blocks with equal numbers hold the same. A turn of a conversation begins with the turn before it and its output, where it is
    long enough; else the conversation begins anew.
    """
    if trace.hashes is not None:
        hashes = trace.hashes

        def of_blocks(index: int, prompt: int, output: int) -> Content:
            ends = [min((place + 1) * HASHED, prompt) for place in range(len(hashes[index]))]
            texts = [_HASHES - number for number in hashes[index]]
            return (*zip(texts, ends, strict=True), (index, ENDLESS))

        return of_blocks
    if trace.sessions is None:
        return None
    sessions = trace.sessions.tolist()
    known: dict[int, tuple[int, int]] = {}
    texts = count()

    def of_session(index: int, prompt: int, output: int) -> Content:
        if (session := sessions[index]) < 0:
            return ((index, ENDLESS),)
        text, tokens = known.get(session, (-1, 0))
        if text < 0 or prompt <= tokens:
            text = next(texts)
        known[session] = (text, prompt + output)
        return ((_SESSIONS - text, ENDLESS),)

    return of_session


@dataclass(slots=True)
class _Session:
    """A conversation, or a single request of a client.

    Args:
        number: of the conversation.
        class_index: its class.
        client: of the closed loop that holds it; -1: none.
        turns: that are left.
        tokens: of the next prompt, before its new message.
        system: text and tokens of its system prompt; None: none.
    """

    number: int
    class_index: int
    client: int
    turns: int
    tokens: int = 0
    system: tuple[int, int] | None = None


class RequestSource:
    """Requests of clients (a closed loop), or of conversations that begin at a rate, in the order in which they arrive.

    A client begins its next conversation a pause after the end of the last. A turn that is refused ends its conversation.

    Args:
        workload: clients, or classes with conversations.
        seed: of all that is drawn.
    """

    def __init__(self, workload: Workload, seed: Sequence[int]) -> None:
        import numpy as np

        self._workload = workload
        self._lengths = workload.length_streams(seed)
        self._rngs = [np.random.default_rng([*seed, index, 1]) for index in range(len(workload.classes))]
        self._pending: list[tuple[float, int, int, _Session | None]] = []
        """When, the client (or the number of the conversation), a number of its own, the conversation that goes on."""
        self._live: dict[int, _Session] = {}
        self._num_sent = self._num_sessions = self._serial = 0
        self._classes: Iterator[int] = iter(())
        self._starts: Iterator[tuple[float, int]] = iter(())
        self._think = 0.0
        if workload.closed:
            self._think = workload.clients[0].think
            self._classes = workload.class_draws(seed)
            for client, time in enumerate(workload.starts()):
                self._push(time, client, None)
        else:
            self._starts = workload.session_starts(seed)
        self._next_start: tuple[float, int] | None = next(self._starts, None)

    def next_time(self) -> float:
        """Return when the next request arrives, in seconds; infinity: none is known."""
        time = self._pending[0][0] if self._pending else math.inf
        return min(time, self._next_start[0]) if self._next_start is not None else time

    def pop(self) -> Request | None:
        """Return the next request; None: nothing comes of it, since as many have come as are wanted."""
        if self._next_start is not None and (not self._pending or self._next_start[0] <= self._pending[0][0]):
            time, class_index = self._next_start
            self._next_start = next(self._starts, None) if self._may_send(time) else None  # later ones may not either
            return self._send(time, None, class_index, -1)
        time, order, _, session = heappop(self._pending)
        if session is not None:
            return self._send(time, session, session.class_index, session.client)
        if not self._may_send(time):
            return None
        return self._send(time, None, next(self._classes), order)

    def ended(self, request: Request, time: float) -> None:
        """Note that a request has ended at `time`, in seconds, or was refused (it has no token then)."""
        session = self._live.pop(request.index)
        session.turns -= 1
        session.tokens = request.num_prompt_tokens + request.max_tokens
        served = request.last_token_time >= 0 or request.first_token_time >= 0
        if session.turns > 0 and served:
            conversation = self._workload.classes[session.class_index].conversation
            pause = conversation.think.sample(self._rngs[session.class_index]) if conversation is not None else 0.0
            self._push(time + pause, session.client if session.client >= 0 else session.number, session)
        elif session.client >= 0:
            self._push(time + self._think, session.client, None)

    def _may_send(self, time: float) -> bool:
        limit = self._workload.requests
        return time <= self._workload.until and (limit is None or self._num_sent < limit)

    def _push(self, time: float, order: int, session: _Session | None) -> None:
        self._serial += 1
        heappush(self._pending, (time, order, self._serial, session))

    def _send(self, time: float, session: _Session | None, class_index: int, client: int) -> Request | None:
        if not self._may_send(time):
            return None
        if session is None:
            session = self._begin(class_index, client)
        new, output = next(self._lengths[class_index])
        index, prompt = self._num_sent, session.tokens + new
        self._num_sent += 1
        self._live[index] = session
        one = self._workload.classes[class_index]
        content: Content | None = None
        if (conversation := one.conversation) is not None:
            own = (_SESSIONS - session.number, ENDLESS)
            content = (own,) if session.system is None else (session.system, own)
        cached = one.cached_tokens(prompt)
        number = session.number if conversation is not None else -1
        return Request(index, time, prompt, output, class_index, client, cached, content, number)

    def _begin(self, class_index: int, client: int) -> _Session:
        session = _Session(self._num_sessions, class_index, client, 1)
        self._num_sessions += 1
        conversation = self._workload.classes[class_index].conversation
        if conversation is not None:
            rng = self._rngs[class_index]
            if conversation.turns is not None:
                session.turns = int(conversation.turns.sample(rng, 1)[0])
            if conversation.system_prompt:
                session.system = (shared_text(class_index, conversation.draw_system_prompt(rng)), conversation.system_prompt)
                session.tokens = conversation.system_prompt
        return session
