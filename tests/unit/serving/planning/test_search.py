"""What is searched, and what memory holds: on requests whose bytes are made up, and on layouts."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import roofline
from roofline.blocks.model_files import load_model
from roofline.errors import InputError, RooflineError
from roofline.serving.planning import search as module
from roofline.serving.planning.load import Load
from roofline.serving.planning.search import (
    Option,
    RejectedLayout,
    _no_layout,
    _option,
    _precisions,
    _transfer_s,
    _unfit,
    _wanted,
    caches_prefixes,
    layouts,
    longest_held,
    prefix_cache,
    search,
    slots_in_memory,
    with_chosen,
)
from roofline.serving.traffic.build import single
from roofline.specs.library import load_hardware


def load_of(**given: Any) -> Load:
    return Load.of(single(**{"rate": 1, "input_len": 1000, "output_len": 101, **given}))


def holding(sequences: int, ranks: int, asked: list[int]) -> Any:
    """A deployment that holds some sequences in the decode step with the most tokens."""

    def max_batch(context: int) -> int:
        asked.append(context)
        return sequences

    return SimpleNamespace(deployment=SimpleNamespace(data_parallel_size=ranks), memory=SimpleNamespace(max_batch=max_batch))


def test_slots_of_mean_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many on each rank as hold 1,000 + 101 - 1 tokens, less what the steps before the last token need beside them."""
    for sequences, ranks, fit, slots in [
        (100, 1, 100, 100),
        (100, 1, 95, 94),  # 98, 96 and 94, in steps of 2 %
        (10, 1, 8, 8),  # one at a time, as 2 % are less than one
        (10, 1, 0, 0),
        (0, 1, 5, 0),
        (103, 2, 100, 51),
        (10**6, 1, 10**6, 1024),  # the engines' default
        (10**6, 4, 10**6, 1024),
        (1024 * 4 - 1, 4, 10**6, 1023),
    ]:

        def requests(request: Any, load: Load, slots: int, fit: int = fit) -> Any:
            return SimpleNamespace(all_fit=lambda: slots <= fit)

        monkeypatch.setattr(module, "_mean_requests", requests)
        asked: list[int] = []
        assert slots_in_memory(holding(sequences, ranks, asked), load_of()) == slots
        assert asked == [1100]


def test_system_prompts_are_there_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request takes 10 bytes, 6 of them of its system prompt: n take 4 n + 6 where all have the same.

    With a hundred prompts n take 4 n + 6 x 100 (1 - 0.99^n): 21 take 198.2.
    """
    layouts = [
        SimpleNamespace(
            shared=lambda prompt, context: 6.0 if (prompt, context) == (200, 1300) else None, state_bytes=0, kinds=()
        )
    ]

    one, hundred = load_of(system_prompt=200), load_of(system_prompt=200, system_prompts=100)

    def steps(request: Any, load: Load, slots: int) -> Any:
        return SimpleNamespace(memory_steps=lambda: [("prefill", 0), ("decode", slots)])

    monkeypatch.setattr(module, "_mean_requests", steps)

    def held(usable: float, load: Load = one) -> int:
        part = SimpleNamespace(layouts=layouts, needed_bytes=lambda step: 10.0 * step, usable_bytes=lambda step: usable)
        request: Any = SimpleNamespace(deployment=SimpleNamespace(data_parallel_size=1), memory=SimpleNamespace(stages=[part]))
        return slots_in_memory(request, load)

    assert (held(106.0), held(105.9), held(9.9), held(10.0)) == (25, 24, 0, 1)
    assert held(1e9) == 1024
    needed = 4 * 21 + 600 * (1 - 0.99**21)
    assert (held(needed - 0.1, hundred), held(needed + 0.1, hundred)) == (20, 21)


def test_the_longest_sequence() -> None:
    """The last token is computed with the ones before it cached, on each of the ranks."""
    for context, wanted, held in [(None, 5000, 5000), (4999, 5000, 5000), (4998, 5000, 4999), (9999, 5000, 5000)]:
        memory = SimpleNamespace(max_context=lambda batch, context=context: context if batch == 4 else 0)
        request: Any = SimpleNamespace(memory=memory, deployment=SimpleNamespace(data_parallel_size=4))
        assert longest_held(request, wanted) == held


def test_transfers_of_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 bytes and 2 per token of each prompt, at 1e6 bytes/s: from a dozen lengths, the shortest and the longest too."""
    asked: list[int] = []

    def size(request: Any, tokens: int) -> float:
        asked.append(tokens)
        return 1000.0 + 2 * tokens

    monkeypatch.setattr(module, "cache_bytes", size)
    load = load_of(input_len="uniform:1000:9000")
    request: Any = None
    (seconds,) = _transfer_s(request, load, 1e6)
    prompts = load.mix[0].prompts
    assert seconds == pytest.approx((1000 + 2 * prompts) / 1e6)
    assert len(asked) == 12
    assert (min(asked), max(asked)) == (prompts.min(), prompts.max())
    (one,) = _transfer_s(request, load_of(), 1e6)
    assert np.unique(one) == pytest.approx(0.003)


def sizes(experts: bool, linked: bool, node: int, **given: int) -> set[tuple[int, ...]]:
    return {tuple(one.values()) for one in _wanted(experts, linked, node, given)}


def test_sizes_that_are_wanted() -> None:
    """Tensor parallelism in a node, and pipelines of whole nodes; without a link pipelines within what there is."""
    assert sizes(False, True, 4) == {(1, 1, 1, 1), (2, 1, 1, 1), (4, 1, 1, 1), (4, 2, 1, 1), (4, 4, 1, 1)}
    assert sizes(False, False, 4) == {(1, 1, 1, 1), (1, 2, 1, 1), (1, 4, 1, 1), (2, 1, 1, 1), (2, 2, 1, 1), (4, 1, 1, 1)}
    assert sizes(False, True, 4, tp=2) == {(2, 1, 1, 1)}
    ranks = {(1, 1, count, count) for count in (8, 16, 32, 64, 128)}
    assert (
        sizes(True, True, 2)
        == {(1, 1, 1, 1), (2, 1, 1, 1), (2, 1, 1, 2), *((2, pp, 1, ep) for pp in (2, 4) for ep in (1, 2))} | ranks
    )
    assert sizes(True, True, 2, tp=1) == {(1, 1, 1, 1)} | ranks
    assert sizes(True, True, 4, tp=2) == {(2, 1, 1, 1), (2, 1, 1, 2)}


def test_layouts_come_smallest_first() -> None:
    """Fewest devices, then fewest stages, then fewest ranks; each once, up to the most devices. What is given holds for all."""

    def tried(model: str, hardware: str, most: int, **fixed: int) -> list[dict[str, int]]:
        return list(layouts(load_model(model)[0], load_hardware(hardware)[0], fixed, most))

    assert tried("llama-3.1-8b", "l40s", 4) == [{}, {"tp": 2}, {"pp": 2}, {"tp": 4}, {"tp": 2, "pp": 2}, {"pp": 4}]
    assert tried("llama-3.1-8b", "h100-sxm", 3, data_parallel_size=2) == [{"dp": 2}]
    # experts over all devices unless their number is given
    assert tried("mixtral-8x7b", "dgx-h100", 2) == [{}, {"tp": 2}, {"tp": 2, "ep": 2}]
    assert tried("mixtral-8x7b", "dgx-h100", 4, data_parallel_size=2) == [
        {"dp": 2}, {"dp": 2, "ep": 2}, {"tp": 2, "dp": 2}, {"tp": 2, "dp": 2, "ep": 4}
    ]  # fmt: skip


def test_pools_that_cannot_be() -> None:
    """Of clients, who are planned on colocated replicas; of outputs without a second token, which leave nothing to decode."""
    given: dict[str, Any] = {"hardware": "h100-sxm", "tp": 1, "dtype": "bf16", "mode": "disaggregated", "input_len": 100}
    with pytest.raises(InputError, match="clients are planned on colocated replicas"):
        roofline.plan("llama-3.1-8b", **given, concurrency=8, output_len=100)
    found = roofline.plan("llama-3.1-8b", **given, rate=1, output_len=1)
    assert found.infeasible is not None
    assert "outputs of one token leave a decode pool nothing to do" in found.infeasible["relax"][0]["why"]


@dataclass
class Request:
    """A deployment that is made up."""

    estimator: Any = "own"
    memory: Any = field(default_factory=lambda: SimpleNamespace(max_num_batched_tokens=1000))


def sized_for(
    replica: Any, load: Any, settings: Any, memory: int, role: str = "both", after: Any = (), prefix_cache: Any = None
) -> tuple[Any, ...]:
    """What `size_replica` is asked for."""
    return role, replica, settings, memory, after, prefix_cache


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Replicas that are tuples of what they were sized for; slots of memory by token budget: 200, 60 of 8,192, 300 of 512."""
    given: dict[str, Any] = {
        "slots": {2048: 200, 8192: 60, 512: 300, 1000: 90},
        "held": 10**9,
        "drafts": None,
        "link": ("nvlink", 1e9),
    }
    speculation = SimpleNamespace(options=SimpleNamespace(tokens=3))

    def resolved(model: Any, hardware: Any, options: dict[str, Any]) -> tuple[Any, Any]:
        given["options"] = options
        return Request(), speculation if given["drafts"] else None

    monkeypatch.setattr(module, "resolve_replica", resolved)
    monkeypatch.setattr(module, "_with_settings", lambda request, slots, budget: (slots, budget))
    monkeypatch.setattr(module, "slots_in_memory", lambda settings, load: given["slots"][settings[1]])
    monkeypatch.setattr(module, "longest_held", lambda settings, wanted: min(wanted, given["held"]))
    monkeypatch.setattr(module, "_unfit", lambda *names, fits: ("unfit", names[-1], fits))
    monkeypatch.setattr(module, "Replica", lambda request, *others: (request.estimator, *others))
    monkeypatch.setattr(module, "prefix_cache", lambda request, load, wanted: ("cache", wanted))
    monkeypatch.setattr(module, "size_for_batch", lambda replica, load, *others: ("batch", replica, *others))
    monkeypatch.setattr(module, "size_replica", sized_for)
    monkeypatch.setattr(module, "with_chosen", lambda sized: sized)
    monkeypatch.setattr(module, "cache_link", lambda hardware: given["link"])
    monkeypatch.setattr(module, "_transfer_s", lambda request, load, rate: ("transfer", rate))
    return given


def sized(
    fixed: dict[str, Any] | None = None,
    modes: tuple[str, ...] = ("colocated",),
    batch: Any = None,
    known: Any = None,
    **load: Any,
) -> Any:
    """The deployment of a query, of models of up to 2,000 tokens."""
    given = {"concurrency": None, "longest": 1500, "mean_output": 101.0, "services": [SimpleNamespace(tpot=None)], **load}
    query: Any = SimpleNamespace(
        load=SimpleNamespace(**given), model=SimpleNamespace(max_position_embeddings=2000), batch=batch, modes=modes,
        attention_dp_balance="balance",
    )  # fmt: skip
    hardware: Any = SimpleNamespace(name="h")
    formats: Any = SimpleNamespace(name="bf16", model="model")
    return _option(query, hardware, formats, fixed or {}, {"tp": 2}, {} if known is None else known)


def test_settings_that_are_tried(made_up: dict[str, Any]) -> None:
    """What memory holds at each token budget, at most a sequence per token; at the first also 128 and 32, if that is fewer."""
    all_held = [(200, 2048), (60, 8192), (300, 512)]
    limits = [(128, 2048), (32, 2048)]

    def tried(*given: Any, **others: Any) -> Any:
        return sized(*given, **others).sized["both"][2]

    assert tried() == all_held + limits
    assert tried(concurrency=9) == all_held[:1]
    assert tried({"max_num_seqs": 100}) == [(100, 2048), (60, 8192), (100, 512)]
    assert tried({"max_num_batched_tokens": 7}) == [(90, 1000), (32, 1000)]
    for slots, more in ((128, limits[1:]), (129, limits), (32, []), (33, limits[1:])):
        made_up["slots"][2048] = slots
        assert tried() == [(slots, 2048), *all_held[1:], *more]
    made_up["slots"].update({2048: 5000, 512: 600})
    assert tried()[:3] == [(2048, 2048), (60, 8192), (512, 512)]
    made_up["slots"][2048] = 0  # beside the activations of such steps nothing fits
    assert tried() == [(60, 8192), (512, 512), (32, 8192)]
    made_up["drafts"] = True  # each sequence takes four tokens of a step
    assert tried()[:2] == [(60, 8192), (128, 512)]
    made_up["slots"][1000], made_up["slots"][2048] = 300, 600
    assert tried()[0] == (512, 2048)
    assert tried({"max_num_batched_tokens": 7})[0] == (250, 1000)
    made_up["slots"] = dict.fromkeys(made_up["slots"], 0)
    assert sized() == ("unfit", 1500, False)


def test_settings_of_offline_work(made_up: dict[str, Any]) -> None:
    """All of memory; with an objective for TPOT fewer too: 128, 32, 8 and one."""
    work, limited = SimpleNamespace(), {"services": [SimpleNamespace(tpot=None), SimpleNamespace(tpot=0.05)]}
    held = [(200, 2048), (60, 8192), (300, 512)]
    fewer = [(slots, 2048) for slots in (128, 32, 8, 1)]
    for given, fixed, settings in (
        ({}, {}, held),
        (limited, {}, held + fewer),
        (limited, {"max_num_seqs": 250}, [(200, 2048), (60, 8192), (250, 512)]),
    ):
        kind, replica, tried, memory, cache = sized(fixed, batch=work, concurrency=100, **given).sized["both"]  # type: ignore[arg-type]
        assert (kind, tried, memory, cache) == ("batch", settings, 300, ("cache", 1500))
        assert replica == ("own", max(slots for slots, _ in settings), (2048, 8192, 512), "balance", None)
    for slots, more in ((128, [32, 8, 1]), (33, [32, 8, 1]), (32, [8, 1]), (8, [1]), (1, [])):
        made_up["slots"][2048] = slots
        assert sized(batch=work, concurrency=100, **limited).sized["both"][2][3:] == [(count, 2048) for count in more]


def test_a_deployment_that_fits(made_up: dict[str, Any]) -> None:
    """Sequences of up to the longest request, the model's limit, or the given one; fits are known for each kind of hardware."""
    for fixed, longest, wanted in (({}, 1500, 1500), ({}, 2500, 2000), ({"max_model_len": 700}, 1500, 700)):
        seen = sized(fixed, longest=longest)
        assert isinstance(seen, Option)
        assert (seen.longest, seen.after_s, seen.precision, seen.layout, seen.fixed) == (wanted, (), "bf16", {"tp": 2}, fixed)
        assert seen.sized["both"][-1] == ("cache", wanted)
    assert sized(known={"h": "known"}).sized["both"][1][0] == "known"
    for ranks in (None, 4):
        sized({"data_parallel_size": ranks})
        assert made_up["options"] == {"data_parallel_size": ranks, "batch": ranks or 1, "input_len": 1, "phase": "decode"}
    made_up["held"] = 1500
    assert isinstance(sized(), Option)
    made_up["held"] = 1499
    assert sized() == ("unfit", 1500, True)


def test_pools_of_a_deployment(made_up: dict[str, Any]) -> None:
    """Prompts with the largest budget, decode steps with the first; of two tokens at least, over a link, at a rate."""
    both = ("colocated", "disaggregated")
    seen = sized(modes=both)
    assert list(seen.sized) == ["both", "prefill", "decode"]
    assert seen.sized["both"][3:5] == (300, ())
    assert seen.sized["prefill"][2:] == ([(60, 8192)], 300, ("transfer", 1e9), None)
    assert seen.sized["decode"][2:] == ([(200, 2048)], 300, (), None)
    assert seen.after_s == ("transfer", 1e9)
    assert list(sized(modes=("disaggregated",)).sized) == ["prefill", "decode"]
    assert list(sized(modes=("disaggregated",), mean_output=1.5).sized) == ["prefill", "decode"]
    for others in ({"mean_output": 1.0}, {"concurrency": 9}):
        assert list(sized(modes=both, **others).sized) == ["both"]
    none = sized(modes=("disaggregated",), mean_output=1.0)
    assert isinstance(none, RejectedLayout)
    assert none.fits
    assert "leave a decode pool nothing to do" in none.why
    made_up["link"] = None
    assert list(sized(modes=both).sized) == ["both"]
    assert "no known link" in sized(modes=("disaggregated",)).why


def test_why_a_deployment_does_not_fit() -> None:
    """40 GiB of weights and 30 GiB for them; 20 GiB leave no place for a request of 1,101 tokens."""
    hardware: Any = SimpleNamespace(name="h")
    for loaded, fits, why in (
        (40, False, "weights take 40.0 GiB of the 30.0 GiB that a device has for it"),
        (20, True, "one request of 9,000 tokens does not fit"),
        (20, False, "and no request of 1,101 tokens fits beside them"), (30, False, "30.0 GiB that a device has for it"),
    ):  # fmt: skip
        stage = SimpleNamespace(loaded_bytes=loaded * 2**30, budget_bytes=30 * 2**30)
        request: Any = SimpleNamespace(memory=SimpleNamespace(fullest_stage=stage))
        seen = _unfit(request, hardware, "bf16", {"tp": 2}, load_of(), 9000, fits=fits)
        assert why in seen.why
        assert ("no request of" in seen.why) == (loaded == 20 and not fits)
        assert (seen.weights_bytes, seen.budget_bytes, seen.fits) == (loaded * 2**30, 30 * 2**30, False)


def test_every_deployment_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hardware by precision by layout, of 128 devices at most; where there is no layout the reason."""
    allowed = {"a": 500, "b": 3, "c": 0}
    tried: dict[str, list[dict[str, int]]] = {"a": [{}, {"tp": 2, "ep": 4}], "b": [{}], "c": []}
    mosts: list[int] = []
    monkeypatch.setattr(module, "layouts", lambda model, hardware, fixed, most: mosts.append(most) or tried[hardware.name])
    formats = [SimpleNamespace(name="bf16", options={}), SimpleNamespace(name="fp8", options={"quantization": "fp8"})]
    monkeypatch.setattr(module, "_precisions", lambda query, hardware: formats)
    monkeypatch.setattr(
        module, "_option", lambda query, hardware, precision, fixed, layout, known: (hardware.name, precision.name, fixed)
    )
    query: Any = SimpleNamespace(
        hardware=[SimpleNamespace(name=name) for name in allowed], devices=lambda hardware: allowed[hardware.name], model="m",
        fixed={"dtype": "bf16"},
    )  # fmt: skip
    *options, first, second = search(query)
    parallel = {"tensor_parallel_size": 2, "expert_parallel_size": 4}
    assert options == [
        (name, precision, {"dtype": "bf16", **more, **sizes})
        for name, layout in (("a", ({}, parallel)), ("b", ({},)))
        for precision, more in (("bf16", {}), ("fp8", {"quantization": "fp8"})) for sizes in layout
    ]  # fmt: skip
    assert mosts == [128, 3, 0]
    assert [(one.precision, one.why) for one in (first, second)] == [(name, "there are none of c") for name in ("bf16", "fp8")]  # type: ignore[union-attr]

    def resolve(model: Any, hardware: Any, **options: Any) -> Any:
        if hardware.name == "a":
            raise RooflineError("wrong")
        return SimpleNamespace(deployment=SimpleNamespace(devices=16)), None

    monkeypatch.setattr(module, "resolve", resolve)
    wrong, large = (_no_layout(query, hardware, "bf16", 1) for hardware in query.hardware[:2])
    assert (wrong.why, str(wrong.error)) == ("wrong", "wrong")
    assert (large.why, large.error) == ("a replica as given takes 16 devices, and 1 are allowed", None)


def test_settings_that_are_chosen() -> None:
    """Slots and tokens of a step are those of the deployment, and of its memory."""

    @dataclass
    class Part:
        name: str
        deployment: Any = None
        memory: Any = None
        request: Any = None
        replica: Any = None
        max_num_batched_tokens: int = 1
        slots: int = 8
        budget: int = 512

        def model_copy(self, update: dict[str, Any]) -> Any:
            return {"name": self.name, **update}

    one: Any = Part("sized", replica=Part("replica", request=Part("request", Part("deployment"), Part("memory"))))
    chosen: Any = with_chosen(one)
    request = chosen.replica.request
    deployment = {"name": "deployment", "max_num_seqs": 8, "max_num_batched_tokens": 512}
    assert request.deployment == request.memory.deployment == deployment
    assert (request.memory.name, request.memory.max_num_batched_tokens) == ("memory", 512)
    assert (chosen.name, chosen.replica.name, request.name) == ("sized", "replica", "request")


def test_formats_that_are_tried() -> None:
    """Those of the file, of checkpoints that the hardware multiplies, and of weights that are converted to fp8."""

    def scheme(name: str, multiply: str, cache: str | None = None) -> Any:
        return SimpleNamespace(name=name, format=SimpleNamespace(multiply=multiply), kv_cache_dtype=cache)

    def tried(
        checkpoints: Any = (),
        multiplied: tuple[str, ...] = ("bf16", "fp8"),
        published: Any = (),
        cache: bool = False,
        **fixed: Any,
    ) -> Any:
        model = SimpleNamespace(
            dtype="bf16", quantization=published, checkpoints=[SimpleNamespace(quantization=one) for one in checkpoints],
            as_checkpoint=lambda one: SimpleNamespace(quantization=one.quantization),
        )  # fmt: skip
        hardware: Any = SimpleNamespace(accelerator=SimpleNamespace(peak_flops=dict.fromkeys(multiplied, 1.0)))
        query: Any = SimpleNamespace(fixed=fixed, model=model, fp8_kv_cache=cache)
        return [(one.name, one.options) for one in _precisions(query, hardware)]

    fp8, int4, fp4 = [scheme("fp8-block", "fp8", "fp8")], [scheme("awq", "bf16")], [scheme("nvfp4", "fp4"), scheme("x", "fp8")]
    converted = ("fp8", {"quantization": "fp8"})
    assert tried() == [("bf16", {}), converted]
    assert tried(multiplied=("bf16",)) == [("bf16", {})]
    assert tried([fp8, int4, fp4]) == [("bf16", {}), ("fp8-block", {}), ("awq", {})]
    assert tried([int4]) == [("bf16", {}), ("awq", {}), converted]
    assert tried([fp4], ("bf16", "fp8", "fp4")) == [("bf16", {}), ("nvfp4", {}), converted]
    assert tried(published=fp8) == [("fp8-block", {})]
    kv = {"kv_cache_dtype": "fp8"}
    assert tried([fp8], cache=True) == [("bf16", {}), ("bf16, fp8 KV", kv), ("fp8-block", {})]
    assert tried(cache=True)[2:] == [converted, ("fp8, fp8 KV", {**converted[1], **kv})]
    for fixed, name in (
        ({"dtype": "bf16"}, "bf16"), ({"quantization": "none"}, "bf16"), ({"dtype": "fp16", "quantization": "awq"}, "fp16/awq"),
        ({"bits_per_weight": 4.5}, "4.5-bit"), ({"dtype": None, "bits_per_weight": "4"}, "4-bit"),
    ):  # fmt: skip
        assert tried([fp8], **fixed) == [(name, {})]


def test_caches_that_retain_prefixes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks beside the longest step, of the stage with the fewest; not of windows, chunks or states, nor of other requests."""
    from roofline.serving.preemption import costs
    from roofline.serving.simulation import server

    def request(**kind: Any) -> Any:
        kinds = [SimpleNamespace(**{"window": None, "chunk": None, **kind})]
        layouts = [SimpleNamespace(state_bytes=kind.get("state", 0), kinds=kinds)]
        stages = [SimpleNamespace(layouts=layouts, usable_bytes=lambda step, k=k: (step[0], k)) for k in (2, 1)]
        return SimpleNamespace(memory=SimpleNamespace(stages=stages), deployment=SimpleNamespace(data_parallel_size=4))

    assert [caches_prefixes(request(**kind)) for kind in ({}, {"window": 9}, {"chunk": 9}, {"state": 1})] == [
        True,
        False,
        False,
        False,
    ]
    assert prefix_cache(request(), load_of(), 700) is None
    shared = load_of(system_prompt=64)
    assert prefix_cache(request(window=9), shared, 700) is None
    steps: list[Any] = []

    @dataclass(order=True)
    class Blocks:
        num_gpu_blocks: int
        block_size: int = 16

    def blocks(stage: Any, usable: float, longest: int) -> Blocks:
        assert longest == 700
        return Blocks(int(usable))

    monkeypatch.setattr(server, "kv_cache_blocks", blocks)
    monkeypatch.setattr(costs, "replica_bytes", lambda request, size: 1000.0 * size)
    one = request()
    monkeypatch.setattr(module, "_with_settings", lambda request, slots, budget: one)
    for stage, count in zip(one.memory.stages, (90, 70), strict=True):
        stage.usable_bytes = lambda step, count=count: steps.append((step[0].count, step[0].new)) or count
    made = prefix_cache(one, shared, 700)
    assert made is not None
    for budget, tokens in ((512, 512), (2048, 700)):
        steps.clear()
        model = made(budget)
        assert (model.num_blocks, model.block_size, model.block_bytes, model.ranks) == (70, 16, 16_000, 4)
        assert set(steps) == {(4, tokens)}
