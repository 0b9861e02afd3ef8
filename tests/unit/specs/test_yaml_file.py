"""Files that are not what they should be: each is one error, soon, and never a traceback of another kind."""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import pytest
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from roofline.blocks.model_files import load_model
from roofline.errors import SpecError
from roofline.report.page_program import spec_classes
from roofline.specs.base import Spec
from roofline.specs.library import load_fit, shipped
from roofline.specs.source import Source
from roofline.specs.yaml_file import MAX_BYTES, YamlFile, load_plain, read_yaml


@pytest.fixture
def refuse(tmp_path: Path) -> Callable[[str | bytes], str]:
    """The message with which a file of that content is refused, without the path in front; it has to come soon."""

    def message(content: str | bytes) -> str:
        path = tmp_path / "spec.yaml"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        started = time.process_time()
        with pytest.raises(SpecError) as caught:
            read_yaml(path)
        assert time.process_time() - started < 20
        text = str(caught.value)
        assert text.startswith(f"{path}:")
        assert len(text) < 1000
        return text.removeprefix(f"{path}:")

    return message


@pytest.mark.parametrize("content", ["", "\n", "# a comment\n", "---\n", "- a\n- b\n", "just words\n", "42\n", "~\n"])
def test_no_mapping_at_the_top(refuse: Callable[[str], str], content: str) -> None:
    """An empty file, a list or a single value is no spec."""
    assert "must hold keys and values" in refuse(content)


def test_duplicate_key(refuse: Callable[[str], str]) -> None:
    """The second of two equal keys does not win silently; its line is told."""
    message = refuse("a: 1\nb: 2\na: 3\n")
    assert message.startswith("3:1:")
    assert 'duplicate key "a"' in message


def test_tab_as_indent(refuse: Callable[[str], str]) -> None:
    """A tab as indent is told with its line and column."""
    message = refuse("a:\n\tb: 1\n")
    assert message.startswith("2:1:")
    assert "'\\t'" in message


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("a: b: c\n", "1:5:"),
        ("a: [1, 2\nb: 3\n", "2:"),
        ("a: *nowhere\n", "1:4:"),
        ("a: 1\n---\nb: 2\n", "2:1:"),
        ('a: "open\n', "2:"),
    ],
)
def test_syntax_errors_have_a_place(refuse: Callable[[str], str], content: str, place: str) -> None:
    """What YAML itself refuses is told with line and column."""
    message = refuse(content)
    assert message.startswith(place)
    assert "not valid YAML" in message


def test_impossible_date_has_a_place(tmp_path: Path) -> None:
    """30 February is text to YAML and no date to the spec that wants one: refused where it stands."""
    path = tmp_path / "source.yaml"
    path.write_text("title: a page\nread: 2026-02-30\n")
    with pytest.raises(SpecError) as caught:
        read_yaml(path).validate(Source)
    assert caught.value.line == 2


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.system", "!local", "!!python/name:os.system"])
def test_tags_build_nothing(refuse: Callable[[str], str], tag: str) -> None:
    """A tag is an error, never a call."""
    assert "could not determine a constructor" in refuse(f'a: {tag} ["true"]\n')


NINE = [", ".join([f"*a{level - 1}"] * 9) for level in range(1, 12)]


@pytest.mark.parametrize(
    "content",
    [
        "a0: &a0 [x, x, x]\n" + "".join(f"a{level}: &a{level} [{nine}]\n" for level, nine in enumerate(NINE, 1)),
        "a0: &a0 {x: 1}\n" + "".join(f"a{level}: &a{level} {{<<: [{nine}]}}\n" for level, nine in enumerate(NINE, 1)),
        "a: &a [*a]\n",
        "a: &a {b: *a}\n",
    ],
    ids=["aliases", "merges", "list in itself", "mapping in itself"],
)
def test_alias_bombs(refuse: Callable[[str], str], content: str) -> None:
    """Nine aliases of nine aliases, twelve deep, would be 10^11 values; a value in itself has no end."""
    assert "repeated too far" in refuse(content)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [40, 3000])
@pytest.mark.parametrize("pair", ["[]", "{a: }"])
def test_deep_nesting(refuse: Callable[[str], str], depth: int, pair: str) -> None:
    """Brackets in brackets end in an error of ours, not in a stack overflow."""
    refuse("a: " + pair[:-1] * depth + "1" + pair[-1] * depth + "\n")


@pytest.mark.slow
def test_unclosed_nesting(refuse: Callable[[str], str]) -> None:
    """A hundred thousand open brackets end soon."""
    refuse("[" * 100_000)


def test_very_many_values(refuse: Callable[[str], str]) -> None:
    """A list of 300,000 values is under the size of a file and over the number of values: refused soon."""
    refuse("a: [" + "a," * 300_000 + "]\n")


@pytest.mark.parametrize(("code", "name"), [(0x1B, "001B"), (0x00, "0000"), (0x07, "0007")])
def test_control_characters(refuse: Callable[[str], str], code: int, name: str) -> None:
    """Escapes for terminals have no place in a spec."""
    assert f"U+{name}" in refuse(f"title: a{chr(code)}[31mb\n")


def test_c1_control_characters(refuse: Callable[[str], str]) -> None:
    """U+009B starts an escape sequence as well."""
    refuse("title: a\u009b31mb\n")


def test_binary_file(refuse: Callable[[bytes], str]) -> None:
    """Bytes that are no UTF-8 are no text."""
    assert "not a text file" in refuse(b"\x7fELF\x02\x01\xff\xfe\x00")


def test_too_large(refuse: Callable[[str], str]) -> None:
    """A file beyond the limit is not read at all."""
    message = refuse("a: 1\n" + "#" * MAX_BYTES)
    assert f"has {MAX_BYTES + 5:,} bytes" in message
    assert "at most 131,072" in message  # 2^17


def test_folder(tmp_path: Path) -> None:
    """A folder is said to be one."""
    with pytest.raises(SpecError, match="is a folder; a YAML file is needed"):
        read_yaml(tmp_path)


def test_missing_file(tmp_path: Path) -> None:
    """A file that is not there is said to be missing, by its path."""
    path = tmp_path / "nowhere.yaml"
    with pytest.raises(SpecError) as caught:
        read_yaml(path)
    assert str(caught.value) == f"{path}: no such file"


def test_name_too_long(tmp_path: Path) -> None:
    """What the system refuses to open is one error as well."""
    with pytest.raises(SpecError):
        read_yaml(tmp_path / ("x" * 5000 + ".yaml"))


def test_yaml_1_2_words(tmp_path: Path) -> None:
    """`no` and `on` are words, 1e12 is a number, 0o17 is octal: YAML 1.2, not 1.1."""
    path = tmp_path / "words.yaml"
    path.write_text("a: no\nb: on\nc: 1e12\nd: 0o17\ne: 010\n")
    assert read_yaml(path).data == {"a": "no", "b": "on", "c": 10**12, "d": 15, "e": 10}


def test_marks_and_hash(tmp_path: Path) -> None:
    """Every key's place is kept, and the hash is that of the bytes."""
    path = tmp_path / "marks.yaml"
    path.write_text("a: 1\nb:\n  - c: 2\n    d: {e: 3}\n")
    file = read_yaml(path)
    assert file.marks["a",] == (1, 1)
    assert file.marks["b", 0, "d"] == (4, 5)
    assert file.marks["b", 0, "d", "e"] == (4, 9)
    assert file.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(("old", "new"), [("\n", "\r\n"), ("# Llama", "\ufeff# Llama")])
def test_windows_files(tmp_path: Path, old: str, new: str) -> None:
    """Line ends of Windows and a byte order mark do not matter."""
    text = (shipped("models") / "llama-3.1-8b.yaml").read_text(encoding="utf-8")
    path = tmp_path / "windows.yaml"
    path.write_bytes(text.replace(old, new).encode())
    assert load_model(str(path))[0] == load_model("llama-3.1-8b")[0]


def test_an_anchor_used_twice_is_no_python_warning(tmp_path: Path) -> None:
    """YAML allows an anchor to be named again; the library's warning must not reach a user."""
    path = tmp_path / "anchors.yaml"
    path.write_text("a: &x 1\nb: &x 2\nc: *x\n")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = read_yaml(path).data["c"]
        except SpecError as refused:
            found = refused.line  # refusing it, in its line, would do as well
    assert found == 2
    assert [str(warning.message) for warning in caught] == []


def fixed(annotation: Any) -> Iterator[tuple[int, Any]]:
    """Lists of fixed length in a type: their length, and data of that type in which such a list is empty."""
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is tuple and Ellipsis not in inside:
        yield len(inside), []
    elif origin in (tuple, list):
        yield from ((length, [data]) for length, data in fixed(inside[0]))
    elif origin is dict:
        key = next(iter(get_args(inside[0])), "any")  # the first of those that are allowed
        yield from ((length, {key: data}) for length, data in fixed(inside[1]))
    else:
        for part in inside[:1] if origin is Annotated else inside:
            yield from fixed(part)


FIXED = [
    (spec, name, length, data)
    for spec in spec_classes()
    for name, field in spec.model_fields.items()
    for length, data in fixed(field.annotation)
]


def test_lists_of_fixed_length_are_known() -> None:
    """At least those of fits and of blocks of weights are among them."""
    known = {(spec.__name__, name) for spec, name, _, _ in FIXED}
    assert {("Family", "bands"), ("Family", "range"), ("EngineSteps", "band")} <= known
    assert any(name == "weight_block_size" for _, name in known)


@pytest.mark.parametrize(
    ("spec", "name", "length", "data"), FIXED, ids=[f"{spec.__name__}.{name}" for spec, name, _, _ in FIXED]
)
def test_an_empty_list_of_fixed_length(spec: type[Spec], name: str, length: int, data: Any) -> None:
    """Wherever a specification has a list of fixed length, one that is too short is an error with its place."""
    file = YamlFile(Path("any.yaml"), {name: data}, {(name,): (7, 3)}, "")
    with pytest.raises(SpecError) as caught:
        file.validate(spec)
    first = str(caught.value).splitlines()[0]
    assert first.startswith(f"any.yaml:7:3: {name}")
    assert first.endswith(f"must be a list of {length} values, not of 0")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("[128]", "must be a list of 2 values, not of 1"),
        ("[]", "must be a list of 2 values, not of 0"),
        ("[128, 128, 1]", "must be a list of 2 values, not of 3"),
        ("[64, 0.5, 1]", "must be a list of 2 values, not of 3"),
        ("128", "must be a list, not 128"),
    ],
)
def test_blocks_of_weights_of_another_number(tmp_path: Path, value: str, message: str) -> None:
    """Line and column of the list's key, its path of keys, and what is allowed."""
    text = (shipped("models") / "llama-3.1-8b.yaml").read_text(encoding="utf-8")
    section = f"quantization:\n  name: fp8_block\n  weight_block_size: {value}\n"
    path = tmp_path / "slip.yaml"
    path.write_text(text.replace("layer_types:\n", section + "layer_types:\n", 1), encoding="utf-8")
    line = path.read_text(encoding="utf-8").splitlines().index(f"  weight_block_size: {value}") + 1
    with pytest.raises(SpecError) as caught:
        load_model(path)
    assert str(caught.value) == f"{path}:{line}:3: quantization.weight_block_size: {message}"


@pytest.mark.parametrize("band", ["[0.9]", "[]", "[0.9, 1.0, 1.1]"])
def test_a_band_of_another_number(tmp_path: Path, band: str) -> None:
    """In a fit file: the place of the band, not a traceback."""
    text = (shipped("hardware") / "fits" / "h100-sxm" / "vllm.yaml").read_text(encoding="utf-8")
    whole = next(part for part in text.splitlines() if part.strip().startswith("bands: "))
    path = tmp_path / "fit.yaml"
    path.write_text(text.replace(whole, f'    bands: {{"all": {band}}}', 1), encoding="utf-8")
    line = text.splitlines().index(whole) + 1
    with pytest.raises(SpecError, match=rf":{line}:\d+: families\.\w+\.bands\.all: must be a list of 2 values, not of \d"):
        load_fit(path)


@pytest.mark.parametrize(
    "text",
    [
        "a: [1, 2.5, 1e5, -3, +4, 007, 0x1f, 1_000, .inf, .5, 5.]",
        "a: True\nb: TRUE\nc: yes\nd: ~\ne:\nf: null\ng: '1'\nh: =",
        "a: &x 1\nb: *x",
        "a: !!str 1",
        "a: 1\na: 2",
        "1: 2\ntrue: 3\n1.0: 4",
        "a: 2026-01-31\nb: 2026-01-01 10:00:00",
        "a: 2026-13-01",
        "<<: {a: 1}",
        "? [a]\n: 1",
        "a: |\n  x\n  y\nb: >\n  1\n  2",
        "",
        "x",
        "---\na: 1\n...\n",
        "a: 1\n---\nb: 2",
        "%YAML 1.1\n---\na: yes",
        "[1,2",
        "a: 8.3 TB/s\nb: 16-bit\nc: 12\n  13\nd: 1:30\ne: 0o17\nf: -0.0",
        f"a: {'9' * 400}",
    ],
)
def test_plain_documents_are_read_as_ruamel_constructs_them(text: str) -> None:
    def outcome(load: Callable[[str], Any]) -> object:
        try:
            return repr(load(text))
        except (YAMLError, ValueError) as error:
            return type(error)

    assert outcome(load_plain) == outcome(YAML(typ="safe", pure=False).load)
