"""Methods of drafting and their options: a smaller model, the model's own layer for multi-token prediction (MTP), n-grams of
the text."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from roofline.blocks.model import LayerGroup, Model
from roofline.errors import InputError, UnknownNameError
from roofline.graph.build import CANONICAL, Graph, build
from roofline.numeric import ceil_div
from roofline.operators.gemm import Gemm
from roofline.operators.norm import Norm
from roofline.predict.duration import Duration
from roofline.predict.memory import MemoryModel, weights_by_path
from roofline.predict.options import ALIASES, COUNTING, ENGINE, OPTIONS, PARALLELISM, PRECISION, SPECULATION, of_groups
from roofline.predict.request import ResolvedRequest, prepare
from roofline.predict.timing import pipeline, timed
from roofline.specs.hardware import Hardware
from roofline.specs.library import Input
from roofline.specs.source import Assumption
from roofline.specs.workload import Step

if TYPE_CHECKING:
    from roofline.predict.speculation import Speculation

NAMES = tuple(entry.name for entry in of_groups((SPECULATION,)))
# Keys of vLLM's --speculative-config, and the option that each is; None: it says how to find a draft, not what that costs.
_CONFIG = {
    "model": "speculative_model",
    "method": "speculative_method",
    "num_speculative_tokens": "num_speculative_tokens",
    "draft_tensor_parallel_size": "speculative_draft_tensor_parallel_size",
    "prompt_lookup_min": None,
    "prompt_lookup_max": None,
}

_ACCEPTANCE = (
    "the probability, 0 to 1, that a drafted token is accepted. It depends on model, draft and text, and is never guessed: "
    "measure it on texts like yours"
)


@dataclass(frozen=True, slots=True)
class SpeculativeOptions:
    """A method of drafting, and what it takes."""

    method: str
    model: str | PathLike[str] | Model | None
    tokens: int
    """Drafted per round."""
    acceptance: float
    draft_tensor_parallel_size: int | None
    given: dict[str, Any] = field(default_factory=dict, compare=False)
    """The options as they were given, by name."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A maker of drafts. Without a `step` the draft costs nothing; without a `memory` it keeps nothing."""

    name: str
    step: Callable[[Step], Duration] | None = None
    """Seconds of one step of the draft: a decode step, or the prefill of a prompt."""
    memory: MemoryModel | None = None
    """Of which the caches are held beside the model's."""
    weights_bytes: float = 0.0
    """Of one device."""
    notes: tuple[Assumption, ...] = ()
    inputs: tuple[Input, ...] = ()
    request: ResolvedRequest | None = None
    """Of which each step of the draft is one; None: it costs nothing."""
    graph: Callable[[Step], Graph] | None = None
    """The operators of one step of the draft; None: it costs nothing."""


_SHARED = [entry.name for entry in of_groups((PRECISION, PARALLELISM, ENGINE, COUNTING)) if entry.draft]


def _model_draft(request: ResolvedRequest, speculative: SpeculativeOptions, options: dict[str, Any]) -> Draft:
    """A smaller model with the same vocabulary, which decodes the drafted tokens one by one.

    It is on the same devices, over as many of them as the model unless another number is given.
    """
    assert speculative.model is not None  # noqa: S101 - narrows the type: checked with the options
    size = speculative.draft_tensor_parallel_size or request.deployment.tensor_parallel_size
    if size > request.deployment.tensor_parallel_size:
        most = request.deployment.tensor_parallel_size
        raise InputError(
            f"--speculative-draft-tensor-parallel-size {size} is more than the {most} devices that the model is on"
        )
    given = {ALIASES.get(name, name): value for name, value in options.items() if value is not None}
    shared = {name: given[name] for name in _SHARED if name in given}
    context = shared.get("shared_prefix", 0)  # a placeholder: what is asked of a draft has lengths of its own
    small = prepare(speculative.model, request.hardware, **shared, tensor_parallel_size=size, context=context, phase="decode")
    model, target = small.model, request.model
    if model.vocab_size != target.vocab_size:
        sizes = f"{model.vocab_size:,} tokens, not {target.vocab_size:,}"
        msg = f"{model.name} cannot draft for {target.name}: its vocabulary has {sizes}"
        raise InputError(msg)
    # what the engine adds to a step, it adds once a round
    kernels = replace(small, steps=None)
    size_given = speculative.draft_tensor_parallel_size is not None
    weights = small.precision.dtypes("linear").weight.name
    notes = (
        Assumption("draft", model.name, "given", f"{weights} weights, as its own file says; formats of cache as the model's"),
        Assumption(
            "draft_tensor_parallel_size", size, "given" if size_given else "default", "" if size_given else "as the model's"
        ),
    )
    read = tuple(replace(entry, role="draft") for entry in small.inputs if entry.role == "model")
    return Draft(
        name=model.name,
        step=lambda step: pipeline(kernels, step),
        memory=small.memory,
        weights_bytes=small.memory.fullest_stage.weights_bytes,
        notes=notes,
        inputs=read,
        request=kernels,
        graph=lambda step: build(model, kernels.deployment, kernels.precision, step),
    )


_MTP_WORDS = ("nextn", "mtp", "multi-token prediction")


def _mtp_draft(request: ResolvedRequest, speculative: SpeculativeOptions, options: dict[str, Any]) -> Draft:
    """One more layer of the last type.

    A step of it reads the hidden state and the embedding of the newest token, each normalised, side by side, projected back to
    the width of the stream; embedding and LM head are the model's. NB: its first step of a round computes the tokens that were
    accepted, not one.

    Source: DeepSeek-V3 report, arXiv:2412.19437, section 2.2, eq. (21) to (23).
    """
    del speculative, options
    model = request.model
    last = model.layer_sequence[-1]
    layer = LayerGroup(pattern=(last,), repeat=1)
    one: Model = model.model_copy(update={"layers": (layer,), "layer_types": {last: model.layer_types[last]}})
    only = replace(request, model=one, steps=None)
    # the model's embedding and LM head serve it too; the projection is on every tensor-parallel device
    held = weights_by_path(_mtp_graph(only, CANONICAL))
    weights = sum(size for path, size in held.items() if path.startswith(("layers/", "mtp/")))

    def step(step: Step) -> Duration:
        return timed(only, _mtp_graph(only, step), step)

    return Draft(
        name="the model's own layer",
        step=step,
        memory=replace(request.memory, model=one),
        weights_bytes=weights,
        notes=(_note(model, last),),
        request=only,
        graph=lambda step: _mtp_graph(only, step),
    )


def _mtp_graph(request: ResolvedRequest, step: Step) -> Graph:
    """The layer between the model's embedding and LM head, and what joins the two inputs."""
    replicas, width = request.deployment.data_parallel_size, request.model.hidden_size
    rows = sum(ceil_div(segment.count, replicas) * segment.new for segment in step)
    vector, linear = request.precision.dtypes("norm"), request.precision.dtypes("linear/projection")
    return {
        **build(request.model, request.deployment, request.precision, step),
        "mtp/embedding_norm": (Norm(rows=rows, width=width, dtypes=vector), 1),
        "mtp/hidden_norm": (Norm(rows=rows, width=width, dtypes=vector), 1),
        "mtp/projection": (Gemm(m=rows, n=width, k=2 * width, dtypes=linear), 1),
    }


def _note(model: Model, layer: str) -> Assumption:
    """What is counted, and whether the model's file speaks of such a layer."""
    text = " ".join([*model.notes, *(f"{choice.name} {choice.why}" for choice in model.assumptions)]).lower()
    what = f"one more layer ({layer}), a projection of two widths to one, two norms, the model's embedding and LM head"
    if any(word in text for word in _MTP_WORDS):
        return Assumption("draft", "mtp", "default", what)
    return Assumption(
        "draft", "mtp", "assumed", f"the model's file speaks of no layer for multi-token prediction; counted: {what}"
    )


def _ngram_draft(request: ResolvedRequest, speculative: SpeculativeOptions, options: dict[str, Any]) -> Draft:
    """Looked up in the text so far: no steps, no weights, no caches."""
    del request, speculative, options
    why = "looked up on the host while the accelerator works; how often a match is found is part of --acceptance"
    return Draft(name="n-grams of the text", notes=(Assumption("draft", "no cost", "assumed", why),))


METHODS: dict[str, Callable[[ResolvedRequest, SpeculativeOptions, dict[str, Any]], Draft]] = {
    "draft_model": _model_draft, "mtp": _mtp_draft, "ngram": _ngram_draft,
}  # fmt: skip
"""By the names of vLLM's `method`: the draft of a request, from the method's own options and the request's other ones."""


def read_options(options: dict[str, Any]) -> tuple[SpeculativeOptions | None, dict[str, Any]]:
    """Return the options of speculative decoding (None where none is given) and the other options.

    Args:
        options: values by long name; those of speculative decoding are checked.

    Raises:
        roofline.errors.RooflineError: an option that is missing, unknown or out of range.
    """
    rest = {name: value for name, value in options.items() if name not in NAMES}
    own = {name: options[name] for name in NAMES if options.get(name) is not None}
    if not own:
        return None, rest
    merged = own
    if (config := own.get("speculative_config")) is not None:
        merged = _merged(_config(config), {name: value for name, value in own.items() if name != "speculative_config"})
    model, method = merged.get("speculative_model"), merged.get("speculative_method")
    if method is None:
        if model is None:
            raise InputError(
                "speculative decoding needs a draft: give --speculative-model, or --speculative-method mtp or ngram"
            )
        method = "draft_model"
    method = str(method)  # of a JSON object it may be anything
    if method.endswith("_mtp"):
        method = "mtp"  # deepseek_mtp and others, as vLLM named it by the family
    if method not in METHODS:
        raise UnknownNameError("speculative method", method, METHODS, list_all=True)
    if (method == "draft_model") != (model is not None):
        needs = (
            "needs a draft: give --speculative-model"
            if model is None
            else "takes no draft model: leave out --speculative-model"
        )
        raise InputError(f"--speculative-method {method} {needs}")
    size = merged.get("speculative_draft_tensor_parallel_size")
    return SpeculativeOptions(
        method=method,
        model=model,
        tokens=_needed("num_speculative_tokens", merged, "the number of tokens drafted per round"),
        acceptance=_needed("acceptance", merged, _ACCEPTANCE),
        draft_tensor_parallel_size=None if size is None else OPTIONS["speculative_draft_tensor_parallel_size"].read(size),
        given=own,
    ), rest


def resolve(
    model: str | PathLike[str] | Model, hardware: str | PathLike[str] | Hardware, **options: Any
) -> tuple[ResolvedRequest, Speculation | None]:
    """The request that the options of `analyze` make, and its speculative decoding if they speak of it."""
    speculative, rest = read_options(options)
    request = prepare(model, hardware, **rest)
    if speculative is None:
        return request, None
    from roofline.predict.speculation import Speculation

    speculation = Speculation.of(request, speculative, rest)
    return speculation.request, speculation


def _config(text: object) -> dict[str, Any]:
    """The JSON that vLLM takes, under our names."""
    try:
        config = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        config = None
    if not isinstance(config, dict):
        example = """'{"model": "llama-3.2-1b", "num_speculative_tokens": 3}'"""
        raise InputError(f"--speculative-config must be a JSON object such as {example}, not {str(text)[:60]!r}")
    for key in config:
        if key not in _CONFIG:
            raise UnknownNameError("key of --speculative-config", key, _CONFIG, list_all=True)
    return {name: config[key] for key, name in _CONFIG.items() if name is not None and config.get(key) is not None}


def _merged(config: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    if clash := next((name for name in given if name in config), None):
        raise InputError(f"--{clash.replace('_', '-')} is in --speculative-config too: give it once")
    return {**config, **given}


def _needed(name: str, given: dict[str, Any], what: str) -> Any:
    """The value of an option that has no default."""
    option = OPTIONS[name]
    if given.get(name) is None:
        raise InputError(f"{option.flag} is needed: {what}")
    return option.read(given[name])
