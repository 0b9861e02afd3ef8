"""The outside oracle: what transformers builds from a config, beside what roofline reads in it.

`assert_same(config)` lets transformers build the model on the meta device (shapes, no numbers) and compares, to the last
element: unique parameters in all and layer by layer, what the cache holds of each token and of each sequence, and the FLOP of
PyTorch's counter in a prefill and a decode step, with eager attention. The counter sees whole products: no mask is
discounted, logits are computed at every position and MLA expands its latents, so our conventions are set alike.

Where the two differ on purpose, a test leaves that part out and says why: `assert_same(config, leave_out={"flops": why})`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest

from roofline.blocks.base import MixerBlock
from roofline.blocks.config_json import read
from roofline.blocks.model import Model
from roofline.graph.build import CANONICAL, build
from roofline.graph.sharding import stages
from roofline.operators.attention import Attention
from roofline.operators.gemm import Gemm
from roofline.operators.grouped_gemm import GroupedGemm
from roofline.operators.hyper_connections import HyperExpand
from roofline.predict.parameters import TWO_BYTES
from roofline.specs.deployment import Conventions, Deployment
from roofline.specs.huggingface.document import parse_json
from roofline.specs.huggingface.read import Origin
from roofline.specs.workload import decode, prefill

PREFILL, DECODE = (2, 24), (3, 40)
"""Sequences and prompt of the prefill; sequences and cached tokens of the decode step. Windows of 9 or 16 tokens are
passed by both; one below 3 tokens would be met while the cache is measured."""

_CACHED = 3

# Parts of a config that describe the language model, and what they take over from around them.
_LANGUAGE = ("text_config", "llm_config", "language_config")
_INHERITED = ("tie_word_embeddings", "dtype", "torch_dtype")

# What transformers builds and we count apart.
_APART = re.compile(r"mtp|nextn|vision|visual|vit_|audio|projector")

# Modules whose core is written with loops, chunks and elementwise sums, so that the counter sees something else than the
# recurrence: of these, and of our mixers with a state, only the projections are compared.
_RECURRENT = re.compile(
    r"Mamba|BambaMixer|FalconH1Mixer|DeltaNet|DeltaAttention|Lightning|ShortConv|Recurrent|(?<!Kimi)LinearAttention|SSM|Rwkv|Xlstm"
)
_PROJECTIONS = ("mm", "addmm")
# Around a convolution there are no other products: a projection of transposed inputs is a batched one.
_AROUND_CONVOLUTIONS = (*_PROJECTIONS, "bmm", "baddbmm")

Table = dict[str, int]


@dataclass
class Counts:
    """What is compared, and tables that help to see where a difference comes from."""

    total: int
    layers: list[int]
    """Parameters of each layer."""
    cache: list[int] = field(default_factory=list)
    """Elements a token, of each layer that keeps some, in order."""
    state: list[tuple[int, int]] = field(default_factory=list)
    """Elements of convolution and recurrent state a sequence, of each layer that keeps some, in order."""
    flops: Table = field(default_factory=dict)
    """By step."""
    tables: dict[str, Table] = field(default_factory=dict)


def counted_by_transformers(
    config: dict[str, Any],
    *,
    model_type: str | None = None,
    device: str = "meta",
    with_steps: bool = True,
    around: dict[str, Any] | None = None,
    **changes: Any,
) -> Counts:
    """Parameters, cache and FLOP of the module that transformers builds from a config.

    Skips where torch or transformers is not installed. `model_type` is what transformers calls the family, where the
    config says otherwise; `changes` are attributes set on its config object; `device` "cpu" runs shrunken models whose code
    looks at numbers; `around` are keys around a language model that has no class of its own, such as a small vision tower;
    without `with_steps` nothing is run.
    """
    torch, _ = _libraries()
    with _quiet():
        network = _network(config, model_type, device, changes, around)
        counts = _parameters(network)
        if with_steps:
            with torch.no_grad():
                counts.cache, counts.state = _kept(network, device)
                for name, (sequences, new, cached) in _steps().items():
                    counts.flops[name], counts.tables[name] = _flops(network, device, sequences, new, cached)
    return counts


def stored_by_transformers(config: dict[str, Any], model_type: str | None = None, **changes: Any) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors that transformers would write for a model, as published checkpoints have them.

    They are parameters, tied ones once, and buffers that are stored.
    """
    torch, library = _libraries()
    with _quiet():
        network = _network(config, model_type, "meta", changes)
        tied = set(network.all_tied_weights_keys)
        state = {name: tensor for name, tensor in network.state_dict().items() if name not in tied}
        with torch.no_grad():
            state = library.core_model_loading.revert_weight_conversion(network, state)
    return {name: tuple(tensor.shape) for name, tensor in state.items() if not _APART.search(name)}


def counted_by_us(config: dict[str, Any], assume: str | None = None) -> Counts:
    """The same counts from what roofline reads in a config."""
    model = read_config(config, assume)
    parameters = dict.fromkeys(model.layer_types, 0)
    table: Table = {}
    total = 0
    for path, (operator, repeat) in build(model, Deployment(), TWO_BYTES, CANONICAL).items():
        total += operator.parameters * repeat
        if operator.parameters:
            table[path] = operator.parameters
        if (layer_type := _type_of(model, path)) is not None:
            parameters[layer_type] += operator.parameters
    counts = Counts(total, [parameters[name] for name in model.layer_sequence], tables={"parameters": table})
    for name in model.layer_sequence:
        mixer = model.layer_types[name].mixer
        if isinstance(mixer, MixerBlock):
            if kept := sum(cache.elements for cache in mixer.caches() if cache.ratio is None):  # others: no whole ones a token
                counts.cache.append(kept)
            if (state := mixer.state()) is not None:
                counts.state.append((state.conv * state.conv_kernel, state.recurrent))
    conventions = Conventions(mask="full", logits="all", mla="expand")
    for name, (sequences, new, cached) in _steps().items():
        step = prefill(sequences, new) if new > 1 else decode(sequences, cached)
        graph = build(model, Deployment(conventions=conventions), TWO_BYTES, step)
        found = {path: op.cost().matrix_flops * n for path, (op, n) in graph.items() if not _core_of_state(model, path, op)}
        counts.tables[name] = {path: int(flop) for path, flop in found.items() if flop}
        counts.flops[name] = sum(counts.tables[name].values())
    return counts


def read_config(config: dict[str, Any], assume: str | None = None) -> Model:
    """The model that roofline reads in a config."""
    return read(parse_json(json.dumps(config), "config.json"), Origin("test", "Test"), assume)


def assert_same(
    config: dict[str, Any],
    *,
    leave_out: dict[str, str] | None = None,
    assume: str | None = None,
    model_type: str | None = None,
    device: str = "meta",
    around: dict[str, Any] | None = None,
    **changes: Any,
) -> None:
    """Both count alike: `total`, `layers`, `cache`, `state`, `flops` (or `prefill`, `decode`).

    `leave_out` names parts that are not compared, each with the reason; see `counted_by_transformers` for the rest.
    """
    left = set(leave_out or {})
    if "flops" in left:
        left |= set(_steps())
    run = not left >= {"cache", "state", *_steps()}
    theirs = counted_by_transformers(config, model_type=model_type, device=device, with_steps=run, around=around, **changes)
    ours = counted_by_us(config, assume)
    problems = []
    for name in ("total", "layers", "cache", "state"):
        wanted, found = getattr(theirs, name), getattr(ours, name)
        if name not in left and wanted != found:
            problems += [f"{name}: {_difference(found, wanted)}", *_tables(ours, theirs, "parameters")]
    for name in _steps():
        if name not in left and theirs.flops[name] != ours.flops[name]:
            more = ours.flops[name] - theirs.flops[name]
            problems += [
                f"{name} FLOP: ours {ours.flops[name]:,}, transformers {theirs.flops[name]:,} ({more:+,})",
                *_tables(ours, theirs, name),
            ]
    assert not problems, "\n".join(dict.fromkeys(problems))


# transformers


@cache
def _libraries() -> tuple[Any, Any]:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    with _quiet():
        torch = pytest.importorskip("torch", reason="PyTorch, on which the oracle builds models, is not installed")
        library = pytest.importorskip(
            "transformers", minversion="5.20", reason="transformers, the oracle, is not installed (pip install .[oracle])"
        )
        library.logging.set_verbosity_error()
    return torch, library


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Warnings of other people's code are no errors here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _network(
    config: dict[str, Any],
    model_type: str | None,
    device: str,
    changes: dict[str, Any],
    around: dict[str, Any] | None = None,
) -> Any:
    torch, library = _libraries()
    data = dict(config)
    while (name := next((name for name in _LANGUAGE if name in data), None)) is not None:
        data = {**{key: data[key] for key in _INHERITED if key in data}, **data[name]}
    data.pop("quantization_config", None)
    data.pop("auto_map", None)
    data["dtype"] = data.pop("torch_dtype", None) or data.get("dtype") or "bfloat16"
    kind = library.models.auto.configuration_auto.CONFIG_MAPPING[model_type or data["model_type"]]
    built = kind.from_dict({**data, "model_type": kind.model_type})
    auto = library.AutoModelForCausalLM
    if kind not in library.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING:
        # The language model has no class of its own: the whole is built, and the other parts are not counted.
        if "text_config" in kind.sub_configs:
            built = kind.from_dict({"text_config": data, **(around or {})})
        auto = library.AutoModelForImageTextToText
    text = built.get_text_config()
    for key, value in changes.items():
        assert hasattr(text, key), f"{type(text).__name__} has no {key}"
        setattr(text, key, value)
    with torch.device(device):
        network = auto.from_config(built, attn_implementation="eager")
    network.eval().requires_grad_(False)
    if network._can_set_experts_implementation():
        network.set_experts_implementation("batched_mm")  # k experts a token, whatever the router says
    return network


def _unique(pairs: Any, seen: set[int]) -> Table:
    found: Table = {}
    for name, parameter in pairs:
        if id(parameter) not in seen and not _APART.search(name):
            seen.add(id(parameter))
            found[name] = parameter.numel()
    return found


def _parameters(network: Any) -> Counts:
    named = _unique(network.named_parameters(), set())
    layers = [sum(_unique(layer.named_parameters(), set()).values()) for layer in _layers(network)]
    table: Counter[str] = Counter()
    for name, count in named.items():
        table[re.sub(r"\.\d+(?=\.)", ".*", name)] += count
    return Counts(sum(named.values()), layers, tables={"parameters": dict(table)})


def _layers(network: Any) -> Any:
    """The decoder's layers: the outermost list of modules, the first of equals."""
    torch, _ = _libraries()
    config = network.config.get_text_config()
    wanted = getattr(config, "num_layers", config.num_hidden_layers)  # LongCat's hold two of the layers that have a cache each
    wanted = getattr(config, "num_layers_per_stack", wanted)  # HRM's are run several times, with a cache each
    lists = [
        (name.count("."), module)
        for name, module in network.named_modules()
        if isinstance(module, torch.nn.ModuleList) and not _APART.search(name) and len(module) == wanted
    ]
    assert lists, f"{type(network).__name__} has no list of {wanted} layers"
    return min(lists, key=lambda pair: pair[0])[1]


def _tokens(device: str, sequences: int, new: int) -> Any:
    torch, _ = _libraries()
    return torch.zeros(sequences, new, dtype=torch.long, device=device)


def _kept(network: Any, device: str) -> tuple[list[int], list[tuple[int, int]]]:
    """Elements a token and a sequence that each layer's cache holds after a few tokens of one sequence."""
    held = network(_tokens(device, 1, _CACHED), use_cache=True).past_key_values
    tokens, states = [], []
    for layer in held.layers:
        conv = recurrent = elements = 0
        for name, value in vars(layer).items():
            for tensor in _tensors(value):
                if name.startswith("conv"):
                    conv += tensor.numel()
                elif name.startswith("recurrent"):
                    recurrent += tensor.numel()
                else:
                    elements += tensor.numel()
        if elements:
            assert elements % _CACHED == 0, f"{elements} elements are not those of {_CACHED} tokens"
            tokens.append(elements // _CACHED)
        if conv or recurrent:
            states.append((conv, recurrent))
    return tokens, states


def _tensors(value: Any) -> list[Any]:
    torch, _ = _libraries()
    parts = value.values() if isinstance(value, dict) else [value]
    return [one for one in parts if isinstance(one, torch.Tensor) and one.dim() > 1]  # not the numbers that layers keep


def _flops(network: Any, device: str, sequences: int, new: int, cached: int) -> tuple[int, Table]:
    """FLOP of a step, without the cores of recurrent mixers, and a table by module and product."""
    from torch.utils.flop_counter import FlopCounterMode

    held = network(_tokens(device, sequences, cached), use_cache=True).past_key_values if cached else None
    with FlopCounterMode(display=False) as counter:
        network(_tokens(device, sequences, new), past_key_values=held, use_cache=True)
    counts = {name: {str(op).split(".")[-1]: n for op, n in ops.items()} for name, ops in counter.get_flop_counts().items()}
    total = sum(counts["Global"].values())
    top = type(network).__name__
    for name, module in network.named_modules():
        if _RECURRENT.search(type(module).__name__) and not _RECURRENT.search(type(_parent(network, name)).__name__):
            inside = counts.get(f"{top}.{name}", {})
            of_projections = _AROUND_CONVOLUTIONS if "ShortConv" in type(module).__name__ else _PROJECTIONS
            total -= sum(n for op, n in inside.items() if op not in of_projections)
    leaves = {name for name in counts if not any(other.startswith(name + ".") for other in counts)}
    table: Counter[str] = Counter()
    for name in leaves - {"Global"}:
        for op, n in counts[name].items():
            table[f"{re.sub(r'[.][0-9]+(?=[.]|$)', '.*', name)} {op}"] += n
    rest = sum(counts["Global"].values()) - sum(table.values())
    return total, {**table, **({"(between modules)": rest} if rest else {})}


def _parent(network: Any, name: str) -> Any:
    return network.get_submodule(name.rpartition(".")[0]) if name else None


# Both


def _steps() -> dict[str, tuple[int, int, int]]:
    """Sequences, new tokens and cached tokens of each step."""
    return {"prefill": (*PREFILL, 0), "decode": (DECODE[0], 1, DECODE[1])}


def _type_of(model: Model, path: str) -> str | None:
    top, _, rest = path.partition("/")
    if top != "layers":
        return None
    names = stages(model, 1)[0].layers
    return names[0][0] if len(names) == 1 else rest.partition("/")[0]


def _core_of_state(model: Model, path: str, operator: Any) -> bool:
    """Whether an operator is of a mixer with a state, and neither a projection nor of the residual streams around it."""
    name = _type_of(model, path)
    mixer = model.layer_types[name].mixer if name is not None else None
    if not isinstance(mixer, MixerBlock) or mixer.state() is None or f"/{mixer.path}/" not in path:
        return False
    return not isinstance(operator, (Attention, Gemm, GroupedGemm, HyperExpand))


def _difference(found: Any, wanted: Any) -> str:
    if not isinstance(found, list):
        return f"ours {found:,}, transformers {wanted:,} ({found - wanted:+,})"
    if len(found) != len(wanted):
        return f"ours {len(found)} layers, transformers {len(wanted)}: {found[:6]}... and {wanted[:6]}..."
    index = next(i for i, (one, other) in enumerate(zip(found, wanted, strict=True)) if one != other)
    return f"first difference at {index}: ours {found[index]}, transformers {wanted[index]}"


def _tables(ours: Counts, theirs: Counts, name: str) -> list[str]:
    return [
        f"  {who} {key}: {value:,}"
        for who, counts in (("ours", ours), ("transformers", theirs))
        for key, value in sorted(counts.tables.get(name, {}).items())
    ]
