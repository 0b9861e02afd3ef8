"""The calculator of a claim: its state, which the controls set, and the view of it. Translated to JavaScript."""

from __future__ import annotations

from typing import Any

from roofline.audit.claims.claim import Claim, Statement
from roofline.audit.claims.judge import judge_statement
from roofline.predict.engine_command import shell_line
from roofline.report import claim_page
from roofline.report.analysis.view import WEIGHTS
from roofline.report.figure import View

Values = dict[str, Any]
"""What the controls hold, by key: the claimed `kind` with its value, model, hardware, batch, lengths, formats, sizes."""

KINDS = {
    "tokens_per_s": ("Tokens/s", "tok/s", 1.0),
    "tpot": ("TPOT", "ms", 1e-3),
    "ttft": ("TTFT", "ms", 1e-3),
    "peak_flops": ("Peak", "TFLOP/s", 1e12),
    "fits": ("It fits", "", 1.0),
}
"""Kinds of claims: label, unit of the control, and that unit in base units."""
SCOPES = {"total": "", "user": "--per-user", "gpu": "--per-gpu"}
"""Whose tokens a rate counts, with the flag that says so."""
SIZES = ("tp", "pp", "dp", "ep")
LENGTHS = ("batch", "context", "input_len")


def view(values: Values) -> View:
    """Everything that the page shows of a state."""
    line = in_terminal(values)
    judged = judge_statement(statement(values))
    return claim_page.view(judged, None, line)


def statement(values: Values) -> Statement:
    """The claim that a state makes; what is 0 or "" is left open."""
    kind = values["kind"]
    claimed = None if kind == "fits" else values[kind] * KINDS[kind][2]
    rate = kind == "tokens_per_s"
    option, dtype = WEIGHTS[values["weights"]] if values["weights"] else ("", "")
    return Statement(
        claims=(
            Claim(
                kind=kind,
                value=claimed,
                scope=values["scope"] if rate else "total",
                phase=values["phase"] if rate else "decode",
            ),
        ),
        model=values["model"],
        hardware=values["hardware"],
        batch=int(values["batch"]) or None,
        context=int(values["context"]) or None,
        input_len=int(values["input_len"]) or None,
        dtype=dtype if option == "dtype" else None,
        quantization=dtype if option == "quantization" else None,
        kv_cache_dtype=values["kv"] or None,
        tp=int(values["tp"]) or None,
        pp=int(values["pp"]) or None,
        dp=int(values["dp"]) or None,
        ep=int(values["ep"]) or None,
    )


def in_terminal(values: Values) -> str:
    """The command that judges the same claim."""
    kind = values["kind"]
    line = ["roofline", "claim", str(values["model"]), "--hardware", str(values["hardware"])]
    if kind == "fits":
        line.append("--fits")
    else:
        number = f"{values[kind]:.10g}"
        unit = KINDS[kind][1]
        line += [f"--{kind.replace('_', '-')}", number if kind == "tokens_per_s" else f"{number} {unit}"]
    if kind == "tokens_per_s":
        line += [SCOPES[values["scope"]]] if SCOPES[values["scope"]] else []
        line += ["--phase", "prefill"] if values["phase"] == "prefill" else []
    for name in LENGTHS:
        line += [f"--{name.replace('_', '-')}", str(int(values[name]))] if values[name] else []
    if values["weights"]:
        option, dtype = WEIGHTS[values["weights"]]
        line += [f"--{option}", dtype]
    line += ["--kv-cache-dtype", str(values["kv"])] if values["kv"] else []
    for name in SIZES:
        line += [f"--{name}", str(int(values[name]))] if int(values[name]) else []
    return shell_line(tuple(line))
