"""Steady-state TPOT of a closed loop: clients, each of which sends its next prompt when its response is complete.

With C clients per replica, prompts of p tokens and outputs of n, a request decodes in n - 1 steps. Meanwhile each of the
C - 1 others starts, on average, (n - 1)/n of a new request. So a share f = (C - 1)/n of the steps that a request sees has
another prompt in it (f of them, if f > 1), and

    TPOT = mean over the contexts p to p + n - 2 of t_decode(C) + f (t_mixed(C, p) - t_decode(C)) + t_engine(C)

t_mixed is one step of C decoded tokens and a prompt of p: the linear operators see both together, so that the weights are
read once for both (chunked prefill, in-flight batching). t_engine is what the engine adds to the kernels of each step
(`engines/steps`). NB: all C are assumed to decode at once; requests whose prompt waits make the batch smaller, and TPOT a
little shorter. TTFT is not given: in a closed loop it is queueing, and depends on how the load generator starts its clients.

Source: derived here; the definition of TPOT is vLLM's benchmark's, (E2E - TTFT)/(n - 1); chunked prefill: Agrawal et al. 2024
(Sarathi-Serve), arXiv:2403.02310, section 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline.predict.compiled import Compiled, StepTimes, compile
from roofline.specs.workload import Segment

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[Any]

POINTS = 9
"""Contexts at which a decode step is evaluated; it is nearly linear between them."""


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """A deployment, evaluated at many loads at once."""

    steps: Compiled

    @classmethod
    def of(cls, model: str, hardware: str, **deployment: Any) -> ClosedLoop:
        """Compile a deployment; `deployment` takes the options of `roofline.compile`."""
        return cls(compile(model, hardware, "decode", **deployment))

    def tpot(self, concurrency: ArrayLike, input_len: ArrayLike, output_len: ArrayLike) -> dict[str, Array]:
        """Seconds per output token after the first.

        Args:
            concurrency: clients of the whole deployment.
            input_len: prompt tokens.
            output_len: output tokens.

        Returns:
            Arrays of the broadcast shape, in seconds: `bound` (kernels at the hardware's bound, no engine overhead), `estimate`
            with `low` and `high`, and its parts: kernels of `decode` and `prefill` (of the other prompts) as if each ran alone,
            and `engine` (overhead less hidden launches); and the number of `launches`. NaN where no fit applies.
        """
        import numpy as np

        clients, prompt, output = np.broadcast_arrays(
            *(np.asarray(value, dtype=np.float64) for value in (concurrency, input_len, output_len))
        )
        request = self.steps.request
        replicas = request.deployment.data_parallel_size
        replica = np.maximum(clients / replicas, 1)
        further = np.maximum(output - 2, 0)
        contexts = np.floor(prompt[..., None] + further[..., None] * np.linspace(0, 1, POINTS))
        decoding = Segment(clients[..., None], 1, contexts, decode=True)
        decoded = StepTimes(*(np.broadcast_to(time, contexts.shape).mean(axis=-1) for time in self.steps.times((decoding,))))
        middle = Segment(clients, 1, contexts[..., POINTS // 2], decode=True)
        share = (replica - 1) / output
        added = [
            share * (mixed - alone)
            for mixed, alone in zip(
                self.steps.times((middle, Segment(replicas, prompt, 0))), self.steps.times((middle,)), strict=True
            )
        ]
        bound, kernels, alone, launches = (one + other for one, other in zip(decoded, added, strict=True))
        decode, prefill = decoded.alone, StepTimes(*added).alone
        parts = {"decode": decode, "prefill": prefill, "engine": request.engine_seconds(replica) - (alone - kernels)}
        estimate = np.maximum(sum(parts.values(), start=np.zeros(clients.shape)), bound)
        low, high = request.engine_band
        return {
            "bound": bound,
            "estimate": estimate,
            "low": np.maximum(estimate * low, bound),
            "high": estimate * high,
            "launches": launches,
            **parts,
        }
