"""A simulation as sentences and text tables, for terminals, Markdown and pages."""

from __future__ import annotations

from roofline.documents import DATA_VERSION, __version__
from roofline.formatting import percent, plural, seconds
from roofline.predict.efficiency.estimate import BASIS_TEXTS
from roofline.serving.simulation.result import Latency, Simulation
from roofline.text import Table


def sentences(result: Simulation) -> list[str]:
    """The result in sentences: requests answered, saturation, refusals, preemptions, share within the SLO."""
    if result.unfit is not None:
        return [f"{result.unfit}."]
    counts, server = result.requests, result.server
    several = f"{server['replicas']} replicas, {server['balancer']}, " if server["replicas"] > 1 else ""
    took = f"{counts.completed:,} of {counts.arrived:,} requests answered in {seconds(result.duration_s)}"
    texts = [f"{took} ({several}{server['scheduler']}, step times by the {server['basis']})."]
    if result.estimate_basis is not None and result.steps:
        texts.append(_step_times(result, result.estimate_basis))
    if result.interrupted:
        left = plural(counts.unfinished, "request")
        texts.append(f"Interrupted: {left} had come and not ended, and nothing here counts them.")
    if result.saturated:
        rates = f"{result.offered_rate:.4g} requests/s come, {result.throughput['requests_per_s']:.4g} are answered"
        texts.append(f"Saturated: more comes than the server can do ({rates}); waits grow as long as it goes on so.")
    if counts.refused:
        first = result.refusals[0]
        texts.append(f"{plural(counts.refused, 'request')} refused, such as request {first['request']}: {first['why']}.")
    if counts.preemptions:
        texts.append(
            f"{plural(counts.preemptions, 'preemption')} of {plural(counts.preempted, 'request')}"
            f" ({server['preemption']}): {_costs(result.preemption)}."
        )
    if result.within_slo is not None:
        texts.append(
            f"{percent(result.within_slo, digits=4)} of the requests keep to the SLO: a goodput of "
            f"{result.goodput:.4g} requests/s."
        )
    return texts


def _step_times(result: Simulation, basis: str) -> str:
    """Typical step times with their intervals, and what they rest on."""
    texts = []
    for name, what in (("prefill", "a mean prompt"), ("decode", "a mean decode step")):
        time = result.steps[name]["time_s"]
        interval = f" (80 % interval {seconds(time['low'])} to {seconds(time['high'])})" if basis != "given" else ""
        texts.append(f"{what} ~{seconds(time['estimate'])}{interval}")
    rest = BASIS_TEXTS.get(basis)
    return f"Steps: {', '.join(texts)}{f'; {rest}' if rest else ''}."


def _costs(costs: dict[str, float]) -> str:
    """What preemptions cost, of what there was."""
    texts = []
    if costs["recomputed_tokens"]:
        texts.append(f"{costs['recomputed_tokens']:,.0f} tokens computed again in {seconds(costs['recompute_s'])}")
    if costs["swapped_tokens"]:
        texts.append(
            f"{costs['swapped_tokens']:,.0f} tokens moved to the host, {seconds(costs['swap_s'])} of copies out and in"
        )
    return ", ".join(texts) or "nothing was computed twice"


_NAMES = {"ttft_s": "TTFT", "tpot_s": "TPOT", "itl_s": "ITL", "e2e_s": "E2E"}


def tables(result: Simulation) -> list[Table]:
    """All text tables except the assumptions; none if the model does not fit."""
    if not result.fits:
        return []
    return [table for table in (latency_table(result), load_table(result), interval_table(result)) if table is not None]


def latency_table(result: Simulation) -> Table:
    """Text table of TTFT, TPOT, ITL and E2E: mean, percentiles, maximum."""
    rows = tuple((label, *(seconds(value) for value in _cells(getattr(result, name)))) for name, label in _NAMES.items())
    note = "over requests; ITL: over tokens; percentiles to 0.1 %"
    return Table("Latency", note, ("latency", "mean", "p50", "p90", "p95", "p99", "most"), (False, *[True] * 6), rows)


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
        ("offered", "-" if result.offered_rate is None else f"{result.offered_rate:.4g} requests/s"),
        ("answered", f"{rates['requests_per_s']:.4g} requests/s"),
        ("output", f"{rates['output_tokens_per_s']:,.0f} tokens/s"),
        *([] if between is None else [("80 % interval", f"{between['low']:,.0f} to {between['high']:,.0f} tokens/s")]),
        ("prompts", f"{rates['prompt_tokens_per_s']:,.0f} tokens/s"),
        ("compute", percent(utilisation["compute"], 1)),
        ("memory", percent(utilisation["memory"], 1)),
        ("KV blocks", f"{percent(utilisation['kv'], 1)} of {result.server['blocks']:,} per replica"),
    ]
    note = "compute: FLOP of matrix products over the peak's; memory: bytes over the bandwidth's; all means over time"
    return Table("Load", note, ("what", "value"), (False, True), tuple(rows))


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
        (label, *(seconds(replications["figures"][name][key]) for key in ("mean", "low", "high")))
        for name, label in names if name in replications["figures"]
    ]  # fmt: skip
    if (rate := replications["figures"].get("throughput.requests_per_s")) is not None:
        rows.append(("requests/s", *(f"{rate[key]:.4g}" for key in ("mean", "low", "high"))))
    note = f"{replications['runs']} runs with other seeds; {percent(replications['confidence'], 0)} confidence"
    return Table("Between runs", note, ("figure", "mean", "from", "to"), (False, True, True, True), tuple(rows))


def preemption_table(result: Simulation) -> Table | None:
    """Text table of the tokens and seconds that preemptions cost; None without any."""
    costs = result.preemption
    if not result.requests.preemptions:
        return None
    kinds = (("computed again", "recomputed_tokens", "recompute_s"), ("moved to the host", "swapped_tokens", "swap_s"))
    rows = tuple((what, f"{costs[tokens]:,.0f}", seconds(costs[took])) for what, tokens, took in kinds if costs[tokens])
    if not rows:
        return None
    note = f"of a run of {seconds(result.duration_s)}; seconds: by which steps took longer, or waited for copies out and in"
    return Table("What preemptions cost", note, ("what", "tokens", "seconds"), (False, True, True), rows)


def refusals_table(result: Simulation) -> Table | None:
    """Text table of the first requests that were refused; None without any."""
    if not result.refusals:
        return None
    rows = tuple((f"{one['request']:,}", f"{one['prompt']:,}", f"{one['answer']:,}", one["why"]) for one in result.refusals)
    more = result.requests.refused - len(rows)
    note = f"the first {len(rows)} of {result.requests.refused:,}" if more > 0 else ""
    return Table("Refused requests", note, ("request", "prompt", "answer", "why"), (True, True, True, False), rows)


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
    parts += [f"until {seconds(work['until_s'])}"] if work["until_s"] is not None else []
    parts += [f"seed {work['seed']}"]
    parts += [f"the first {percent(work['warm_up'], 0)} not counted"] if work["warm_up"] else []
    columns = ("class", "prompts, tokens", "mean", "answers, tokens", "their mean", "TTFT at most", "TPOT at most")
    return Table("Workload", "; ".join(parts), columns, (False, False, True, False, True, True, True), rows)


def _server(result: Simulation) -> Table:
    server = result.server
    rows = [
        ("replicas", f"{server['replicas']:,}" + (f", {server['balancer']}" if server["replicas"] > 1 else "")),
        ("scheduler", server["scheduler"]),
        ("preemption", server["preemption"]),
        ("step times", f"{server['basis']}" + (", step by step" if server["stepwise"] else "")),
        ("KV blocks of a replica", f"{server['blocks']:,} of {server['block_size']:,} tokens"),
        ("max running requests", f"{server['max_num_seqs']:,}"),
        ("new tokens per step", f"{server['max_num_batched_tokens']:,}"),
    ]
    return Table("Server", "", ("setting", "value"), (False, False), tuple(rows))


def _inputs(result: Simulation) -> Table:
    rows = tuple((role, entry["name"], entry["sha256"]) for role, entry in result.inputs.items())
    note = f"roofline {__version__}, data {DATA_VERSION}"
    return Table("Inputs", note, ("what", "name", "SHA-256"), (False, False, False), rows)
