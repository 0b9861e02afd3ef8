"""Scans, token by token and in chunks, written out from the papers: same result, and as many FLOP as the operators say.

Every product goes through `Count.product`, everything else through `Count.each`, which is told how many operations an
element of the result took. Only what the causal mask lets through is computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from roofline.operators.causal_conv import CausalConv
from roofline.operators.delta_rule import DeltaRule
from roofline.operators.linear_attention import LinearAttention
from roofline.operators.scan import Scan
from roofline.operators.selective_scan import SelectiveScan

Array = Any
CHUNK = 4
LENGTHS = pytest.mark.parametrize("new", [1, 3, 4, 8, 11])
AFTER = pytest.mark.parametrize("cached", [0, 9])


@dataclass
class Count:
    """FLOP of what was computed, by unit."""

    matrix: int = 0
    vector: int = 0

    def product(self, a: Array, b: Array) -> Array:
        """A matrix product: 2mnk."""
        self.matrix += 2 * a.shape[0] * a.shape[1] * b.shape[1]
        return a @ b

    def each(self, operations: int, result: Array) -> Array:
        """A result of which each element took so many operations."""
        self.vector += operations * result.size
        return result


def softplus(x: Array) -> Array:
    """log(1 + exp x): 3 operations."""
    return np.log(1 + np.exp(x))


def sigmoid(x: Array) -> Array:
    """4 operations, as SiLU: negate, exponential, add, divide."""
    return 1 / (1 + np.exp(-x))


def chunks(new: int) -> list[slice]:
    """Chunks of CHUNK tokens, the last as long as it is."""
    return [slice(start, min(start + CHUNK, new)) for start in range(0, new, CHUNK)]


def check(operator: Scan, count: Count, found: tuple[Array, Array], wanted: tuple[Array, Array]) -> None:
    """The FLOP counted are those of the operator; output and state are those of the recurrence."""
    cost = operator.cost()
    assert (count.matrix, count.vector) == (cost.matrix_flops, cost.vector_flops)
    for ours, theirs in zip(found, wanted, strict=True):
        assert np.allclose(ours, theirs, rtol=1e-9, atol=1e-12)


@AFTER
def test_causal_conv(cached: int) -> None:
    """A filter a channel over the last inputs, begun from the bias, and SiLU."""
    random, count = np.random.default_rng(1), Count()
    new, channels, kernel = 7, 5, 3
    x = random.normal(size=(kernel - 1 + new, channels))  # in front the state, or zeros
    if not cached:
        x[: kernel - 1] = 0
    weight, bias = random.normal(size=(channels, kernel)), random.normal(size=channels)
    y = np.empty((new, channels))
    for t in range(new):
        total = bias
        for tap in range(kernel):
            total = count.each(2, total + x[t + tap] * weight[:, tap])
        y[t] = count.each(4, total * sigmoid(total))
    conv = CausalConv(tokens=new, sequences=1, resumed=min(cached, 1), channels=channels, kernel=kernel, bias=True)
    assert (count.matrix, count.vector) == (0, conv.cost().vector_flops)
    assert conv.cost().state_read_bytes == (2 * x[: kernel - 1].size if cached else 0)
    assert conv.cost().state_write_bytes == 2 * x[-(kernel - 1) :].size


@LENGTHS
@AFTER
def test_selective_scan(new: int, cached: int) -> None:
    """Mamba: every channel has a decay for each element of its state, which no product can do."""
    random, count = np.random.default_rng(2), Count()
    channels, n = 5, 3
    x, z, step = (random.normal(size=(new, channels)) for _ in range(3))
    into, out = (random.normal(size=(new, n)) for _ in range(2))
    a, skip = -np.exp(random.normal(size=(channels, n))), random.normal(size=channels)
    first = h = random.normal(size=(channels, n)) * min(cached, 1)
    for t in range(new):
        delta = count.each(3, softplus(step[t]))
        h = count.each(3, np.exp(delta[:, None] * a) * h)
        h = count.each(2, h + count.each(1, delta * x[t])[:, None] * into[t])
        y = count.each(2, h * out[t]).sum(axis=1)  # the product and the sum over n
        y = count.each(2, y + skip * x[t])
        y = count.each(1, y * count.each(4, z[t] * sigmoid(z[t])))
    # Unrolled: what each token added, decayed by all steps after it.
    every = softplus(step)
    left = every.sum(axis=0) - every.cumsum(axis=0)
    added = (every * x)[:, :, None] * into[:, None, :] * np.exp(left[:, :, None] * a)
    unrolled = added.sum(axis=0) + np.exp(every.sum(axis=0)[:, None] * a) * first
    gated = ((unrolled * out[-1]).sum(axis=1) + skip * x[-1]) * z[-1] * sigmoid(z[-1])
    operator = SelectiveScan(batch=1, new=new, cached=cached, channels=channels, state_size=n)
    check(operator, count, (y, h), (gated, unrolled))


@dataclass
class Ssd:
    """Inputs of linear attention with a decay a head, as Mamba-2 has them (selective) or Lightning Attention."""

    new: int
    cached: int
    selective: bool
    heads: int = 4
    groups: int = 2
    d_k: int = 3
    d_v: int = 5

    def __post_init__(self) -> None:
        random, new, heads = np.random.default_rng(3), self.new, self.heads
        if not self.selective:
            self.groups = heads
        self.q, self.k = (random.normal(size=(new, self.groups, self.d_k)) for _ in range(2))
        self.x = random.normal(size=(new, heads, self.d_v))
        self.step, self.bias = random.normal(size=(new, heads)), random.normal(size=heads)
        self.a, self.skip = -np.exp(random.normal(size=heads)), random.normal(size=heads)
        self.state = random.normal(size=(heads, self.d_k, self.d_v)) * min(self.cached, 1)

    def group(self, head: int) -> int:
        """Whose queries and keys a head takes."""
        return head // (self.heads // self.groups)

    def gates(self, count: Count) -> tuple[Array, Array, Array]:
        """Log decays of every token and head, values, and what passes by; constant decay and plain values if not selective."""
        if not self.selective:
            return np.broadcast_to(self.a, (self.new, self.heads)), self.x, np.zeros_like(self.x)
        delta = count.each(4, softplus(self.step + self.bias))
        values = count.each(1, self.x * delta[..., None])
        return count.each(1, delta * self.a), values, count.each(1, self.x * self.skip[:, None])

    def operator(self, *, recurrent: bool) -> LinearAttention:
        """Ours."""
        return LinearAttention(
            batch=1, new=self.new, cached=self.cached, n_heads=self.heads, n_groups=self.groups, d_k=self.d_k, d_v=self.d_v,
            chunk_size=CHUNK, selective=self.selective, recurrent=recurrent,
        )  # fmt: skip

    def one_by_one(self, count: Count) -> tuple[Array, Array]:
        """Decay, add, read."""
        logs, values, past = self.gates(count)
        decays = count.each(1, np.exp(logs)) if self.selective else np.exp(logs)
        states, out = self.state.copy(), np.empty_like(self.x)
        for t in range(self.new):
            for head in range(self.heads):
                group = self.group(head)
                states[head] = count.each(1, decays[t, head] * states[head])
                states[head] = count.each(2, states[head] + np.outer(self.k[t, group], values[t, head]))
                out[t, head] = count.each(2, self.q[t, group][:, None] * states[head]).sum(axis=0)
        return (count.each(1, out + past) if self.selective else out), states

    def in_chunks(self, count: Count) -> tuple[Array, Array]:
        """Attention inside a chunk, the state across them."""
        logs, values, past = self.gates(count)
        states, out = self.state.copy(), np.empty_like(self.x)
        for part in chunks(self.new):
            cumulative = np.cumsum(logs[part], axis=0)
            if self.selective:
                count.each(1, cumulative)
                count.each(3, cumulative)  # its exponential, and that of what is left to the end of the chunk
            to_here, to_end = np.exp(cumulative), np.exp(cumulative[-1] - cumulative)
            scores: list[list[Array]] = [
                [count.product(q[i : i + 1], k[: i + 1].T) for i in range(len(q))]
                for q, k in ((self.q[part, group], self.k[part, group]) for group in range(self.groups))
            ]
            for head in range(self.heads):
                group, v, total = self.group(head), values[part, head], cumulative[:, head]
                before = count.each(1, to_here[:, head, None] * count.product(self.q[part, group], states[head]))
                for i in range(len(v)):
                    decay = np.exp(total[i] - total[: i + 1])
                    seen = count.each(3 if self.selective else 1, scores[group][i] * decay)
                    out[part.start + i, head] = count.each(1, before[i] + count.product(seen, v[: i + 1])[0])
                keys = count.each(1, self.k[part, group] * to_end[:, head, None])
                states[head] = count.each(2, to_here[-1, head] * states[head] + count.product(keys.T, v))
        return (count.each(1, out + past) if self.selective else out), states


@LENGTHS
@AFTER
@pytest.mark.parametrize("selective", [True, False], ids=["mamba-2", "lightning"])
def test_linear_attention(new: int, cached: int, selective: bool) -> None:
    """Mamba-2 and Lightning Attention: chunks give what the recurrence gives; each counts what its rule says."""
    case, slow, fast = Ssd(new, cached, selective), Count(), Count()
    wanted = case.one_by_one(slow)
    check(case.operator(recurrent=True), slow, wanted, wanted)
    check(case.operator(recurrent=False), fast, case.in_chunks(fast), wanted)


@dataclass
class Delta:
    """Inputs of the gated delta rule; the decay is one number a head, or one for each channel of the keys."""

    new: int
    cached: int
    per_channel: bool
    heads: int = 4
    key_heads: int = 2
    d_k: int = 6
    d_v: int = 5

    def __post_init__(self) -> None:
        random, new, heads = np.random.default_rng(4), self.new, self.heads
        width = self.d_k if self.per_channel else 1
        self.q, self.k = (random.normal(size=(new, self.key_heads, self.d_k)) for _ in range(2))
        self.v, self.b = random.normal(size=(new, heads, self.d_v)), random.normal(size=(new, heads, 1))
        self.step, self.bias = random.normal(size=(new, heads, width)), random.normal(size=(heads, width))
        self.a = np.exp(random.normal(size=(heads, 1)))
        self.state = random.normal(size=(heads, self.d_k, self.d_v)) * min(self.cached, 1)

    def gates(self, count: Count) -> tuple[Array, Array, Array, Array]:
        """Queries and keys of length 1, shares, and log decays."""
        q, k = (count.each(3, x / np.sqrt((x * x).sum(axis=-1, keepdims=True))) for x in (self.q, self.k))
        return q, k, count.each(4, sigmoid(self.b)), count.each(5, -self.a * softplus(self.step + self.bias))

    def operator(self, *, recurrent: bool) -> DeltaRule:
        """Ours."""
        return DeltaRule(
            batch=1, new=self.new, cached=self.cached, n_heads=self.heads, n_key_heads=self.key_heads, d_k=self.d_k,
            d_v=self.d_v, chunk_size=CHUNK, per_channel=self.per_channel, recurrent=recurrent,
        )  # fmt: skip

    def one_by_one(self, count: Count) -> tuple[Array, Array]:
        """Decay, look up, correct, read."""
        q, k, shares, logs = self.gates(count)
        decays = count.each(1, np.exp(logs))
        states, out = self.state.copy(), np.empty_like(self.v)
        for t in range(self.new):
            for head in range(self.heads):
                key_head = head // (self.heads // self.key_heads)
                query, key = q[t, key_head][:, None], k[t, key_head][:, None]
                states[head] = count.each(1, decays[t, head][:, None] * states[head])
                held = count.each(2, key * states[head]).sum(axis=0)
                correction = count.each(2, shares[t, head] * (self.v[t, head] - held))
                states[head] = count.each(2, states[head] + key * correction)
                out[t, head] = count.each(2, query * states[head]).sum(axis=0)
        return out, states

    def in_chunks(self, count: Count) -> tuple[Array, Array]:
        """The corrections of a chunk by a triangular inverse, the state across chunks."""
        q, k, shares, logs = self.gates(count)
        states, out = self.state.copy(), np.empty_like(self.v)
        for part in chunks(self.new):
            for head in range(self.heads):
                key_head = head // (self.heads // self.key_heads)
                queries, keys, share = q[part, key_head], k[part, key_head], shares[part, head]
                total = count.each(1, np.cumsum(logs[part, head], axis=0))
                to_here, to_end = np.exp(total), np.exp(total[-1] - total)
                count.each(3, total)  # both exponentials and the difference
                wanted, shared = count.each(1, share * self.v[part, head]), count.each(1, share * keys)
                shared_here, queries_here = count.each(1, shared * to_here), count.each(1, queries * to_here)
                keys_to_end = count.each(1, keys * to_end)
                system, scores = self._scores(count, total, (queries, queries_here), keys, (shared, shared_here))
                inverse = self._inverse(count, system)
                rows = range(len(keys))
                values = np.vstack([count.product(inverse[i : i + 1, : i + 1], wanted[: i + 1]) for i in rows])
                weights = np.vstack([count.product(inverse[i : i + 1, : i + 1], shared_here[: i + 1]) for i in rows])
                corrections = count.each(1, values - count.product(weights, states[head]))
                before = count.product(queries_here, states[head])
                inside = np.vstack([count.product(scores[i], corrections[: i + 1]) for i in rows])
                out[part, head] = count.each(1, before + inside)
                added = count.product(keys_to_end.T, corrections)
                states[head] = count.each(2, to_here[-1][:, None] * states[head] + added)
        return out, states

    def _scores(
        self, count: Count, total: Array, queries: tuple[Array, Array], keys: Array, shared: tuple[Array, Array]
    ) -> tuple[list[Array], list[Array]]:
        """Rows of the triangular system, below its diagonal, and rows of queries against keys."""
        system, scores = [], []
        if self.per_channel:
            back = count.each(2, keys * np.exp(-total))
            for i in range(len(keys)):
                system.append(count.product(shared[1][i : i + 1], back[:i].T))
                scores.append(count.product(queries[1][i : i + 1], back[: i + 1].T))
            return system, scores
        for i in range(len(keys)):
            decay = count.each(2, np.exp(total[i] - total[: i + 1])).T
            system.append(count.each(1, count.product(shared[0][i : i + 1], keys[:i].T) * decay[:, :i]))
            scores.append(count.each(1, count.product(queries[0][i : i + 1], keys[: i + 1].T) * decay))
        return system, scores

    @staticmethod
    def _inverse(count: Count, system: list[Array]) -> Array:
        """Of one plus a strictly lower matrix: row by row, products of what is not zero."""
        inverse = np.eye(len(system))
        for i, row in enumerate(system):
            for j in range(i):
                inverse[i, j] = -row[0, j] - count.product(row[:, j + 1 : i], inverse[j + 1 : i, j : j + 1])[0, 0]
        return inverse


@LENGTHS
@AFTER
@pytest.mark.parametrize("per_channel", [False, True], ids=["gated-delta-net", "kda"])
def test_delta_rule(new: int, cached: int, per_channel: bool) -> None:
    """Gated DeltaNet and KDA: chunks give what the recurrence gives; each counts what its rule says."""
    case, slow, fast = Delta(new, cached, per_channel), Count(), Count()
    wanted = case.one_by_one(slow)
    check(case.operator(recurrent=True), slow, wanted, wanted)
    check(case.operator(recurrent=False), fast, case.in_chunks(fast), wanted)
