"""Right models, hardware, checkpoints, prices and fits, at random, and one thing of some of them bent.

Sections of models are drawn from the fields of their classes, so that new ones are drawn too.
"""

from __future__ import annotations

import copy
import re
from functools import cache
from typing import Any

from fuzz.choices import CARDS, POWERS, WIDTHS, Alternatives, Choices, Data, command, within, written
from fuzz.kinds import ROOT, Case
from golden.oracle import classic_configs, latent_configs, recurrent_configs
from pydantic import ValidationError
from unit.specs.test_gguf import F32, gguf_file

from roofline.blocks import kinds
from roofline.blocks.model import Model
from roofline.specs.base import Spec
from roofline.specs.quantization import schemes

# Sections of models, from the JSON Schema of their classes.

_AT_MOST = {
    "num_key_value_heads": "num_attention_heads", "num_experts_per_tok": "num_experts", "topk_group": "n_group",
    "n_group": "num_experts", "rotary_dim": "head_dim", "linear_num_key_heads": "linear_num_value_heads",
    "n_groups": "mamba_num_heads", "index_topk": "num_attention_heads",
}  # fmt: skip


def _field(name: str, schema: Data, definitions: Data) -> Alternatives:
    """Values of a field; none where it is of no type that is drawn."""
    if "$ref" in schema:
        return lambda choices: _object(choices, definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "const" in schema:
        return (schema["const"],)
    if "enum" in schema:
        return tuple(schema["enum"])
    if "anyOf" in schema:
        return _field(name, next(one for one in schema["anyOf"] if one.get("type") != "null"), definitions)
    match schema.get("type"):
        case "boolean":
            return (False, True)
        case "integer":
            listed = WIDTHS if re.search("size|dim|rank|inner|width", name) and "num" not in name else POWERS
            return tuple(max(value, schema.get("minimum", 0)) for value in listed)
        case "number":
            return (1.0, 0.5, 2.0)
        case _:
            return ()


def _object(choices: Choices, schema: Data, definitions: Data) -> Data:
    fields = {name: _field(name, schema["properties"][name], definitions) for name in schema.get("required", ())}
    return _repaired({name: choices.of(field) for name, field in fields.items()})


def _repaired(section: Data) -> Data:
    """Without more of one thing than there can be."""
    return {
        name: min(value, section[_AT_MOST[name]]) if _AT_MOST.get(name) in section and isinstance(value, int) else value
        for name, value in section.items()
    }


@cache
def _schema(cls: type[Spec]) -> Data:
    return cls.model_json_schema()


def _valid(cls: type[Spec], data: Data) -> bool:
    try:
        cls.model_validate(data)
    except ValidationError:
        return False
    return True


def section(choices: Choices, cls: type[Spec]) -> Data:
    """The needed fields of a class, and a few of the others as far as they go together."""
    schema = _schema(cls)
    definitions = schema.get("$defs", {})
    data: Data = _object(choices, schema, definitions)
    optional = [name for name in schema["properties"] if name not in schema.get("required", ())]
    if not _valid(cls, data):  # something else is needed with them
        fields = {name: _field(name, schema["properties"][name], definitions) for name in optional}
        wanted = (_repaired({**data, name: choices.of(field)}) for name, field in fields.items() if field)
        data = next((more for more in wanted if _valid(cls, more)), data)
    for name in choices.several(optional, 3):
        field = _field(name, schema["properties"][name], definitions)
        if field and _valid(cls, more := _repaired({**data, name: choices.of(field)})):
            data = more
    return data


_EXTRAS: dict[str, Alternatives] = {
    "lm_head_bias": (False, True), "lm_head_scale": (False, True), "final_norm": (False, True), "embedding_norm": (False, True),
    "learned_positions": (64, 1024), "word_embed_proj_dim": (32, 64), "hidden_size_per_layer_input": (16, 32),
    "norm": ({"function": "layernorm", "bias": True}, {"weight": False}, {"function": "rmsnorm"}),
    "hc_mult": (1, 2, 4), "altup_num_inputs": (2, 4), "laurel_rank": (8, 16), "initial_state": (False, True),
    "dtype": ("bf16", "fp16", "fp32"), "state_dtype": ("fp32", "bf16"), "activation_dtype": ("bf16", "fp16"),
    "apart": ({"vision_tower": 1000}, {"multi_token_prediction": 10**6}, {"audio": 5}),
}  # fmt: skip


def models(choices: Choices) -> Data:
    """A model of one or two types of layers, of blocks of any kind."""
    types: Data = {}
    for name in ("first", "second")[: 1 + choices.upto(1)]:
        layer: Data = {"mixer": section(choices, kinds("mixer")[choices.one("gqa", *kinds("mixer"))])}
        if not choices.rarely(10):
            layer["mlp"] = section(choices, kinds("mlp")[choices.one("gated_mlp", *kinds("mlp"))])
        layer |= choices.some({"norms": ("pre", "post", "both"), "parallel": (False, True)}, 1)
        if layer.get("parallel"):
            layer = {key: value for key, value in layer.items() if key != "norms" and ("mlp" in layer or key != "parallel")}
        types[name] = layer
    model: Data = {
        "schema_version": 1, "name": "drawn", "title": "Drawn", "hidden_size": choices.one(64, 128, 256, 1024),
        "vocab_size": choices.whole(2, 130_000), "max_position_embeddings": choices.whole(1, 200_000),
        "tie_word_embeddings": choices.one(False, True), "layer_types": types,
        "layers": [{"pattern": [name], "repeat": choices.whole(1, 80)} for name in types],
    }  # fmt: skip
    extras = choices.some(_EXTRAS, 2)
    if choices.rarely(4):
        extras["quantization"] = {"name": choices.one(*(name for name in schemes() if name != "mean_bits"))}
    for name, value in extras.items():
        if _valid(Model, {**model, name: value}):
            model[name] = value
    return model


def of_models(choices: Choices) -> Case:
    """Shown, or analysed on a card."""
    model = choices.sometimes_bent(models(choices))
    line = choices.either(10, analyzed("model.yaml"), "models show model.yaml", "models check model.yaml")
    if line.startswith("analyze"):
        line += choices.one("", " --phase decode", " --batch 7 --context 300", " --tp 2", " --kv-cache-dtype fp8", " --mfu 0.5")
    return command(line, model_yaml=written(model))


def analyzed(model: str, hardware: str = "h100-sxm") -> str:
    return f"analyze {model} --hardware {hardware} --ignore-capacity"


# Hardware

_SOURCE = {"source": "drawn", "grade": "C"}


def fact(choices: Choices, low: float, high: float, *units: str) -> Data:
    """A figure with its unit, from `low` to `high` of any of the units."""
    digits = (100 + choices.upto(899)) / 100
    scale = choices.one(*(10.0**n for n in range(-3, 7) if low <= 10.0**n <= high))
    return {"value": f"{digits * scale:.6g} {choices.one(*units)}", **_SOURCE}


def facts(low: float, high: float, *units: str) -> Alternatives:
    """Such figures."""
    return lambda choices: fact(choices, low, high, *units)


def links(choices: Choices) -> Data:
    """A link."""
    link: Data = {"name": choices.one("a link", "PCIe 4.0 x16", "NVLink 3"), "per_direction": fact(choices, 10, 100, "GB/s")}
    return link | choices.some({"max_devices": (2, 4, 8, 72), "per_peer": facts(1, 10, "GB/s")}, 1)


def accelerators(choices: Choices) -> Data:
    """An accelerator, with some of what a file may have."""
    card: Data = {
        "schema_version": 1, "kind": "accelerator", "name": "drawn", "title": "Drawn",
        "vendor": choices.one("nvidia", "amd", "apple", "somebody"),
        "architecture": choices.one("hopper", "ampere", "cdna3", "new"),
        "peak_flops": {
            "bf16": fact(choices, 1, 100, "TFLOP/s", "TOP/s"),
            **choices.some({name: facts(1, 100, "TFLOP/s") for name in ("fp16", "fp32", "fp8", "int8", "fp4", "tf32")}, 4),
        },
        "memory": {"type": "HBM", "label": fact(choices, 10, 100, "GB", "GiB"), "bandwidth": fact(choices, 10, 1000, "GB/s")},
        "sources": {"drawn": {"title": "drawn"}},
    }  # fmt: skip
    if choices.one(False, True):
        card["memory"]["reported"] = fact(choices, 10, 100, "GiB")
    extras: dict[str, Alternatives] = {
        "vector_flops": facts(1, 10, "TFLOP/s"), "l2": facts(1, 10, "MiB", "MB"), "l2_bandwidth": facts(1, 1, "TB/s"),
        "compute_units": lambda inner: {"value": inner.whole(1, 300), **_SOURCE},
        "registers": facts(100, 100, "KiB"), "shared_memory": facts(10, 10, "KiB"),
        "boost_clock": facts(1, 1, "GHz"), "power": facts(100, 100, "W"), "host_link": links,
        "links": lambda inner: inner.listed(links, 2, 0),
        "devices": (1, 2), "aliases": ([], ["other-drawn"]), "best_matmul": facts(1, 10, "TFLOP/s"),
        "notes": ([], ["a note"]),
    }  # fmt: skip
    return card | choices.some(extras, 9)


def of_hardware(choices: Choices) -> Case:
    """An accelerator or a node, with an operator on it, a model, or alone."""
    if choices.rarely(4):
        node: Data = {
            "schema_version": 1, "kind": "node", "name": "drawn-node", "title": "Drawn", "accelerator": choices.one(*CARDS),
            "count": choices.one(1, 2, 4, 8, 16), "links": choices.listed(links, 2),
            "sources": {"drawn": {"title": "drawn"}},
            **choices.some({"network": links, "host_link": links, "host": ({}, {"notes": "a host"})}, 3),
        }  # fmt: skip
        lines: tuple[str, ...] = ("hardware check node.yaml", f"{analyzed('gpt2', 'node.yaml')} --dtype fp16 --mfu 0.5")
        return command(choices.one(*lines), node_yaml=written(choices.sometimes_bent(node)))
    cheap = (
        "op gemm {0} 512 256 --hardware card.yaml", "op attention {0} 1 300 8 2 64 --hardware card.yaml",
        "op norm {0} 512 --hardware card.yaml", "hardware show card.yaml", "hardware check card.yaml",
    )  # fmt: skip
    dear = choices.one(f"{analyzed('gpt2', 'card.yaml')} --batch {{0}}", "limits gpt2 --hardware card.yaml --context {0}")
    line = choices.either(16, dear, *cheap).format(choices.whole(1, 5000))
    return command(line, card_yaml=written(choices.sometimes_bent(accelerators(choices))))


# config.json

_HARMLESS = (
    "architectures",
    "transformers_version",
    "bos_token_id",
    "eos_token_id",
    "rms_norm_eps",
    "initializer_range",
    "rope_theta",
)


@cache
def _published() -> list[Data]:
    listed = (*classic_configs.PUBLISHED.values(), *latent_configs.PUBLISHED.values(), *recurrent_configs.PUBLISHED.values())
    return [dict(config) for config in listed]


def configs(choices: Choices) -> Data:
    """A published config with other sizes, or with keys that change nothing left out, or written."""
    config = copy.deepcopy(choices.one(*_published()))
    inner = next((key for key in ("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size") if config.get(key)), None)
    edits: dict[str, Alternatives] = {
        "vocab_size": within(2, 300_000), "torch_dtype": ("bfloat16", "float16", "float32"),
        "tie_word_embeddings": (False, True), "max_position_embeddings": within(2, 10**6), "use_cache": (False, True),
    }  # fmt: skip
    if inner is not None:
        edits[inner] = (64, 128, 1024, 11008)
    for key in ("num_experts", "num_local_experts", "n_routed_experts"):
        if config.get(key):
            edits[key] = (config[key], config[key] * 2, config[key] * 4)
    layers = next((key for key in ("num_hidden_layers", "n_layer", "n_layers") if key in config), None)
    if layers is not None and not any(isinstance(value, list) and len(value) > 1 for value in config.values()):
        edits[layers] = (config[layers], config[layers] * 2)
    config |= {key: value for key, value in choices.some(edits).items() if key in config or key in ("torch_dtype", "use_cache")}
    for key in choices.several(_HARMLESS, 2):
        config.pop(key, None)
    return config


def of_configs(choices: Choices) -> Case:
    """Shown, or analysed."""
    data = choices.sometimes_bent(configs(choices))
    dear = f"{analyzed('config.json', 'dgx-h100')} --tp 1 --context 64 --mfu 0.5"
    line = choices.either(8, dear, "models show config.json", "models import config.json")
    return command(line, config_json=written(data))


# GGUF

_KINDS = {F32: 1, 1: 1, 30: 1, 2: 32, 8: 32, 12: 256, 14: 256}
"""Elements of a block of the types of tensors that are drawn."""


def ggufs(choices: Choices) -> bytes:
    """A llama, qwen2 or qwen3 whose matrices are of any types."""
    family, layers = choices.one("llama", "qwen2", "qwen3"), 1 + choices.upto(2)
    heads, groups = choices.one((2, 1), (4, 2), (4, 4), (8, 2))
    width, inner, vocab, head = choices.either(4, 256, 64), choices.one(128, 256), 1 + choices.upto(39), 32
    keys: Data = {
        "general.architecture": family, f"{family}.block_count": layers, f"{family}.context_length": choices.whole(1, 10**6),
        f"{family}.embedding_length": width, f"{family}.feed_forward_length": inner, f"{family}.attention.head_count": heads,
        f"{family}.attention.head_count_kv": groups, f"{family}.attention.key_length": head,
        f"{family}.attention.value_length": head, f"{family}.rope.dimension_count": head,
        "tokenizer.ggml.tokens": [f"t{n}" for n in range(vocab)],
        **choices.some({"general.name": ("Drawn", ""), "general.file_type": within(0, 40), f"{family}.vocab_size": (vocab,)}),
    }  # fmt: skip
    matrices = {
        "attn_q": (heads * head, width), "attn_k": (groups * head, width), "attn_v": (groups * head, width),
        "attn_output": (width, heads * head), "ffn_gate": (inner, width), "ffn_up": (inner, width), "ffn_down": (width, inner),
    }  # fmt: skip
    vectors = {"attn_norm": width, "ffn_norm": width}
    if family == "qwen3":
        vectors |= {"attn_q_norm": head, "attn_k_norm": head}
    biases = {f"attn_{part}": matrices[f"attn_{part}"][0] for part in "qkv"} if family == "qwen2" else {}
    types = tuple(kind for kind, block in _KINDS.items() if all(size % block == 0 for size in (width, inner, heads * head)))
    tensors = [("token_embd.weight", (vocab, width), choices.of(types)), ("output_norm.weight", (width,), F32)]
    if choices.one(False, True):
        tensors.append(("output.weight", (vocab, width), choices.of(types)))
    for layer in range(layers):
        kind = choices.of(types)
        tensors += [(f"blk.{layer}.{name}.weight", shape, kind) for name, shape in matrices.items()]
        tensors += [(f"blk.{layer}.{name}.weight", (size,), F32) for name, size in vectors.items()]
        tensors += [(f"blk.{layer}.{name}.bias", (size,), F32) for name, size in biases.items()]
    if choices.rarely(6):
        keys = choices.bent(keys)
        keys = {name: value for name, value in keys.items() if isinstance(value, (str, bool)) or _stored(value)}
    if choices.rarely(10):
        del tensors[choices.upto(len(tensors) - 1)]
    return gguf_file(keys, tensors, choices.one(3, 2))


def _stored(value: Any) -> bool:
    """Whether the writer of the files has a type for a value: whole numbers and texts, and lists of them."""
    if isinstance(value, list):
        return (
            bool(value)
            and len({type(one) for one in value}) == 1
            and all(isinstance(one, str) or _stored(one) for one in value)
        )
    return isinstance(value, int) and 0 <= value < 2**32


def of_ggufs(choices: Choices) -> Case:
    """Shown, checked, or analysed."""
    line = choices.either(8, analyzed("small.gguf", "apple-m4-max"), "models show small.gguf", "models check small.gguf")
    return command(line, small_gguf=ggufs(choices))


# Prices and fits

_RENT = ("1.5 USD/h", "900 USD/month", "20 USD/day", "5 USD/h", "20000 USD/year")


def _price(choices: Choices) -> Any:
    """A price of one of the forms."""
    rent = {"rent": choices.of(_RENT)}
    owned = {
        "capital": choices.one("28000 USD", "1 USD"),
        "years": choices.one(4, 0.5, 30),
        "electricity": choices.one("0.12 USD/kWh", "0 USD/kWh"),
    }
    owned |= choices.some({"power": ("700 W", "1 kW"), "pue": (1, 1.3, "2"), "other": ("1000 USD/year", "0 USD/year")}, 2)
    offers = [{**rent, "count": choices.whole(1, 9)}, choices.one({"owned": owned}, {"rent": choices.of(_RENT)})]
    ends = {"low": "1 USD/h", "high": choices.one("4 USD/h", "1 USD/h"), **choices.some({"value": ("1 USD/h",)}, 1)}
    forms = (
        rent["rent"],
        rent,
        {**rent, "note": "reserved"},
        {"owned": owned},
        ends,
        {**rent, "source": "listing"},
        {"offers": offers},
    )
    return choices.one(*forms)


def of_prices(choices: Choices) -> Case:
    """Prices, and what a million tokens cost."""
    prices = {"h100-sxm": _price(choices), **choices.some(dict.fromkeys(("l40s", "dgx-h100", "a100-sxm-80gb"), _price), 2)}
    content: Data = {"read": "2026-11-01", "sources": {"listing": {"title": "a list", "read": "2026-10-01"}}, "prices": prices}
    line = "explain gpt2 cost_per_million_tokens --hardware {} --output-len 9 --mfu 0.5 --price prices.yaml"
    card = choices.one("h100-sxm", "h100-sxm", "dgx-h100")
    return command(line.format(card), prices_yaml=written(choices.sometimes_bent(content)))


@cache
def _fits() -> list[Data]:
    from ruamel.yaml import YAML

    names = ("vllm", "sglang", "trtllm", "sarathi-vllm-torch")
    yaml = YAML(typ="safe", pure=True)
    return [yaml.load(ROOT / "hardware" / "fits" / "h100-sxm" / f"{name}.yaml") for name in names]


def of_fits(choices: Choices) -> Case:
    """A fit of some families with other parameters and bands, by which an operator is estimated, or a model."""
    fit = dict(choices.one(*_fits()))
    fit["fitted"] = str(fit["fitted"])
    wanted = [name for name in fit["families"] if name in ("gemm/bf16", "rmsnorm/bf16")]
    fit["families"] = copy.deepcopy({name: fit["families"][name] for name in [*wanted, *choices.several(fit["families"], 1)]})
    families = list(fit["families"])
    for name in choices.several(families, 3):
        family = fit["families"][name]
        match choices.upto(3):
            case 0:
                if len(families) > 1:
                    del fit["families"][name]
                    families = list(fit["families"])
            case 1:
                factor = choices.one(0.5, 2.0, 0.9)
                family["bands"] = {key: [low * factor, high * factor] for key, (low, high) in family["bands"].items()}
            case 2:
                key = choices.one(*family["parameters"])
                family["parameters"][key] = _scaled(family["parameters"][key], choices.one(0.5, 2, 10, 0))
            case _:
                family["undetermined"] = choices.several(family["parameters"], 2)
    size = choices.whole(1, 20_000)
    dear = "analyze gpt2 --phase decode"
    line = choices.either(16, dear, f"op gemm {size} 512 256", f"op gemm {size} 4096 64", f"op norm {size} 512")
    return command(f"{line} --hardware h100-sxm --backend fit.yaml", fit_yaml=written(choices.sometimes_bent(fit)))


def _scaled(value: Any, factor: float) -> Any:
    """A parameter times a factor, with its unit if it has one."""
    if not isinstance(value, str):
        return value * factor
    number, unit = value.split(" ")
    return f"{float(number) * factor:.6g} {unit}"
