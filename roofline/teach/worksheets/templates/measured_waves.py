"""Tiles and waves: what a product loses to the edges of its tiles and to the last wave."""

from __future__ import annotations

from roofline.numeric import ceil_div
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "l40s")
_MODELS = ("llama-3.1-8b", "qwen2.5-7b", "mistral-nemo-12b", "qwen3-32b", "llama-3.1-70b")
_TILES = ((128, 128), (128, 256), (64, 128))


def draw(rng: Rng) -> Problem | None:
    """An output projection by some tokens, a tile, and the SMs that the tiles are dealt to."""
    name, card, (height, width) = rng.choice(_MODELS), rng.choice(_CARDS), rng.choice(_TILES)
    tokens, outputs = rng.integer(300, 3000, 50), facts.model(name).hidden_size
    units = facts.hardware(card).accelerator.compute_units
    if units is None:
        return None
    sms = int(units.value)
    along, across = ceil_div(tokens, height), ceil_div(outputs, width)
    tiles = along * across
    waves, last = ceil_div(tiles, sms), tiles % sms
    if tiles <= sms or last == 0 or tokens % height == 0:
        return None
    places = waves * sms * height * width
    share = tokens * outputs / places
    mistakes = (
        Mistake(
            name="full tiles",
            value=tiles / (waves * sms),
            hint="You took every tile for full. The last row of tiles reaches below the last token.",
        ),
        Mistake(
            name="full waves",
            value=tokens * outputs / (tiles * height * width),
            hint="That is what the edges of the tiles lose. In the last wave some SMs have no tile at all.",
        ),
        Mistake(
            name="last wave alone",
            value=last / sms,
            hint="That is how many SMs have a tile in the last wave. The answer is the share over all waves.",
        ),
        Mistake(
            name="rounded down",
            value=tokens * outputs / (places - sms * height * width),
            hint="You left out the last wave. It is not full, and takes as long as the others.",
        ),
    )
    return Problem(
        title="Waves of tiles",
        text=(
            f"The output projection of {facts.title(name)} gives {outputs:,} outputs for each of {tokens:,} tokens. The kernel "
            f"cuts this matrix of outputs into tiles of {height} tokens by {width} outputs and deals them to the {sms} SMs of "
            f"an {facts.card(card)}, one tile at a time each. All tiles take the same time, also those that are not full, so "
            "that the tiles pass in waves. Of the outputs that all SMs could have computed in these waves, what share is "
            "wanted?"
        ),
        answer=Answer(value=share, kind="share"),
        mistakes=mistakes,
        solution=(
            (
                f"Tokens take {tokens:,} / {height}, rounded up {along} rows of tiles, outputs {outputs:,} / {width}, "
                f"rounded up "
                f"{across} columns: {along} x {across} = {tiles:,} tiles. On {sms} SMs they are {tiles:,} / {sms}, "
                f"rounded up "
                f"{waves} waves, of which the last has {last} tiles."
            ),
            worked.formula(
                "Outputs that are wanted, over those of full tiles on all SMs in all waves:",
                "T * d_model / (n_wave * n_SM * h * w_tile)",
                {
                    "T": (tokens, ""),
                    "d_model": (outputs, ""),
                    "n_wave": (waves, "waves"),
                    "n_SM": (sms, "SMs"),
                    "h": (height, "tokens of a tile"),
                    "w_tile": (width, "outputs of a tile"),
                },
                "1",
            ),
        ),
        source='NVIDIA, "Matrix Multiplication Background User\'s Guide", tile and wave quantization',
    )


TEMPLATE = Template(id="measured-waves", topic="measured", minutes=6, draw=draw)
