"""A model's file with a mistake: the message says where it stands and what was meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from roofline.blocks import kinds

Refuse = Callable[..., tuple[str, Any]]


def test_unknown_key_at_the_top(model_error: Refuse) -> None:
    """File, line, column, the key, and the nearest that exists; the missing key is not what comes first."""
    message, at = model_error("hidden_size", "hiden_size")
    assert message.startswith(f"{at.path}:{at.line}:1: unknown key 'hiden_size'. Did you mean hidden_size?")


def test_unknown_key_in_a_nested_section(model_error: Refuse) -> None:
    """Keys of a section are those of its kind; the column is that of the key in its line."""
    old = "head_dim: 128}"
    message, at = model_error(old, "head_dims: 128}")
    line = at.path.read_text().splitlines()[at.line - 1]
    assert message.startswith(
        f"{at.path}:{at.line}:{line.index('head_dims') + 1}: unknown key 'head_dims'. Did you mean head_dim or v_head_dim?"
    )
    assert "layer_types.decoder.mixer.head_dims" in message


def test_unknown_key_of_experts(model_error: Refuse) -> None:
    """The mixture of experts has keys of its own, and those are suggested."""
    message, at = model_error("num_experts_per_tok", "num_expert_per_tok", "gpt-oss-20b")
    assert message.startswith(f"{at.path}:{at.line}:7: unknown key 'num_expert_per_tok'. Did you mean num_experts_per_tok")


def test_key_of_another_kind_is_unknown(model_error: Refuse) -> None:
    """`kv_lora_rank` belongs to mla, not to gqa."""
    message, at = model_error("head_dim: 128}", "head_dim: 128, kv_lora_rank: 512}")
    assert f"{at.path}:{at.line}:" in message
    assert "unknown key 'kv_lora_rank'" in message


def test_unknown_kind_lists_the_kinds(model_error: Refuse) -> None:
    """An unknown kind of mixer is answered with those that exist, at the mixer's line."""
    message, at = model_error("kind: gqa", "kind: gqqa")
    assert message.startswith(f"{at.path}:{at.line}:")
    assert "gqqa" in message
    assert f"Known: {', '.join(kinds('mixer'))}" in message


def test_missing_kind(model_error: Refuse) -> None:
    """A section without a kind is refused where it stands."""
    message, at = model_error("kind: gqa, ", "")
    assert message.startswith(f"{at.path}:{at.line}:")
    assert "kind" in message


def test_missing_key_is_named(model_error: Refuse) -> None:
    """A key that is not there is named."""
    message, at = model_error("vocab_size: 128256\n", "")
    assert message.startswith(f"{at.path}:1:1: key 'vocab_size' is missing")


def test_missing_key_of_a_section(model_error: Refuse) -> None:
    """A key that a section lacks is named with its path, at the section's line."""
    message, at = model_error(", head_dim: 128", "")
    assert message.startswith(f"{at.path}:{at.line}:5: key 'layer_types.decoder.mixer.head_dim' is missing")


@pytest.mark.parametrize("value", ["many", "4096.5", "[4096]", "{a: 1}", "-4096", "0", ".inf", ".nan", "~", "true"])
def test_wrong_value_of_a_whole_number(model_error: Refuse, value: str) -> None:
    """A width is a whole number from 1: not text, not a fraction, not a list, and not `true`."""
    message, at = model_error("hidden_size: 4096", f"hidden_size: {value}")
    assert message.startswith(f"{at.path}:{at.line}:1: hidden_size: ")


def test_digits_without_end_are_refused_in_their_line(model_error: Refuse) -> None:
    """A number of 5000 digits is refused, with its place."""
    message, at = model_error("hidden_size: 4096", "hidden_size: " + "9" * 5000)
    assert message.startswith(f"{at.path}:{at.line}:")
    assert len(message) < 1000


def test_wrong_boolean(model_error: Refuse) -> None:
    """A yes-or-no key takes true or false."""
    message, at = model_error("tie_word_embeddings: false", "tie_word_embeddings: maybe")
    assert message.startswith(f"{at.path}:{at.line}:1: tie_word_embeddings: ")


def test_unknown_dtype(model_error: Refuse) -> None:
    """The dtype of a model is looked up, with a suggestion."""
    message, at = model_error("dtype: bf16", "dtype: bf61")
    assert message.startswith(f"{at.path}:{at.line}:1: dtype: unknown dtype 'bf61'. Did you mean bf16")


def test_heads_that_do_not_divide(model_error: Refuse) -> None:
    """32 query heads cannot share 7 KV heads evenly."""
    message, at = model_error("num_key_value_heads: 8", "num_key_value_heads: 7")
    assert message.startswith(f"{at.path}:{at.line}:")
    assert "num_key_value_heads (7) must divide num_attention_heads (32)" in message


def test_unknown_layer_type_in_its_line(model_error: Refuse) -> None:
    """A pattern names layer types; an unknown one is reported where the pattern stands."""
    message, at = model_error("pattern: [decoder]", "pattern: [decodr]")
    assert "unknown layer type 'decodr'. Did you mean decoder?" in message
    assert message.startswith(f"{at.path}:{at.line}:")


def test_unused_layer_type_is_refused(model_error: Refuse) -> None:
    """A layer type that no pattern names is a mistake."""
    message, _ = model_error("layer_types:\n", "layer_types:\n  spare: {mlp: {kind: mlp, intermediate_size: 8}}\n")
    assert "spare not used in layers" in message


def test_unknown_quantization(model_error: Refuse) -> None:
    """Schemes and the roles that they cover are looked up."""
    message, at = model_error("name: mxfp4", "name: mxfp5", "gpt-oss-20b")
    assert message.startswith(f"{at.path}:{at.line}:")
    assert "unknown quantization 'mxfp5'. Did you mean mxfp8 or mxfp4? Known: affine, aqlm, awq," in message
    message, at = model_error("roles: [experts]", "roles: [expert]", "gpt-oss-20b")
    assert "unknown role 'expert'. Did you mean experts or shared_experts?" in message


def test_several_mistakes_are_all_told(model_error: Refuse) -> None:
    """Two wrong keys are one message with two places."""
    message, at = model_error("hidden_size: 4096\nvocab_size", "hiden_size: 4096\nvocab_sizes")
    assert f"{at.path}:{at.line}:1: unknown key 'hiden_size'" in message
    assert f"{at.path}:{at.line + 1}:1: unknown key 'vocab_sizes'" in message


def test_keys_that_are_no_text(model_error: Refuse) -> None:
    """A number as a key is refused like any unknown key, with its place."""
    message, at = model_error("dtype: bf16", "7: bf16")
    assert message.startswith(f"{at.path}:{at.line}:1: ")


@pytest.mark.parametrize("version", ["2", "0", "'x'"])
def test_a_file_of_another_version(version: str, model_error: Refuse) -> None:
    """What it is, what is read, what to do: a later version can be read by a later roofline."""
    message, at = model_error("schema_version: 1", f"schema_version: {version}")
    then = "update roofline, or write the file for this version" if version == "2" else "it must be 1"
    what = f"schema_version {version}: this version of roofline reads files of version 1; {then}"
    assert message == f"{at.path}:{at.line}:1: {what}"
