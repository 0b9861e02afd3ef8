"""The headline explained: times, rates and costs whose values are those of `analyze`, to the last digit."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import sympy
from library_cases import DISTINCT

import roofline
from roofline.errors import InputError, UnknownNameError
from roofline.formulas.symbolic import evaluate
from roofline.graph.build import build
from roofline.predict.efficiency.kernels import kernels
from roofline.predict.explain import Explainer, Explanation, explain
from roofline.predict.explain.time_formulas import WORDS
from roofline.predict.request import prepare

LLAMA, H100, NODE = "llama-3.1-8b", "h100-sxm", "dgx-h100"
CARDS = ("h100-sxm", "a100-sxm-80gb", "l40s", "b200-sxm", "tpu-v6e", "mi300x")
SETTINGS: list[tuple[str, str, dict[str, Any]]] = [
    *((model, CARDS[number % len(CARDS)], {"batch": 3, "output_len": 3}) for number, model in enumerate(DISTINCT)),
    (LLAMA, NODE, {"tp": 4, "batch": 7, "output_len": 2}),
    ("llama-3.1-70b", NODE, {"tp": 2, "pp": 2, "batch": 16, "output_len": 60}),
    (LLAMA, NODE, {"dp": 2, "batch": 5, "output_len": 100}),
    ("llama-3.1-70b", NODE, {"tp": 16, "batch": 16}),
    ("mixtral-8x7b", NODE, {"tp": 2, "ep": 2, "batch": 64, "routing_skew": 0.8, "output_len": 20}),
    ("deepseek-v3", "dgx-h200", {"tp": 8, "ep": 8, "batch": 64, "output_len": 4}),
    ("deepseek-v3", "dgx-h800", {"dp": 32, "ep": 32, "batch": 1024, "microbatch_overlap": True, "output_len": 4}),
    (LLAMA, H100, {"mfu": 0.4, "mbu": 0.8, "batch": 4, "input_len": 4096, "output_len": 10}),
    (LLAMA, H100, {"quantization": "w4a16", "kv_cache_dtype": "fp8", "batch": 32, "output_len": 4}),
    (LLAMA, H100, {"speculative_method": "ngram", "num_speculative_tokens": 3, "acceptance": 0.7, "output_len": 4}),
    (LLAMA, H100, {"speculative_model": "llama-3.2-1b", "num_speculative_tokens": 3, "acceptance": 0.6, "output_len": 4}),
]


def ids_of(setting: Any) -> str:
    return " ".join(f"{name}={value}" for name, value in setting.items()) if isinstance(setting, dict) else str(setting)


def adds_up(one: Explanation) -> None:
    """The formula in symbols has the value, worked out exactly and by SymPy itself, and so have those of its parts."""
    assert evaluate(one.expression, one.numbers) == pytest.approx(one.value, rel=1e-9)
    numbers = {name: sympy.sympify(value) for name, value in one.numbers.items()}  # all put in at once, not one after another
    assert float(one.expression.xreplace(numbers)) == pytest.approx(one.value, rel=1e-6)
    for part in one.parts:
        adds_up(part)


@pytest.mark.parametrize(("model", "hardware", "options"), SETTINGS, ids=ids_of)
def test_times_are_those_of_analyze(model: str, hardware: str, options: dict[str, Any]) -> None:
    """Bound, floor and estimate with its interval, of the request and of each step: equal, not about equal.

    Models of every kind of block, on cards in turn, and deployments of several devices and with options that change the sums.
    """
    result = roofline.analyze(model, hardware, **options, ignore_capacity=True)
    times = {name: getattr(result.request, f"{name}_s") for name in ("ttft", "tpot", "e2e") if result.request is not None}
    if result.speculative is None:
        times |= {phase.name: phase.time for phase in result.phases}
        times |= {} if result.request else {"tpot": result.decode.pipeline, "ttft": result.prefill.pipeline}
    assert len(times) >= 3
    of_request = Explainer(model, hardware, **options, ignore_capacity=True)
    for name, duration in times.items():
        explained = of_request.explain(name)
        assert (explained.value, explained.unit) == (duration.best, "s")
        assert (explained.low, explained.high) == (duration.low, duration.high)
        adds_up(explained)
        for word in WORDS:
            if getattr(duration, word) is not None:
                one = of_request.explain(f"{name} {word}")
                assert one.value == getattr(duration, word), (name, word)
                adds_up(one)
            else:
                with pytest.raises(InputError, match="no estimate"):
                    of_request.explain(f"{name} {word}")


def test_a_mixed_step() -> None:
    """Of segments there is one step, and no request."""
    options = {"segments": "32x1@4k,1x512@1k"}
    (phase,) = roofline.analyze(LLAMA, H100, **options).phases
    for word in WORDS:
        assert explain(LLAMA, f"mixed {word}", H100, **options).value == getattr(phase.time, word)
    for name in ("tpot", "decode"):
        with pytest.raises(InputError, match=r"segments|no such step"):
            explain(LLAMA, name, H100, **options)


@pytest.mark.parametrize(
    ("model", "hardware", "options"),
    [
        (LLAMA, H100, {"batch": 8}),
        (LLAMA, "tpu-v6e", {"batch": 8}),
        (LLAMA, "a100-pcie-80gb", {"batch": 64, "mfu": 0.5, "mbu": 0.7}),
        ("llama-3.1-70b", NODE, {"tp": 8, "batch": 32, "quantization": "fp8"}),
        ("llama-3.1-70b", NODE, {"tp": 16, "batch": 32}),
        ("deepseek-v3", "dgx-h200", {"tp": 8, "ep": 8, "batch": 64}),
        ("gpt-oss-20b", "h200-sxm", {"batch": 4}),
    ],
    ids=ids_of,
)
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_every_operator_has_its_bound_and_estimate(model: str, hardware: str, options: dict[str, Any], phase: str) -> None:
    """Those of the table of `analyze`; a kernel of several operators has the sum of theirs."""
    result = roofline.analyze(model, hardware, **options, ignore_capacity=True)
    operators = {op.path: op for op in getattr(result, phase).operators if op.kind != "overhead"}
    request = prepare(model, hardware, **options)
    graph = build(
        request.model, request.deployment, request.precision, dict(request.workload.steps)[phase], request.memory.stage
    )
    of_request = Explainer(model, hardware, phase=phase, ignore_capacity=True, **options)
    for kernel in kernels(graph):
        estimate = of_request.explain(f"{kernel.paths[-1]} estimate")
        parts = [operators[path].time for path in kernel.paths]
        assert estimate.value == pytest.approx(sum(part.estimate for part in parts), rel=1e-12)
        if len(parts) == 1:
            assert (estimate.value, estimate.low, estimate.high) == (parts[0].estimate, parts[0].low, parts[0].high)
        adds_up(estimate)
        for path in kernel.paths:
            bound = of_request.explain(f"{path} bound")
            assert bound.value == operators[path].time.bound
            adds_up(bound)


@pytest.mark.parametrize("model", [LLAMA, "gpt-oss-20b", "deepseek-v2-lite", "mixtral-8x7b"])
@pytest.mark.parametrize("hardware", ["h100-sxm", "a100-sxm-80gb", "l40s", "tpu-v5p"])
@pytest.mark.parametrize("quantization", [None, "fp8"])
def test_what_runs_at_the_same_time_takes_as_long_as_its_longest(model: str, hardware: str, quantization: str | None) -> None:
    """Of the terms of a form those that overlap take at least the longest of them together, and at most their sum."""
    request = prepare(model, hardware, batch=16, quantization=quantization)
    for _, step in request.workload.steps:
        for kernel in kernels(build(request.model, request.deployment, request.precision, step)):
            fitted, terms = request.estimator.fitted(kernel), request.estimator.terms(kernel)
            if fitted is None or terms["total"] == terms["bound"]:
                continue
            together = [terms[name] for name in fitted.form.overlapping if name in terms]
            alone = sum(value for name, value in terms.items() if name not in (*fitted.form.overlapping, "total", "bound"))
            rest = terms["total"] - alone
            if not together:
                assert rest == pytest.approx(0, abs=1e-12), fitted.key
            else:
                # tiles are listed without the split of k that may take less
                assert max(together) * (1 - 1e-9) <= rest or "split" in fitted.values, fitted.key


def test_a_fit_says_what_it_is_made_of() -> None:
    """Form, constants with meanings and units, records, date, error, interval: those of the fit's file."""
    result = explain(LLAMA, "layers/mlp/gate_up_proj estimate", H100)
    request = prepare(LLAMA, H100)
    fit = request.estimator.fits.find("gemm/bf16")
    legend = {name: (value, about) for name, value, about in result.legend}
    for name, value in fit.family.parameters.items():
        assert legend[name][0] == value
        assert legend[name][1].startswith("fitted: ")
    assert "[s]" in legend["launch"][1]
    assert f"{fit.family.rows:,} records of {fit.family.shapes} shapes" in result.source
    assert str(fit.fit.fitted) in result.source
    assert "github.com/ai-dynamo/aiconfigurator" in result.source
    (note,) = [note for note in result.assumptions if note.name == "fit.gemm"]
    assert f"{fit.family.held_out.median_ape * 100:.1f} %" in note.why
    assert result.low < result.value < result.high


def test_a_prior_is_called_one() -> None:
    """Nothing was measured on the card: the source says so, and no records of it are claimed."""
    result = explain(LLAMA, "tpot", "tpu-v6e")
    assert "no accelerator of this vendor was measured" in result.about
    assert result.source.startswith("prior: ")


def test_a_kernel_like_none_that_was_measured() -> None:
    """A convolution: its launch, at most that of a norm, and its times of vector units and memory one after another."""
    result = explain("lfm2.5-vl-1.6b", "layers/conv/short_conv/conv estimate", H100, phase="prefill")
    assert result.about.startswith("kernel of the prefill step: none like it was measured; a launch, then compute, memory")
    assert (result.source, result.legend[0][0]) == ("no measurement", "n")
    tokens, channels, calls = 1024, 2048, 2 * 3 + 3 + 1
    vector, moved = 2 * 3 * tokens * channels, 2 * (3 * channels + 2 * tokens * channels + 2 * channels)
    launch = prepare(LLAMA, H100).estimator.fits.find("rmsnorm").values["launch"]
    least = calls * (vector / 67e12 + moved / 3.35e12)
    assert least * (1 - 1e-12) <= result.value <= least + calls * launch
    assert (result.low, result.high) == (pytest.approx(calls * moved / 3.35e12), pytest.approx(3 * result.value))


def test_given_shares_are_in_the_formula() -> None:
    """The slower of matrix units and memory, of each call of 32."""
    of_request = Explainer(LLAMA, H100, phase="prefill", mfu=0.4, mbu=0.8)
    product = of_request.explain("layers/mlp/gate_up_proj estimate")
    assert product.formula == "n·max(F / (P·mfu), D / (β·mbu))"
    assert product.value == pytest.approx(32 * 2 * 1024 * 4096 * 2 * 14_336 / (0.4 * 989.4e12), rel=1e-4)
    adds_up(product)


def test_what_overlap_hides_is_a_term() -> None:
    """Of two microbatches, one's exchanges pass beside the other's work: less than the operators one after another."""
    options = {"dp": 8, "ep": 8, "batch": 64, "microbatch_overlap": True, "ignore_capacity": True}
    explained = explain("deepseek-v3", "decode bound", "dgx-h200", phase="decode", **options)
    adds_up(explained)
    (phase,) = roofline.analyze("deepseek-v3", "dgx-h200", phase="decode", **options).phases
    in_turn = sum(op.time.bound for op in phase.operators if op.kind != "overhead")
    hidden = {str(name): value for name, value in explained.numbers.items()}["t_hidden"]
    assert 0 < hidden == pytest.approx(in_turn - explained.value)


def test_a_step_is_told_by_its_sequences() -> None:
    """Prompts by their tokens, a decode step by what is cached."""
    of_request = Explainer(LLAMA, H100, batch=2, input_len=300, context=5000)
    assert of_request.explain("prefill bound").about.startswith("time of the prefill step of 2 sequences of 300 tokens;")
    decode = "time of the decode step of 2 sequences after 5,000 cached tokens;"
    assert of_request.explain("decode bound").about.startswith(decode)


def test_requests_per_second_of_the_scaling_book() -> None:
    """LLaMA-3 70B at full memory, steps of 19 ms, 512 tokens: 0.27, 0.66 and 1.72 requests/s a chip (inference at scale)."""
    options = {"tp": 4, "batch": 43, "output_len": 512, "quantization": "w8a16", "ignore_capacity": True}
    (each,) = explain("llama-3.1-70b", "requests_per_s", NODE, **options).parts
    named = {str(one): one for one in each.numbers}
    for batch, chips, published in ((43, 16, 0.27), (52, 8, 0.66), (67, 4, 1.72)):
        values = {named["B"]: batch, named["N"]: chips, named["t_e2e"]: 512 * 0.019}
        assert evaluate(each.expression, values) == pytest.approx(published, abs=0.01)


def test_rates_are_batches_over_times() -> None:
    """Of the estimate, and of the bound where it is wanted."""
    options = {"batch": 16, "output_len": 100}
    served = roofline.analyze(LLAMA, H100, **options).request
    assert explain(LLAMA, "requests_per_s", H100, **options).value == pytest.approx(16 / served.e2e_s.estimate)
    assert explain(LLAMA, "tokens_per_s bound", H100, **options).value == pytest.approx(16 / served.tpot_s.bound)


def test_costs(tmp_path: Path) -> None:
    """Two cards at 1.80 per hour each are 0.001 per second together; a token of 32 sequences costs that times TPOT over 32."""
    prices = tmp_path / "prices.yaml"
    prices.write_text("currency: EUR\nread: 2026-01-31\nprices: {h100-sxm: 1.8 EUR/h}\n", encoding="utf-8")
    options = {"tp": 2, "batch": 32, "output_len": 100, "input_len": 500}
    served = roofline.analyze(LLAMA, NODE, **options).request
    expected = {
        "cost_per_million_output_tokens": 1e6 * 0.001 * served.tpot_s.estimate / 32,
        "cost_per_million_input_tokens": 1e6 * 0.001 * served.ttft_s.estimate / (32 * 500),
        "cost_per_million_tokens": 1e6 * 0.001 * served.e2e_s.estimate / (32 * 600),
    }
    for name, value in expected.items():
        result = explain(LLAMA, name, NODE, price=prices, **options)
        assert (result.value, result.unit) == (pytest.approx(value, rel=1e-9), "EUR")
        assert "1.80 EUR/h" in result.source
        assert "2026-01-31" in result.source
    assert explain(LLAMA, "cost_per_million_output_tokens", H100).unit == "USD"  # the ranges that are shipped
    with pytest.raises(InputError, match="--price FILE"):
        explain(LLAMA, "cost_per_million_output_tokens", "tpu-v6e")


@pytest.mark.parametrize(("model", "phase"), [(LLAMA, "prefill"), (LLAMA, "decode"), ("llama-2-7b", "prefill")])
def test_critical_tp_is_where_links_and_work_are_even(model: str, phase: str) -> None:
    """At t devices links take (t - 1)/(t* - 1) of what the products of the layers take: from the operators of `analyze`."""
    critical = explain(model, "critical_tp", NODE, phase=phase, batch=4).value
    for size in (2, 4, 8):
        step = getattr(roofline.analyze(model, NODE, tp=size, batch=4), phase)
        inside = [op for op in step.operators if op.path.startswith("layers/")]
        links = sum(op.times.link for op in inside)
        products = [op for op in inside if op.cost.matrix_flops]
        compute = sum(op.times.matrix for op in products)
        lasting = sum(op.cost.weight_bytes + op.cost.kv_read_bytes + op.cost.kv_write_bytes for op in products)
        work = max(compute, lasting / 3.35e12)
        assert links / work == pytest.approx((size - 1) / (critical - 1), rel=1e-6)


def test_critical_tp_of_the_scaling_book() -> None:
    """Two axes of 180 GB/s on TPU v5p: 22 devices by the MLP of LLaMA-3 70B (28,672 x 2/2,550); of whole layers 21.7."""
    value = explain("llama-3.1-70b", "critical_tp", "tpu-v5p", link_bandwidth="360 GB/s", phase="prefill").value
    assert value == pytest.approx(22, rel=0.05)


@pytest.mark.parametrize(
    ("subject", "options", "message"),
    [
        ("tpot", {}, "--hardware"),
        ("tpott", {"hardware": H100}, "Did you mean tpot"),
        ("e2e", {"hardware": H100}, "--output-len"),
        ("tpot", {"hardware": H100, "output_len": 1}, "one output token"),
        ("tpot", {"hardware": H100, "batch": 20_000}, "--ignore-capacity"),
        ("prefill", {"hardware": H100, "phase": "decode"}, "no such step"),
        ("max_batch bound", {"hardware": H100}, "one number"),
        ("lm_head floor", {"hardware": H100}, "whole step"),
        ("lm_head estimate", {}, "--hardware"),
        ("critical_tp", {"hardware": NODE, "segments": "1x1@5"}, "--segments"),
        ("tokens_per_round", {"hardware": H100}, "--acceptance"),
    ],
)
def test_what_has_no_answer(subject: str, options: dict[str, Any], message: str) -> None:
    """One line that says what is wrong and what would help."""
    with pytest.raises((InputError, UnknownNameError), match=message):
        explain(LLAMA, subject, **options)


def test_notebooks_show_formulas() -> None:
    """MathML and LaTeX of the explanation, and a table of its symbols; `print` gives the text."""
    result = roofline.explain(LLAMA, "tpot", hardware=H100, batch=4)
    page = result._repr_html_()
    assert result.mathml.removeprefix("<math>") in page
    assert all(part.substituted_mathml.removeprefix("<math>") in page for part in result.parts)
    assert "<mn>3.35 TB/s</mn>" in page
    line = result._repr_latex_()
    assert line.startswith("$") and line.endswith("$") and result.latex in line  # noqa: PT018
    assert str(result).startswith("tpot: time per output token")
    assert repr(result) == f"<Explanation of tpot: {result.formula} = {result.value!r} s>"


def test_numbers_as_people_write_them() -> None:
    """Rates with a prefix, whole dimensions as they are; nothing has fifteen digits."""
    assert explain(LLAMA, "ridge_point", "a100-sxm-80gb").substituted == "312 TFLOP/s / 2.039 TB/s"
    assert explain(LLAMA, "decode_floor", "a100-sxm-80gb").substituted == "15.01 GB / 2.039 TB/s"
    latex = explain(LLAMA, "ridge_point", "a100-sxm-80gb").substituted_latex
    assert latex == r"\frac{312\,\mathrm{TFLOP/s}}{2.039\,\mathrm{TB/s}}"
    assert math.isclose(explain(LLAMA, "ridge_point", "a100-sxm-80gb").value, 312e12 / 2039e9)


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("model", "hardware", "options"),
    [
        (LLAMA, H100, {"batch": 512, "quantization": "fp8", "context": 50}),
        (LLAMA, NODE, {"tp": 8, "batch": 4}),
        ("qwen3-30b-a3b", NODE, {"dp": 16, "ep": 16, "batch": 2048, "context": 20}),
        ("gpt2", "l4", {"batch": 2}),
    ],
    ids=ids_of,
)
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_a_bound_is_of_amounts_and_rates(model: str, hardware: str, options: dict[str, Any], phase: str) -> None:
    """FLOP by dtype, bytes moved and bytes sent of the operators that each binds, over its rate; the legend counts them."""
    result = roofline.analyze(model, hardware, phase=phase, ignore_capacity=True, **options)
    explained = explain(model, f"{phase} bound", hardware, phase=phase, ignore_capacity=True, **options)
    numbers = {str(name): float(value) for name, value in explained.numbers.items()}
    legend = {name: about for name, _, about in explained.legend}
    card = result.hardware
    bound: dict[tuple[str, str], list[float]] = {}
    for operator in (one for one in result.phases[0].operators if one.kind != "overhead"):
        longest = max(("memory", "matrix", "vector", "link"), key=lambda name, busy=operator.times: getattr(busy, name))
        cost, dtype = operator.cost, operator.dtype if longest == "matrix" else ""
        amount = {"memory": cost.bytes, "matrix": cost.matrix_flops, "vector": cost.vector_flops, "link": cost.link_bytes}
        bound.setdefault((longest, dtype), []).append(amount[longest])
    several = sum(kind == "matrix" for kind, _ in bound) > 1
    for (kind, dtype), amounts in bound.items():
        mark = f"_{dtype}" if several and dtype else ""
        work = {"memory": "D_memory", "matrix": f"F_compute{mark}", "vector": "F_vector", "link": "D_link"}[kind]
        rate, speed = {
            "memory": ("beta", card["bandwidth"]), "matrix": (f"P{mark}", card["peak_flops"].get(dtype)),
            "vector": ("P_v", card["vector_flops"]), "link": ("β_link", None),
        }[kind]  # fmt: skip
        if kind == "link":
            links = [(numbers[name], numbers[name.replace("D", "β")]) for name in numbers if name.startswith("D_link")]
            times = [one.times for one in result.phases[0].operators]
            busy = [one.link for one in times if one.link == one.bound and one.link]
            assert sum(sent / fast for sent, fast in links) == pytest.approx(sum(busy))
            continue
        assert numbers[work] == pytest.approx(sum(amounts))
        assert numbers[rate] == speed
        total = sum(len(each) for (other, _), each in bound.items() if other == kind)
        what = {"memory": "memory-bound", "matrix": "compute-bound", "vector": "bound by vector units"}[kind]
        assert f"by the {total} {what} operator{'s' * (total > 1)}" in legend[work.replace("beta", "β")]


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("model", "hardware", "options", "phase"),
    [
        ("qwen3-30b-a3b", NODE, {"dp": 8, "ep": 8, "batch": 64}, "decode"),
        (LLAMA, "l40s", {"tp": 2, "quantization": "fp8"}, "prefill"),
        (LLAMA, "mi300x", {}, "decode"),
    ],
    ids=ids_of,
)
def test_terms_of_a_kernel_are_those_of_its_form(model: str, hardware: str, options: dict[str, Any], phase: str) -> None:
    """Calls, each term that adds to the others, and what runs at the same time as one term; the longest in the legend."""
    request = prepare(model, hardware, **options, phase=phase)
    ((_, step),) = request.workload.steps
    of_request = Explainer(model, hardware, **options, phase=phase)
    estimator, graph = request.estimator, build(request.model, request.deployment, request.precision, step)
    for kernel in kernels(graph):
        found = of_request.explain(f"{kernel.paths[0]} estimate")
        numbers = {str(name): float(value) for name, value in found.numbers.items()}
        terms, fitted = estimator.terms(kernel), estimator.fitted(kernel)
        together = [name for name in (fitted.form.overlapping if fitted else ()) if name in terms]
        adding = {name: float(terms[name]) for name in terms if name not in ("total", "bound", *together)}
        assert numbers.pop("n") == kernel.repeat
        rest = float(terms["total"]) - sum(adding.values())
        for name, value in adding.items():
            assert numbers.pop(f"t_{name}", 0) == pytest.approx(value)
        if together:
            assert numbers.pop("t_busy", 0) == pytest.approx(rest, abs=1e-15)
        assert set(numbers) <= {"t_bound"}
        assert found.value == pytest.approx(kernel.repeat * float(terms["total"]))
        if fitted is None:
            assert (found.source, "none like it was measured" in found.about) == ("no measurement", True)
            continue
        constants = {name: value for name, value, about in found.legend if about.startswith("fitted: ")}
        assert constants == {one.name: float(fitted.values[one.name]) for one in fitted.form.parameters}
        if fitted.family.rows:
            assert found.source.startswith(fitted.source)
        assert f"form {fitted.form.name}: " in found.about
