"""A whole decoder layer, and a whole step of a model. `kernel` names the model, `MODEL:TYPE` one of its layer types."""

from __future__ import annotations

from functools import cache

from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.dtypes import Precision
from roofline.errors import InputError, UnknownNameError
from roofline.graph import build, stages
from roofline.measure.records.ops.base import Call, Operators, Rule
from roofline.specs.deployment import Deployment
from roofline.specs.workload import Segment


@cache
def _model(name: str) -> Model:
    if not name:
        raise InputError("kernel is empty: for a layer and a step it names the model")
    return load_model(name)[0]


def _graph(call: Call, model: Model) -> Operators:
    formats = call.dtypes
    precision = Precision(weight=formats.weight, activation=formats.activation, kv=formats.kv)
    # one token after others is generated; records of a prompt have all its tokens
    one = isinstance(call["q_len"], int) and call["q_len"] == 1
    segment = Segment(call["batch"], call["q_len"], call["kv_len"] - call["q_len"], decode=one)
    return build(model, Deployment(), precision, (segment,), stages(model, 1)[0])


def _step(call: Call) -> Operators:
    return _graph(call, _model(call.text("kernel")))


def _layer(call: Call) -> Operators:
    name, _, kind = call.text("kernel").partition(":")
    model = _model(name)
    kinds = tuple(model.layer_types)
    if kind and kind not in kinds:
        raise UnknownNameError(f"layer type of {name}", kind, kinds, list_all=True)
    prefix = "layers/" if len(kinds) == 1 else f"layers/{kind or kinds[0]}/"
    return {
        path.removeprefix(prefix): (operator, 1)
        for path, (operator, _) in _graph(call, model).items()
        if path.startswith(prefix)
    }


_NEEDS = ("batch", "q_len", "kv_len")
_ORDER = (("q_len", "kv_len"),)

LAYER = Rule("layer", _NEEDS, _layer, ("kernel",), order=_ORDER)
STEP = Rule("step", _NEEDS, _step, ("kernel",), order=_ORDER)
