"""A model written as a file like those in `models/`: for people to read and change, and equal to it when it is loaded."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from roofline.specs.model import Model
from roofline.text import clean

# Columns up to which a section stands on one line.
_WIDTH = 120
# Sections that always have a line for each key.
_BLOCKS = ("layer_types", "layers", "assumptions", "notes", "sources")


def model_yaml(model: Model) -> str:
    r"""The text of a file that holds the model. Keys at their defaults are left out, the dtype excepted; a section that
    several layer types have is written once and named.

    >>> from roofline.specs.library import load_model
    >>> print("\n".join(model_yaml(load_model("falcon-7b")[0]).splitlines()[11:18]))
    layer_types:
      decoder:
        mixer: {kind: gqa, num_attention_heads: 71, num_key_value_heads: 1, head_dim: 64}
        mlp: {kind: mlp, intermediate_size: 18176}
        parallel: true
    layers: # 32 in all
      - {pattern: [decoder], repeat: 32}
    """
    data = model.model_dump(mode="json", exclude_defaults=True)
    data["dtype"] = model.dtype
    if schemes := [{"name": s.name, **s.model_dump(mode="json", exclude_defaults=True)} for s in model.quantization]:
        data["quantization"] = schemes[0] if len(schemes) == 1 else schemes
    data = {name: data[name] for name in Model.model_fields if name in data}
    text = _dump(model, data)
    # What a terminal would obey is escaped.
    return text if clean(text, keep_lines=True) == text else _dump(model, data, unicode=False)


def _dump(model: Model, data: dict[str, Any], *, unicode: bool = True) -> str:
    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedMap

    top = CommentedMap()
    shared = _shared(data["layer_types"])
    for key, value in data.items():
        top[key] = _node(value, len(key) + 2, block=key in _BLOCKS)
    for layer_type, section in data["layer_types"].items():
        node = top["layer_types"][layer_type] = _node(section, 2, block=True)
        for role in ("mixer", "mlp"):
            if (anchor := shared.get(_key(section.get(role)))) is not None:
                first = next(other for other, rest in data["layer_types"].items() if rest.get(role) == section[role])
                node[role] = top["layer_types"][first][role]
                if first == layer_type:
                    node[role].yaml_set_anchor(anchor, always_dump=True)
    top.yaml_add_eol_comment(f"{model.num_hidden_layers} in all", "layers", column=0)
    yaml = YAML()
    yaml.width = _WIDTH
    yaml.allow_unicode = unicode
    yaml.indent(mapping=2, sequence=4, offset=2)
    out = io.StringIO()
    yaml.dump(top, out)
    heading = "".join(f"# {clean(line)}".rstrip() + "\n" for line in _heading(model))
    return heading + out.getvalue()


def _heading(model: Model) -> Iterator[str]:
    yield model.title
    if model.family:
        yield f"Read from a config.json of the family {model.family}."
    if model.assumptions:
        yield "What config.json leaves open stands under `assumptions`."


def _key(section: Any) -> str:
    return json.dumps(section, sort_keys=True)


def _shared(layer_types: dict[str, Any]) -> dict[str, str]:
    """Names of the sections that stand in several layer types."""
    sections = [section[role] for section in layer_types.values() for role in ("mixer", "mlp") if role in section]
    counts = Counter(map(_key, sections))
    names: dict[str, str] = {}
    used: Counter[str] = Counter()
    for section in sections:
        key = _key(section)
        if counts[key] > 1 and key not in names:
            kind = section["kind"]
            used[kind] += 1
            names[key] = kind if used[kind] == 1 else f"{kind}_{used[kind]}"
    return names


def _node(value: Any, column: int, *, block: bool = False) -> Any:
    """Plain data as what is written: on one line where it has room and no `block` is asked for."""
    from ruamel.yaml.comments import CommentedMap, CommentedSeq

    node: Any
    if isinstance(value, dict):
        node = CommentedMap({key: _node(one, column + len(str(key)) + 4) for key, one in value.items()})
    elif isinstance(value, list):
        node = CommentedSeq(_node(one, column + 2) for one in value)
    else:
        return value
    if not block and (isinstance(value, list) or column + len(str(value)) <= _WIDTH):
        node.fa.set_flow_style()
    else:
        node.fa.set_block_style()
    return node
