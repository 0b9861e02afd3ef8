"""A request on its way through a server."""

from __future__ import annotations


class Job:
    """One request. Tokens are whole numbers, times seconds.

    It waits; holds a seat while its prompt is computed, in one chunk or several (`computed` of `target` tokens); decodes, a
    token a step; has ended. The first token comes with the end of the prompt. When it is preempted by recomputing, the tokens
    that it has generated are computed again with its prompt: they count in `target`.
    """

    __slots__ = (
        "answer", "arrived", "base", "blocks", "client", "computed", "done_at", "first", "generated", "index", "kept", "kind",
        "last", "lost", "preemptions", "prompt", "seen", "target", "until",
    )  # fmt: skip

    def __init__(self, index: int, arrived: float, prompt: int, answer: int, kind: int = 0, client: int = -1) -> None:
        self.index = index
        self.arrived = arrived
        self.seen = arrived  # when the step in which it came had ended, as far as that was counted
        self.prompt = prompt
        self.answer = answer
        self.kind = kind  # the class that it is of; the first class is the most important
        self.client = client  # who waits for it; -1: nobody
        self.target = prompt
        self.computed = 0
        self.lost = 0  # tokens that were computed and dropped: up to here they are computed again
        self.generated = 0  # tokens, up to the last time that it began to decode
        self.preemptions = 0
        self.first = -1.0
        self.last = -1.0  # when its latest token came, up to the last time that it began to decode
        self.base = 0  # tokens in the cache less the decode steps of its replica, while it decodes
        self.done_at = -1  # the decode step of its replica that ends it, while it decodes
        self.blocks = 0  # that it holds, while it does not decode
        self.kept = 0  # full blocks of its cache, when it was last dropped
        self.until = 0  # blocks that its replica has ever taken when the first of those goes to another

    @property
    def longest(self) -> int:
        """Tokens in the cache at its last step: the last token of an answer is never cached."""
        return self.prompt + self.answer - 1
