"""Launches of the host and kernels of the device on one axis of time: eager, with gaps, and a CUDA graph, without."""

from __future__ import annotations

from roofline import formatting
from roofline.errors import InputError
from roofline.predict.analyze import analyze
from roofline.teach.lessons.draw.canvas import Canvas, Drawing

_LEFT, _RIGHT, _TALL = 72.0, 748.0, 32.0


def timeline(kernels: list[float], launch: float, *, graph: bool) -> list[tuple[float, float]]:
    """Return when each kernel begins and ends, in seconds from the first launch.

    Args:
        kernels: seconds of each on the device.
        launch: seconds of the host for a launch; the host does not wait for kernels.
        graph: whether one launch starts all.

    >>> timeline([1, 4, 1], 2, graph=False), timeline([1, 4, 1], 2, graph=True)
    ([(2, 3), (4, 8), (8, 9)], [(2, 3), (3, 7), (7, 8)])
    """
    spans: list[tuple[float, float]] = []
    free = 0.0
    for number, seconds in enumerate(kernels):
        begin = max(free, launch if graph else (number + 1) * launch)
        free = begin + seconds
        spans.append((begin, free))
    return spans


def draw(model: str = "llama-3.2-1b", hardware: str = "h100-sxm", context: int = 512, launch: float = 10e-6) -> Drawing:
    """Draw the kernels of one layer in a decode step of one sequence.

    Args:
        model: of equal layers.
        hardware: whose estimates the kernels have.
        context: tokens before the one that is decoded.
        launch: seconds that the host takes to start a kernel, or a graph.

    Raises:
        InputError: layers of several kinds.
    """
    step = analyze(model, hardware, context=context, phase="decode").decode
    layer = [op for op in step.operators if op.path.startswith("layers/")] if step else []
    if not layer or len({op.repeat for op in layer}) > 1:
        raise InputError(f"{model}: drawn are models of equal layers")
    names = [op.path.removeprefix("layers/") for op in layer]
    kernels = [float(op.time.estimate or 0) / op.repeat for op in layer]
    plans = {"eager": timeline(kernels, launch, graph=False), "CUDA graph": timeline(kernels, launch, graph=True)}
    across = (_RIGHT - _LEFT) / max(spans[-1][1] for spans in plans.values())
    canvas = Canvas(height=364)
    ends = {}
    for top, (name, spans) in zip((16.0, 158.0), plans.items(), strict=True):
        graph = name != "eager"
        end = spans[-1][1]
        idle = end - launch - sum(kernels)
        ends[name] = end
        canvas.label(f"{name}: {formatting.quantity(end, 's', 3)}", 8, top, size=14)
        host, device = top + 20, top + 76
        canvas.label("host", _LEFT - 10, host + _TALL / 2, anchor="end", size=12)
        canvas.label("device", _LEFT - 10, device + _TALL / 2, anchor="end", size=12)
        canvas.box(_LEFT, device, end * across, _TALL, hue="grey", idle=True, dashed=True, round_=0)
        for number, (begin, finish) in enumerate(spans):
            if number == 0 or not graph:
                x = _LEFT + number * launch * across
                canvas.box(x, host, launch * across - 2, _TALL, "all" if graph else f"{number + 1}", hue="purple", size=12)
            wide = (finish - begin) * across
            canvas.box(_LEFT + begin * across, device, wide - 1, _TALL, f"{number + 1}" if wide > 15 else "", hue="green",
                       filled=True, round_=1, size=12)  # fmt: skip
            if number == 0 or not graph:
                canvas.line(
                    (_LEFT + launch * across * (number + 1) - 2, host + _TALL), (_LEFT + begin * across, device), hue="purple"
                )
        share = formatting.percent(idle / (end - launch), 0) if idle > 1e-12 else "none"
        canvas.label(f"idle between kernels: {share}", _RIGHT, top, anchor="end", size=12)
    legend = [f"{number + 1} {name}" for number, name in enumerate(names)]
    half = (len(legend) + 2) // 3
    for column in range(3):
        canvas.label("\n".join(legend[column * half : (column + 1) * half]), _LEFT + column * 226, 300, size=12)
    return canvas.drawing(
        "launch-gaps",
        "Launches from the host, eager and as a CUDA graph",
        f"Two lines each, of the host and of the device. Eager, the host takes {formatting.quantity(launch, 's', 2)} to "
        f"start each of {len(kernels)} kernels, most of which are done before the next is started: one layer takes "
        f"{formatting.quantity(ends['eager'], 's', 3)}, and the device has gaps. A graph starts them all at once: "
        f"{formatting.quantity(ends['CUDA graph'], 's', 3)}, without gaps.",
        f"One layer of {model}, one sequence after {context} tokens on {hardware}. Kernels are estimates; "
        f"{formatting.quantity(launch, 's', 2)} for a launch are an assumption, usual for a host that runs PyTorch.",
    )
