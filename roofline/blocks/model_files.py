"""Files of models: `load_model` reads one by id or path, `model_yaml` writes one that equals the model when it is loaded."""

from __future__ import annotations

import io
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline import files
from roofline.blocks.model import Choice, Model
from roofline.errors import InputError
from roofline.specs.library import Input, find, hub_repository, input_of, read_spec
from roofline.text import clean

if TYPE_CHECKING:
    from roofline.specs.huggingface.document import Document
    from roofline.specs.huggingface.hub import Repository

MAX_UNNAMED = 2**23
"""Bytes of a model whose suffix does not say what it is: those of a config.json."""


def load_model(name: str | os.PathLike[str], assume: str | None = None, called: str | None = None) -> tuple[Model, Input]:
    """A model by id or path, and the file that it was read from.

    Args:
        name: a shipped id, the path of a YAML file, a config.json or a GGUF file (or of a folder that holds one of the two), or
            org/name[@revision] on Hugging Face. An hf_quant_config.json beside a config.json is read too.
        assume: the family as which a config.json is read, whatever its `model_type` is.
        called: the name of a model that is read from a config.json.

    Raises:
        UnknownNameError: no model has that id, or no family is called `assume`.
        AmbiguousNameError: several ids begin with `name`.
        SpecError: the file cannot be read as a model; the message has the place.
        InputError: `assume` or `called` is given for a file that is no config.json, or Hugging Face does not have the model.
        MissingExtraError: a model on Hugging Face is meant, and huggingface_hub is not installed.
    """
    with files.run():  # a pipe is read twice
        return _load_model(find("models", name), name, assume, called)


def is_gguf(path: Path) -> bool:
    """Whether a file is a GGUF file: by its suffix, else by how it begins."""
    return path.suffix == ".gguf" or (path.suffix == "" and files.begins_with(path, b"GGUF"))


def is_config(path: Path) -> bool:
    """Whether a file is the config.json of a model, and not YAML: by its suffix, else (a pipe has none) by how it begins.

    Raises:
        SpecError: a file without a known suffix cannot be read, or is larger than `MAX_UNNAMED` bytes.
    """
    if path.suffix in (".json", ".yaml", ".yml"):
        return path.suffix == ".json"
    return files.read_bytes(path, MAX_UNNAMED, "a model").lstrip().startswith(b"{")


def _load_model(path: Path, name: str | os.PathLike[str], assume: str | None, called: str | None) -> tuple[Model, Input]:
    if is_gguf(path):
        from roofline.blocks.gguf import read_model  # families are for those who have a file of weights
        from roofline.specs.gguf.header import read_gguf
        from roofline.specs.huggingface.read import origin_called, origin_of

        if assume is not None:
            raise InputError("--assume says how to read a config.json; a GGUF file names its architecture")
        file = read_gguf(path)
        model = read_model(file, origin_of(path) if called is None else origin_called(called))
        files.note_input(path, "the model's GGUF file")
        return model, Input("model", model.name, str(path), file.sha256)
    if is_config(path):
        from roofline.blocks.config_json import read  # families are for those who have a config
        from roofline.specs.huggingface.document import read_json
        from roofline.specs.huggingface.quantization import section
        from roofline.specs.huggingface.read import origin_called, origin_of

        document, repository = read_json(path), hub_repository(name)
        if called is None and repository is not None:
            called = repository.name
        companion, doubt = (None, "") if section(document.data) is not None else _companion(path, repository)
        model = read(document, origin_of(path) if called is None else origin_called(called), assume, companion)
        if doubt:
            choice = Choice(name="quantization", value="none", origin="assumed", why=doubt)
            model = model.model_copy(update={"assumptions": (*model.assumptions, choice)})
        files.note_input(path, "the model's config.json")
        return model, Input("model", model.name, str(path), document.sha256)
    if assume is not None or called is not None:
        raise InputError(f"--{'name' if assume is None else 'assume'} says how to read a config.json; {path} is none")
    model, digest = read_spec(path, Model)
    return model, input_of("model", model.name, path, digest)


def _companion(path: Path, repository: Repository | None) -> tuple[Document | None, str]:
    """The hf_quant_config.json beside a config.json, or of its repository; if that cannot be reached, the reason."""
    from roofline.specs.huggingface.document import read_json
    from roofline.specs.huggingface.hub import fetch_if_any
    from roofline.specs.huggingface.quantization import COMPANION

    beside: Path | None = path.with_name(COMPANION) if path.name == "config.json" else None
    if repository is not None:
        try:
            beside = fetch_if_any(repository, COMPANION)
        except InputError as error:
            return None, str(error)
    if beside is None or not files.is_file(beside):
        return None, ""
    files.note_input(beside, "the model's hf_quant_config.json")
    return read_json(beside), ""


# Columns up to which a section stands on one line.
_WIDTH = 120
# Sections that always have a line for each key.
_BLOCKS = ("layer_types", "layers", "assumptions", "notes", "sources")


def model_yaml(model: Model) -> str:
    r"""The text of a YAML file that equals the model when it is loaded.

    Keys at their defaults are left out, except dtype; a section that several layer types share is written once and named.

    >>> from roofline.blocks.model_files import load_model
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
        file = "GGUF file, as a config.json" if model.format == "gguf" else "config.json"
        yield f"Read from a {file} of the family {model.family}."
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
    """Plain data as it is written: on one line where it fits and `block` is false, a list of plain values in any case."""
    from ruamel.yaml.comments import CommentedMap, CommentedSeq

    node: Any
    if isinstance(value, dict):
        node = CommentedMap({key: _node(one, column + len(str(key)) + 4) for key, one in value.items()})
    elif isinstance(value, list):
        node = CommentedSeq(_node(one, column + 2) for one in value)
    else:
        return value
    plain = isinstance(value, list) and not any(isinstance(one, dict | list) for one in value)
    if not block and (plain or column + len(str(value)) <= _WIDTH):
        node.fa.set_flow_style()
    else:
        node.fa.set_block_style()
    return node
