"""Facts that templates need of models and hardware, cached: a thousand sheets need the same few again and again.

Models and hardware are the shipped ones, even if `ROOFLINE_PATH` points elsewhere: a seed gives the same sheet everywhere.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from roofline import formatting
from roofline.blocks.model import LayerGroup, Model
from roofline.blocks.model_files import load_model
from roofline.dtypes import parse_dtype
from roofline.formatting import number
from roofline.graph.build import build
from roofline.graph.sharding import caches
from roofline.operators.base import Operator
from roofline.operators.gemm import Gemm
from roofline.predict import parameters as of_model
from roofline.predict.floor import Floor, floors
from roofline.predict.memory import UNLIMITED
from roofline.predict.parameters import Parameters, count_parameters
from roofline.predict.request import ResolvedRequest, prepare
from roofline.specs.deployment import Deployment
from roofline.specs.hardware import Hardware
from roofline.specs.library import load_hardware, shipped
from roofline.specs.workload import Segment
from roofline.teach.worksheets.problem import Rng

DENSE = ("llama-3.1-8b", "qwen3-8b", "qwen2.5-7b", "mistral-nemo-12b", "qwen3-32b", "llama-3.1-70b")
"""Models with one type of layer, grouped queries, gated feed-forward blocks, an LM head of its own and no window."""
CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "a100-pcie-40gb", "l40s", "rtx-4090")
"""Accelerators with a structured-sparse peak of twice the dense one."""
TPUS = ("tpu-v5e", "tpu-v6e", "tpu-v5p", "tpu-v4")
"""Accelerators of "How to Scale Your Model", the book's own first."""
BOOK_MODELS = {"scaling-book": 8, "scaling-book-mqa": 1}
"""KV heads of the model that the inference chapter of "How to Scale Your Model" makes up, which no file has."""
_CHAPTERS = {
    "roofline": "part 1, Rooflines",
    "inference": "part 7, Inference",
    "applied-inference": "part 8, Serving LLaMA 3-70B",
}


def scaling_book(chapter: str, question: str, *, own: bool) -> str:
    """Return the source of a problem in "How to Scale Your Model".

    Args:
        chapter: the end of its address.
        question: which of the chapter's questions.
        own: whether the numbers are the book's; otherwise the problem is after it.
    """
    return (
        f"{'' if own else 'after '}Austin et al., How to Scale Your Model (2025), {_CHAPTERS[chapter]}, {question}: "
        f"https://jax-ml.github.io/scaling-book/{chapter}"
    )


@cache
def model(name: str) -> Model:
    """Return a shipped model, or one of `BOOK_MODELS`; `NAME@LAYERS` has that number of layers, all of its only type."""
    base, _, layers = name.partition("@")
    base_model = _of_book(BOOK_MODELS[base]) if base in BOOK_MODELS else load_model(shipped("models") / f"{base}.yaml")[0]
    if not layers:
        return base_model
    (kind,) = base_model.layer_types
    return base_model.model_copy(update={"layers": (LayerGroup(pattern=(kind,), repeat=int(layers)),)})


def _of_book(kv: int) -> Model:
    mixer = {"kind": "gqa", "num_attention_heads": 32, "num_key_value_heads": kv, "head_dim": 256}
    return Model.model_validate(
        {
            "schema_version": 1,
            "name": "scaling-book",
            "title": "A made-up model",
            "hidden_size": 4096,
            "vocab_size": 32128,
            "max_position_embeddings": 131072,
            "tie_word_embeddings": True,
            "layer_types": {"decoder": {"mixer": mixer, "mlp": {"kind": "gated_mlp", "intermediate_size": 16384}}},
            "layers": [{"pattern": ["decoder"], "repeat": 64}],
        }
    )


@cache
def layer_weights(name: str) -> int:
    """Return the number of weights in a dense model's layers that every token of a prompt is multiplied with."""
    operators = step_operators(name, 1, 1, 1).values()
    return int(sum(operator.parameters * layers for operator, layers in operators if layers > 1 and isinstance(operator, Gemm)))


@cache
def streamed_seconds(name: str, card: str, batch: int, new: int, cached: int) -> float:
    """Return the least time of a decode step with `new` tokens per sequence: its bytes over the bus, or its products."""
    (bound,) = floors(request(name, card), (Segment(batch, new, cached, decode=True),))
    return float(max((bound.weight_bytes + bound.cache_bytes) / bound.bandwidth, bound.compute_s))


@cache
def step_flops(name: str, batch: int, new: int, cached: int) -> float:
    """Return the FLOP of all matrix products of a step."""
    operators = step_operators(name, batch, new, cached).values()
    return float(sum(operator.cost().matrix_flops * layers for operator, layers in operators))


@cache
def layer_flops(name: str, tokens: int) -> float:
    """Return the FLOP of the linear layers of a dense model for a number of tokens."""
    operators = step_operators(name, 1, tokens, 0).values()
    linear = [(one, layers) for one, layers in operators if layers > 1 and isinstance(one, Gemm)]
    return float(sum(one.cost().matrix_flops * layers for one, layers in linear))


@cache
def quantized_layers(name: str, tokens: int, quantization: str) -> tuple[tuple[Operator, int], ...]:
    """Return the linear operators of a dense model's layers under a scheme, each with the number of layers that have it."""
    step = (Segment(1, tokens, 0),)
    memory = request(name, "h200-sxm", quantization=quantization).memory
    graph = build(model(name), memory.deployment, memory.precision, step)
    return tuple((one, int(layers)) for one, layers in graph.values() if layers > 1 and isinstance(one, Gemm))


@cache
def loaded_bytes(name: str, **options: Any) -> float:
    """Return the bytes of a model's weights with their metadata; `options` are those of `roofline.analyze`, hashable."""
    return _plain(request(name, "h200-sxm", **options).memory.fullest_stage.loaded_bytes)


def of_other_depth(rng: Rng, name: str) -> str:
    """Draw the name of a model: the model itself, or `NAME@LAYERS` with 4, 8 or 12 layers more or fewer."""
    layers = model(name).num_hidden_layers
    return rng.choice((name, *(f"{name}@{layers + more}" for more in range(-12, 13, 4) if more)))


@cache
def hardware(name: str) -> Hardware:
    """Return shipped hardware by its id."""
    return load_hardware(shipped("hardware") / f"{name}.yaml")[0]


@cache
def mixer(name: str) -> Any:
    """Return the section of a model's first attention (or other token mixer)."""
    spec = model(name)
    return spec.layer_types[spec.layer_sequence[0]].mixer


@cache
def mlp(name: str) -> Any:
    """Return the section of the feed-forward block of a model's last layer."""
    spec = model(name)
    return spec.layer_types[spec.layer_sequence[-1]].mlp


@cache
def element_bytes(dtype: str) -> float:
    """Return the bytes per element of a format, such as 2 for "bf16" and 0.5 for "int4"."""
    return _plain(parse_dtype(dtype).bytes)


@cache
def kv_bytes_per_token(name: str, dtype: str = "bf16") -> float:
    """Return the bytes that one more token adds to the KV cache of all layers, below every window."""
    return _plain(of_model.kv_bytes_per_token(model(name)) / 2 * element_bytes(dtype))


@cache
def kv_bytes(name: str, tokens: int, dtype: str = "bf16") -> float:
    """Return the bytes of the KV cache of a sequence of `tokens`: those that each layer retains."""
    elements = sum(cache.elements * cache.retained(tokens) * count for cache, count in caches(model(name), Deployment()))
    return _plain(elements * element_bytes(dtype))


@cache
def parameters(name: str) -> Parameters:
    """Return the parameter counts of a model."""
    return count_parameters(model(name))


@cache
def parameters_by_path(name: str) -> dict[str, tuple[float, int]]:
    """Return the parameters of each operator by path, each with the number of layers that have it."""
    return of_model.parameters_by_path(model(name))


@cache
def request(name: str, card: str, **options: Any) -> ResolvedRequest:
    """Return the resolved request of a model on an accelerator, as `analyze` prepares it.

    Args:
        name: the model, as in `model`.
        card: the id of shipped hardware.
        **options: those of `roofline.analyze`, hashable.

    Raises:
        RooflineError: the options contradict each other or the model.
    """
    return prepare(model(name), hardware(card), **options)


@cache
def floor(name: str, card: str, batch: int, new: int, cached: int, **options: Any) -> Floor:
    """Return the lower bound of a step (`roofline.predict.floor`): bytes, and seconds of memory and of matrix units.

    Args:
        name: the model, as in `model`.
        card: the id of shipped hardware.
        batch: the number of sequences.
        new: the number of new tokens of each sequence; 1 is a decode step.
        cached: the number of cached tokens of each sequence.
        **options: those of `roofline.analyze`, hashable.
    """
    (bound,) = floors(request(name, card, **options), (Segment(batch, new, cached, decode=new == 1),))
    return bound


@cache
def max_batch(name: str, card: str, context: int, **options: Any) -> int:
    """Return the number of sequences of `context` cached tokens that fit, as the engine allocates.

    0 if not even one does, or if memory sets no limit.
    """
    fitting = request(name, card, **options).memory.max_batch(context)
    return 0 if fitting >= UNLIMITED else fitting


@cache
def step_operators(name: str, batch: int, new: int, cached: int) -> dict[str, tuple[Operator, int]]:
    """Return the operators of a step at two bytes per element, by path, each with the number of layers that have it."""
    graph = build(model(name), Deployment(), of_model.TWO_BYTES, (Segment(batch, new, cached, decode=new == 1),))
    return {path: (operator, int(repeat)) for path, (operator, repeat) in graph.items()}


def title(name: str) -> str:
    """Return the title of a model, with the number of layers if it is not its own.

    >>> title("qwen3-8b"), title("qwen3-8b@40")
    ('Qwen3 8B', 'Qwen3 8B with 40 layers ($L$) instead of 36')
    """
    base, _, layers = name.partition("@")
    spec = model(base)
    return f"{spec.title} with {layers} layers ($L$) instead of {spec.num_hidden_layers}" if layers else spec.title


def card(name: str) -> str:
    """Return the title of an accelerator."""
    return hardware(name).accelerator.title


def shape(name: str, *keys: str) -> str:
    """Return dimensions of a model as text: `layers`, `hidden`, `queries`, `kv`, `head`, `inner`, `vocabulary`.

    The layers are left out if `title` has them.

    Raises:
        KeyError: a key is none of these.

    >>> shape("llama-3.1-8b", "layers", "kv", "head")
    '32 layers ($L$), 8 KV heads ($n_kv$), head width 128 ($d_head$)'
    """
    spec, attention = model(name), mixer(name)
    texts = {
        "layers": lambda: f"{spec.num_hidden_layers} layers ($L$)",
        "hidden": lambda: f"hidden size {number(spec.hidden_size)} ($d_model$)",
        "queries": lambda: f"{attention.num_attention_heads} query heads ($n_q$)",
        "kv": lambda: f"{attention.num_key_value_heads} KV head{'s' * (attention.num_key_value_heads > 1)} ($n_kv$)",
        "head": lambda: f"head width {attention.head_dim} ($d_head$)",
        "inner": lambda: f"feed-forward width {number(mlp(name).intermediate_size)} ($d_ff$)",
        "vocabulary": lambda: f"a vocabulary of {number(spec.vocab_size)} ($V$)",
    }
    return ", ".join(texts[key]() for key in keys if key != "layers" or "@" not in name)


def peak_and_bandwidth(name: str, dtype: str = "bf16") -> str:
    """Return the dense peak in a dtype and the memory bandwidth of an accelerator as text."""
    spec = hardware(name)
    peak, bandwidth = formatting.quantity(spec.peak(dtype), "FLOP/s"), formatting.quantity(spec.bandwidth, "B/s")
    return f"{peak} dense in {dtype} ($P$) and {bandwidth} of memory bandwidth ($beta$)"


def _plain(value: Any) -> float:
    """A plain int if the value is integral, else a float."""
    return int(value) if float(value).is_integer() else float(value)
