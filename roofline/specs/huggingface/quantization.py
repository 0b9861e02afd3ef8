"""What a checkpoint's `quantization_config` means: schemes by role, and the layers that are exempt.

Which weights are quantised is given by patterns of module names, so that it can only be worked out on real names:
`read` takes them with the layer and the role of each, and gives back the sections of a model's file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from roofline.dtypes import ROLES, within
from roofline.errors import InputError
from roofline.specs.huggingface.methods import plan
from roofline.specs.quantization.base import Scheme

Modules = Mapping[str, tuple[int | None, str]]
"""Layer (None: of no layer) and role of each module of a checkpoint that holds a weight matrix, by its name.

A role may be part of a wider one (`attention/o_proj`): parts that are quantised alike are put together.
"""

# Where a config has it, newest first.
COMPANION = "hf_quant_config.json"
"""The file beside config.json in which NVIDIA ModelOpt wrote it until 2025."""
PLACES = ("quantization_config", "compression_config", "hf_quant_config", "quantization")
_NESTED = ("text_config", "llm_config", "language_config", "thinker_config")

States = dict[int | None, Scheme | None]
"""The scheme of a role's weights (None: not quantised) by layer (None: outside the layers)."""


@dataclass(frozen=True, slots=True)
class Published:
    """How the weights of a checkpoint are quantised."""

    quantization: tuple[Scheme, ...] = ()
    """For `quantization` of a model's file."""
    unquantized: tuple[tuple[int, tuple[str, ...]], ...] = ()
    """Layers, and the roles that are not quantised there though they are elsewhere: `unquantized` of their types."""
    otherwise: tuple[tuple[int, tuple[Scheme, ...]], ...] = ()
    """Layers, and the schemes of roles that are stored in another way there: `quantization` of their types."""

    def plain(self) -> list[dict[str, Any]]:
        """The schemes as plain data, without keys at their defaults."""
        return [_plain(scheme) for scheme in self.quantization]

    def of_layers(self) -> dict[int, dict[str, Any]]:
        """What differs in single layers, as keys of a layer type in plain data, by the index of the layer."""
        keys: dict[int, dict[str, Any]] = {index: {"unquantized": roles} for index, roles in self.unquantized}
        for index, schemes in self.otherwise:
            keys.setdefault(index, {})["quantization"] = [_plain(scheme) for scheme in schemes]
        return keys


def _plain(scheme: Scheme) -> dict[str, Any]:
    return scheme.model_dump(mode="json", exclude_defaults=True)


def section(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The part of a config.json or an hf_quant_config.json that says how weights are quantised; None if they are not.

    Raises:
        InputError: it is no JSON object.
    """
    for place in (config, *(config[name] for name in _NESTED if isinstance(config.get(name), Mapping))):
        for name in PLACES:
            if not (value := place.get(name)):
                continue
            if not isinstance(value, Mapping):
                msg = f"{name}: must be an object with keys and values, not {value!r:.60}"
                raise InputError(msg)
            inner = value.get("quantization")
            if "quant_method" not in value and "quant_algo" in (inner if isinstance(inner, Mapping) else value):
                value = {"quant_method": "modelopt", **value}
            # NB: DeepSeek-V4 says beside its quantization_config what the experts are in.
            return {"expert_dtype": place["expert_dtype"], **value} if place.get("expert_dtype") else value
    return None


def read(config: Mapping[str, Any], modules: Modules, dtype: str = "bf16") -> Published:
    """How a `quantization_config` stores the weights of a model: schemes by role, and the layers that are exempt.

    Routers, embeddings and norms stay as they are unless they are named; so does the LM head, but for methods that mean
    every linear layer.

    Args:
        config: the `quantization_config`, as `section` returns it.
        modules: layer index and role of each module that holds a weight matrix, by its name.
        dtype: of weights that are not quantised.

    Raises:
        InputError: a method, a format or a key that changes sizes is not known; a role is quantised in part of a layer, or
            in two ways; the KV cache is quantised and no weights are.
    """
    rules = plan(config, dtype)
    states: dict[str, States] = {}
    module_of: dict[tuple[str, int | None], str] = {}
    for name, (layer, role) in modules.items():
        scheme = rules.scheme(name, role)
        known = states.setdefault(role, {})
        if layer in known and known[layer] != scheme:
            other, place = module_of[role, layer], "" if layer is None else f" of layer {layer}"
            two = f"{name} is {_described(scheme)} and {other} is {_described(known[layer])}"
            msg = (
                f"quantization_config: {two}: weights of one role ({role}{place}) that are stored differently are not modelled"
            )
            raise InputError(msg)
        known[layer], module_of[role, layer] = scheme, name
    if not any(scheme for state in states.values() for scheme in state.values()) and rules.kv_cache_dtype is not None:
        msg = "quantization_config: a KV cache that is quantised beside weights that are not is not modelled"
        raise InputError(msg)
    return published(states, rules.kv_cache_dtype)


def published(states: Mapping[str, States], kv_cache_dtype: str | None = None) -> Published:
    """How weights are quantised, from the scheme of each role in each layer: the commonest of a role, and what differs.

    Args:
        states: by role, the scheme of its weights (None: not quantised) in each layer (None: outside the layers).
        kv_cache_dtype: of the KV cache, where the checkpoint says it.
    """
    joined = _joined(states)
    chosen = {role: scheme for role, state in joined.items() if (scheme := _commonest(state)) is not None}
    bare: dict[int, list[str]] = {}
    others: dict[int, dict[Scheme, list[str]]] = {}
    for role, state in joined.items():
        for layer, scheme in state.items():
            if layer is None or role not in chosen or scheme == chosen[role]:
                continue
            if scheme is None:
                bare.setdefault(layer, []).append(role)
            else:
                others.setdefault(layer, {}).setdefault(scheme, []).append(role)
    schemes: dict[Scheme, list[str]] = {}
    for role in _widest(chosen, joined):
        schemes.setdefault(chosen[role] if role in chosen else _of_linear(chosen), []).append(role)
    first = {"kv_cache_dtype": kv_cache_dtype} if kv_cache_dtype is not None else {}
    return Published(
        tuple(
            scheme.model_copy(update={"roles": tuple(roles), **(first if index == 0 else {})})
            for index, (scheme, roles) in enumerate(schemes.items())
        ),
        tuple((layer, tuple(roles)) for layer, roles in sorted(bare.items())),
        tuple(
            (layer, tuple(scheme.model_copy(update={"roles": tuple(roles)}) for scheme, roles in own.items()))
            for layer, own in sorted(others.items())
        ),
    )


def _joined(states: Mapping[str, States]) -> dict[str, States]:
    """Parts of a role as the role, where they are the same in every layer."""
    joined: dict[str, States] = {}
    for role in dict.fromkeys(role.split("/")[0] for role in states):
        parts = {name: state for name, state in states.items() if name.split("/")[0] == role}
        together: States = {}
        for state in parts.values():
            together |= state
        same = all(together[layer] == scheme for state in parts.values() for layer, scheme in state.items())
        joined |= {role: together} if same else parts
    return joined


def _commonest(state: States) -> Scheme | None:
    """The scheme of most layers that quantise a role; of equally many the first."""
    return next((scheme for scheme, _ in Counter(filter(None, state.values())).most_common(1)), None)


def _widest(chosen: Mapping[str, Scheme], states: Iterable[str]) -> list[str]:
    """Roles in their order; `linear` instead of those within it, where all that there are share a scheme."""
    linear = [role for role in states if "linear" in within(role)]
    whole = len(linear) > 1 and all(role in chosen and chosen[role] == chosen[linear[0]] for role in linear)
    roles = [role for role in chosen if not (whole and role in linear)] + (["linear"] if whole else [])
    return sorted(roles, key=lambda role: (ROLES.index(role.split("/")[0]), role))


def _of_linear(chosen: Mapping[str, Scheme]) -> Scheme:
    return next(scheme for role, scheme in chosen.items() if "linear" in within(role))


def _described(scheme: Scheme | None) -> str:
    if scheme is None:
        return "not quantised"
    keys = scheme.model_dump(mode="json", exclude_defaults=True)
    more = ", ".join(f"{name} {value}" for name, value in keys.items() if name != "name")
    return scheme.name + (f" ({more})" if more else "")
