"""The page of a plan: what follows from another rate or price, what is shown of which plan, and that names are text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from unit.report.plan_samples import INPUT, OUTPUT, RATE, candidate, closed, infeasible, offered, plan, pool

from roofline.errors import SpecError
from roofline.report.figure import Cell, Table, View
from roofline.report.plan.load import is_plan, planned
from roofline.report.plan.page import controls, plan_page, saved_plan_page, view
from roofline.report.plan.scaling import Scaled, first_values, on_front, ordered
from roofline.report.styles import look, looks

HOSTILE = "</td></style><script>alert(1)</script>\"&'\u202e"


class Elements(HTMLParser):
    """Tags, outside of scripts, with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins."""
        self.found.append((tag, dict(attrs)))


def at(found: dict[str, Any], **changes: float) -> list[Scaled]:
    """Candidates at a rate and prices, ranked."""
    read = planned(found)
    return ordered(read, {**first_values(read), **changes})


def shown(found: dict[str, Any], **changes: float) -> View:
    read = planned(found)
    return view(read, {**first_values(read), **changes})


def table(of: View, key: str) -> Table:
    (found,) = (one for section in of.sections for one in section.tables if one.key == key)
    return found


def column(of: Table, name: str) -> list[Cell]:
    (index,) = (place for place, head in enumerate(of.columns) if head.name == name)
    return [row[index] for row in of.rows]


@pytest.mark.parametrize("found", [plan(), offered()], ids=["prices", "offers"])
def test_as_planned_everything_is_the_plans(found: dict[str, Any]) -> None:
    for one, was in zip(at(found), found["candidates"], strict=True):
        assert (one.devices, one.replicas) == (was["devices"], tuple(each["replicas"] for each in was["pools"]))
        assert (one.headroom, one.breaks_at, one.binds) == (was["headroom"], was["breaks_first"]["rate"], was["binds"])
        assert one.utilisation == was["utilisation"]
        assert one.per_hour == pytest.approx(was["cost_per_hour"], rel=1e-12)
        assert [one.low, one.high] == pytest.approx(was["cost_per_hour_range"], rel=1e-12)
        wanted = was["cost_per_million_tokens"]
        got = [one.million_input, one.million_output, one.million]
        assert got == pytest.approx([wanted["input"], wanted["output"], wanted["total"]], rel=1e-12)


def test_offers_are_counted_by_devices() -> None:
    """At 100/s five h100 are 2 x 2 + 3 x 4 = 16 per hour, of 13 to 19; of l40s 18 are needed, and 12 have a price."""
    found = {one.of.number: one for one in at(offered(), rate=100.0)}
    assert (found[1].per_hour, found[1].low, found[1].high) == (16.0, 13.0, 19.0)
    assert found[3].beyond == "more than the 12 that have a price"
    assert [control.key for control in controls(planned(offered()))] == ["rate"]
    (note,) = (section.note for section in shown(offered()).sections if section.key == "prices")
    assert note.startswith("The rate can be set on the page")
    prices = table(shown(offered()), "prices")
    assert [cell.text for cell in column(prices, "the plan's price, with its source")] == [
        "2 at 2.00, then any number at 4.00", "12 at 1.00",
    ]  # fmt: skip


def test_more_traffic_takes_more_replicas() -> None:
    """At 100/s: 100/20 is 5 without a rest; 100/40 and 100/55 are 3 and 2; 100/12 is 8.3, so 9 pairs."""
    found = {one.of.number: one for one in at(plan(), rate=100.0)}
    assert {number: one.replicas for number, one in found.items()} == {1: (5,), 2: (3, 2), 3: (9,)}
    assert {number: one.per_hour for number, one in found.items()} == {1: 15.0, 2: 15.0, 3: 18.0}
    assert found[1].headroom == pytest.approx(0.0)
    assert found[2].breaks_at == 110.0  # decode: 2 x 55; prefill has 3 x 40
    assert found[2].binds == "memory"
    assert found[3].headroom == pytest.approx(9 * 12 / 100 - 1)
    # 60% at 50/s on three is so much of 20/s on each as it was of 16.7/s
    assert found[1].utilisation == pytest.approx(0.6 * (100 / 5) / (50 / 3))
    assert found[2].utilisation is None  # of which pool it was is not told
    assert found[1].million == pytest.approx(15 / 3600 / (100 * (INPUT + OUTPUT)) * 1e6)


def test_no_less_than_one_replica() -> None:
    assert [one.replicas for one in at(plan(), rate=5.0)] == [(1,), (1,), (1, 1)]
    assert at(plan(), rate=5.0)[0].of.hardware == "l40s"  # 2 x 1.00 beside 1 x 3.00


def test_spares_come_on_top_and_serve_nothing() -> None:
    found = plan(candidates=[candidate("h100-sxm", [pool("both", 20.0, 1, spare=2)], 0.05, 0.01)], pareto=[0])
    (one,) = at(found, rate=90.0)
    assert one.replicas == (5 + 2,)
    assert one.breaks_at == 100.0


def test_prices_rank_anew() -> None:
    """l40s at 0.5: 10 x 0.5 is less than 3 x 3."""
    found = at(plan(), **{"price.l40s": 0.5})
    assert [one.of.number for one in found] == [3, 1, 2]
    assert found[0].per_hour == 5.0
    assert found[0].low is None  # the range was that of another price
    assert found[1].low == 6.0
    assert found[0].million == pytest.approx(5 / 3600 / (RATE * (INPUT + OUTPUT)) * 1e6)


def test_the_front_follows_prices() -> None:
    read = planned(plan())
    values = {**first_values(read), "price.l40s": 0.5}
    assert on_front(read, first_values(read), ordered(read, first_values(read))) == [1, 2]
    assert on_front(read, values, ordered(read, values)) == [1, 2, 3]


@pytest.mark.parametrize(("rank", "order"), [("cost", [3, 1, 2]), ("gpus", [1, 2, 3]), ("latency", [1, 2, 3])])
def test_ranks(rank: str, order: list[int]) -> None:
    """Ten l40s at 0.5 are cheapest, three h100 fewest; the quickest is what the plan's order says, whatever is paid."""
    found = plan(rank=rank)
    if rank == "latency":
        found["candidates"][:2] = found["candidates"][1::-1]
        assert at(found)[0].of.ttft.mean == 0.04
    assert [one.of.number for one in at(found, **{"price.l40s": 0.5})] == order


def test_the_mean_load_pays_for_tokens() -> None:
    """A peak of twice the mean: half the tokens for the same devices."""
    once, twice = plan(), plan()
    twice["traffic"] |= {"mean_rate": RATE / 2, "peak_factor": 2.0}
    assert at(twice)[0].million == pytest.approx(2 * (at(once)[0].million or 0))
    assert at(twice, rate=100.0)[0].million == pytest.approx(2 * (at(once, rate=100.0)[0].million or 0))


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ({"max_gpus": 4}, "more than 4 devices"),
        ({"max_cost": 12.0}, "more than 12 per hour"),
        ({"inventory": {"h100-sxm": 4, "l40s": 64}}, "more than the 4 that are there"),
    ],
)
def test_beyond_a_limit_comes_last(limit: dict[str, Any], said: str) -> None:
    found = plan()
    found["limits"] |= limit
    moved = at(found, rate=100.0)
    assert {one.of.number: one.beyond for one in moved}[1] == said
    if "inventory" in limit:
        assert moved[0].of.number == 3
        assert moved[0].beyond == ""
    else:  # nothing is left, and the page says so
        made = shown(found, rate=100.0)
        assert not made.fits
        assert "No candidate is within the limits" in made.verdict


def test_without_a_price_there_is_no_cost_until_one_is_set() -> None:
    found = plan()
    for name in ("cost_per_hour", "cost_per_hour_range", "currency", "price"):
        found["candidates"][2][name] = None
    found["candidates"][2]["cost_per_million_tokens"] = {"input": None, "output": None, "total": None}
    assert at(found)[2].per_hour is None
    assert shown(found).sections[0].title == "Devices against TPOT"
    priced = at(found, **{"price.l40s": 0.5})
    assert (priced[0].of.number, priced[0].per_hour) == (3, 5.0)
    (control,) = (one for one in controls(planned(found)) if one.key == "price.l40s")
    assert control.text == "not known"


def test_the_answer_says_it_all() -> None:
    made = shown(plan())
    assert made.title == "a-model for 50 requests/s"
    assert made.subtitle == "prompt 1000, output 200 · TTFT 2 s and TPOT 50 ms for 95 % of requests"
    assert made.verdict == (
        "3 x H100-SXM serve 50 requests/s for 9.00 USD per hour: 3 replicas of one device, fp8. Capacity 60 req/s."
    )
    first, seen, breaks, counts = made.answer
    assert first == (
        "3 x H100-SXM serve 50 requests/s: 3 replicas of one device, fp8, for 9.00 USD per hour (6.00 to 15.00 over the price "
        "range), 0.0417 USD per million tokens (input and output)."
    )  # 9/3600/60000 x 1e6 = 0.041667
    assert seen == (
        "TTFT mean 50 ms (80 % interval 25 to 100 ms), p95 100 ms (objective 2 s); TPOT mean 10.0 ms (80 % interval 5.0 to "
        "20 ms), p95 20 ms (objective 50 ms)."
    )
    assert breaks == "Capacity 60 req/s (20 % headroom). Beyond it, the TPOT objective is missed first."
    assert counts == (
        "8 combinations of hardware, precision and parallelism searched; 6 fit in memory; 4 deployments of them (as one pool, "
        "or paired as prefill and decode pools) meet the objectives; 3 are within the limits."
    )


def test_times_are_said_to_be_those_of_the_plan() -> None:
    moved = shown(plan(), rate=100.0)
    assert moved.verdict.startswith("What if: 5 x H100-SXM serve 100 requests/s")
    assert moved.answer[1].startswith("At the planned 50 requests/s: TTFT mean 50 ms")
    assert moved.tiles[3].label == "TTFT, p95 at 50 requests/s"
    assert "at the planned 50 requests/s" in table(moved, "candidates").note


def test_commands_are_verbatim_and_quoted() -> None:
    """Of each pool and engine, vLLM's first."""
    found = shown(plan()).commands
    assert [one.label for one in found] == ["vllm@0.19, each of 3 replicas", "sglang@0.5, each of 3 replicas"]
    assert found[0].text == "vllm serve org/model --tensor-parallel-size 1 'it'\"'\"'s'"
    apart = plan(candidates=plan()["candidates"][1:2], pareto=[0])
    assert [one.label for one in shown(apart).commands][::2] == [
        "vllm@0.19, prefill pool, each of 2 replicas", "vllm@0.19, decode pool, the replica",
    ]  # fmt: skip


def test_tables_have_every_candidate_and_mark_the_front_in_words() -> None:
    found = table(shown(plan()), "candidates")
    assert [cell.text for cell in column(found, "Pareto")] == ["front", "front", "–"]
    assert [cell.text for cell in column(found, "replicas")] == [
        "3 x one device",
        "2 x one device (prefill) + 1 x one device (decode)",
        "5 x tp=2",
    ]
    assert [cell.value for cell in column(found, "USD/h")] == [9.0, 9.0, 10.0]
    pools = table(shown(plan(), rate=100.0), "pools")
    assert [cell.value for cell in column(pools, "replicas planned")] == [3, 2, 1, 5]
    assert [cell.value for cell in column(pools, "replicas now")] == [5, 3, 2, 9]


def test_figures() -> None:
    made = {section.key: section.figure for section in shown(plan()).sections}
    drawn = made["cost-tpot"]
    assert drawn is not None
    line = drawn.series[0]
    assert (line.x, line.y) == ((0.010,), (9.0,))  # no other is cheaper
    named = {series.name: series for series in drawn.series[1:]}
    assert named["h100-sxm"].x == (0.010, 0.012)
    assert (named["l40s"].short, named["l40s"].role) == (("3",), "bound")  # hollow, in the hue of its hardware
    assert looks(drawn)[2].hue == look("estimate", 1).hue
    steps = made["steps"]
    assert steps is not None
    (own,) = (series for series in steps.series if series.name.startswith("1:"))
    # from a quarter of 50 to four times it, up at 20, 40, ..., 180
    assert own.x[0] == 12.5
    assert own.x[-1] == 200.0
    assert own.y[:4] == (3.0, 3.0, 6.0, 6.0)
    assert own.y[-1] == 30.0


def test_a_closed_loop_has_prices_alone() -> None:
    assert [control.key for control in controls(planned(closed()))] == ["price.h100-sxm", "price.l40s"]
    made = shown(closed())
    assert made.verdict.startswith("3 x H100-SXM serve 64 clients")
    assert "steps" not in {section.key for section in made.sections}
    assert not any("headroom" in head.name for head in table(made, "candidates").columns)
    assert [one.replicas for one in at(closed(), **{"price.l40s": 0.5})] == [(5,), (3,), (2, 1)]


def test_infeasible_says_what_to_relax_and_has_no_controls() -> None:
    made = shown(infeasible())
    assert not made.fits
    assert made.verdict == "None of the deployments searched serves 50 requests/s within the objectives."
    assert made.answer[0] == "Relax TPOT from 1 ms to 3.5 ms: h100-sxm, fp8, tp=4 reaches it with almost no load."
    assert [cell.text for cell in column(table(made, "nearest"), "value")] == ["h100-sxm", "tp=4", "fp8", "2 s", "3.5 ms"]
    text = saved_plan_page(infeasible())
    assert 'id="json-controls">[]</script>' in text
    assert "What comes nearest" in text


def test_a_page_is_closed_and_same_every_time() -> None:
    text = saved_plan_page(plan(), Path("somewhere/my plan.json"))
    assert saved_plan_page(plan(), Path("somewhere/my plan.json")) == text
    assert len(text.encode()) < 2e6
    assert "default-src &#39;none&#39;; script-src &#39;sha256-" in text
    assert "roofline report --from &#39;my plan.json&#39; --output plan.html" in text.replace("</span> <span>", " ")
    elements = Elements(text).found
    assert not {"iframe", "object", "base"} & {tag for tag, _ in elements}
    for _, attributes in elements:
        assert not {"src", "style", "action", "onclick"} & set(attributes)
    ids = [attributes["id"] for _, attributes in elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_sections_stand_in_the_order_of_a_report() -> None:
    """The assumptions come after all that they are of."""
    text = saved_plan_page(plan())
    keys = re.findall(r'<section class="section[^"]*" id="section-([^"]+)"', text)
    assert keys == ["cost-tpot", "cost-ttft", "candidates", "steps", "prices", "pools", "traffic", "inputs", "stands"]


def hostile(found: dict[str, Any], where: str) -> dict[str, Any]:
    """The same with a text that would be markup."""
    if where == "model":
        found["model"]["name"] += HOSTILE
    elif where == "class":
        found["traffic"]["classes"][0]["name"] += HOSTILE
    elif where == "refused":
        found["refused"][0]["why"] += HOSTILE
    elif where == "command":
        for one in found["candidates"]:
            one["pools"][0]["engine_flags"] = {"vllm@0.19": [HOSTILE], "sglang@0.5": [HOSTILE]}
    else:
        for one in found["candidates"]:
            one[where] = [HOSTILE] if where == "notes" else one[where] + HOSTILE
    return found


@pytest.mark.parametrize("where", ["model", "class", "refused", "command", "hardware", "title", "precision", "notes", "price"])
def test_a_name_is_text(where: str) -> None:
    plain = plan()
    if where == "notes":
        for one in plain["candidates"]:
            one["notes"] = ["x"]
    text = saved_plan_page(hostile(plan(), where))
    words = {"span"} if where == "command" else set()  # one for each word of a command
    tags = [tag for tag, _ in Elements(saved_plan_page(plain)).found if tag not in words]
    if where == "hardware":  # its controls have other keys, and as many elements
        assert "control-price.0" in text
    assert [tag for tag, _ in Elements(text).found if tag not in words] == tags
    assert "\u202e" not in text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"traffic": []}, "traffic must be an object"),
        ({"candidates": [1]}, "candidates must be a list of objects"),
        ({"pareto": [3]}, "pareto must be a list of indices"),
        ({"rank": 1}, "rank must be a text"),
        ({"candidates": []}, "infeasible must say why"),
        ({"check": {"passed": False}}, "is of `plan --check`, which has no page"),
    ],
)
def test_what_is_no_plan_is_refused_by_its_key(change: dict[str, Any], said: str) -> None:
    found = {**plan(), **change}
    assert is_plan(found)
    with pytest.raises(SpecError, match=said) as caught:
        saved_plan_page(found, Path("a.json"))
    assert "a.json" in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"), [("max_rate", 0), ("max_rate", "20"), ("replicas", 0), ("spare", 3), ("devices", 0.5), ("role", "x")]
)
def test_a_pool_that_cannot_be_is_refused(key: str, value: Any) -> None:
    found = plan()
    found["candidates"][0]["pools"][0][key] = value
    with pytest.raises(SpecError, match=r"candidates\[0\]\.(pools|max_rate|devices|role)"):
        planned(found)


@pytest.mark.slow
def test_a_real_plan_is_its_own_first_state() -> None:
    """What the planner says and what the page counts: replicas, money, headroom."""
    from roofline.serving.planning.plan import plan as answer

    load = {"rate": 20, "input_len": "512", "output_len": "128", "tpot": "50 ms"}
    made = answer("llama-3.1-8b", hardware="h100-sxm,l40s", dtype="fp8", top=4, **load)
    text = plan_page(made, line="roofline plan llama-3.1-8b")
    assert "roofline plan llama-3.1-8b" in text.replace("</span> <span>", " ")
    assert made.best is not None
    assert len({one.hardware for one in made.candidates}) == 2
    read = planned(made.to_dict())
    # moved and back, so that everything is counted: the rank and the front too
    nearly = {**first_values(read), "rate": 20 * (1 + 1e-12)}
    for one in ordered(read, nearly):
        was = made.candidates[one.of.number - 1]
        assert one.replicas == tuple(each.replicas for each in was.pools)
        assert one.per_hour == pytest.approx(was.cost.per_hour)
        assert one.headroom == pytest.approx(was.headroom)
        assert (one.million, one.million_input) == pytest.approx((was.cost.total, was.cost.input))
    assert [one.of.number for one in ordered(read, nearly)] == [1 + index for index in range(len(made.candidates))]
