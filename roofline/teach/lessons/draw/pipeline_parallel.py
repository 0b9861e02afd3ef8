"""Pipeline stages and microbatches over time, and the bubble."""

from __future__ import annotations

from roofline import formatting
from roofline.blocks.model_files import load_model
from roofline.errors import InputError
from roofline.graph.sharding import stages as stages_of
from roofline.operators.collectives import SendRecv
from roofline.predict.timing import Pipeline
from roofline.teach.lessons.draw.canvas import Canvas, Drawing

_MOST_STAGES, _MOST_COLUMNS = 8, 24


def draw(stages: int = 4, microbatches: int = 4, model: str = "llama-3.1-70b") -> Drawing:
    """Draw equal stages that work on microbatches of prompts.

    Args:
        stages: 2 to 8.
        microbatches: that the batch is cut into.
        model: whose layers are divided.

    Raises:
        InputError: too many to draw.
    """
    columns = stages + microbatches - 1
    if not 2 <= stages <= _MOST_STAGES or microbatches < 1 or columns > _MOST_COLUMNS:
        raise InputError(f"2 to {_MOST_STAGES} stages and at most {_MOST_COLUMNS} units of time can be drawn")
    read = load_model(model)[0]
    bubble = float(Pipeline((1.0,) * stages).bubble(microbatches))
    left, row, top = 152.0, 40.0, 40.0
    wide = min((744 - left) / columns, 92.0)
    canvas = Canvas(height=top + stages * row + 78)
    canvas.label("time: one column is one microbatch in one stage", left, 16, size=12, hue="grey")
    first = 0
    for number, part in enumerate(stages_of(read, stages)):
        count = sum(layers for _, layers in part.layers)
        y = top + number * row
        canvas.label(f"stage {number}", 8, y + row / 2 - 3, size=12, strong=True)
        canvas.label(f"layers {first}–{first + count - 1}", 60, y + row / 2 - 3, size=11, hue="grey")
        first += count
        for column in range(columns):
            micro = column - number
            works = 0 <= micro < microbatches
            canvas.box(
                left + column * wide,
                y,
                wide - 3,
                row - 6,
                str(micro + 1) if works else "",
                hue="blue",
                filled=works,
                empty=not works,
                dashed=not works,
                size=12,
            )
    bottom = top + stages * row
    if microbatches >= stages:  # else some stage waits at both ends at once
        end = left + (stages - 1) * wide - 3
        canvas.brace((left, bottom), (end, bottom), f"fill: {stages - 1}", hue="grey")
        canvas.brace(
            (left + microbatches * wide, bottom), (left + columns * wide - 3, bottom), f"drain: {stages - 1}", hue="grey"
        )
    sent = SendRecv(elements=read.hidden_size).cost().link_bytes
    canvas.label(
        f"Bubble: each stage is idle for {stages - 1} of {columns} columns, (p - 1)/(m + p - 1) = {formatting.percent(bubble)}",
        8,
        bottom + 44,
    )
    canvas.label(
        f"Between two stages: the vector of each token, {formatting.quantity(sent, 'B', 3)} of {read.title}, once",
        8,
        bottom + 66,
        size=12,
        hue="grey",
    )
    return canvas.drawing(
        f"pipeline-parallel-{stages}-{microbatches}",
        f"A pipeline of {stages} stages, {formatting.plural(microbatches, 'microbatch').replace('batchs', 'batches')}",
        f"{stages} stages as rows, time as columns. Microbatch after microbatch enters the first stage and passes "
        "the others, one "
        f"column later each. Every stage is idle for {stages - 1} of {columns} columns, {formatting.percent(bubble)}.",
    )
