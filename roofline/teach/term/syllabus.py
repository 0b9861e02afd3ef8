"""What is taught when: the lessons, topics of their exercises, outcomes, and how a term, three days or three hours run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unit:
    """A lesson of the course.

    Attributes:
        number: of the lesson.
        name: of its file without ".py".
        title: as on its page.
        topics: of the worksheets whose problems practise it.
        reading: keys of the reading list, what comes before the lesson first.
    """

    number: int
    name: str
    title: str
    topics: tuple[str, ...]
    reading: tuple[str, ...]


UNITS = (
    Unit(1, "01_how_a_transformer_generates", "How a transformer generates", ("transformer",), ("vaswani", "llama3", "vidur")),
    Unit(2, "02_the_kv_cache", "The KV cache", ("kv-cache",), ("shazeer", "gqa", "mistral", "deepseek-v2")),
    Unit(3, "03_the_roofline", "The roofline", ("roofline", "memory-hierarchy"), ("williams", "flashattention", "rmsnorm")),
    Unit(4, "04_batching", "Batching", ("batching",), ("pope", "scaling-book", "hydragen")),
    Unit(5, "05_measured_against_predicted", "Measured against predicted", ("measured",), ("accuracy", "matmul", "hoefler")),
    Unit(6, "06_experts_and_parallelism", "Mixtures of experts, parallelism", ("moe",),
         ("mixtral", "megatron", "gpipe", "gshard")),
    Unit(7, "07_from_steps_to_service", "From steps to service", ("serving",), ("orca", "sarathi", "simulation")),
    Unit(8, "08_when_memory_runs_out", "When memory runs out", ("preemption",), ("pagedattention", "preemption")),
    Unit(9, "09_quantization", "Quantization", ("quantization",), ("llm-int8", "gptq", "awq", "mx")),
    Unit(10, "10_speculation_and_prefix_caching", "Speculation and prefix caching", ("speculation", "prefix-caching"),
         ("leviathan", "medusa", "sglang", "hydragen")),
    Unit(11, "11_disaggregation_and_planning", "Disaggregation and planning", ("disaggregation", "energy"),
         ("distserve", "splitwise", "mooncake")),
    Unit(12, "12_capstone", "Capstone: size a service", ("scaling-book",), ("scaling-book", "capacity")),
)  # fmt: skip
"""The lessons in their order."""


@dataclass(frozen=True, slots=True)
class Week:
    """A week of the term: a lecture of 50 minutes and a class of 100.

    Attributes:
        number: of the week.
        unit: number of its lesson.
        in_class: what the class does, Markdown.
        due: what is handed in by its end, Markdown; "" for nothing but the assignment.
    """

    number: int
    unit: int
    in_class: str
    due: str = ""


WEEKS = (
    Week(1, 1, "Count a model of your choice by hand from its `config.json`, then with `roofline analyze`."),
    Week(2, 2, "Caches of six models, by hand; which one is wrong on the web?"),
    Week(3, 3, "Draw the roofline of the laptop that you sit at: `roofline bench run --suite ceilings`. **Lab, part 1.**"),
    Week(4, 4, "The throughput of one card over batch and context, first as a sketch, then `roofline sweep`."),
    Week(5, 5, "Measure a decode loop and explain its time: `roofline bench serve`, `roofline profile`. **Lab, part 2.**",
         "lab, part 1"),
    Week(6, 6, "**Midterm**, 75 minutes, lessons 1 to 5; then questions on the project.", "project: proposal, one page"),
    Week(7, 7, "`roofline simulate`: find the load at which the objectives break, then say why.", "lab, part 2"),
    Week(8, 8, "Make a server preempt; recompute or swap? `roofline preempt`."),
    Week(9, 9, "The same model in four formats on two cards: what changes at which batch?", "project: bounds, two pages"),
    Week(10, 10, "When does a draft model pay off, and when do prefixes? `roofline simulate` with both."),
    Week(11, 11, "Plan one service three ways, and defend the cheapest: `roofline plan`.",
         "project: a prediction, before measuring"),
    Week(12, 12, "Project talks, 8 minutes each and 4 for questions.", "project: report"),
)  # fmt: skip
"""Twelve weeks. The final follows in the weeks of exams."""

DAYS = (
    ("Day 1: one device", ((9, 1), (11, 2), (14, 3), (16, 4))),
    ("Day 2: measured, many devices, many users", ((9, 5), (11, 6), (14, 7), (16, 8))),
    ("Day 3: what is done about it", ((9, 9), (11, 10), (14, 11), (16, 12))),
)
"""Three days: the hour at which each lesson begins; after it an hour of its worksheet in pairs."""

HOURS = (
    ("Hour 1: bytes", (1, 2), "Of lesson 1 the parts up to *What a token moves*, of lesson 2 all but the latent."),
    (
        "Hour 2: time",
        (3, 4),
        "Of lesson 3 the roofline and *Attention*, of lesson 4 throughput, latency and what fits.",
    ),
    ("Hour 3: users", (7, 11), "Of lesson 7 *What users see* and *Too much load*, of lesson 11 the plan."),
)
"""Three hours: the lessons of each, and which parts of them."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Something that students can do after the term, and the problems that show it.

    Attributes:
        text: begins with a verb.
        unit: number of the lesson that teaches it.
        templates: ids of worksheet templates.
    """

    text: str
    unit: int
    templates: tuple[str, ...]


OUTCOMES = (
    Outcome("count the parameters, FLOP and bytes of a model from its config", 1, (
        "transformer-attention-weights", "transformer-mlp-weights", "transformer-total-parameters",
        "transformer-flops-per-token", "transformer-prefill-attention", "transformer-rule-of-two", "transformer-token-bytes",
        "transformer-equal-context",
    )),
    Outcome("compute the KV cache of any attention, in the right units, and say what fits", 2, (
        "kv-cache-per-token", "kv-cache-batch", "kv-cache-tokens-that-fit", "kv-cache-window", "kv-cache-latent",
        "kv-cache-against-weights",
    )),
    Outcome("find the mistake in a published figure of memory or speed", 2, (
        "kv-cache-find-the-mistakes", "kv-cache-which-mistake", "roofline-is-it-possible", "batching-is-it-possible",
    )),
    Outcome("place an operator on the roofline, and say what bounds it", 3, (
        "roofline-ridge-point", "roofline-gemm-intensity", "roofline-decode-attention", "roofline-which-side",
        "roofline-norm",
    )),
    Outcome("give a lower bound for the time of a layer or a step", 3, (
        "roofline-layer-time", "roofline-share-of-peak", "batching-decode-floor",
    )),
    Outcome("say which memory of a device limits a kernel, and how reuse changes that", 3, (
        "memory-hierarchy-weights-in-l2", "memory-hierarchy-all-of-memory", "memory-hierarchy-share-for-the-cache",
        "memory-hierarchy-bytes-in-flight", "memory-hierarchy-tile-bytes", "memory-hierarchy-tile-intensity",
        "memory-hierarchy-score-matrix", "memory-hierarchy-fused-attention", "memory-hierarchy-offloaded-layers",
        "memory-hierarchy-find-the-mistakes",
    )),
    Outcome("choose a batch size from throughput, latency and memory", 4, (
        "batching-critical-batch", "batching-decode-rate", "batching-longer-step", "batching-sequences-that-fit",
        "batching-promise", "batching-throughput-limit",
    )),
    Outcome("compare a measurement with a bound, and name what is missing", 5, (
        "measured-mfu", "measured-mbu", "measured-over-the-bound", "measured-below-the-bound", "measured-cache-in-l2",
    )),
    Outcome("explain the time of a kernel by tiles, waves and launches", 5, ("measured-waves", "measured-launches")),
    Outcome("state the error of a prediction so that others can judge it", 5, ("measured-median-error",)),
    Outcome("count total and active parameters of a mixture of experts, and what a batch reads of it", 6, (
        "moe-active-parameters", "moe-distinct-experts", "moe-step-bytes", "moe-expert-intensity",
    )),
    Outcome("compute what devices hold and send under tensor, pipeline and expert parallelism", 6, (
        "moe-all-to-all", "moe-memory-of-a-device", "moe-all-reduce-time", "moe-pipeline-bubble", "moe-replicated-cache",
    )),
    Outcome("go between rate, latency and requests in flight, and read percentiles", 7, (
        "serving-in-flight", "serving-tpot", "serving-percentile", "serving-closed-loop", "serving-first-wave",
    )),
    Outcome("say what prompts beside answers do to latency", 7, (
        "serving-chunked-prompt", "serving-longer-steps", "serving-prompts-share",
    )),
    Outcome("size a service from its objectives, and give its cost", 7, (
        "serving-cost", "serving-replicas", "serving-goodput",
    )),
    Outcome("decide between recomputing and swapping a preempted sequence", 8, (
        "preemption-swap-time", "preemption-recompute-time", "preemption-break-even-link", "preemption-crossover",
        "preemption-copy-calls",
    )),
    Outcome("say when a server runs out of memory, and how much of it blocks waste", 8, (
        "preemption-blocks", "preemption-fragmentation", "preemption-first-eviction", "preemption-host-memory",
    )),
    Outcome("count the bits of a quantized weight, and say what fewer of them change in memory, decode and prefill", 9, (
        "quantization-effective-bits", "quantization-weight-bytes", "quantization-fits", "quantization-decode-floor",
        "quantization-prefill", "quantization-critical-batch", "quantization-kv-cache", "quantization-cache-dominates",
        "quantization-find-the-mistakes",
    )),
    Outcome("say when a draft pays off, and how long it should be", 10, (
        "speculation-tokens-per-round", "speculation-accepted-share", "speculation-round-time", "speculation-speed-up",
        "speculation-break-even", "speculation-best-k", "speculation-large-batch", "speculation-draft-memory",
        "speculation-find-the-mistakes",
    )),
    Outcome("say which tokens requests share, what that saves and what it takes", 10, (
        "prefix-caching-blocks", "prefix-caching-cached-share", "prefix-caching-ttft-saved", "prefix-caching-shared-memory",
        "prefix-caching-prefixes-that-fit", "prefix-caching-lru", "prefix-caching-chat", "prefix-caching-host-link",
        "prefix-caching-who-shares",
    )),
    Outcome("size prefill and decode pools, and the transfer between them", 11, (
        "disaggregation-transfer-time", "disaggregation-layer-by-layer", "disaggregation-break-even-link",
        "disaggregation-first-token", "disaggregation-blocks-on-both-sides", "disaggregation-colocated-rate",
        "disaggregation-pool-sizes", "disaggregation-goodput-per-gpu", "disaggregation-find-the-mistakes",
    )),
    Outcome("give the energy and the cost of a token, and what they depend on", 11, (
        "energy-per-token", "energy-million-tokens", "energy-of-a-day", "energy-pue", "energy-two-cards", "energy-power-cap",
        "energy-batch", "energy-rent-or-own", "energy-find-the-mistakes",
    )),
    Outcome("size a service by hand, from a config to queries per second and chip", 12, (
        "scaling-book-cache-per-token", "scaling-book-parameters", "scaling-book-chips-for-a-batch",
        "scaling-book-smallest-slice", "scaling-book-sequences-on-a-slice", "scaling-book-decode-bound",
        "scaling-book-full-memory-step", "scaling-book-queries-per-chip", "scaling-book-critical-batch",
        "scaling-book-prefill-time", "scaling-book-prefill-servers",
    )),
)  # fmt: skip
"""Each template is under one of them."""
