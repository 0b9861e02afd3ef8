"""A simulation as sentences and text tables, for terminals, Markdown and pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from roofline.documents import DATA_VERSION, __version__
from roofline.formatting import ABSENT, about, about_number, about_range, money, number, percent, plural, quantity, seconds
from roofline.predict.efficiency.estimate import BASIS_TEXTS
from roofline.report import summary
from roofline.report.answer import provenance, settings_line
from roofline.serving.simulation.result import Latency, Simulation
from roofline.text import Answer, Table


def sentences(result: Simulation) -> list[str]:
    """The result in sentences: requests completed, saturation, share within the SLO, step times, refusals, preemptions."""
    return [*verdict(result), *(text for _, text in remarks(result))]


def verdict(result: Simulation) -> list[str]:
    """Sentences: requests completed and throughput; saturation; share within the SLO."""
    if result.unfit is not None:
        return [f"{result.unfit}."]
    first = [] if result.find_rate is None else [rate_sentence(result.find_rate)]
    counts, rates = result.requests, result.throughput
    tokens = f"{about_number(rates['output_tokens_per_s'])} output tok/s"
    took = f"{counts.completed:,} of {plural(counts.arrived, 'request')} completed in {seconds(result.duration_s)}"
    texts = [*first, f"{took}: {number(rates['requests_per_s'], 3)} req/s, {tokens}."]
    if result.saturated:
        offered = number(result.offered_rate or 0.0, 3)
        texts.append(f"Saturated: the offered load is {offered} req/s; queues grow for as long as it lasts.")
    if result.within_slo is not None:
        share = percent(result.within_slo, digits=4)
        texts.append(f"{share} of the requests meet the SLO: goodput {number(result.goodput or 0.0, 3)} req/s.")
    return texts


_BINDS = {
    "ttft": "TTFT exceeds its objective first", "tpot": "TPOT exceeds its objective first",
    "throughput": "the server is saturated first",
}  # fmt: skip


def rate_sentence(search: Mapping[str, Any]) -> str:
    """Sentences: the highest rate within the objectives with its interval, and what binds beyond it."""
    share = "" if search["percentile"] is None else f" for {percent(search['percentile'], digits=4)} of the requests"
    tried = [point["rate"] for point in search["points"]]
    if search["rate"] is None:
        lowest = f", down to {number(min(tried), 3)} req/s" if tried else ""
        why = f": {_BINDS[search['binds']]}" if search["binds"] else ""
        return f"No rate that was tried{lowest}, holds the SLO{share}{why}."
    between = ""
    if search["low"] is not None:
        seeds = plural(len(search["seeds"]), "seed")
        between = (
            f" ({percent(search['level'], 0)} interval {number(search['low'], 3)} to {number(search['high'], 3)}, {seeds})"
        )
    rate = f"The SLO holds{share} up to {number(search['rate'], 3)} req/s{between}"
    return f"{rate}; beyond it {_BINDS[search['binds']]}. At that rate, with seed {search['seeds'][0]}:"


def rates_table(result: Simulation) -> Table | None:
    """Text table of the rates that were tried; None without a search."""
    if result.find_rate is None:
        return None
    rows = tuple(
        (
            number(point["rate"], 4), str(point["seed"]), percent(point["within_slo"], digits=4),
            *(percent(point[f"within_{name}"], digits=4) for name in ("ttft", "tpot")),
            "yes" if point["holds"] else "no, saturated" if point["saturated"] else "no",
        )
        for point in result.find_rate["points"]
    )  # fmt: skip
    columns = ("req/s", "seed", "within the SLO", "TTFT", "TPOT", "holds")
    return Table("Rates tried", "shares of the requests", columns, (True, True, True, True, True, False), rows)


def remarks(result: Simulation) -> list[tuple[str, str]]:
    """Labels and sentences: what was cut off, step times, preemptions, refusals."""
    counts, lines = result.requests, []
    if result.interrupted:
        left = plural(counts.unfinished, "request")
        lines.append(("Interrupted", f"{left} in flight not counted"))
    if result.warm_up["method"] == "mser-5" and (result.warm_up["requests"] or "no steady state" in result.warm_up["why"]):
        lines.append(("Warm-up", warm_up(result)))
    if result.estimate_basis is not None and result.steps:
        lines.append(("Steps", _step_times(result, result.estimate_basis)))
    elif result.steps:
        lines.append(("Steps", "Step times are roofline bounds, not estimates."))
    if result.speculative is not None:
        lines.append(("Speculation", _speculation(result.speculative)))
    if counts.preemptions:
        counted = f"{plural(counts.preemptions, 'preemption')} of {plural(counts.preempted, 'request')}"
        lines.append(("Preemptions", f"{counted} ({result.server['preemption']}): {_costs(result.preemption)}."))
    return [*lines, *_missing(result)]


def _missing(result: Simulation) -> list[tuple[str, str]]:
    """Labels and sentences: requests that failed, were refused or shed, or wait too long."""
    counts, lines = result.requests, []
    if counts.failed:
        lost = plural(counts.failed, "request")
        lines.append(("Failed", f"{lost} failed with their replicas, beyond all retries; each counts as a miss of the SLO."))
    if counts.refused:
        first = result.refusals[0]
        refused = f"{plural(counts.refused, 'request')} refused, such as request {first['request']}"
        lines.append(("Refused", f"{refused}: {first['why']}."))
    if counts.shed:
        classes = [f"{one['name']} {one['shed']:,}" for one in result.classes if one["shed"]]
        by_class = f" ({', '.join(classes)})" if len(result.classes) > 1 and classes else ""
        missed = "; the SLO counts them as missed" if result.within_slo is not None else ""
        shed = f"{plural(counts.shed, 'request')} shed by --admission {result.server['admission']}"
        lines.append(("Shed", f"{shed}, {percent(result.shed_share, digits=3)}{by_class}{missed}."))
    if result.starved is not None:
        lines.append(("Warning", starvation(result.starved, result.server["scheduler"])))
    return lines


def _speculation(drafted: Mapping[str, Any]) -> str:
    """How many drafted tokens were accepted."""
    length = drafted["mean_acceptance_length"]
    if length is None:
        return "No round of drafts was run."
    per_round = plural(drafted["num_speculative_tokens"], "draft token")
    share = percent(drafted["accepted_share"], digits=2)
    return (
        f"{per_round} per round from {drafted['draft']}, {share} of them accepted: mean acceptance length {number(length, 3)}. "
        "The tokens of a round arrive together: ITL is the time between rounds."
    )


def starvation(starved: Mapping[str, Any], scheduler: str) -> str:
    """A sentence: the request that a scheduler starves."""
    request = f"Request {starved['request']} (class {starved['class']})"
    later = f"{starved['admitted_before']:,} later ones"
    return (
        f"{request} is starved: it waited {seconds(starved['seconds'])} for its first token, and {scheduler} admitted at least "
        f"{later} before it; --max-wait bounds that."
    )


def workload(result: Simulation) -> list[str]:
    """Parts of the settings line: arrivals, lengths, scheduler and replicas."""
    work, server = result.workload, result.server
    one = work["classes"][0] if len(work["classes"]) == 1 else None
    parts = [f"{work['clients']:,} clients" if work["clients"] else _arrivals(str(work["source"]))]
    if one is not None and not one["input_len"].startswith("prompts of"):
        parts.append(f"prompt {one['input_len']}, output {one['output_len']}")
    limits = [] if one is None else [(name, one[f"{name.lower()}_s"]) for name in ("TTFT", "TPOT")]
    if objectives := [f"{name} {seconds(limit)}" for name, limit in limits if limit is not None]:
        parts.append(f"SLO {', '.join(objectives)}")
    parts += _conversation(one) if one is not None and one.get("conversation") else []
    if one is not None and one["prefix_hit"]:
        parts.append(f"{percent(one['prefix_hit'], digits=3)} of prompts cached")
    if server:
        if result.pools:
            parts.append(pools(result))
        elif text := _replicas(result):
            parts.append(text)
        parts.append(f"scheduler {server['scheduler']}")
        parts += [f"admission {server['admission']}"] if server.get("admission", "all") != "all" else []
    return parts


def _replicas(result: Simulation) -> str:
    """How many replicas there are, and the router; "" of one that does not change."""
    server, scale = result.server, (result.fleet or {}).get("autoscale")
    if scale is not None:
        return f"{scale['min']} to {scale['max']} replicas ({server['router']}, scaled by {scale['policy']})"
    return f"{server['replicas']} replicas ({server['router']})" if server["replicas"] > 1 else ""


_DOES = {"prefill": "that prefill", "decode": "that decode"}


def pools(result: Simulation) -> str:
    """The pools of replicas in words."""
    disaggregated = result.transfer is not None
    listed = [_pool(result, one, what=_DOES[one["role"]] if disaggregated else f"({one['name']})") for one in result.pools]
    return f"{'disaggregated' if disaggregated else 'pools'}: {' + '.join(listed)}"


def _pool(result: Simulation, one: Mapping[str, Any], what: str) -> str:
    sizes = [
        f"{short} {one['deployment'][name]}"
        for short, name in (("TP", "tensor_parallel"), ("PP", "pipeline_parallel"), ("DP", "data_parallel"))
        if one["deployment"].get(name, 1) != result.pools[-1]["deployment"].get(name, 1) or one["deployment"].get(name, 1) > 1
    ]
    other = [] if one["hardware"]["name"] == result.hardware["name"] else [one["hardware"]["title"]]
    about_it = f" ({', '.join([*other, *sizes])})" if other or sizes else ""
    return f"{plural(one['replicas'], 'replica')}{about_it} {what}"


def pools_table(result: Simulation) -> Table | None:
    """Text table of the pools: replicas, utilization, requests that run and wait; None without pools."""
    if not result.pools:
        return None
    rows = tuple(
        (
            one["name"], one["hardware"]["title"], str(one["replicas"]), str(one["devices"]),
            *(percent(one["utilisation"][name], 1) for name in ("steps", "compute", "memory", "kv")),
            about_number(one["running"]), about_number(one["waiting"]),
        )
        for one in result.pools
    )  # fmt: skip
    columns = ("pool", "hardware", "replicas", "devices", "steps", "compute", "memory", "KV blocks", "running", "waiting")
    note = "in steps: share of the time; running and waiting: requests per replica, while it is in steps"
    return Table("Pools", note, columns, (False, False, *[True] * 8), rows)


_WAYS = (
    ("wait_for_blocks_s", "wait for blocks"), ("wait_for_link_s", "wait for link"), ("link_s", "on the link"),
    ("transfer_s", "prompt to arrival"),
)  # fmt: skip


def transfer_table(result: Simulation) -> Table | None:
    """Text table of the times of KV cache transfers; None without any."""
    sent = result.transfer
    if sent is None or not sent["transfers"]:
        return None
    figures = ("mean", "p50", "p90", "p95", "p99", "max")
    rows = tuple((label, *(about(sent[name][figure]) for figure in figures)) for name, label in _WAYS)
    return Table("KV cache transfers", _sent(sent), ("time", *figures), (False, *[True] * 6), rows)


def _sent(sent: Mapping[str, Any]) -> str:
    each = quantity(sent["bytes_per_device"] / sent["transfers"], "B", 3)
    sender, receiver = (percent(sent[f"{end}_utilisation"], 1) for end in ("sender", "receiver"))
    used = f"links in use: {sender} of the time of a sender, {receiver} of a receiver"
    return f"{plural(sent['transfers'], 'cache')} of {each} per device on average; {used}"


def _pool_lines(result: Simulation) -> list[tuple[str, str]]:
    """Labels and texts: utilization of each pool, and what transfers take."""
    if not result.pools:
        return []
    used = [(one["name"], one["utilisation"]) for one in result.pools]
    shares = "; ".join(
        f"{name} in steps {percent(of['steps'], 0)} of the time, KV cache {percent(of['kv'], digits=2)}" for name, of in used
    )
    lines = [("Pools", shares)]
    if result.goodput_per_gpu is not None:
        devices = sum(one["devices"] for one in result.pools)
        lines.append(("Per GPU", f"goodput {number(result.goodput_per_gpu, 3)} req/s, over {devices:,} GPUs"))
    sent = result.transfer
    if sent is not None and sent["transfers"]:
        parts = ", ".join(f"{about(sent[name]['mean'])} {label}" for name, label in _WAYS[:3])
        whole = f"{about(sent['transfer_s']['mean'])} from prompt to arrival on average: {parts}"
        lines.append(("Transfers", whole))
    return lines


def _conversation(one: Mapping[str, Any]) -> list[str]:
    """What the prompts of a class have in common."""
    common = one["conversation"]
    parts = []
    if common["system_prompt"]:
        several = f"one of {common['system_prompts']:,} " if common["system_prompts"] > 1 else ""
        parts.append(f"{several}system prompt{'s' if several else ''} of {common['system_prompt']:,} tokens")
    if common["turns"] is not None:
        pause = f" {seconds(common['think_s'])} apart" if common["think_s"] else ""
        parts.append(f"conversations of {common['turns']} turns{pause}")
    return parts


def _arrivals(source: str) -> str:
    """Where requests come from: `poisson:2` in words, a trace or file by its name."""
    kind, _, rate = source.partition(":")
    return f"Poisson arrivals, {rate} req/s" if kind == "poisson" else source


def load_lines(result: Simulation) -> list[tuple[str, str]]:
    """Labels and texts: throughput, utilization, size of the KV cache, and the spread over runs with other seeds."""
    rates, used, server = result.throughput, result.utilisation, result.server
    between = (result.throughput_interval or {}).get("output_tokens_per_s")
    parts = [] if between is None else [f"80 % interval {_rates(between['low'], between['high'])} output tok/s"]
    parts += [f"{about_number(rates['prompt_tokens_per_s'])} prompt tok/s"]
    if result.offered_rate is not None:
        source = str(result.workload["source"])
        drawn = f" (mean of the arrivals drawn with seed {result.workload['seed']})" if source.startswith("poisson:") else ""
        parts.append(f"offered load {number(result.offered_rate, 3)} req/s{drawn}")
    shares = ", ".join(
        f"{what} {percent(share, digits=2)}"
        for what, share in (("compute", used["compute"]), ("memory bandwidth", used["memory"]), ("KV cache", used["kv"]))
    )
    each = " per replica" if server["replicas"] > 1 or result.fleet is not None else ""
    size = f"{server['blocks'] * server['block_size']:,} tokens{each}"
    lines = [
        ("Throughput", "; ".join(parts)),
        ("Utilization", f"{shares}, on average"),
        *_pool_lines(result),
        *(
            [("KV cache size", f"{size}; max_num_seqs allows {server['max_num_seqs']:,} running requests{each}")]
            if not result.pools else []
        ),
        *fleet_lines(result),
    ]  # fmt: skip
    in_common = any(one.get("conversation") for one in result.workload["classes"])
    if result.prefix_hit_rate is not None and in_common and result.kv_offload is None:
        hits = f"{percent(result.prefix_hit_rate, digits=3)} of all prompt tokens were cached when their request started"
        lines.append(("Prefix cache", hits))
    if result.kv_offload is not None:
        lines.append(("KV cache tiers", _offload_line(result.kv_offload)))
    if (certainty := confidence_line(result)) is not None:
        lines.append(certainty)
    if (runs := result.replications) is not None:
        named = {"TTFT p99": "ttft_s.p99", "TPOT mean": "tpot_s.mean"}
        means = {label: runs["figures"][name] for label, name in named.items() if name in runs["figures"]}
        texts = [f"{label} {about(one['mean'])} ± {about(one['high'] - one['mean'])}" for label, one in means.items()]
        confidence = percent(runs["confidence"], 0)
        lines.append(("Between runs", f"{runs['runs']} runs with other seeds; {confidence} confidence: {', '.join(texts)}"))
    return lines


def fleet_lines(result: Simulation) -> list[tuple[str, str]]:
    """Labels and texts of replicas that come and go (how many there were, what they cost, failures), and of adapters."""
    fleet, lines = result.fleet, []
    if (lora := result.lora) is not None:
        size = f"{plural(lora['adapters'], 'adapter')} of rank {lora['rank']}, {quantity(lora['adapter_bytes'], 'B')} each"
        hits = f"{percent(lora['hit_rate'])} of the requests found theirs in one of {plural(lora['max_loras'], 'slot')}"
        loads = f"{plural(lora['loaded'], 'load')} took {about(lora['loading_s'])}, {number(lora['fetched'])} of them from disk"
        lines.append(("Adapters", f"{size}; {hits}; {loads}"))
    if fleet is None:
        return lines
    if (scale := fleet["autoscale"]) is not None:
        peak = plural(fleet["peak_replicas"], "replica")
        hours = f"{number(fleet['gpu_hours'], 3)} GPU-hours"
        cost = "" if (price := fleet["cost"]) is None else f", {money(price['value'])} {price['currency']}"
        changes = f"{plural(fleet['scale_ups'], 'scale-up')} and {plural(fleet['scale_downs'], 'scale-down')}"
        start = f"a start takes {seconds(scale['start_up_s'])}" if scale["start_up_s"] else "starts take no time"
        mean = number(fleet["mean_replicas"] or 0.0, 3)
        lines.append(("Replicas", f"{mean} on average, at most {peak}; {hours}{cost}; {changes}; {start}"))
    if fleet["failures"] is not None:
        counts = result.requests
        retried = f"{plural(counts.retried, 'request')} retried, {counts.failed:,} failed"
        outputs, cached = (about_number(fleet[f"lost_{name}_tokens"]) for name in ("output", "kv"))
        lost = f"{outputs} output tokens and {cached} of KV caches lost"
        up = f"availability of a replica {percent(fleet['availability'], digits=4)}"
        lines.append(("Failures", f"{plural(fleet['num_failures'], 'failure')}: {retried}; {lost}; {up}"))
    return lines


def _offload_line(offload: Mapping[str, Any]) -> str:
    """Text: where prompt tokens came from, and how busy the links of the tiers were."""
    sources = offload["prompt_tokens"]
    names = {"device": "in the device's cache", "computed": "computed"}
    shares = ", ".join(f"{percent(share, 1)} {names.get(name, f'loaded from {name}')}" for name, share in sources.items())
    links = [
        f"link of {tier['name']} {percent(tier['read_utilisation'], 1)} busy"
        + (f", mean load {seconds(tier['mean_load_s'])}" if tier["loads"] else "")
        for tier in offload["tiers"]
    ]
    late = [
        f"{tier['name']} is written to all the time: blocks are there late" for tier in offload["tiers"]
        if (tier["write_utilisation"] or 0) > _WRITTEN
    ]  # fmt: skip
    return f"prompt tokens: {shares}; {'; '.join([*links, *late])}"


_WRITTEN = 0.95
"""Utilisation of a link from which on what is written to a tier comes late."""


def offload_table(result: Simulation) -> Table | None:
    """Text table of the KV cache tiers; None without any."""
    offload = result.kv_offload
    if offload is None:
        return None
    declined = offload["declined_tokens"]
    note = "bytes and loads of a run; load time: from admission until the blocks are there, of it waiting for the link"
    if declined:
        note += f"; {about_number(declined)} tokens were computed again, since that was faster"
    rows = tuple(
        (
            tier["name"] + (" (shared)" if tier["shared"] else ""), f"{tier['capacity_tokens']:,}",
            percent(tier["hit_rate"], 1), f"{tier['loads']:,.0f}",
            quantity(tier["loaded_bytes"], "B", 3), quantity(tier["stored_bytes"], "B", 3),
            seconds(tier["mean_load_s"]), seconds(tier["mean_wait_s"]),
            percent(tier["read_utilisation"], 1), percent(tier["write_utilisation"], 1),
        )
        for tier in offload["tiers"]
    )  # fmt: skip
    columns = (
        "tier", "tokens", "of prompts", "loads", "loaded", "stored", "load time", "of it waiting", "reads busy", "writes busy",
    )  # fmt: skip
    return Table("KV cache tiers", note, columns, (False, *[True] * 9), rows)


def warm_up(result: Simulation) -> str:
    """A sentence: how many requests are not counted, and why."""
    cut, counts = result.warm_up, result.requests
    if not cut["requests"]:
        return f"{cut['why'][0].upper()}{cut['why'][1:]}."
    runs = "" if result.replications is None else " of each run"
    of = counts.arrived if result.replications is None else counts.arrived // result.replications["runs"]
    return f"The first {cut['requests']:,} of {plural(of, 'request')}{runs} are not counted: {cut['why']}."


_IN_LINE = (("ttft_s", "mean"), ("ttft_s", "p99"), ("tpot_s", "mean"), ("tpot_s", "p99"))


def confidence_line(result: Simulation) -> tuple[str, str] | None:
    """Label and text: intervals of TTFT and TPOT, and on what they rest, or why there are none; None of several runs."""
    certainty = result.ttft_s.confidence
    if result.replications is not None or certainty is None:
        return None
    texts: list[str] = []
    last = ""
    for name, figure in _IN_LINE:
        if (ends := getattr(result, name).interval(figure)) is not None:
            label = "" if last == name else f"{_NAMES[name]} "
            texts.append(f"{label}{figure} {_range(*ends)}")
            last = name
    if not texts:
        return "Confidence", f"No intervals: {certainty['mean'].get('why', '')}."
    absent = [(name, figure) for name, figure in _IN_LINE if getattr(result, name).interval(figure) is None]
    missing = [f"{_NAMES[name]} {figure}" for name, figure in absent if getattr(result, name).mean is not None]
    without = f"; none of {' and '.join(missing)}: too few independent requests" if missing else ""
    return "Confidence", f"{percent(certainty['level'], 0)} intervals: {', '.join(texts)}{without}"


def _range(low: float, high: float) -> str:
    """Two times in seconds, with their unit once where both have the same."""
    first, last = seconds(low), seconds(high)
    return f"{first.removesuffix(' ' + last.split(' ')[-1])} to {last}"


def confidence_table(result: Simulation) -> Table | None:
    """Text table of the intervals of the means and percentiles; None without any."""
    figures = ("mean", "p50", "p90", "p95", "p99")
    rows, reasons = [], []
    for name, label in _NAMES.items():
        one: Latency = getattr(result, name)
        if one.confidence is None or one.mean is None:
            continue
        ends = [one.interval(figure) for figure in figures]
        rows.append((label, *(ABSENT if each is None else _range(*each) for each in ends)))
        reasons += [f"{label} {figure}: {why}" for figure in figures if (why := one.confidence[figure].get("why"))]
    if not any(cell != ABSENT for row in rows for cell in row[1:]):
        return None
    certainty = result.ttft_s.confidence or {}
    how = "runs with other seeds" if certainty["method"] == "replications" else "batches of consecutive requests"
    more = f" and {len(reasons) - 2} more" if len(reasons) > 2 else ""
    note = f"{percent(certainty['level'], 0)}, from {certainty['batches']} {how}" + (
        f". {'; '.join(reasons[:2])}{more}" if reasons else ""
    )
    return Table("Confidence", note, ("latency", *figures), (False, *[True] * 5), tuple(rows))


def _step_times(result: Simulation, basis: str) -> str:
    """Typical step times with their intervals, and what they rest on."""
    texts: list[str] = []
    decode = "an average decode step" if result.speculative is None else "an average round of drafting and verification"
    for name, what in (("prefill", "a prefill step of one prompt of mean length"), ("decode", decode)):
        time = result.steps[name]["time_s"]
        label = "" if texts else "80 % interval "
        interval = f" ({label}{about_range(time['low'], time['high'])})" if basis != "given" else ""
        texts.append(f"{what} takes ~{about(time['estimate'])}{interval}")
    rest = BASIS_TEXTS.get(basis)
    text = f"{'; '.join(texts)}{f'; {rest}' if rest else ''}."
    return text[0].upper() + text[1:]


def _costs(costs: dict[str, float]) -> str:
    """What preemptions cost, of what there was."""
    texts = []
    if costs["recomputed_tokens"]:
        texts.append(f"{about_number(costs['recomputed_tokens'])} tokens recomputed in {about(costs['recompute_s'])}")
    if costs["swapped_tokens"]:
        texts.append(f"{about_number(costs['swapped_tokens'])} tokens swapped out and in, {about(costs['swap_s'])} of copies")
    return ", ".join(texts) or "nothing was computed twice"


_NAMES = {"ttft_s": "TTFT", "tpot_s": "TPOT", "itl_s": "ITL", "e2e_s": "E2E"}


def tables(result: Simulation) -> list[Table]:
    """All text tables except the assumptions; none if the model does not fit."""
    if not result.fits:
        return []
    listed = (
        latency_table(result), rates_table(result), confidence_table(result), load_table(result), offload_table(result),
        pools_table(result), transfer_table(result), interval_table(result),
    )  # fmt: skip
    return [table for table in listed if table is not None]


def latency_table(result: Simulation) -> Table:
    """Text table of TTFT, TPOT, ITL and E2E: mean, percentiles, maximum."""
    rows = tuple(
        (label, *(ABSENT if value is None else about(value) for value in _cells(getattr(result, name))))
        for name, label in _NAMES.items()
    )
    columns = ("latency", "mean", "p50", "p90", "p95", "p99", "max")
    return Table("Latency", "over requests; ITL: over tokens", columns, (False, *[True] * 6), rows)


def latencies(result: Simulation) -> list[tuple[float | None, ...]]:
    """The numbers behind `latency_table` in seconds, row by row; None where a cell is text or empty."""
    return [(None, *_cells(getattr(result, name))) for name in _NAMES]


def _cells(one: Latency) -> tuple[float | None, ...]:
    return one.mean, one.p50, one.p90, one.p95, one.p99, one.max


def load_table(result: Simulation) -> Table:
    """Text table of rates and utilization."""
    rates, utilisation = result.throughput, result.utilisation
    between = (result.throughput_interval or {}).get("output_tokens_per_s")
    rows = [
        ("offered", ABSENT if result.offered_rate is None else f"{number(result.offered_rate, 3)} req/s"),
        ("completed", f"{number(rates['requests_per_s'], 3)} req/s"),
        ("output", f"{about_number(rates['output_tokens_per_s'])} tok/s"),
        *([] if between is None else [("80 % interval", f"{_rates(between['low'], between['high'])} tok/s")]),
        ("prompts", f"{about_number(rates['prompt_tokens_per_s'])} tok/s"),
        ("compute", percent(utilisation["compute"], 1)),
        ("memory", percent(utilisation["memory"], 1)),
        ("KV blocks", percent(utilisation["kv"], 1) + ("" if result.pools else f" of {result.server['blocks']:,} per replica")),
    ]
    note = "compute: matrix FLOP/s over the peak; memory: bytes/s over the bandwidth; means over time"
    return Table("Load", note, ("what", "value"), (False, True), tuple(rows))


def _rates(low: float, high: float) -> str:
    return f"{about_number(low)} to {about_number(high)}"


def interval_table(result: Simulation) -> Table | None:
    """Text table of means over several runs with their confidence intervals; None for a single run."""
    replications = result.replications
    if replications is None:
        return None
    names = (
        ("ttft_s.mean", "TTFT, mean"), ("ttft_s.p99", "TTFT, p99"), ("tpot_s.mean", "TPOT, mean"), ("tpot_s.p99", "TPOT, p99"),
        ("e2e_s.mean", "E2E, mean"),
    )  # fmt: skip
    rows = [
        (label, *(about(replications["figures"][name][key]) for key in ("mean", "low", "high")))
        for name, label in names if name in replications["figures"]
    ]  # fmt: skip
    if (rate := replications["figures"].get("throughput.requests_per_s")) is not None:
        rows.append(("req/s", *(number(rate[key], 3) for key in ("mean", "low", "high"))))
    note = f"{replications['runs']} runs with other seeds; {percent(replications['confidence'], 0)} confidence"
    return Table("Between runs", note, ("figure", "mean", "from", "to"), (False, True, True, True), tuple(rows))


def preemption_table(result: Simulation) -> Table | None:
    """Text table of the tokens and seconds that preemptions cost; None without any."""
    costs = result.preemption
    if not result.requests.preemptions:
        return None
    kinds = (("recomputed", "recomputed_tokens", "recompute_s"), ("swapped out and in", "swapped_tokens", "swap_s"))
    rows = tuple((what, about_number(costs[tokens]), about(costs[took])) for what, tokens, took in kinds if costs[tokens])
    if not rows:
        return None
    note = f"of a run of {seconds(result.duration_s)}; time: by which steps took longer, or waited for copies out and in"
    return Table("What preemptions cost", note, ("what", "tokens", "time"), (False, True, True), rows)


def refusals_table(result: Simulation) -> Table | None:
    """Text table of the first requests that were refused; None without any."""
    if not result.refusals:
        return None
    rows = tuple((f"{one['request']:,}", f"{one['prompt']:,}", f"{one['answer']:,}", one["why"]) for one in result.refusals)
    more = result.requests.refused - len(rows)
    note = f"the first {len(rows)} of {result.requests.refused:,}" if more > 0 else ""
    return Table("Refused requests", note, ("request", "prompt", "output", "why"), (True, True, True, False), rows)


def input_tables(result: Simulation) -> list[tuple[str, Table]]:
    """Text tables of workload, server and files, each with its key."""
    server = [("server", _server(result))] if result.fits else []
    return [("classes", _classes(result)), *server, ("inputs", _inputs(result))]


def _classes(result: Simulation) -> Table:
    work = result.workload
    rows = tuple(
        (
            one["name"], one["input_len"], f"{one['mean_input']:,.4g}", one["output_len"], f"{one['mean_output']:,.4g}",
            seconds(one["ttft_s"]), seconds(one["tpot_s"]),
        )
        for one in work["classes"]
    )  # fmt: skip
    parts = [str(work["source"])]
    parts += [f"{work['clients']:,} clients"] if work["clients"] else []
    parts += [f"at most {work['requests']:,} requests"] if work["requests"] else []
    parts += [text for one in work["classes"] if one.get("conversation") for text in _conversation(one)]
    parts += [f"until {seconds(work['until_s'])}"] if work["until_s"] is not None else []
    parts += [f"seed {work['seed']}"]
    parts += [f"the first {percent(work['warm_up'], 0)} not counted"] if work["warm_up"] else []
    columns = ("class", "prompt, tokens", "mean", "output, tokens", "mean ", "TTFT objective", "TPOT objective")
    return Table("Workload", "; ".join(parts), columns, (False, False, True, False, True, True, True), rows)


def _server(result: Simulation) -> Table:
    server = result.server
    if result.pools:
        return _servers(result)
    rows = [
        ("replicas", _replicas(result) or f"{server['replicas']:,}"),
        ("scheduler", server["scheduler"]),
        ("preemption", server["preemption"]),
        ("step times", f"{server['basis']}" + (", step by step" if server["stepwise"] else "")),
        ("KV blocks of a replica", f"{server['blocks']:,} of {server['block_size']:,} tokens"),
        ("max running requests", f"{server['max_num_seqs']:,}"),
        ("new tokens per step", f"{server['max_num_batched_tokens']:,}"),
    ]
    return Table("Server", "", ("setting", "value"), (False, False), tuple(rows))


def _servers(result: Simulation) -> Table:
    """Settings of the server of each pool."""
    settings = (
        ("replicas", "replicas"), ("router", "router"), ("scheduler", "scheduler"), ("preemption", "preemption"),
        ("step times", "basis"), ("KV blocks of a replica", "blocks"), ("tokens of a block", "block_size"),
        ("max running requests", "max_num_seqs"), ("new tokens per step", "max_num_batched_tokens"),
    )  # fmt: skip
    rows = tuple(
        (label, *(f"{value:,}" if isinstance(value := one["server"][name], int) else str(value) for one in result.pools))
        for label, name in settings
    )
    names = tuple(one["name"] for one in result.pools)
    return Table("Server", "", ("setting", *names), (False,) * (1 + len(names)), rows)


def _inputs(result: Simulation) -> Table:
    rows = tuple((role, entry["name"], entry["sha256"]) for role, entry in result.inputs.items())
    note = f"roofline {__version__}, data {DATA_VERSION}"
    return Table("Inputs", note, ("what", "name", "SHA-256"), (False, False, False), rows)


def answer(result: Simulation) -> Answer:
    """Return the answer of `roofline simulate`."""
    ran = result.fits and result.requests.completed > 0
    listed = tables(result) if ran else []
    return Answer(
        title=summary.headline(result),
        settings=settings_line(result, *workload(result)),
        verdict=" ".join(verdict(result)),
        passed=None if ran and not result.saturated and (result.find_rate or {"rate": 0})["rate"] is not None else False,
        parts=(
            *(replace(table, title="", note="") for table in listed[:1]),
            (*remarks(result), *(load_lines(result) if ran else ())),
        ),
        details=tuple(listed[1:]),
        notes=tuple(provenance(result, result.estimate_basis)),
        assumptions=summary.assumptions_table(result),
        hint="-v: all tables    -vv: all assumptions    -o page.html: timeline    -o rows.csv: each request",
    )
