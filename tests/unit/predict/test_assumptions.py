"""What results say of their own ground: fits and how far they are trusted, engines, gaps in files, parallelism."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from roofline.formatting import percent
from roofline.operators.collectives import AllReduce
from roofline.operators.gemm import Gemm
from roofline.predict import assumptions
from roofline.predict.efficiency.estimate import Estimator
from roofline.predict.efficiency.fits import Fits, Fitted
from roofline.predict.efficiency.kernels import Kernel
from roofline.predict.request import prepare
from roofline.specs.engine import ServingErrors
from roofline.specs.fit import HeldOut
from roofline.specs.hardware import Hardware
from roofline.specs.library import load_hardware

pytestmark = pytest.mark.every_case

HELD = HeldOut(rows=9, shapes=4, median_ape=0.123, mape=0.2, bias=0.0, coverage=0.8)
SEEN = "median error 12.3 % on 4 shapes that it had not seen"


def fitted(**changes: Any) -> Fitted:
    """A fit of matrix products on the H100 with round figures."""
    one = Fits(load_hardware("h100-sxm")[0]).find("gemm/bf16")
    assert one is not None
    of_fit = {name: changes.pop(name) for name in ("origin", "key") if name in changes}
    family = one.family.model_copy(update={"held_out": HELD, "undetermined": (), "rows": 200, "worlds": (2, 4), **changes})
    return replace(one, family=family, **of_fit)


WIDER = "the interval is wider"


@pytest.mark.parametrize(
    ("changes", "more", "text"),
    [
        ({}, {}, ""),
        ({"origin": "transferred"}, {}, f"another accelerator's, with this one's datasheet figures: {WIDER}"),
        ({"origin": "other formats"}, {}, f"of other formats: {WIDER}"),
        ({"origin": "other backend"}, {}, f"of other backend: {WIDER}"),
        ({"origin": "other formats", "key": "add"}, {}, f"of another kernel that moves its data alike: {WIDER}"),
        ({"undetermined": ("tile", "feed"), "rows": 49}, {}, "49 records, which do not determine tile, feed"),
        ({"undetermined": ("tile",), "rows": 1}, {}, "1 record, which do not determine tile"),
        ({"undetermined": ("tile",), "rows": 50}, {}, ""),
        ({}, {"ranks": {8, 3}}, f"3, 8 ranks, of which only 2, 4 were measured: {WIDER}"),
        (
            {},
            {"outside": {"n": 1.0, "m": 3.0}},
            "extrapolated: m by a factor of 8, n by a factor of 2 outside what was measured",
        ),
        (
            {},
            {"another_host": True},
            "over PCIe with a way of its own for each device; hosts without take up to five times as long",
        ),
    ],
)
def test_how_good_a_fit_is(changes: dict[str, Any], more: dict[str, Any], text: str) -> None:
    """Its error on shapes left out, and each way in which it is used beyond what was measured."""
    given = {"outside": None, "ranks": set(), **more}
    assert assumptions._fit_quality("gemm", fitted(**changes), **given) == f"{SEEN}; {text}".removesuffix("; ")
    for held, said in ((HELD.model_copy(update={"shapes": 1}), SEEN.replace("shapes", "shape").replace("4", "1")),
                       (None, "no shape was held out")):  # fmt: skip
        alone = assumptions._fit_quality("gemm", fitted(**changes, held_out=held), **given)
        assert alone == f"{said}; {text}".removesuffix("; ")
    assumed = assumptions._fit_quality("gemm", fitted(origin="assumed"), **given)
    assert assumed == "nothing like it was measured: typical values, within a factor of 2"


@pytest.mark.parametrize(
    ("hardware", "key", "text"),
    [
        ("mi300x", "gemm/bf16", "{c} of the matrix peak or {m} of the memory bandwidth, as elsewhere of the best product"),
        ("mi300x", "rmsnorm", "{m} of the memory bandwidth, as elsewhere; median error "),
        ("m4-max", "gemm/bf16", "{c} of the matrix peak or {m} of the memory bandwidth; 16 FLOP of the vector units for each"),
    ],
)
def test_what_a_prior_is(hardware: str, key: str, text: str) -> None:
    """The shares that the data determine, where they are from, and the error on what was left out."""
    prior = Fits(load_hardware(hardware)[0]).find(key)
    assert prior is not None
    shares = {letter: percent(float(prior.values[name])) for letter, name in (("c", "compute"), ("m", "memory"))}
    said = assumptions._fit_quality(key.partition("/")[0], prior, None, set())
    assert said.partition(": ")[2].startswith(text.format(**shares))
    assert said.startswith(
        "speeds of whole steps that were published" if hardware == "m4-max" else "nothing like it was measured"
    )
    lone = replace(prior, family=prior.family.model_copy(update={"held_out": None}))
    assert assumptions._prior_quality(lone).endswith("; hosts differ by a factor of five")


def test_notes_of_fits() -> None:
    """One for each op, sorted, the error of what was measured here alone; kernels like none that was measured together."""
    estimator = Estimator(Fits(load_hardware("dgx-h100")[0], "vllm"))
    ring = Kernel("all_reduce", {"": AllReduce(elements=2**20, world=5)}, ("r",), 1)
    gemms = [Kernel("gemm", {"": Gemm(m=m, n=4096, k=4096)}, ("g",), 1) for m in (2**24, 2**22)]
    odd = Kernel("", {"": Gemm(m=1, n=1, k=1)}, ("o",), 1)
    backend, reduce, gemm, last = assumptions.estimates(estimator, [*gemms, ring, odd])
    assert (backend.name, backend.value, backend.origin, backend.why) == (
        "backend", "vllm", "given", "whose kernels the estimates are of"
    )  # fmt: skip
    assert (reduce.name, gemm.name, last.name) == ("fit.all_reduce", "fit.gemm", "fit")
    assert "5 ranks, of which only" in reduce.why
    family = estimator.fitted(gemms[0])
    assert family is not None
    assert f"m by a factor of {2**24 / family.family.range['m'][1]:.3g} outside" in gemm.why  # the further of both
    assert gemm.origin == "default"
    assert family.family.held_out is not None
    assert gemm.median_error == family.family.held_out.median_ape
    assert (last.value, last.origin) == ("gemm", "assumed")
    (any_backend, *_) = assumptions.estimates(Estimator(Fits(load_hardware("dgx-h100")[0])), gemms)
    assert (any_backend.value, any_backend.origin) == ("vllm", "default")
    assert any_backend.why.endswith("; the interval holds those of other backends too")
    elsewhere = Estimator(Fits(load_hardware("b200-sxm")[0], "vllm"))
    assert [(note.origin, note.median_error) for note in assumptions.estimates(elsewhere, gemms)][1:] == [("transferred", None)]
    given = Estimator(Fits(replace(load_hardware("h100-sxm")[0], overrides={"mfu": 0.5, "mbu": 0.5})))
    assert assumptions.estimates(given, gemms) == []


@pytest.mark.parametrize(
    ("figures", "stages", "added"),
    [
        ({}, 1, "nothing"),
        ({"step": 1e-3, "sequence": 2e-6}, 1, "1 ms per step, 2 µs per sequence"),
        ({"rank": 1e-4, "stage": 3e-6}, 1, "100 µs per doubling of tensor-parallel devices"),
        ({"experts": 1e-6}, 2, "1 µs per layer with routed experts"),
        ({"stage": 3e-6}, 2, "3 µs per sequence of a microbatch in each pipeline stage"),
    ],
)  # fmt: skip
def test_what_an_engine_adds_in_words(figures: dict[str, float], stages: int, added: str) -> None:
    """Each part that is not 0, and the error of whole steps."""
    steps = prepare("llama-3.1-8b", "h100-sxm").steps
    assert steps is not None
    errors = ServingErrors(rows=70, median_ape=0.08, mape=0.1, bias=0.0, coverage=0.8)
    none: dict[str, Any] = dict.fromkeys(("step", "sequence", "rank", "experts", "stage"), 0.0)
    made = steps.model_copy(
        update={**none, **figures, "hidden": 0.25, "held_out": errors, "versions": ("1", "2"), "engine": "e"}
    )
    (note,) = assumptions.engine_steps(made, stages)
    assert note.why == (
        f"a share of 0.25 of each kernel's launch, of 2 us at most, is hidden; beside the kernels {added}; TPOT of 70 serving "
        "points, each model left out in turn: median error 8.0 %"
    )
    assert (note.name, note.value, note.origin, note.median_error) == ("engine_steps", "e 1, 2", "default", 0.08)
    (bare,) = assumptions.engine_steps(made.model_copy(update={"held_out": None, "versions": ()}), stages)
    assert (bare.median_error, bare.value) == (None, "e")
    assert bare.why.endswith(added)
    assert assumptions.engine_steps(None) == []


def test_gaps_in_a_file() -> None:
    """What the driver reports, vector peaks, packages, and figures from memory, unless they are given."""
    whole = load_hardware("h100-sxm")[0]
    assert assumptions.gaps(whole) == []
    card = whole.accelerator
    label = card.memory.model_copy(update={"reported": None})
    recalled = card.memory.bandwidth.model_copy(update={"grade": "C"})
    for change, names, overrides in (
        ({"memory": label}, ["memory"], {}),
        ({"memory": label}, [], {"memory_bytes": 1e9}),
        ({"vector_flops": None}, ["vector_flops"], {}),
        ({"devices": 2}, ["devices_in_package"], {}),
        ({"memory": card.memory.model_copy(update={"bandwidth": recalled})}, ["recalled"], {}),
        ({"memory": card.memory.model_copy(update={"bandwidth": recalled})}, [], {"bandwidth": 1e12}),
    ):
        bare = Hardware(card.model_copy(update=change), None, overrides)
        assert [note.name for note in assumptions.gaps(bare)] == names


@pytest.mark.parametrize(
    ("model", "options", "names"),
    [
        ("llama-3.1-8b", {}, []),
        ("llama-3.1-8b", {"tp": 2}, ["replicated", "link", "collectives"]),
        ("llama-3.1-8b", {"tp": 16}, ["kv_heads", "replicated", "link", "collectives"]),
        ("deepseek-v2-lite", {"tp": 2}, ["replicated", "latent_cache", "link", "collectives"]),
        ("llama-3.1-8b", {"dp": 2}, ["data_parallel", "collectives"]),
        ("llama-3.1-8b", {"pp": 2}, ["pipeline", "link", "collectives"]),
        ("llama-3.1-8b", {"tp": 2, "sequence_parallel": True}, ["replicated", "sequence_parallel", "link", "collectives"]),
        ("qwen3-30b-a3b", {"dp": 4, "ep": 4, "microbatch_overlap": True},
         ["dispatch_dtype", "combine_dtype", "microbatch_overlap", "link", "data_parallel", "collectives"]),
        ("qwen3-30b-a3b", {"tp": 4, "ep": 4}, ["replicated", "link", "collectives"]),
        ("deepseek-v3", {"dp": 16, "ep": 16, "deepep_mode": "normal"},
         ["dispatch_dtype", "combine_dtype", "deepep_mode", "link", "data_parallel", "collectives"]),
    ],
)  # fmt: skip
def test_what_is_said_of_parallel_devices(model: str, options: dict[str, Any], names: list[str]) -> None:
    """Of one device nothing; of several what is replicated, divided, and how they are joined."""
    request = prepare(model, "dgx-h100", **options)
    notes = assumptions.parallelism(request.model, request.deployment, request.hardware)
    assert [note.name for note in notes] == names


@pytest.mark.parametrize(
    ("options", "start"),
    [
        ({}, "a query attends to the keys that an indexer chose"),
        ({"mask": "full"}, "the mask is full: every query meets every one of the keys"),
        ({"mla": "expand"}, "expanded attention is dense"),
    ],
)
def test_how_a_choice_of_keys_is_counted(options: dict[str, str], start: str) -> None:
    """An indexer chooses 2,048 keys; a full mask and expanded attention meet all pairs."""
    notes = {note.name: note for note in prepare("deepseek-v3.2", "dgx-h100", **options, tp=8).assumptions}
    assert notes["index_topk"].why.startswith(start)
    assert notes["index_topk"].value == "2048"
    assert "index_topk" not in {note.name for note in prepare("deepseek-v3", "dgx-h100", tp=8).assumptions}


def test_how_latents_are_multiplied() -> None:
    """Sparse attention gathers latents in every phase; without an indexer prompts expand them."""
    for model, start in (("deepseek-v3.2", "sparse attention gathers latents"), ("deepseek-v3", "prefill expands K and V")):
        (note,) = [note for note in prepare(model, "dgx-h100", tp=8).assumptions if note.name == "mla"]
        assert note.why.startswith(start)


def test_the_busiest_device_in_words() -> None:
    """Four devices with a quarter of 128 experts each have at most four times the mean of them."""
    why = {}
    for wanted, options in ((2.0, {"tp": 4, "ep": 4}), (9.0, {"tp": 4, "ep": 4}), (3.0, {})):
        notes = prepare("qwen3-30b-a3b", "dgx-h100", **options, expert_imbalance=wanted).assumptions
        (why[wanted],) = [note.why for note in notes if note.name == "expert_imbalance"]
    assert why[2.0].endswith("its experts are chosen that many times as often")
    assert why[9.0].endswith("More than 4 is not possible, and taken as that")
    assert why[3.0].startswith("experts are not spread over devices")


def test_formats_of_states_and_no_estimates() -> None:
    """Noted where a model has a state or the user gave a format; a backend without any fit."""
    for model, options, origin in (("llama-3.1-8b", {}, None), ("llama-3.1-8b", {"mamba_ssm_cache_dtype": "bf16"}, "given"),
                                   ("qwen3.6-27b", {}, "default")):  # fmt: skip
        notes = [note for note in prepare(model, "dgx-h100", **options).assumptions if note.name == "mamba_ssm_cache_dtype"]  # type: ignore[arg-type]
        assert [note.origin for note in notes] == ([origin] if origin else [])
    assert assumptions.no_estimate(None) == []
    assert [(note.value, note.origin) for note in assumptions.no_estimate("x")] == [("x", "given")]
