"""Errors that a user can cause: cause first, then what is allowed."""

from __future__ import annotations

import inspect

import pytest

from roofline import errors
from roofline.errors import (
    AmbiguousNameError,
    InputError,
    MissingExtraError,
    RooflineError,
    SpecError,
    UnitError,
    UnknownNameError,
)


def test_did_you_mean() -> None:
    """A name with a slip is answered with the name that was meant."""
    text = str(UnknownNameError("model", "lama-3.1-8b", ["llama-3.1-8b", "gpt2", "qwen3-8b"]))
    assert text.startswith("unknown model 'lama-3.1-8b'.")
    assert "Did you mean llama-3.1-8b?" in text
    assert "gpt2" not in text


def test_case_does_not_matter() -> None:
    """Suggestions are looked up in lower case."""
    assert "Did you mean gpt2?" in str(UnknownNameError("model", "GPT3", ["gpt2", "falcon-7b"]))


def test_part_of_a_name_is_found() -> None:
    """A part of a long name suggests the whole of it."""
    assert "Did you mean deepseek-v2-lite?" in str(UnknownNameError("model", "lite", ["deepseek-v2-lite", "gpt2"]))


def test_few_choices_are_all_listed() -> None:
    """With nothing near, a short list is shown whole, in order."""
    assert "Known: prefill, decode." in str(UnknownNameError("phase", "xyz", ["prefill", "decode"]))


def test_many_choices_are_not_listed() -> None:
    """With nothing near, a long list is not."""
    names = [f"name-{index:03}" for index in range(31)]
    text = str(UnknownNameError("thing", "qqq", names, "Ask `list`."))
    assert "name-000" not in text
    assert text.endswith("Ask `list`.")


def test_unknown_name_carries_its_parts() -> None:
    """Callers may read the name and the choices from the error."""
    error = UnknownNameError("phase", "xyz", ["b", "a"])
    assert (error.name, error.choices) == ("xyz", ["b", "a"])


def test_ambiguous_name_lists_all() -> None:
    """An ambiguous name is answered with everything it could be."""
    text = str(AmbiguousNameError("hardware", "a100", ["a100-sxm-80gb", "a100-pcie-40gb"]))
    assert "'a100' is ambiguous" in text
    assert "a100-pcie-40gb, a100-sxm-80gb" in text


@pytest.mark.parametrize(
    ("place", "start"),
    [
        ({"path": "m.yaml", "line": 3, "column": 7}, "m.yaml:3:7: bad"),
        ({"path": "m.yaml", "line": 3}, "m.yaml:3: bad"),
        ({"path": "m.yaml"}, "m.yaml: bad"),
        ({}, "bad"),
    ],
)
def test_spec_error_says_where(place: dict[str, object], start: str) -> None:
    """File, line and column come first, in the form that editors jump to."""
    assert str(SpecError("bad", **place)) == start  # type: ignore[arg-type]


def test_missing_extra_names_the_install_command() -> None:
    """A missing extra exits with 3 and says how to install it."""
    error = MissingExtraError("writing Parquet", "parquet")
    assert error.exit_code == 3
    assert 'pip install "roofline[parquet]"' in str(error)


def test_every_error_has_an_exit_code_of_the_contract() -> None:
    """All derive from RooflineError; bad input is 2, a missing extra 3."""
    found = [e for _, e in inspect.getmembers(errors, inspect.isclass) if issubclass(e, Exception)]
    assert {InputError, UnitError, SpecError, UnknownNameError, AmbiguousNameError} <= set(found)
    for error in found:
        assert issubclass(error, RooflineError)
        assert error.exit_code == (3 if error is MissingExtraError else 2)
