"""Autoscaling: how many replicas a fleet should have, by what is measured of it every few seconds.

The loop is that of Kubernetes' Horizontal Pod Autoscaler, which KEDA configures for other metrics, or of Knative's autoscaler.
Metrics are read without delay; in a cluster they are some seconds old. Packages add policies through the entry-point group
`roofline.autoscalers`, each a `ScalingPolicy`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from roofline.errors import InputError
from roofline.predict.request import ResolvedRequest
from roofline.registry import Registry
from roofline.serving.simulation.settings import parse_delay, parse_settings
from roofline.serving.traffic.scalars import number, parse_seconds
from roofline.specs.library import Input
from roofline.specs.source import Assumption
from roofline.units import parse_count, parse_quantity

MAX_FLEET = 1000
LOAD_RATE = 1.55e9
"""Bytes/s of weights from local storage to the devices of a replica, unless given: 130 GB of LLaMA-2-70B take 84 s (Fu et al.
2024, ServerlessLLM, arXiv:2401.14351, section 2.2)."""
ENGINE_START_S = 30.0
"""Seconds of an engine's start beside its weights (imports, profiling, CUDA graphs), unless given: an assumption."""
TOLERANCE = 0.1
"""A metric this close to its target changes nothing (HPA's --horizontal-pod-autoscaler-tolerance)."""
_KUBERNETES = "Kubernetes 1.34, Horizontal Pod Autoscaling, Algorithm details and Configurable scaling behavior"
_KNATIVE = "Knative Serving 1.19, pkg/autoscaler/scaling/autoscaler.go (Scale), config/core/configmaps/autoscaler.yaml"


@dataclass(frozen=True, slots=True)
class Observation:
    """What is known of a fleet when it is evaluated.

    Args:
        time: seconds.
        serving: replicas that take requests.
        current: those, and replicas that start or are repaired; not those that drain.
        waiting: requests that wait, on these replicas and at the router.
        unfinished: requests that wait or run there.
        kv: sum over the replicas that serve of the share of their KV blocks that is taken.
    """

    time: float
    serving: int
    current: int
    waiting: int
    unfinished: int
    kv: float


@dataclass(frozen=True, slots=True)
class ScalingPolicy:
    """A way to find how many replicas there should be.

    Args:
        name: as `policy=` has it.
        desired: the number by the latest observation, before windows and limits.
        target: of the metric, unless given.
        interval: seconds between evaluations, unless given.
        scale_down_window: seconds; the largest number desired within them counts before replicas are removed.
        limit: replicas that may be added in `limit[1]` seconds; None: as many as are desired.
        about: one line on what it does.
        source: where it and its defaults are described.
    """

    name: str
    desired: Callable[[Autoscaler, Observation], int]
    target: float
    interval: float = 15.0
    scale_down_window: float = 300.0
    limit: tuple[Callable[[int], int], float] | None = None
    about: str = ""
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class AutoscaleConfig:
    """Settings of an autoscaler.

    Args:
        policy: what it goes by.
        min: fewest replicas.
        max: most replicas; those that drain come on top.
        target: of the policy's metric, per replica.
        interval: seconds between evaluations.
        scale_down_window: seconds; see `ScalingPolicy`.
        start_up: seconds from the request for a replica until it serves.
        source: file that they were read from.
    """

    policy: ScalingPolicy
    min: int
    max: int
    target: float
    interval: float
    scale_down_window: float
    start_up: float
    source: Input | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain data, times in seconds."""
        return {
            "policy": self.policy.name, "min": self.min, "max": self.max, "target": self.target, "interval_s": self.interval,
            "scale_down_window_s": self.scale_down_window, "start_up_s": self.start_up,
        }  # fmt: skip


class Autoscaler:
    """The state of an autoscaler: what it has seen and recommended lately.

    Args:
        config: its settings.
    """

    def __init__(self, config: AutoscaleConfig) -> None:
        self.config = config
        self.samples: deque[tuple[float, int]] = deque()
        """When, and how many requests were unfinished, over the window of a policy that averages."""
        self.panic_since: float | None = None
        self.panic_max = 0
        """Since when a policy that can panic does (None: it does not), and the most replicas that it wanted since."""
        self._desired: deque[tuple[float, int]] = deque()
        self._added: deque[tuple[float, int]] = deque()

    def evaluate(self, seen: Observation) -> int:
        """Return how many replicas there should be, within all limits."""
        config, policy = self.config, self.config.policy
        desired = min(max(policy.desired(self, seen), config.min), config.max)
        self._desired.append((seen.time, desired))
        while self._desired[0][0] < seen.time - config.scale_down_window:
            self._desired.popleft()
        if desired < seen.current:
            desired = min(max(number for _, number in self._desired), seen.current)
        elif policy.limit is not None:
            most, period = policy.limit
            while self._added and self._added[0][0] <= seen.time - period:
                self._added.popleft()
            before = seen.current - sum(number for _, number in self._added)
            desired = max(min(desired, most(max(before, 0))), seen.current)
            if desired > seen.current:
                self._added.append((seen.time, desired - seen.current))
        return min(max(desired, config.min), config.max)


def _total(metric: Callable[[Observation], int]) -> Callable[[Autoscaler, Observation], int]:
    """A metric of the whole fleet, with a target per replica: HPA's external metric with an `AverageValue`."""

    def desired(scaler: Autoscaler, seen: Observation) -> int:
        total, target = metric(seen), scaler.config.target
        if seen.current and abs(total / (target * seen.current) - 1) <= TOLERANCE:
            return seen.current
        return math.ceil(total / target)

    return desired


def _kv(scaler: Autoscaler, seen: Observation) -> int:
    """The mean of a share over replicas that serve: HPA's metric of pods. Replicas that start count as empty when some are
    added, which may not turn into a removal."""
    target = scaler.config.target
    if not seen.serving:
        return max(seen.current, min(seen.waiting, 1))
    ratio = seen.kv / (seen.serving * target)
    if ratio > 1:
        ratio = max(seen.kv / (seen.current * target), 1.0)
        return seen.current if ratio <= 1 + TOLERANCE else math.ceil(ratio * seen.current)
    return seen.current if ratio >= 1 - TOLERANCE else math.ceil(ratio * seen.serving)


_UTILIZATION = 0.7  # container-concurrency-target-percentage
_STABLE_S, _PANIC_S = 60.0, 6.0  # stable-window, and its panic-window-percentage of 10
_PANIC_FROM, _MAX_SCALE_UP, _MAX_SCALE_DOWN = 2.0, 1000.0, 2.0  # panic-threshold-percentage, max-scale-{up,down}-rate


def _concurrency(scaler: Autoscaler, seen: Observation) -> int:
    """Mean concurrency of the last minute over 70 % of the target; in a panic that of the last 6 seconds."""
    samples = scaler.samples
    samples.append((seen.time, seen.unfinished))
    while samples[0][0] <= seen.time - _STABLE_S:
        samples.popleft()
    target, serving = scaler.config.target * _UTILIZATION, max(seen.serving, 1)
    low, high = math.floor(serving / _MAX_SCALE_DOWN), math.ceil(serving * _MAX_SCALE_UP)

    def wanted(window: float) -> int:
        values = [value for time, value in samples if time > seen.time - window]
        return math.ceil(sum(values) / len(values) / target)

    stable, panic = wanted(_STABLE_S), wanted(_PANIC_S)
    if panic / serving >= _PANIC_FROM:
        scaler.panic_since = seen.time
    elif scaler.panic_since is not None and scaler.panic_since + _STABLE_S < seen.time:
        scaler.panic_since, scaler.panic_max = None, 0
    desired = min(max(stable, low), high)
    if scaler.panic_since is not None:
        scaler.panic_max = max(scaler.panic_max, desired, min(max(panic, low), high))
        return scaler.panic_max
    return desired


_HPA_LIMIT = (lambda replicas: max(replicas + 4, 2 * replicas), 15.0)
"""HPA's default for scaling up: 4 pods or as many as there are, in 15 s."""

AUTOSCALERS: Registry[ScalingPolicy] = Registry(
    "autoscaling policy",
    (
        ScalingPolicy(
            "waiting", _total(lambda seen: seen.waiting), 5.0, limit=_HPA_LIMIT,
            about="requests that wait, per replica (vllm:num_requests_waiting, by KEDA)",
            source=f"{_KUBERNETES}; target: vLLM production-stack, docs/source/use_cases/autoscaling-keda.rst",
        ),
        ScalingPolicy(
            "unfinished", _total(lambda seen: seen.unfinished), 100.0, limit=_HPA_LIMIT,
            about="requests that wait or run, per replica (vllm:num_requests_waiting + num_requests_running, by KEDA)",
            source=f"{_KUBERNETES}; target: Knative's default concurrency",
        ),
        ScalingPolicy(
            "kv", _kv, 0.8, limit=_HPA_LIMIT, about="mean share of the KV cache in use (vllm:kv_cache_usage_perc, by HPA)",
            source=f"{_KUBERNETES}; the target is an assumption",
        ),
        ScalingPolicy(
            "concurrency", _concurrency, 100.0, interval=2.0, scale_down_window=0.0,
            about="mean unfinished requests per replica over 60 s, over 6 s where that is twice 70 % of the target (Knative)",
            source=_KNATIVE,
        ),
    ),
    group="roofline.autoscalers",
    accepts=ScalingPolicy,
)  # fmt: skip
"""Autoscaling policies by name."""


def _above_0(value: object) -> float:
    if (parsed := number(value, "a number above 0")) <= 0:
        raise InputError(f"must be above 0, not {str(value)[:60]}")
    return parsed


_PARSERS: dict[str, Callable[[Any], Any]] = {
    "min": lambda text: parse_count(text, "replicas"),
    "max": lambda text: parse_count(text, "replicas", minimum=1),
    "policy": lambda text: AUTOSCALERS[str(text)],
    "target": _above_0,
    "start_up": parse_delay,
    "interval": parse_seconds,
    "scale_down_window": parse_delay,
    "load_rate": lambda text: _above_0(parse_quantity(text, "byte/s")),
    "engine_start": parse_delay,
}


def parse_autoscale(value: object, request: ResolvedRequest, notes: list[Assumption]) -> AutoscaleConfig:
    """Return the settings of an autoscaler.

    Args:
        value: `min=1,max=8,policy=waiting,target=5,start-up=60 s,interval=15 s,scale-down-window=5 min`, of which `max` is
            needed; `load-rate` and `engine-start` instead of `start-up`; or a YAML file of them.
        request: the deployment of a replica.
        notes: gets what is assumed.

    Raises:
        InputError: an unknown key, a wrong or missing value.
    """
    given, source = parse_settings(value, _PARSERS, "--autoscale", "autoscale")
    if "max" not in given:
        raise InputError("--autoscale: max is missing: give the largest number of replicas, such as min=1,max=8")
    low, high = given.get("min", 1), given["max"]
    if not low <= high <= MAX_FLEET:
        raise InputError(f"--autoscale: max must be from min ({low:,}) to {MAX_FLEET:,}, not {high:,}")
    policy = given.get("policy", AUTOSCALERS["waiting"])
    target = given.get("target", policy.target)
    if policy.name == "kv" and target > 1:
        raise InputError(f"--autoscale: target of kv is a share of the KV cache, from 0 to 1, not {target:g}")
    if both := [key for key in ("load_rate", "engine_start") if "start_up" in given and key in given]:
        raise InputError(f"--autoscale: start-up has {both[0].replace('_', '-')} in it; leave one of them out")
    config = AutoscaleConfig(
        policy=policy, min=low, max=high, target=target, interval=given.get("interval", policy.interval),
        scale_down_window=given.get("scale_down_window", policy.scale_down_window),
        start_up=start_up(request, given, notes), source=source,
    )  # fmt: skip
    for key, unit in (("policy", ""), ("target", ""), ("interval", " s"), ("scale_down_window", " s")):
        if key not in given:
            setting = policy.name if key == "policy" else f"{getattr(config, key):g}{unit}"
            notes.append(Assumption(f"autoscale.{key}", setting, "default", policy.source if key != "policy" else policy.about))
    return config


def start_up(request: ResolvedRequest, given: dict[str, Any], notes: list[Assumption]) -> float:
    """Return the seconds from the request for a replica until it serves: as given, or those to load its weights, all devices'
    together at one rate, and to start its engine.

    Args:
        request: the deployment of the replica.
        given: `start_up`; or `load_rate` in bytes/s and `engine_start` in seconds, where they are known.
        notes: gets what is assumed.
    """
    if "start_up" in given:
        return float(given["start_up"])
    rate, engine = given.get("load_rate", LOAD_RATE), given.get("engine_start", ENGINE_START_S)
    sizes = request.deployment
    # NB: what several devices have in common is read for each of them
    num_bytes = sum(stage.loaded_bytes for stage in request.memory.stages) * sizes.devices / sizes.pipeline_parallel_size
    seconds = float(num_bytes / rate + engine)
    why = f"{num_bytes / 1e9:.1f} GB of weights at {rate / 1e9:.3g} GB/s"
    why += " (130 GB in 84 s, arXiv:2401.14351, section 2.2)" if "load_rate" not in given else ""
    why += f", and {engine:g} s of the engine's start" + ("" if "engine_start" in given else " (assumed)")
    notes.append(Assumption("start_up", f"{seconds:.3g} s", "assumed", f"{why}; no node has to be found for it"))
    return seconds
