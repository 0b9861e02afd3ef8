"""A request on its way through a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline.serving.simulation.prefix_cache import ENDLESS, Content, Node

NOT_YET, NEVER = -1.0, -2.0
"""First token times of a request that has none, and of one that was shed."""

if TYPE_CHECKING:
    from roofline.serving.simulation.disaggregation import Transfer


class Request:
    """One request. Tokens and blocks are counts, times seconds.

    It waits; runs while its prompt is computed, in one chunk or several; decodes, one token per step (with speculative decoding
    one or more); ends. The first token
    comes with the end of the prompt. A request that is preempted by recomputing computes the tokens that it has generated again
    with its prompt.

    Args:
        index: its number in the run.
        arrival_time: when it arrives.
        num_prompt_tokens: tokens of its prompt.
        max_tokens: output tokens to generate; it ends with the last of them.
        class_index: its class of the workload; the first class is the most important.
        client: the client of a closed loop that sent it; -1: none.
        num_prefix_tokens: of its prompt, which the prefix cache has whenever it is admitted.
        content: what its tokens are, prompt and output; None: nothing that another request has.
        session: number of the conversation that it is a turn of; -1: none.
    """

    __slots__ = (
        "adapter", "arrival_time", "cache_offset", "class_index", "client", "content", "final_step", "first_step",
        "first_token_time", "index", "last_token_time", "max_tokens", "node", "num_blocks", "num_computed_tokens",
        "num_dropped_tokens", "num_hit_tokens", "num_loading_tokens", "num_output_tokens", "num_passed", "num_preemptions",
        "num_prefix_tokens", "num_prompt_tokens", "num_round_tokens", "num_tokens", "queued_time", "ready_time", "seen_time",
        "session", "tokens_per_round", "transfer",
    )  # fmt: skip

    # While it decodes with speculative decoding (`SpeculativeBatch`), and not set without
    first_step: int
    """The first decode step of its replica; `cache_offset` has the tokens cached before it."""
    tokens_per_round: float
    num_round_tokens: int
    """Tokens of all its rounds, with those beyond its last."""

    queued_time: float
    """When it came to its replica: in seconds: later than it arrived, where it waited for one or is retried."""

    def __init__(  # noqa: PLR0917 - one is made per request
        self,
        index: int,
        arrival_time: float,
        num_prompt_tokens: int,
        max_tokens: int,
        class_index: int = 0,
        client: int = -1,
        num_prefix_tokens: int = 0,
        content: Content | None = None,
        session: int = -1,
    ) -> None:
        self.index = index
        self.arrival_time = arrival_time
        self.seen_time = arrival_time  # when the step in which it arrived ended, as far as that was counted
        self.num_prompt_tokens = num_prompt_tokens
        self.max_tokens = max_tokens
        self.class_index = class_index
        self.client = client
        self.content = content
        self.session = session
        self.adapter = -1  # the number of its LoRA adapter; -1: none
        self.num_tokens = num_prompt_tokens  # to compute before it decodes: after a preemption with the output so far
        self.num_prefix_tokens = num_prefix_tokens
        self.num_computed_tokens = num_prefix_tokens  # or cached
        self.num_dropped_tokens = 0  # were computed and dropped: up to here tokens are computed again
        self.num_output_tokens = 0  # generated up to the last time that it began to decode
        self.num_preemptions = 0
        self.num_passed = 0  # requests that came later and were admitted before it, at least
        self.first_token_time = NOT_YET
        self.last_token_time = -1.0  # of its latest token, up to the last time that it began to decode
        # While it decodes (`DecodeBatch`)
        self.cache_offset = 0  # cached tokens less the decode steps of its replica
        self.final_step = -1  # the decode step of its replica that ends it; -1: it does not decode
        # While it does not decode (`KVCacheManager`)
        self.num_blocks = 0  # that it has
        self.node: Node | None = None  # the last node of the prefix cache that it uses
        self.num_hit_tokens = 0  # of its prompt, found in the prefix cache, or a tier, when it was first admitted
        self.transfer: Transfer | None = None  # of its cache, where other replicas decode than compute prompts

    # While it loads blocks (`KVTiers`), and only then
    num_loading_tokens: int  # computed tokens once they are there
    ready_time: float  # when they are, in seconds

    @property
    def text(self) -> Content:
        """What its tokens are: nothing that another request has, unless it has a `content`."""
        return ((self.index, ENDLESS),) if self.content is None else self.content

    @property
    def max_cached_tokens(self) -> int:
        """Cached tokens after its last step: prompt and output but the last output token, which is never cached."""
        return self.num_prompt_tokens + self.max_tokens - 1
