"""Steady-state TPOT of a closed loop: clients, each of which sends its next prompt when its response is complete.

With C clients per replica, prompts of p tokens and outputs of n, a request decodes in n - 1 steps. Meanwhile each of the
C - 1 others starts, on average, (n - 1)/n of a new request. So a share f = (C - 1)/n of the steps that a request sees has
another prompt in it (f of them, if f > 1), and

    TPOT = mean over the contexts p to p + n - 2 of t_decode(C) + f (t_mixed(C, p) - t_decode(C)) + t_engine(C)

t_mixed is one step of C decoded tokens and a prompt of p: the linear operators see both together, so that the weights are
read once for both (chunked prefill, in-flight batching). t_engine is what the engine adds to the kernels of each step
(`engines/steps`). C is at most the number of sequences that memory holds at their mean length, p + n/2 tokens; other clients
wait, and wait counts to TTFT. NB: all C are assumed to decode at once; requests whose prompt waits make the batch smaller, and
TPOT a little shorter. The bound has the decode steps alone: prompts that are computed together, in steps that a request does
not see, add nothing to its TPOT. TTFT is not given: in a closed loop it is queueing, and depends on how the load generator
starts its clients.

Data-parallel ranks step together. Ranks that stay in step (equal lengths, or prompts that are balanced) have their prompts in
the same steps, one on each: t_mixed has as many prompts as ranks, of C clients each. Other ranks wait for the fullest: each
step has e(f) more, the excess of `ranks.excess_rounds`, of what one rank alone decides of a prompt.

A pipeline of s stages has s microbatches under way, each of C/s sequences: t_decode and t_mixed are of one microbatch through
all stages, and prompts of one round overlap, as far as they are of other microbatches (`replica.prompts_of_round`, for f).

Source: derived here; the definition of TPOT is vLLM's benchmark's, (E2E - TTFT)/(n - 1); chunked prefill: Agrawal et al. 2024
(Sarathi-Serve), arXiv:2403.02310, section 4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline.predict.compiled import Compiled, StepTimes, compile
from roofline.serving.queueing.replica import prompts_of_round
from roofline.specs.workload import Segment

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[Any]

POINTS = 9
"""Contexts at which a decode step is evaluated; it is nearly linear between them."""


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """A closed loop on a deployment, evaluated at many loads at once. `steps`: the compiled deployment."""

    steps: Compiled

    @classmethod
    def of(cls, model: str, hardware: str, **deployment: Any) -> ClosedLoop:
        """Compile a deployment.

        Args:
            model: a shipped id, or the path of a file.
            hardware: likewise.
            **deployment: the options of `roofline.compile`.

        Raises:
            RooflineError: an unknown name, a wrong value, an invalid file.
        """
        return cls(compile(model, hardware, "decode", **deployment))

    def tpot(
        self,
        concurrency: ArrayLike,
        input_len: ArrayLike,
        output_len: ArrayLike,
        *,
        excess: Callable[[Array], Array] | None = None,
        tokens_per_step: float = 1.0,
        variance: float = 0.0,
        cached_len: float = 0.0,
        max_running: float | None = None,
    ) -> dict[str, Array]:
        """Mean TPOT in the steady state: seconds per output token after the first.

        Args:
            concurrency: clients of the whole deployment.
            input_len: prompt tokens of each request.
            output_len: output tokens of each request. The three broadcast.
            excess: prompts that the fullest data-parallel rank has more in a step than the mean rank, of the number of that
                one; None: ranks are in step.
            tokens_per_step: mean tokens that a sequence gets per decode step (a round of speculative decoding).
            variance: squared coefficient of variation of the lengths of prompts; of pipelines.
            cached_len: tokens of each prompt that are in the prefix cache; the rest is computed.
            max_running: sequences that memory holds; None: as many as have memory of their own for all their tokens.

        Returns:
            Arrays of the broadcast shape, in seconds: `bound` (decode steps at the hardware's bound: no prompts of others, no
            engine overhead), `shared_bound` (the same with the prompts of others in its steps), `estimate` with `low` and
            `high`, and its parts: kernels of `decode` and `prefill` (of the other prompts) as if each ran alone, and `engine`
            (overhead less hidden launches); and the launches that could be hidden, `launches`. NaN where no fit applies.
            Besides `running`: the sequences of a replica that decode at once, clients or what memory holds.
        """
        import numpy as np

        clients, prompt, output = np.broadcast_arrays(
            *(np.asarray(value, dtype=np.float64) for value in (concurrency, input_len, output_len))
        )
        request = self.steps.request
        replicas = request.deployment.data_parallel_size
        lengths, places = np.unique(prompt + np.floor(output / 2), return_inverse=True)
        held = np.array([request.memory.max_batch(int(tokens)) for tokens in lengths])
        most = held[places].reshape(prompt.shape) if max_running is None else max_running
        clients = np.minimum(clients, np.maximum(most, replicas))
        replica = np.maximum(clients / replicas, 1)
        num_stages = request.deployment.pipeline_parallel_size
        microbatch = np.maximum(clients / num_stages, np.minimum(clients, replicas))
        further = np.maximum(output - 2, 0)
        contexts = np.floor(prompt[..., None] + further[..., None] * np.linspace(0, 1, POINTS))
        decoding = Segment(microbatch[..., None], 1, contexts, decode=True)
        decoded = StepTimes(*(np.broadcast_to(time, contexts.shape).mean(axis=-1) for time in self.steps.times((decoding,))))
        middle = Segment(microbatch, 1, contexts[..., POINTS // 2], decode=True)
        share = (replica - 1) / (1 + (output - 1) / tokens_per_step)
        share = prompts_of_round(share, num_stages, variance)
        without = self.steps.times((middle,))

        def adds(prompts: int) -> list[Array]:
            """What a step has more with some prompts of all ranks."""
            mixed = self.steps.times((middle, Segment(prompts, prompt - cached_len, cached_len)))
            return [one - other for one, other in zip(mixed, without, strict=True)]

        each = adds(replicas)
        added = [share * one for one in each]
        if excess is not None and replicas > 1:
            rounds = excess(share) / (replicas - 1)
            # a = (R w_1 - w_R)/(R - 1)
            alone = adds(1)
            added = [more + rounds * np.maximum(replicas * one - all_of_them, 0)
                     for more, one, all_of_them in zip(added, alone, each, strict=True)]  # fmt: skip
        shared_bound, kernels, serial, launches = (one + other for one, other in zip(decoded, added, strict=True))
        decode, prefill = decoded.alone, StepTimes(*added).alone
        engine = request.engine_seconds(np.maximum(microbatch / replicas, 1)) - (serial - kernels)
        bound = decoded.bound
        estimate = np.maximum(decode + prefill + engine, bound)
        low, high = request.engine_band
        times = {
            "bound": bound,
            "shared_bound": shared_bound,
            "estimate": estimate,
            "low": np.maximum(estimate * low, bound),
            "high": estimate * high,
            "launches": launches,
            "decode": decode,
            "prefill": prefill,
            "engine": engine,
        }
        return {**{name: seconds / tokens_per_step for name, seconds in times.items()}, "running": replica}
