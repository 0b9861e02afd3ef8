"""Figures of every kind of series, small, with numbers that a reader can check."""

from __future__ import annotations

from roofline.report.figure import Axis, Figure, Mark, Series, Zone

_TIME = Axis(title="time", scale="linear", unit="s")
_LANES = Axis(title="", scale="category")

ROOFLINE = Figure(
    key="roofline",
    title="Roofline of a step",
    note="A dot an operator.",
    x=Axis(title="arithmetic intensity", scale="log", low=0.1, high=10_000, unit="FLOP/byte"),
    y=Axis(title="rate", scale="log", unit="FLOP/s"),
    series=(
        Series(
            name="bf16",
            kind="line",
            role="roof",
            x=(0.1, 300, 10_000),
            y=(3.3e11, 1e15, 1e15),
            along=("3.3 TB/s", "1 PFLOP/s"),
        ),
        Series(name="fp8", kind="line", role="roof", x=(0.1, 600, 10_000), y=(3.3e11, 2e15, 2e15)),
        Series(name="achievable", kind="line", role="roof-achievable", x=(0.1, 250, 10_000), y=(2.8e11, 7e14, 7e14)),
        Series(
            name="prefill",
            kind="points",
            role="prefill",
            x=(0.5, 800, 2000),
            y=(1e12, 5e14, 6e14),
            size=(0.01, 0.3, 1.0),
            labels=("norm: 1 µs", "q_proj: 30 µs", "attention: 100 µs"),
            keys=("prefill/norm", "prefill/q_proj", "prefill/attention"),
            short=("norm", "q_proj", "attention"),
        ),
        Series(
            name="decode",
            kind="points",
            role="decode",
            x=(0.5, 8),
            y=(9e11, 2e13),
            size=(0.2, 0.9),
            labels=("norm", "q_proj"),
            keys=("decode/norm", "decode/q_proj"),
            short=("norm\nrope", "q_proj"),
        ),
    ),
    marks=(Mark(text="ridge: 300 FLOP/byte", x=300, role="critical"),),
)

BUDGET = Figure(
    key="time",
    title="Where the time goes",
    note="",
    x=_TIME,
    y=_LANES,
    series=(
        Series(
            name="compute",
            kind="bars",
            role="compute",
            x=(4e-3, 1e-7),
            y=("compute", "compute"),
            base=(0, 6e-3),
            labels=("q_proj", "norm"),
            keys=("a", "b"),
            short=("q_proj", "norm"),
        ),
        Series(name="memory", kind="bars", role="memory", x=(2e-3,), y=("memory",), base=(4e-3,), labels=("attention",)),
    ),
)

MEMORY = Figure(
    key="memory",
    title="Memory of a device",
    note="",
    x=Axis(title="memory", scale="linear", unit="GiB"),
    y=_LANES,
    series=(
        Series(
            name="weights", kind="bars", role="weights", x=(15, 15), y=("A100", "L40S"), base=(0, 0), short=("15 GiB", "15 GiB")
        ),
        Series(
            name="KV cache", kind="bars", role="kv", x=(30, 30), y=("A100", "L40S"), base=(15, 15), short=("30 GiB", "30 GiB")
        ),
        Series(name="free", kind="bars", role="free", x=(27, 0), y=("A100", "L40S"), base=(45, 45), short=("27 GiB", "")),
        Series(name="capacity", kind="points", role="capacity", x=(72, 43), y=("A100", "L40S"), labels=("72 GiB", "43 GiB")),
    ),
)

BATCHES = Figure(
    key="batches",
    title="Throughput against TPOT",
    note="",
    x=Axis(title="TPOT", scale="linear", unit="s"),
    y=Axis(title="throughput", scale="linear", unit="tokens/s"),
    series=(
        Series(
            name="8 of 10",
            kind="band",
            role="estimate",
            x=(0.01, 0.02, 0.04),
            y=(100, 3000, 6000),
            low=(90, 2700, 5400),
            high=(110, 3300, 6600),
        ),
        Series(
            name="estimate",
            kind="line",
            role="estimate",
            x=(0.01, 0.02, 0.04),
            y=(100, 3000, 6000),
            labels=("batch 1", "batch 64", "batch 256"),
            keys=("1", "64", "256"),
            short=("1", "64", "256"),
        ),
        Series(name="bound", kind="line", role="bound", x=(0.008, 0.015, 0.03), y=(125, None, 8000)),
    ),
    marks=(
        Mark(text="memory is full", x=0.036, role="limit"),
        Mark(text="critical batch", x=0.035, role="critical"),
        Mark(text="goal", y=5000, role="slo"),
    ),
    zones=(Zone(text="within the SLO", role="slo", x1=0.03),),
)

HEAT = Figure(
    key="heat",
    title="TPOT by batch and context",
    note="",
    x=Axis(title="sequences", scale="category"),
    y=Axis(title="cached tokens", scale="category"),
    series=(
        Series(
            name="TPOT",
            kind="heat",
            role="estimate",
            x=(1, 8, 64),
            y=(1024, 8192),
            z=((0.005, 0.006, 0.01), (0.006, 0.02, None)),
            texts=(("5 ms\nmemory", "6 ms\nmemory", "10 ms\ncompute"), ("6 ms\nmemory", "20 ms\nmemory", "no")),
            hatched=((False, False, False), (False, False, True)),
            hatched_name="does not fit",
            keys=("a", "b", "c", "d", "e", "f"),
        ),
    ),
)

SENSITIVITY = Figure(
    key="sensitivity",
    title="What moves TPOT",
    note="",
    x=Axis(title="change of TPOT", scale="linear", unit="%"),
    y=_LANES,
    series=(
        Series(
            name="20 % less", kind="bars", role="less", x=(0.25, -0.05), y=("bandwidth", "context"), short=("+25 %", "-5 %")
        ),
        Series(
            name="20 % more", kind="bars", role="more", x=(-0.16, 0.06), y=("bandwidth", "context"), short=("-16 %", "+6 %")
        ),
    ),
)

TTFT = Figure(
    key="ttft",
    title="TTFT against the prompt",
    note="",
    x=Axis(title="prompt", scale="log", unit="tokens"),
    y=Axis(title="TTFT", scale="log", unit="s"),
    series=(
        Series(name="A100 bound", kind="line", role="bound", x=(128, 4096, 131072), y=(0.01, 0.2, 20), variant=0),
        Series(name="H200 bound", kind="line", role="bound", x=(128, 4096, 131072), y=(0.004, 0.06, 7), variant=1),
        Series(name="H200 estimate", kind="line", role="estimate", x=(128, 4096, 131072), y=(0.006, 0.09, 9), variant=1),
        Series(
            name="H200 estimate",
            kind="band",
            role="estimate",
            x=(128, 4096, 131072),
            y=(0.006, 0.09, 9),
            low=(0.005, 0.08, 8),
            high=(0.008, 0.11, 11),
            variant=1,
        ),
    ),
    marks=(Mark(text="SLO 500 ms", y=0.5, role="slo"), Mark(text="this prompt", x=4096, role="critical")),
)

STANDING = Figure(
    key="standing",
    title="Bars that stand, two a category",
    note="",
    x=Axis(title="", scale="category"),
    y=Axis(title="TTFT", scale="linear", unit="s"),
    series=(
        Series(name="bound", kind="bars", role="bound", x=("A100", "H200"), y=(0.2, 0.06), short=("200 ms", "60 ms")),
        Series(name="estimate", kind="bars", role="estimate", x=("A100", "H200"), y=(0.3, None)),
    ),
)

NOTHING = Figure(
    key="nothing",
    title="Nothing to draw",
    note="",
    x=Axis(title="time", scale="log", unit="s"),
    y=Axis(title="rate", scale="linear"),
    series=(Series(name="none", kind="line", role="bound", x=(), y=()),),
)

SAMPLES = (ROOFLINE, BUDGET, MEMORY, BATCHES, HEAT, SENSITIVITY, TTFT, STANDING, NOTHING)
