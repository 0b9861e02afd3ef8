"""The command that sweeps the same again."""

from __future__ import annotations

from typing import Any

from roofline.predict.engine_command import shell_line
from roofline.predict.sweeps.spec import PLAIN, THROUGH
from roofline.report.sweep.swept import Swept, written

_MOST = 60
"""Values that a line can have and still be read."""


def command(swept: Swept) -> str:
    """The line; "" where none says it: too many values, or a default among others, which has no name."""
    described = swept.described
    if described is None or any(None in values for values in swept.grid.values()):
        return ""
    values = {name: [written(value).replace(",", "") for value in values] for name, values in swept.grid.items()}
    if sum(map(len, values.values())) > _MOST:
        return ""
    line = ["roofline", "sweep", *values.pop("model", [])]
    for name, listed in values.items():
        line += [f"--{name.replace('_', '-')}", ",".join(listed)]
    reduced: dict[str, Any] = described.get("reduce") or {}
    columns = [name for name in described.get("columns", ()) if not reduced or name in (*PLAIN, *THROUGH)]
    if columns and not set(PLAIN) <= set(columns):
        line += ["--columns", ",".join(columns)]
    if reduced:
        line += ["--reduce", str(reduced.get("rule"))]
        for goal in reduced.get("objectives", ()):
            line += ["--objective", str(goal)]
        line += ["--by", ",".join(reduced["by"])] if reduced.get("by") else []
        for phase, flag in (("prefill_s", "--ttft"), ("decode_s", "--tpot")):
            if phase in reduced.get("limits", {}):
                line += [flag, f"{reduced['limits'][phase] * 1e3:.12g} ms"]
    line += ["--ignore-capacity"] if described.get("ignore_capacity") else []
    return shell_line(tuple(line))
