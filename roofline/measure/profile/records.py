"""Records of measurements out of a profile: one for each operator whose shape is known, as `bench` writes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from roofline.formatting import plural
from roofline.measure.profile.trace import ACTIVITIES
from roofline.measure.records.columns import COLUMNS
from roofline.measure.records.ops import RECORD_OPS
from roofline.specs.kernel_rules import COLLECTIVES

if TYPE_CHECKING:
    from roofline.measure.profile.profile import Profile
    from roofline.measure.profile.rules import Rules

SOURCE = "profile"


def records_of(result: Profile, rules: Rules) -> list[dict[str, str]]:
    """Records of a profile's operators, cells as text by column.

    A record is the median over the calls of one operator with one shape; the time of a call is that of its kernels.

    Args:
        result: of a trace with shapes.
        rules: of host operators.

    Returns:
        Records in the order in which their operators first ran; none of kernels whose shapes the trace does not have.
    """
    kernels = result.trace.kernels
    calls: dict[tuple[int, int], list[int]] = defaultdict(list)
    for at, identity in enumerate(result.identities):
        if identity is None or kernels.operator[at] < 0:
            continue
        # kernels without a known call are calls of their own, and so is each operator of a run on the CPU
        own = kernels.call[at] < 0 or ACTIVITIES[kernels.activity[at]] == "cpu"
        call = -2 - at if own else kernels.call[at]
        calls[kernels.operator[at], call].append(at)
    samples: dict[tuple[tuple[str, str], ...], list[float]] = defaultdict(list)
    names: dict[tuple[tuple[str, str], ...], str] = {}
    for (operator, _), members in calls.items():
        host = kernels.operators[operator]
        rule = rules.operator_rule(host.name)
        main = max(members, key=lambda at: kernels.duration_s[at])
        identity = result.identities[main]
        if rule is None or identity is None or identity.kind != rule.kind:
            continue
        if rule.kind in COLLECTIVES:
            moved, world = kernels.bytes[main], kernels.world[main]
            record = {"op": rule.kind, "dtype": "bf16", "bytes": int(moved), "world": world} if moved > 0 and world > 1 else {}
        else:
            record = dict(rules.record(host) or {})
            if identity.dtype and "op" in record:
                record.setdefault("dtype", identity.dtype)
        op = RECORD_OPS.get(str(record.get("op", "")))
        if op is None or not record.get("dtype") or any(name not in record for name in op.needs):
            continue
        columns = tuple((name, str(value)) for name, value in record.items() if name in COLUMNS)
        samples[columns].append(sum(kernels.duration_s[at] for at in members))
        names.setdefault(columns, kernels.names[kernels.name[main]])
    engine = _engine([operator.name for operator in kernels.operators])
    device = next((name for name in result.trace.device_names if name), "")
    gpu = result.hardware.accelerator.name if result.hardware is not None else device
    common = {"source": SOURCE, "gpu": gpu, "backend": engine}
    name = result.trace.path.name
    return [_record(columns, times, names[columns], common, name) for columns, times in samples.items()]


def _engine(operators: Sequence[str]) -> str:
    """Whose kernels a run's are, by the libraries of its operators; "torch" of plain PyTorch."""
    libraries = {name.partition("::")[0] for name in operators}
    return next((engine for engine, names in _ENGINES.items() if libraries & names), "torch")


_ENGINES = {
    "sglang": {"sgl_kernel", "sglang"},
    "trtllm": {"trtllm", "tensorrt_llm"},
    "vllm": {"vllm", "_C", "_C_cache_ops", "_moe_C"},
}


def _record(
    columns: tuple[tuple[str, str], ...], times: list[float], kernel: str, common: dict[str, str], name: str
) -> dict[str, str]:
    ordered = sorted(times)
    low, middle, high = (_quantile(ordered, share) * 1e6 for share in (0.1, 0.5, 0.9))
    return {
        **dict.fromkeys(COLUMNS, ""),
        **common,
        **dict(columns),
        "latency_us": f"{middle:.4g}",
        "latency_p10_us": f"{low:.4g}",
        "latency_p90_us": f"{high:.4g}",
        "kernel": kernel[:120],
        "notes": f"{plural(len(times), 'call')} in the profile {name}",
    }


def _quantile(ordered: list[float], share: float) -> float:
    """A quantile of sorted values, linear between them."""
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)
