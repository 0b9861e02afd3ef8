"""LoRA adapters of requests: which of them a replica holds, what loading one takes, and what their products add to a step.

A batch has at most `max_loras` different adapters, for which the device has slots; a request whose adapter would be one more is
passed over until another leaves the batch. The adapters used last stay in the slots, and in the host's memory. Adapters are on
all linear layers of attention and MLP, with one rank.

Source: vLLM 0.19, vllm/v1/core/sched/scheduler.py (Scheduler.schedule), vllm/lora/worker_manager.py
(LRUCacheWorkerLoRAManager); Sheng et al. 2023, S-LoRA, arXiv:2311.03285; Chen et al. 2023, Punica, arXiv:2310.18547.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from roofline import formatting
from roofline.errors import InputError
from roofline.graph.build import CANONICAL, build
from roofline.operators.gemm import Gemm
from roofline.predict.bounds import times
from roofline.predict.memory import StageMemory
from roofline.predict.request import ResolvedRequest
from roofline.serving.preemption.copies import HostCopyOptions, copies
from roofline.serving.simulation.autoscaling import LOAD_RATE
from roofline.serving.simulation.request import Request
from roofline.serving.traffic.scalars import number
from roofline.specs.source import Assumption
from roofline.units import parse_count

MAX_ADAPTERS = 1_000_000
"""Adapters of a run, whose shares and places are held."""
MAX_LORAS, MAX_LORA_RANK = 1, 16
"""vLLM's defaults (vllm/config/lora.py, LoRAConfig)."""
_PROJECTIONS = {"qkv_proj": 3, "q_proj": 1, "o_proj": 1, "gate_up_proj": 2, "up_proj": 1, "down_proj": 1}
"""Linear layers with adapters, and how many projections each is of: every one has an A of its own, and its part of B."""
_OTHERS = ("lm_head",)


@dataclass(frozen=True, slots=True)
class Product:
    """One of the two products of a layer's adapters, `repeat` times: seconds of the matrix units per token, and of the memory
    per token and per adapter."""

    repeat: float
    matrix: float
    token: float
    adapter: float

    def seconds(self, num_tokens: int, num_adapters: int) -> float:
        """Return the bound of the product for the tokens and different adapters of a step."""
        return self.repeat * max(self.matrix * num_tokens, self.token * num_tokens + self.adapter * num_adapters)


@dataclass(frozen=True)
class LoraConfig:
    """Adapters of a workload, and the slots of a replica.

    Args:
        num_adapters: that requests have: those that are drawn, then those of classes.
        exponent: the share of the i-th adapter that is drawn is proportional to i^-exponent; 0: all have the same.
        max_loras: different adapters in a batch, and slots on the device.
        max_cpu_loras: adapters in the host's memory.
        rank: of all of them.
        adapter_bytes: of an adapter.
        device_bytes: of an adapter on each device.
        load_s: seconds to copy one from the host to the devices.
        fetch_s: seconds to read one into the host's memory.
        products: what adapters add to a step.
        classes: the adapter of the requests of each class; None: drawn, of `num_drawn`, or where that is 0 none.
        num_drawn: adapters that are drawn.
    """

    num_adapters: int
    exponent: float
    max_loras: int
    max_cpu_loras: int
    rank: int
    adapter_bytes: float
    device_bytes: float
    load_s: float
    fetch_s: float
    products: tuple[Product, ...] = ()
    classes: tuple[int | None, ...] = ()
    num_drawn: int = 0

    @property
    def slot_bytes(self) -> float:
        """Bytes of all slots on a device."""
        return self.max_loras * self.device_bytes

    def step_seconds(self, num_tokens: int, num_adapters: int) -> float:
        """Return the seconds by which the step is longer: the bounds of the products with A and with B, one after another.

        Args:
            num_tokens: tokens in the step whose request has an adapter.
            num_adapters: different adapters of those.
        """
        return sum([one.seconds(num_tokens, num_adapters) for one in self.products])

    def draws(self, seed: Sequence[int]) -> Callable[[Request], None]:
        """Return a function that gives a request that arrives its adapter; turns of a conversation have the same."""
        rng = random.Random(f"adapters {[*seed]}")  # noqa: S311 - no secret
        shares = list(accumulate((index + 1) ** -self.exponent for index in range(self.num_drawn)))
        sessions: dict[int, int] = {}
        fixed = dict(enumerate(self.classes))

        def draw(request: Request) -> None:
            known = fixed.get(request.class_index)
            if known is None and shares:
                known = sessions.get(request.session)
            if known is None and not shares:
                known = -1
            if known is None:
                known = min(bisect_right(shares, rng.random() * shares[-1]), self.num_drawn - 1)
                if request.session >= 0:
                    sessions[request.session] = known
            request.adapter = known

        return draw

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain data."""
        return {
            "adapters": self.num_adapters, "exponent": self.exponent, "max_loras": self.max_loras,
            "max_cpu_loras": self.max_cpu_loras, "rank": self.rank, "adapter_bytes": self.adapter_bytes,
            "device_bytes": self.device_bytes, "load_s": self.load_s, "fetch_s": self.fetch_s,
        }  # fmt: skip


@dataclass(slots=True)
class LoraRecord:
    """What the adapters of a run took: requests that found theirs on the device, loads from the host, and of those the ones
    that had to be read from disk first; seconds for which steps waited."""

    num_admitted: int = 0
    num_hits: int = 0
    num_loaded: int = 0
    num_fetched: int = 0
    seconds: float = 0.0

    def figures(self) -> dict[str, float | None]:
        """Return them by name."""
        return {
            "loaded": float(self.num_loaded), "fetched": float(self.num_fetched), "loading_s": self.seconds,
            "hit_rate": self.num_hits / self.num_admitted if self.num_admitted else None,
        }  # fmt: skip


class AdapterSlots:
    """The adapters of a replica: those that its running requests use, those in the slots of the device, those on the host.

    Args:
        config: limits and times.
        record: of the run.
    """

    __slots__ = ("active", "config", "device", "host", "record")

    def __init__(self, config: LoraConfig, record: LoraRecord | None = None) -> None:
        self.config, self.record = config, LoraRecord() if record is None else record
        self.active: dict[int, int] = {}
        """Running requests by their adapter."""
        self.device: OrderedDict[int, None] = OrderedDict()
        # NB: a host that can hold all has them from the start (arXiv:2311.03285, section 5)
        first = range(config.num_adapters if config.max_cpu_loras >= config.num_adapters else 0)
        self.host: OrderedDict[int, None] = OrderedDict.fromkeys(first)
        """Adapters, the least recently used first."""

    def passes_over(self, request: Request) -> bool:
        """Return whether a request has to wait for a slot."""
        return request.adapter >= 0 and request.adapter not in self.active and len(self.active) >= self.config.max_loras

    def acquire(self, request: Request) -> float:
        """Note that a request begins to run; returns the seconds to load its adapter, 0 where the device has it."""
        adapter = request.adapter
        if adapter < 0:
            return 0.0
        self.active[adapter] = self.active.get(adapter, 0) + 1
        record, config = self.record, self.config
        record.num_admitted += 1
        if adapter in self.device:
            record.num_hits += 1
            self._touch(adapter)
            return 0.0
        seconds = config.load_s
        if adapter not in self.host:
            seconds += config.fetch_s
            record.num_fetched += 1
            if len(self.host) >= config.max_cpu_loras:
                dropped = self._unused(self.host)
                del self.host[dropped]
                self.device.pop(dropped, None)
            self.host[adapter] = None
        if len(self.device) >= config.max_loras:
            del self.device[self._unused(self.device)]
        self.device[adapter] = None
        self._touch(adapter)
        record.num_loaded += 1
        record.seconds += seconds
        return seconds

    def release(self, request: Request) -> None:
        """Note that a request runs no more; its adapter stays in its slot until that is needed."""
        adapter = request.adapter
        if adapter < 0:
            return
        left = self.active[adapter] - 1
        if left:
            self.active[adapter] = left
            return
        del self.active[adapter]
        self._touch(adapter)

    def _unused(self, held: OrderedDict[int, None]) -> int:
        """The least recently used adapter that no running request uses."""
        return next(one for one in held if one not in self.active)

    def _touch(self, adapter: int) -> None:
        self.device.move_to_end(adapter)
        self.host.move_to_end(adapter)


def parse_adapters(value: object) -> tuple[int, float]:
    """Parse how many adapters there are, and the exponent of their shares: `100`, `100:uniform`, `100:zipf:1.2`.

    Raises:
        InputError: no number, another distribution, an exponent that is not above 0.

    >>> parse_adapters("100"), parse_adapters("20:zipf:1.2")
    ((100, 0.0), (20, 1.2))
    """
    count, *rest = str(value).split(":")
    num_adapters = parse_count(count, "--lora-adapters", minimum=1)
    if num_adapters > MAX_ADAPTERS:
        raise InputError(f"--lora-adapters must be at most {MAX_ADAPTERS:,}, not {num_adapters:,}")
    if rest in ([], ["uniform"]):
        return num_adapters, 0.0
    if rest[0] != "zipf" or len(rest) > 2:
        raise InputError(f"--lora-adapters must be N, N:uniform or N:zipf:EXPONENT, not {str(value)[:60]!r}")
    exponent = number(rest[1] if len(rest) > 1 else 1.0, "--lora-adapters: an exponent above 0, such as 100:zipf:1")
    if exponent <= 0:
        raise InputError("--lora-adapters: the exponent of zipf must be above 0; uniform shares are N:uniform")
    return num_adapters, exponent


def resolve_lora(
    request: ResolvedRequest, adapters: Any, *, max_loras: Any, max_cpu_loras: Any, max_lora_rank: Any,
    host: HostCopyOptions, notes: list[Assumption], names: Sequence[str | None] = (),
) -> LoraConfig | None:  # fmt: skip
    """Return the adapters of a workload on a deployment; None without.

    Args:
        request: the deployment of a replica.
        adapters: for `parse_adapters`; None: requests have none.
        max_loras: different adapters in a batch; None: vLLM's default.
        max_cpu_loras: adapters on the host; None: as many as on the device.
        max_lora_rank: of all; None: vLLM's default.
        host: of copies to the device.
        notes: gets what is assumed.
        names: of the adapter of each class of requests; None: it has none, or one is drawn.

    Raises:
        InputError: a wrong value, a limit without adapters, a model or deployment whose adapters are not modelled.
    """
    given = {"max-loras": max_loras, "max-cpu-loras": max_cpu_loras, "max-lora-rank": max_lora_rank}
    if adapters is None and not any(names):
        if limits := [name for name, value in given.items() if value is not None]:
            raise InputError(f"--{limits[0]} is of adapters: give --lora-adapters")
        return None
    num_drawn, exponent = (0, 0.0) if adapters is None else parse_adapters(adapters)
    known = {name: num_drawn + index for index, name in enumerate(dict.fromkeys(filter(None, names)))}
    num_adapters = num_drawn + len(known)
    if request.deployment.pipeline_parallel_size > 1:
        raise InputError("--lora-adapters: what adapters take in a pipeline is not modeled")
    slots = MAX_LORAS if max_loras is None else parse_count(max_loras, "--max-loras", minimum=1)
    on_host = slots if max_cpu_loras is None else parse_count(max_cpu_loras, "--max-cpu-loras", minimum=1)
    if on_host >= num_adapters:
        notes.append(Assumption("lora.host", "all", "assumed", "the host holds every adapter from the start"))
    if on_host < slots:
        raise InputError(f"--max-cpu-loras {on_host:,} must be at least --max-loras ({slots:,}), as vLLM wants")
    rank = MAX_LORA_RANK if max_lora_rank is None else parse_count(max_lora_rank, "--max-lora-rank", minimum=1)
    (stage,) = request.memory.stages
    device_bytes, calls, products = _layers(request, stage, rank)
    alone = replace(stage, deployment=stage.deployment.model_copy(update={"tensor_parallel_size": 1}))
    adapter_bytes = device_bytes if stage.deployment.tensor_parallel_size == 1 else _layers(request, alone, rank)[0]
    link = copies(request, pinned=host.pinned, host_link=host.host_link, share=host.gpus_per_link)
    load_s, fetch_s = float(link.curves.back.seconds(device_bytes, calls)), adapter_bytes / LOAD_RATE
    for name, setting, why in (
        ("max_loras", slots, "different adapters in a batch, vLLM's default"),
        ("max_cpu_loras", on_host, "as many as --max-loras, vLLM's default: others are read from disk"),
        ("max_lora_rank", rank, "of every adapter, vLLM's default"),
    ):
        if given[name.replace("_", "-")] is None:
            notes.append(Assumption(name, setting, "default", why))
    layers = "every linear layer but the LM head has an A and a B of that rank"
    load = f"{device_bytes / 1e6:.4g} MB in {calls:,} copies to each device"
    fetch = f"{adapter_bytes / 1e6:.4g} MB at {LOAD_RATE / 1e9:g} GB/s"
    step = "products with A and B at the roofline: no kernel of adapters was measured"
    notes += [
        Assumption("lora.layers", "attention and MLP", "assumed", layers),
        Assumption("lora.load", formatting.seconds(load_s), "assumed", load),
        Assumption("lora.fetch", formatting.seconds(fetch_s), "assumed", f"{fetch}, where the host does not have the adapter"),
        Assumption("lora.step", "bound", "assumed", step),
        *link.notes,
    ]
    return LoraConfig(
        num_adapters, exponent, slots, on_host, rank, adapter_bytes, device_bytes, load_s, fetch_s, tuple(products),
        tuple(None if name is None else known[name] for name in names), num_drawn,
    )  # fmt: skip


def _layers(request: ResolvedRequest, stage: StageMemory, rank: int) -> tuple[float, int, list[Product]]:
    """Bytes of an adapter on a device, the copies that they take, and the products of its layers.

    Source: vLLM 0.19, vllm/lora/layers: of a layer that divides its outputs B is divided, of one that divides its inputs A.
    """
    graph = build(stage.model, stage.deployment, stage.precision, CANONICAL, stage.stage)
    total, calls, products = 0.0, 0, []
    for path, (operator, repeat) in graph.items():
        name = path.rpartition("/")[-1]
        if name in _OTHERS or operator.kind not in ("gemm", "grouped_gemm"):
            continue
        if not isinstance(operator, Gemm) or name not in _PROJECTIONS or not path.startswith("layers"):
            raise InputError(f"--lora-adapters: adapters on {path} of {stage.model.name} are not modeled, only those on "
                             "attention with queries, keys and values, and on dense MLPs")  # fmt: skip
        projections = _PROJECTIONS[name]
        dtypes = replace(operator.dtypes, weight=operator.dtypes.activation)
        down = replace(operator, m=1, n=projections * rank, bias=False, stored=(), dtypes=dtypes)
        up = replace(operator, m=1, k=rank, bias=False, stored=(), dtypes=dtypes)
        for product, added in ((down, 0), (up, operator.n)):  # the outputs of the layer are read, to be added to
            cost = product.cost()
            weights = product.held_bytes
            once = replace(cost, weight_bytes=0, activation_bytes=cost.activation_bytes + added * dtypes.activation.bytes)
            of_adapter = replace(cost, matrix_flops=0, activation_bytes=0)
            tokens, adapter = times(product, once, request.hardware), times(product, of_adapter, request.hardware)
            products.append(Product(float(repeat), float(tokens.matrix), float(tokens.memory), float(adapter.memory)))
            total += float(weights * repeat)
        calls += int(2 * projections * repeat)
    return total, calls, products
