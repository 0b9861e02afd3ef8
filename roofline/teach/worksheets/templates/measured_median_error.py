"""How far predictions are off: the median of five."""

from __future__ import annotations

from roofline.measure.validate import errors
from roofline.teach.quantities import format_answer
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_POINTS = 5
_LEAST, _MOST = 3, 45  # percent that a prediction is off


def draw(rng: Rng) -> Problem | None:
    """Five kernels with measured and predicted times, too long and too short ones among them."""
    import pandas as pd

    measured = [rng.integer(40, 900, 5) for _ in range(_POINTS)]
    predicted = [round(time * (1 + rng.choice((-1, 1)) * rng.integer(_LEAST, _MOST) / 100)) for time in measured]
    signed = [guess / time - 1 for guess, time in zip(predicted, measured, strict=True)]
    metrics = errors(pd.DataFrame({"bound_s": predicted, "measured_s": measured}))
    right, mean, bias = metrics["median_ape"], metrics["mape"], metrics["bias"]
    if right is None or mean is None or bias is None or right < 0.04:
        return None
    of_guess = sorted(abs(time / guess - 1) for guess, time in zip(predicted, measured, strict=True))[_POINTS // 2]
    total = abs(sum(predicted) / sum(measured) - 1)
    mistakes = (
        Mistake(name="mean", value=mean, hint="That is the mean. The median is the one in the middle, in the order of size."),
        Mistake(
            name="relative to the prediction",
            value=of_guess,
            hint="You divided by the prediction. The measured value is the reference, and errors are shares of it.",
        ),
        Mistake(
            name="signs left in",
            value=abs(bias),
            hint="You left the signs in, so that too long and too short cancel: that is the bias. Take absolute values first.",
        ),
        Mistake(
            name="of the sums",
            value=total,
            hint="You compared the sums. There errors cancel, and long kernels count for more.",
        ),
        Mistake(
            name="not sorted",
            value=abs(signed[_POINTS // 2]),
            hint="That is the third in the order of the list. Sort the errors by size first.",
        ),
    )
    rows = "\n".join(
        f"* kernel {number}: predicted {guess}, measured {time}"
        for number, (guess, time) in enumerate(zip(predicted, measured, strict=True), 1)
    )
    return Problem(
        title="The median error",
        text=(
            "Five kernels were predicted, and then measured (microseconds):\n\n"
            f"{rows}\n\n"
            "What is the median absolute error, in percent of what was measured?"
        ),
        answer=Answer(value=right, kind="share"),
        # where the middle one of the list is the middle one by size there is nothing to sort
        mistakes=tuple(one for one in mistakes if abs(one.value - right) > 1e-12 or one.name == "mean"),
        solution=(
            "Predicted over measured, less one: " + ", ".join(f"{error * 100:+.1f} %" for error in signed) + ".",
            (
                "Without signs, in the order of size: "
                + ", ".join(f"{abs(error) * 100:.1f} %" for error in sorted(signed, key=abs))
                + f". The third of five is the median: {format_answer(right, 'share')}."
            ),
        ),
        source="docs/accuracy.md",
    )


TEMPLATE = Template(id="measured-median-error", topic="measured", minutes=5, draw=draw)
