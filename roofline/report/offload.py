"""A model on a GPU and its host, in words."""

from __future__ import annotations

from roofline import formatting
from roofline.predict.duration import Duration
from roofline.predict.offload import Offload, Side, SplitPhase
from roofline.text import Answer, Table


def offload_answer(result: Offload) -> Answer:
    """Return the result as one screen of text: memory and times of both sides."""
    layers = result.gpu.layers + result.host.layers
    short = [side.title for side in (result.gpu, result.host) if not side.fits]
    verdict = f"Does not fit: {' and '.join(short)}." if short else "Fits on both."
    copied = [phase.name for phase in result.phases if phase.copied]
    notes = [
        (
            "Split",
            "the last layers and the LM head are on the GPU; the embedding stays on the host; caches are with their layers",
        )
    ]
    if copied:
        notes.append(("Copied", f"in {' and '.join(copied)} the host's weights go over the link and are multiplied on the GPU"))
    return Answer(
        title=f"{result.model} on {result.gpu.title} and {result.host.title}",
        settings=f"{result.gpu.layers} of {layers} layers on the GPU · {result.engine.replace('@', ' ')}"
        f" · batch {result.batch:,} · context {result.context:,}",
        verdict=verdict,
        passed=result.fits,
        parts=(_memory(result), _times(result)),
        notes=tuple(notes),
    )


def _memory(result: Offload) -> Table:
    rows = tuple(_row(name, side) for name, side in (("GPU", result.gpu), ("host", result.host)))
    columns = ("", "layers", "weights", "KV cache", "activations", "available")
    return Table("", "", columns, (False, *([True] * 5)), rows)


def _row(name: str, side: Side) -> tuple[str, ...]:
    sizes = (side.weights_bytes, side.kv_bytes, side.activation_bytes, side.usable_bytes)
    return (name, str(side.layers), *(formatting.binary(size) for size in sizes))


def _times(result: Offload) -> Table:
    columns = ("", "estimate", "80 % interval", "bound", "GPU", "host", "link")
    return Table("", "", columns, (False, *([True] * 6)), tuple(_phase(phase) for phase in result.phases))


def _phase(phase: SplitPhase) -> tuple[str, ...]:
    name = {"prefill": "TTFT", "decode": "TPOT"}.get(phase.name, phase.name)
    whole = phase.whole
    estimate = "" if whole.estimate is None else formatting.about(whole.estimate)
    between = "" if whole.low is None or whole.high is None else formatting.about_range(whole.low, whole.high)
    bound, link = formatting.seconds(whole.bound), formatting.seconds(phase.link_s)
    return (name, estimate, between, bound, _best(phase.gpu), _best(phase.host), link)


def _best(time: Duration) -> str:
    return formatting.seconds(time.bound) if time.estimate is None else formatting.about(time.estimate)
