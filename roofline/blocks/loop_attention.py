"""Attention of a later pass through a layer (IQuest Coder, loop): to the first pass' cache, and to a window of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field, model_validator

from roofline.blocks.base import BlockContext, Operators, Weight
from roofline.blocks.gqa import GroupedQueryAttention
from roofline.operators.activation import Activation
from roofline.operators.add import Add
from roofline.operators.gemm import Gemm


class LoopAttention(GroupedQueryAttention):
    """The keys of `gqa`. Queries attend to all keys and values that the layer had in its first pass, and to those of this pass,
    of which a window is cached. A sigmoid gate of each query head, from its own query, weighs the one against the other.

    NB: vLLM 0.33 computes the gate of every head from every head's query and takes the diagonal; what is needed is counted.

    Source: https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/model_executor/models/iquest_loopcoder.py
    """

    kind: Literal["loop_attention"]  # type: ignore[assignment]
    gate_shared: bool = Field(default=False, description="the gate is that of an earlier pass; the second pass has it")

    @model_validator(mode="after")
    def _attends_twice(self) -> LoopAttention:
        if self.sliding_window is None or self.kv_shared or self.output_gate != "none" or self.output_norm or self.sinks:
            msg = "loop_attention wants a sliding_window, and goes without kv_shared, output_gate, output_norm and sinks"
            raise ValueError(msg)
        return self

    @property
    def unshared(self) -> dict[str, str]:
        """The gate, which the first pass has not."""
        return {} if self.gate_shared else {"loop_gate": "attention.loop_gate"}

    @property
    def reads_earlier_cache(self) -> bool:
        """Always: that of the first pass."""
        return True

    def without_window(self) -> None:
        """None: what a later pass keeps is its window."""
        return

    def _after_cores(self, site: BlockContext) -> Operators:
        """Attention to the first pass' cache, the gate, and the weighted sum of both outputs."""
        n_q, d, vector = self.num_attention_heads, self.head_dim, site.precision.dtypes("norm")
        return {
            **self._cores(site, None, "core_global"),
            "loop_gate": Gemm(
                m=site.tokens, n=1, k=d, batch=n_q, bias=True, stored=((n_q, d),),
                dtypes=site.precision.dtypes("attention/gate_proj"),
            ),
            "loop_weigh": Activation(rows=site.tokens, width=n_q, spread=d, dtypes=vector),
            "loop_sum": Add(elements=site.tokens * n_q * d, dtypes=vector),
        }  # fmt: skip

    def describe(self) -> str:
        """As attention, and where to."""
        return f"{super().describe()}, to the first pass and a window"

    def checkpoint_weights(self, hidden: int) -> Iterator[Weight]:
        """Those of attention, and the gate."""
        yield from super().checkpoint_weights(hidden)
        heads = self.num_attention_heads
        yield Weight("attention.loop_gate", (heads, self.head_dim), "attention/gate_proj", bias=heads)
