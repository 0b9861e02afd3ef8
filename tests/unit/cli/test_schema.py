"""JSON Schema of the two kinds of files: what it accepts is what is shipped."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from roofline.specs.library import ids
from roofline.specs.yaml_file import read_yaml

Run = Callable[..., Any]


def _plain(value: Any) -> Any:
    """Data as JSON has it: dates are text."""
    return json.loads(json.dumps(value, default=str))


@pytest.mark.slow
@pytest.mark.parametrize(("what", "kind"), [("model", "models"), ("hardware", "hardware")])
def test_schema_accepts_every_shipped_file(run: Run, what: str, kind: str) -> None:
    """Each shipped file is valid under the schema that editors are given, and a slip is not."""
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(run("schema", what).out)
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    for name, path in ids(kind).items():  # type: ignore[arg-type]
        data = _plain(read_yaml(path).data)
        assert [error.message for error in validator.iter_errors(data)] == [], name
    assert list(validator.iter_errors({**data, "no_such_key": 1}))


@pytest.mark.parametrize("what", ["model", "hardware"])
def test_schema_is_a_schema(run: Run, what: str) -> None:
    """It names its dialect, and every reference in it leads somewhere."""
    document = json.loads(run("schema", what).out)
    assert document["$schema"] == "https://json-schema.org/draft/2020-12/schema"

    def references(node: Any) -> list[str]:
        if isinstance(node, dict):
            own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
            return own + [found for value in node.values() for found in references(value)]
        return [found for value in node for found in references(value)] if isinstance(node, list) else []

    found = references(document)
    assert found
    assert {reference.removeprefix("#/$defs/") for reference in found} <= set(document["$defs"])


def _keys_of_kind(document: dict[str, Any], kind: str) -> set[str]:
    return next(
        set(section["properties"])
        for section in document["$defs"].values()
        if section.get("properties", {}).get("kind", {}).get("const") == kind
    )


def test_schema_of_models_has_the_sections(run: Run) -> None:
    """Sections of every kind are described, with the keys that Hugging Face uses, and unknown keys are excluded."""
    document = json.loads(run("schema", "model").out)
    assert {"num_attention_heads", "num_key_value_heads", "head_dim", "sliding_window"} <= _keys_of_kind(document, "gqa")
    assert {"kv_lora_rank", "qk_rope_head_dim"} <= _keys_of_kind(document, "mla")
    assert {"num_experts", "num_experts_per_tok"} <= _keys_of_kind(document, "moe")
    assert document["additionalProperties"] is False


def test_quantities_are_text_in_the_schema(run: Run) -> None:
    """A quantity is written as text with a unit ("2039 GB/s"): a schema that wants a number would refuse every file."""
    document = json.loads(run("schema", "hardware").out)
    value = document["$defs"]["Bandwidth"]["properties"]["value"]
    types = {value.get("type"), *(option.get("type") for option in value.get("anyOf", []))}
    assert "string" in types
    assert "number" not in types
