"""A small view made by hand, and the controls that go with it: what the page itself is tested with.

`standin.js` makes the same view in the browser. The numbers mean nothing; they follow the controls.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from roofline.report.controls import Choice, Control, Value
from roofline.report.figure import Axis, Cell, Column, Command, Figure, Gauge, Part, Section, Series, Table, Tile, View
from roofline.report.page import live_page

SCRIPT = Path(__file__).with_suffix(".js")
NAME = "Llama 3.1 8B"
REPRODUCE = "roofline report llama-3.1-8b --hardware a100-sxm-80gb -o report.html"
OPERATORS = ("q_proj", "k_proj", "attention", "up_proj", "down_proj")
_TOKENS = (512, 1024, 4096)

CONTROLS = (
    Control(
        key="batch", label="Batch", kind="number", value=8, low=1, high=4096, step=1, log=True, unit="sequences",
        group="Workload", help="Sequences in one step.",
    ),
    Control(
        key="input_len", label="Prompt", kind="number", value=2048, low=1, high=131072, step=1, log=True, unit="tokens",
        group="Workload",
    ),
    Control(
        key="weights", label="Weights", kind="choice", value="bf16", group="Deployment",
        choices=(Choice(value="bf16", text="bf16"), Choice(value="fp8", text="fp8 (e4m3)")),
    ),
    Control(key="measured", label="Fitted efficiencies", kind="switch", value=True, group="Deployment"),
    Control(
        key="hardware", label="Hardware", kind="choice", value="a100", group="Hardware",
        choices=(Choice(value="a100", text="A100 SXM 80 GB"), Choice(value="own", text="Typed numbers")),
    ),
    Control(
        key="bandwidth", label="Bandwidth", kind="number", value=2.04, low=0.01, high=20, step=0.01, unit="TB/s",
        group="Hardware", needs=("hardware", "own"),
    ),
    Control(key="title", label="Note", kind="text", value="", group="Hardware", help="Stands in the title."),
)  # fmt: skip

FIRST: dict[str, Value] = {control.key: control.value for control in CONTROLS}


def made(name: str = NAME, copies: int = 1) -> str:
    """The page of the stand-in, about a model of that name, with its formulas a number of times."""
    formulas = "".join(
        f'<details id="op-{operator}{copy or ""}"><summary>{operator}</summary>'
        "<math><mi>F</mi><mo>=</mo><mn>2</mn><mi>n</mi><mi>k</mi></math></details>\n"
        for copy in range(copies)
        for operator in OPERATORS
    )
    return live_page(view(FIRST, name), CONTROLS, SCRIPT.read_text(encoding="utf-8"), {"name": name}, REPRODUCE, formulas)


def view(state: dict[str, Any], name: str = NAME) -> View:
    """What the page shows of a state."""
    batch, prompt = state["batch"], state["input_len"]
    fits = batch * prompt <= 1 << 20
    note = f", {state['title']}" if state["title"] else ""
    serve = f"vllm serve meta-llama/Llama-3.1-8B --max-num-seqs {batch} --max-model-len {prompt}"
    points = [(index + 1) * batch for index in range(len(OPERATORS))]
    times = [(index + 1) * prompt / 1024 for index in range(len(OPERATORS))]
    return View(
        title=f"{name} on A100 SXM 80 GB{note}",
        subtitle=f"8.03 B parameters · 32 layers · {state['weights']} weights · vLLM 0.19",
        answer=(
            f"{'Fits' if fits else 'Does not fit'}: {batch} sequences of {prompt} tokens.",
            "A decode step is bound by memory: weights cross the memory bus, 2 FLOP/byte against a ridge of 153.",
        ),
        fits=fits,
        error="",
        tiles=(
            Tile(
                label="Tokens", meaning="in a step", cell=_count(batch * prompt), note="batch times prompt",
                gauge=Gauge(role="tpot", low=0.3, high=0.7, value=0.1 + 0.2, bound=batch / 8192),
            ),
            Tile(
                label="Batch", cell=_count(batch), note="",
                parts=(
                    Part(name="weights", role="weights", start=0, length=0.25),
                    Part(name="KV", role="kv", start=0.25, length=0.1),
                ),
            ),
            Tile(label="Bound by", cell=Cell(text="memory" if batch < 153 else "compute"), note="decode"),
            Tile(label="Half a prompt", cell=Cell(text=f"{prompt // 2} tokens", value=prompt / 2), note="8 of 10 measurements"),
        ),
        commands=(Command(label="vLLM", text=serve),),
        sections=(
            Section(
                key="roofline",
                title="Roofline",
                note="A point is an operator.",
                figure=_roofline(points),
                tables=(_wide(batch),),
            ),
            Section(key="time", title="Time", note="", figure=_bars(times), tables=(), half=True),
            Section(key="grid", title="Batch by prompt", note="Hatched: does not fit.", figure=_heat(batch, prompt), tables=()),
            Section(key="inputs", title="Inputs", note="", figure=None, tables=(_inputs(name, state),), folded=True),
        ),
        assumptions=Table(
            key="assumptions",
            title="What was assumed",
            note="given: by you; default: by the program",
            columns=(Column(name="what", number=False), Column(name="value", number=True), Column(name="by", number=False)),
            rows=(
                (Cell(text="block size"), _count(16), Cell(text="default")),
                (Cell(text="batch"), _count(batch), Cell(text="given")),
            ),
        ),
        not_modelled=("The time of the host between steps.", "Sampling other than greedy."),
        verdict=f"{batch} sequences of {prompt} tokens {'fit' if fits else 'do not fit'}.",
    )  # fmt: skip


def _count(value: float) -> Cell:
    return Cell(text=f"{value:.0f}", value=value)


def _roofline(points: list[float]) -> Figure:
    def series(name: str, role: str, by: float) -> Series:
        return Series(
            name=name,
            kind="points",
            role=role,
            x=tuple(point * by for point in points),
            y=tuple(point * by * 2e10 for point in points),
            size=tuple((index + 1) / len(points) for index in range(len(points))),
            labels=tuple(
                f"{operator}, {name}: {point * by:.0f} FLOP/byte" for operator, point in zip(OPERATORS, points, strict=True)
            ),
            keys=OPERATORS,
        )

    rows = tuple(
        (Cell(text=operator), _count(point), _count(point * 4)) for operator, point in zip(OPERATORS, points, strict=True)
    )
    columns = (Column(name="operator", number=False), Column(name="decode, FLOP/byte", number=True))
    return Figure(
        key="roofline",
        title="Attainable FLOP/s by intensity",
        note="Area: share of the time.",
        x=Axis(title="arithmetic intensity", scale="log", unit="FLOP/byte"),
        y=Axis(title="rate", scale="log", unit="FLOP/s"),
        series=(
            Series(name="bf16", kind="line", role="roof", x=(1.0, 153.0, 10000.0), y=(2.04e10, 312e10, 312e10)),
            series("decode", "decode", 1),
            series("prefill", "prefill", 4),
        ),
        table=Table(
            key="points",
            title="Intensity by operator",
            note="",
            columns=(*columns, Column(name="prefill, FLOP/byte", number=True)),
            rows=rows,
        ),
    )  # fmt: skip


def _bars(times: list[float]) -> Figure:
    starts = [sum(times[:index]) for index in range(len(times))]
    labels = tuple(f"{operator}: {time:.3f} ms" for operator, time in zip(OPERATORS, times, strict=True))
    return Figure(
        key="time",
        title="Where the time goes",
        note="One operator after the other.",
        x=Axis(title="time", scale="linear", low=0.0, unit="s"),
        y=Axis(title="", scale="category"),
        series=(
            Series(
                name="memory", kind="bars", role="memory", x=tuple(time / 1e3 for time in times), y=OPERATORS,
                base=tuple(start / 1e3 for start in starts), labels=labels, keys=OPERATORS,
            ),
        ),
        table=Table(
            key="times",
            title="Time by operator",
            note="",
            columns=(Column(name="operator", number=False), Column(name="time, ms", number=True)),
            rows=tuple(
                (Cell(text=operator), Cell(text=f"{time:.3f}", value=time / 1e3))
                for operator, time in zip(OPERATORS, times, strict=True)
            ),
        ),
    )  # fmt: skip


def _heat(batch: int, prompt: int) -> Figure:
    batches = (1, batch + 1, 4 * batch)
    z = tuple(tuple(float(count * tokens + prompt) for tokens in _TOKENS) for count in batches)
    hatched = tuple(tuple(value > 1 << 20 for value in row) for row in z)
    texts = tuple(tuple(f"{value:.0f}" for value in row) for row in z)
    columns = (Column(name="batch", number=True), *(Column(name=f"{tokens} tokens", number=True) for tokens in _TOKENS))
    return Figure(
        key="grid",
        title="Tokens by batch and prompt",
        note="",
        x=Axis(title="prompt", scale="category"),
        y=Axis(title="batch", scale="category"),
        series=(
            Series(
                name="tokens", kind="heat", role="estimate", x=tuple(map(str, _TOKENS)), y=tuple(map(str, batches)),
                z=z, texts=texts, hatched=hatched, hatched_name="does not fit",
            ),
        ),
        table=Table(
            key="tokens",
            title="Tokens, batch by prompt",
            note="",
            columns=columns,
            rows=tuple(
                (_count(count), *(Cell(text=text, value=value) for text, value in zip(*cells, strict=True)))
                for count, *cells in zip(batches, texts, z, strict=True)
            ),
        ),
    )  # fmt: skip


def _wide(batch: int) -> Table:
    columns = tuple(Column(name=f"a column of numbers, {index}", number=True) for index in range(12))
    return Table(
        key="wide",
        title="A wide table",
        note="It scrolls in a box of its own.",
        columns=(Column(name="operator", number=False), *columns),
        rows=tuple(
            (Cell(text=operator), *(_count((row + 1) * (index + 1) * batch * 1000) for index in range(12)))
            for row, operator in enumerate(OPERATORS)
        ),
    )


def _inputs(name: str, state: dict[str, Any]) -> Table:
    return Table(
        key="inputs",
        title="What went in",
        note="",
        columns=(Column(name="input", number=False), Column(name="value", number=False)),
        rows=(
            (Cell(text="model"), Cell(text=name)),
            (Cell(text="weights"), Cell(text=state["weights"])),
            (Cell(text="efficiencies"), Cell(text="fitted" if state["measured"] else "none")),
        ),
    )
