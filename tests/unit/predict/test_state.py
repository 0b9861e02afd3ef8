"""Recurrent state in the memory of a device: every sequence has it, however long it is."""

from __future__ import annotations

import pytest

import roofline
from roofline.blocks.base import BlockContext, MixerBlock, Operators, State
from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.dtypes import FORMATS
from roofline.operators.causal_conv import CausalConv
from roofline.predict.explain.explain import explain
from roofline.predict.floor import floor_parts
from roofline.predict.memory import StageMemory
from roofline.predict.request import prepare
from roofline.specs.library import load_hardware
from roofline.specs.workload import decode

CONV, KERNEL, RECURRENT = 6144, 4, 131_072
HF_LAYER = CONV * KERNEL * 2 + RECURRENT * 4  # every column at 2 bytes, state at 4
ENGINE_LAYER = CONV * (KERNEL - 1) * 2 + RECURRENT * 4  # the column before the oldest is let go
LLAMA_LAYER = 2 * 8 * 128 * 2  # K and V, KV heads, head_dim, bytes: of each token
# Beside attention a state is padded to a page, a block of attention, which is the smallest multiple of 16 tokens that holds it.
BLOCK = 144  # 561,152 / 4096 = 137 tokens
PAGE = BLOCK * LLAMA_LAYER


class Remembers(MixerBlock):
    """A mixer that keeps a state and does nothing."""

    kind: str = "remembers"  # no literal, so that no model's file can ask for it

    def operators(self, site: BlockContext) -> Operators:
        """None."""
        return {}

    def state(self) -> State:
        """As declared above."""
        return State(conv=CONV, conv_kernel=KERNEL, recurrent=RECURRENT)


def _hybrid(attention: int, recurrent: int, **changes: object) -> Model:
    """Llama 3.1 8B with layers whose mixer is recurrent instead of some, or of all."""
    llama = load_model("llama-3.1-8b")[0]
    (layer,) = llama.layer_types.values()
    types = {"full": layer, "recurrent": layer.model_copy(update={"mixer": Remembers()})}
    counts = {"full": attention, "recurrent": recurrent}
    group = llama.layers[0]
    return llama.model_copy(
        update={
            "layer_types": {name: types[name] for name, count in counts.items() if count},
            "layers": tuple(
                group.model_copy(update={"pattern": (name,), "repeat": count}) for name, count in counts.items() if count
            ),
            "state_dtype": "fp32",
            **changes,
        }
    )


def _memory(model: Model, **options: object) -> StageMemory:
    return prepare(model, "h100-sxm", **options).memory.fullest_stage


def test_two_answers() -> None:
    """24 layers of state beside 8 of cache: the layout of Hugging Face's cache, and what an engine allocates."""
    found = roofline.analyze(_hybrid(8, 24), "h100-sxm").memory
    assert found.state_bytes_per_sequence == {"mathematical": 24 * HF_LAYER, "allocated": 24 * PAGE}
    assert found.kv_bytes_per_token == 8 * LLAMA_LAYER


def test_none_without_recurrent_layers() -> None:
    """A transformer keeps tokens alone."""
    assert roofline.analyze("llama-3.1-8b", "h100-sxm").memory.state_bytes_per_sequence == {"mathematical": 0, "allocated": 0}


@pytest.mark.parametrize("length", [1, 4096, 100_000])
def test_needed_once_a_sequence(length: int) -> None:
    """A step holds the blocks of its tokens, and a state a sequence whatever their length."""
    memory = _memory(_hybrid(8, 24))
    blocks = -(-length // BLOCK)
    assert memory.needed_bytes(decode(5, length - 1)) == 5 * (8 * blocks + 24) * PAGE


def test_dtype_of_the_state() -> None:
    """The model's file, the flag or the engine says what recurrent state is kept in; convolutions keep activations."""
    asked = _memory(_hybrid(0, 32, state_dtype="bf16"))
    assert asked.state_bytes(allocated=True) == 32 * (CONV * (KERNEL - 1) + RECURRENT) * 2
    assert asked.state_bytes(allocated=False) == 32 * (CONV * KERNEL * 2 + RECURRENT * 4)  # as transformers keeps it
    flag = _memory(_hybrid(0, 32), mamba_ssm_cache_dtype="bf16")
    assert flag.state_bytes(allocated=False) == 32 * (CONV * KERNEL + RECURRENT) * 2
    engine = _memory(_hybrid(0, 32, state_dtype=None))  # vLLM: as the activations
    assert engine.state_bytes(allocated=True) == 32 * (CONV * (KERNEL - 1) + RECURRENT) * 2
    assert engine.precision.state is FORMATS["bf16"]


@pytest.mark.parametrize(("attention", "recurrent"), [(8, 24), (0, 32)])
def test_max_batch_is_where_the_next_does_not_fit(attention: int, recurrent: int) -> None:
    """Found by search; one sequence more does not fit."""
    memory = _memory(_hybrid(attention, recurrent))
    most = memory.max_batch(4095)
    assert memory.fits(decode(most, 4095))
    assert not memory.fits(decode(most + 1, 4095))
    blocks = -(-4096 // BLOCK)
    each = (blocks * attention + recurrent) * PAGE if attention else recurrent * ENGINE_LAYER
    assert most == pytest.approx(memory.usable_bytes(decode(1, 4095)) / each, rel=0.02)  # less a bit for activations


def test_max_context() -> None:
    """The states of the batch leave less for the cache; without a cache memory sets no limit."""
    memory = _memory(_hybrid(8, 24))
    longest = memory.max_context(4)
    assert longest is not None
    assert memory.fits(decode(4, longest))
    assert not memory.fits(decode(4, longest + 1))
    assert _memory(_hybrid(0, 32)).max_context(4) is None


def test_capacity_in_tokens_counts_the_states() -> None:
    """As many tokens as sequences of this length, each with its state, hold."""
    memory = roofline.analyze(_hybrid(8, 24), "h100-sxm", context=4095, phase="decode").memory
    each = (-(-4096 // BLOCK) * 8 + 24) * PAGE
    assert memory.kv_capacity_tokens == int(memory.usable_bytes / each * 4096)


def test_explained() -> None:
    """The formula has the state's pages in it, and its value is what the search finds; explain checks that itself."""
    found = explain(_hybrid(8, 24), "max_batch", "h100-sxm", context=4095)
    assert "R_s" in found.formula
    assert found.value


def test_pipeline_divides_layers() -> None:
    """A stage has the states of its own layers: here all 24 stand before the 8 that keep a cache."""
    model = _hybrid(8, 24)
    stages = prepare(model.model_copy(update={"layers": model.layers[::-1]}), "dgx-h100", pp=4).memory.stages
    assert [stage.state_bytes(allocated=True) for stage in stages] == [8 * ENGINE_LAYER, 8 * ENGINE_LAYER, 0]


def test_a_floor_has_states_in_and_out() -> None:
    """Two sequences of which one goes on: 8 channels by 3 columns of 2 B are read once and written twice; 8 filters of 4."""
    convolution = CausalConv(tokens=6, sequences=2, resumed=1, channels=8, kernel=4)
    assert floor_parts(convolution, load_hardware("h100-sxm")[0]) == {"weights": 64, "state": 48 + 96}


def test_states_alone_set_no_limit_to_a_context() -> None:
    """No layer keeps anything per token: the formula is infinity, there is no number, and a note says why."""
    found = explain(_hybrid(0, 32), "max_context", "h100-sxm")
    assert (found.formula, found.latex, found.substituted, found.value, found.unit) == ("∞", r"\infty", "∞", None, "tokens")
    assert found.source.startswith("Kwon")
    assert [part.subject for part in found.parts] == ["memory left", "activations of a sequence"]
    (note,) = [note for note in found.assumptions if note.name == "max_context"]
    assert (note.value, note.origin, note.why) == (
        None,
        "default",
        "no layer keeps anything per token, so memory sets no limit",
    )
