"""Names that most checkpoints have for the modules of a layer, which `quantization_config` points at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from roofline.errors import InputError

Section = Mapping[str, Any]
Names = dict[str, str]
"""Roles by the name of a module inside a layer."""


def usual(layers: Sequence[Section], prefix: str = "model.", **words: str) -> dict[str, tuple[int | None, str]]:
    """Layer and role of every module with a weight matrix, for layers as a model's file has them (`mixer`, `mlp`).

    `words` are what a family calls a part instead: `attention` (self_attn), `mlp`, `moe` (mlp), `router` (gate), `experts`,
    `shared_experts`, `embedding` (embed_tokens). One expert stands for all of them.

    >>> found = usual([{"mixer": {"kind": "gqa"}, "mlp": {"kind": "moe"}}], moe="block_sparse_moe")
    >>> found["model.layers.0.self_attn.o_proj"], found["model.layers.0.block_sparse_moe.gate"]
    ((0, 'attention/o_proj'), (0, 'router'))

    Raises:
        InputError: a layer has a kind of block whose modules are not known here.
    """
    said = _WORDS | words
    found: dict[str, tuple[int | None, str]] = {
        prefix + said["embedding"]: (None, "embedding"),
        "lm_head": (None, "lm_head"),
    }
    for index, layer in enumerate(layers):
        for part in ("mixer", "mlp"):
            section = layer.get(part)
            if section is None:
                continue
            if section["kind"] not in _KINDS:
                msg = f"quantization_config: how checkpoints name the weights of a {section['kind']} block is not known"
                raise InputError(msg)
            names = _KINDS[section["kind"]](section, said)
            found |= {f"{prefix}layers.{index}.{name}": (index, role) for name, role in names.items()}
    return found


_WORDS = {
    "attention": "self_attn",
    "mlp": "mlp",
    "moe": "mlp",
    "router": "gate",
    "experts": "experts",
    "shared_experts": "shared_experts",
    "embedding": "embed_tokens",
}
_GATED, _PLAIN = ("gate_proj", "up_proj", "down_proj"), ("up_proj", "down_proj")


def _gqa(section: Section, said: Mapping[str, str]) -> Names:
    del section
    names = {f"{said['attention']}.{name}_proj": "attention/qkv_proj" for name in "qkv"}
    return {**names, f"{said['attention']}.o_proj": "attention/o_proj"}


def _mla(section: Section, said: Mapping[str, str]) -> Names:
    queries = {"q_proj": "q_b_proj"} if section.get("q_lora_rank") is None else {"q_a_proj": "a_proj", "q_b_proj": "q_b_proj"}
    names = {**queries, "kv_a_proj_with_mqa": "a_proj", "kv_b_proj": "kv_b_proj", "o_proj": "o_proj"}
    return {f"{said['attention']}.{name}": f"attention/{role}" for name, role in names.items()}


def _feed_forward(module: str, role: str, names: tuple[str, ...]) -> Names:
    ups = "gate_up_proj" if role == "mlp" and len(names) == len(_GATED) else "up_proj"
    return {f"{module}.{name}": f"{role}/{name if name == 'down_proj' else ups}" for name in names}


def _moe(section: Section, said: Mapping[str, str]) -> Names:
    names = _GATED if section.get("gated", True) else _PLAIN
    found = {f"{said['moe']}.{said['router']}": "router"}
    found |= _feed_forward(f"{said['moe']}.{said['experts']}.0", "experts", names)
    if section.get("shared_intermediate_size"):
        found |= _feed_forward(f"{said['moe']}.{said['shared_experts']}", "shared_experts", names)
    return found


_KINDS: dict[str, Callable[[Section, Mapping[str, str]], Names]] = {
    "gqa": _gqa,
    "mla": _mla,
    "gated_mlp": lambda section, said: _feed_forward(said["mlp"], "mlp", _GATED),
    "mlp": lambda section, said: _feed_forward(said["mlp"], "mlp", _PLAIN),
    "moe": _moe,
}
