"""YAML 1.2 files with the line and column of each key, so that an error can say where it is.

NB: ruamel.yaml, not PyYAML, which reads `1e12` as text and `no` as False. Size, depth and the number of nodes are
capped, so that no file can exhaust memory by aliases that multiply.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import date
from functools import cache, lru_cache, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    StreamEndEvent,
)
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from roofline import files
from roofline.errors import SpecError, UnknownNameError
from roofline.specs.base import Spec, requirement

FILE_VERSION = 1
"""The `schema_version` of files. As of JSON documents: a new key does not change it."""
_WHAT = "a YAML file"
MAX_BYTES, MAX_DEPTH, MAX_NODES, MAX_DIGITS = 2**17, 30, 50_000, 300
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")

_TEXT, _TIMESTAMP, _MERGE = (f"tag:yaml.org,2002:{name}" for name in ("str", "timestamp", "merge"))
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")

_REMEMBERED = 256

S = TypeVar("S", bound=Spec)
P = ParamSpec("P")
R = TypeVar("R")
Mark = tuple[int, int]


@dataclass(frozen=True, slots=True)
class YamlFile:
    """The content of a YAML file.

    Attributes:
        path: of the file.
        data: plain data.
        marks: line and column, counted from 1, of each path of keys and indices.
        sha256: of the text, in hex.
    """

    path: Path
    data: dict[str, Any]
    marks: dict[tuple[str | int, ...], Mark]
    sha256: str

    def validate(self, spec: type[S]) -> S:
        """The data as a spec.

        Raises:
            SpecError: wrong, unknown or missing keys; the message has line and column of the first, and names up to 4 more.
        """
        try:
            return spec.model_validate(self.data)
        except ValidationError as error:
            raise self._explain(error, spec) from None

    def _explain(self, error: ValidationError, spec: type[Spec]) -> SpecError:
        details = [dict(detail) for detail in error.errors()]
        # a list whose entries are all wrong is also "too short": that is no news
        reported = [detail for detail in _lengths(details) if detail["type"] != "too_short"] or details
        problems = [self._problem(detail, spec) for detail in reported]
        problems.sort(key=lambda problem: ("missing" in problem[0], problem[1]))  # an unknown key explains a missing one
        (message, mark), rest = problems[0], problems[1:]
        more = "".join(f"\n  also {self.path}:{m[0]}:{m[1]}: {text}" for text, m in rest[:4])
        if len(rest) > 4:
            more += f"\n  and {len(rest) - 4} more"
        return SpecError(message + more, path=self.path, line=mark[0], column=mark[1])

    def _problem(self, detail: dict[str, Any], spec: type[Spec]) -> tuple[str, Mark]:
        keys = self._locate(detail["loc"])
        mark = next((self.marks[keys[:n]] for n in range(len(keys), 0, -1) if keys[:n] in self.marks), (1, 1))
        where = ".".join(str(key) for key in keys)
        if detail["type"] == "extra_forbidden":
            allowed = _allowed_keys(spec, detail["loc"][:-1])  # slow: it takes the whole schema
            unknown = UnknownNameError("key", keys[-1], allowed, _ELSEWHERE.get(str(keys[-1]), ""))
            return f"{unknown} (at {where})" if len(keys) > 1 else str(unknown), mark
        if detail["type"] == _LENGTH:
            return f"{where}: must be a list of {detail['length']} values, not of {len(detail['input'])}", mark
        if keys == ("schema_version",) and detail["type"] != "missing":
            return wrong_version(detail.get("input")), mark
        if detail["type"] == "missing":
            return f"key {where!r} is missing", mark
        if detail["type"] == "union_tag_not_found":
            kinds = _kinds(spec, detail["loc"])
            return f"key '{where}.kind' is missing; allowed: {', '.join(kinds)}", self.marks.get(keys, mark)
        if detail["type"] == "union_tag_invalid":
            unknown = UnknownNameError(f"kind of {keys[-1]}", detail["ctx"]["tag"], _kinds(spec, detail["loc"]), list_all=True)
            return f"{unknown} (at {where}.kind)", self.marks.get((*keys, "kind"), mark)
        if detail["type"] in ("tuple_type", "list_type"):
            return f"{where}: must be a list, not {detail.get('input')!r:.80}", mark
        if detail["type"] in ("model_type", "dict_type"):
            return f"{where}: must hold keys and values, not {detail.get('input')!r:.80}", mark
        text = requirement(detail)
        if named := self._named_place(keys, text):
            mark = named
        given = (
            ""
            if isinstance(detail.get("input"), (dict, list)) or "Value error" in detail["msg"]
            else f", not {detail.get('input')!r}"
        )
        return f"{where}: {text}{given}" if where else text, mark

    def _named_place(self, keys: tuple[str | int, ...], text: str) -> Mark | None:
        """The place of a key that a check across several keys names at the start of its message: `a.b[0]: ...`."""
        match = re.match(r"([\w.\[\]-]+): ", text)
        if not match:
            return None
        parts = [part for part in re.split(r"[.\[\]]", match[1]) if part]
        place = (*keys, *(int(part) if part.isdigit() else part for part in parts))
        return next((self.marks[place[:n]] for n in range(len(place), len(keys), -1) if place[:n] in self.marks), None)

    def _locate(self, loc: tuple[str | int, ...]) -> tuple[str | int, ...]:
        """Keys of the file for a pydantic location (which also names the chosen member of a union)."""
        keys: list[str | int] = []
        node: Any = self.data
        for position, part in enumerate(loc):
            last = position == len(loc) - 1
            if isinstance(node, list) and isinstance(part, int):
                keys.append(part)
                node = node[part] if part < len(node) else None
            elif isinstance(node, dict) and (part in node or last):
                keys.append(part)
                node = node.get(part)
        return tuple(keys)


def wrong_version(version: object) -> str:
    """Return what is wrong with a `schema_version` that is not `FILE_VERSION`, and what to do."""
    later = isinstance(version, int) and version > FILE_VERSION
    then = "update roofline, or write the file for this version" if later else f"it must be {FILE_VERSION}"
    return f"schema_version {version!r:.40}: this version of roofline reads files of version {FILE_VERSION}; {then}"


_LENGTH = "list of another length"


def _lengths(details: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Errors of which those of one list of fixed length are one: pydantic names each entry that is missing or too many."""
    errors: list[dict[str, Any]] = []
    for detail in details:
        place = detail["loc"]
        if detail["type"] == "missing" and isinstance(place[-1], int):
            if errors and errors[-1]["type"] == _LENGTH and errors[-1]["loc"] == place[:-1]:
                errors.pop()
            errors.append({**detail, "type": _LENGTH, "loc": place[:-1], "length": place[-1] + 1})
        elif detail["type"] == "too_long" and detail["ctx"].get("field_type") == "Tuple":
            errors.append({**detail, "type": _LENGTH, "length": detail["ctx"]["max_length"]})
        else:
            errors.append(detail)
    return errors


# Keys of a Hugging Face config that stand elsewhere here, or nowhere.
_NO_COUNT = "It changes no count: leave it out."
_ELSEWHERE = {
    "num_hidden_layers": "The number of layers is `repeat` in `layers`.",
    "rms_norm_eps": _NO_COUNT,
    "layer_norm_epsilon": _NO_COUNT,
    "rope_theta": _NO_COUNT,
    "rope_scaling": _NO_COUNT,
    "hidden_act": _NO_COUNT,
    "torch_dtype": "It is called `dtype`.",
    "model_type": "Layers say what they are made of: see `kind` in models/_template.yaml.",
}


def _allowed_keys(spec: type[Spec], loc: tuple[str | int, ...]) -> list[str]:
    """Keys of the section that a pydantic location points to."""
    members = _members(spec, loc)
    node = members[0] if "properties" in members[0] else next((one for one in members if "properties" in one), members[0])
    return list(node.get("properties", {}))


def _kinds(spec: type[Spec], loc: tuple[str | int, ...]) -> list[str]:
    """Kinds of the section that a pydantic location points to."""
    return [kind for node in _members(spec, loc) if (kind := node.get("properties", {}).get("kind", {}).get("const"))]


def _members(spec: type[Spec], loc: tuple[str | int, ...]) -> list[dict[str, Any]]:
    """The JSON schema of what a pydantic location points to, and of the members of a union that it is."""
    schema = spec.model_json_schema()
    definitions = schema.get("$defs", {})

    def follow(node: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in node:
            node = definitions[node["$ref"].rsplit("/", 1)[1]]
        return node

    node = follow(schema)
    for part in loc:
        options = _options(node, follow)
        chosen = next((option for option in options if option.get("properties", {}).get("kind", {}).get("const") == part), None)
        if chosen is not None:
            node = chosen
            continue
        inside = "items" if isinstance(part, int) else "properties"
        node = next((option for option in options if inside in option), node)
        if part in node.get("properties", {}):
            node = follow(node["properties"][part])
        elif isinstance(part, int) and "items" in node:
            node = follow(node["items"])
        elif isinstance(node.get("additionalProperties"), dict):
            node = follow(node["additionalProperties"])
    return [node, *_options(node, follow)]


def _options(node: dict[str, Any], follow: Callable[[dict[str, Any]], dict[str, Any]]) -> list[dict[str, Any]]:
    """Members of a union, also of a union within one."""
    options = []
    for option in map(follow, node.get("anyOf", []) + node.get("oneOf", [])):
        options += [option, *_options(option, follow)]
    return options


def cached_until_changed(read: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function that reads a file: its result is cached until the file changes. Callers must not modify the result.

    The first argument of the function is the path; up to 256 results are kept.
    """
    known: dict[tuple[object, ...], R] = {}

    @wraps(read)
    def again(*args: P.args, **others: P.kwargs) -> R:
        path = args[0]
        assert isinstance(path, Path)  # noqa: S101 - narrows the type
        if not files.is_file(path):
            return read(*args, **others)  # which says what is wrong, or reads a pipe
        state = path.stat()
        files.note_read(path, _WHAT)
        key = (*args, state.st_mtime_ns, state.st_size, state.st_ino)
        if key not in known:
            if len(known) >= _REMEMBERED:
                known.clear()
            known[key] = read(*args, **others)
        return known[key]

    return again


def read_yaml(path: Path) -> YamlFile:
    """Read a YAML file that holds one mapping. The caller may modify the data.

    Raises:
        SpecError: no such file, more than 128 KiB, invalid YAML, too deep or too many values, or no mapping.
    """
    file = _parse(path)
    return replace(file, data=deepcopy(file.data))


@cached_until_changed
def _parse(path: Path) -> YamlFile:
    text = read_text(path)
    yaml = YAML(typ="safe", pure=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an anchor may be named twice
            node = yaml.compose(text)
        marks: dict[tuple[str | int, ...], Mark] = {(): (1, 1)}
        if node is not None:
            _collect(node, (), marks, path, [0])
        data = yaml.constructor.construct_document(node) if node is not None else None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        raise SpecError(f"not valid YAML: {error.problem or error.context}", path=path, line=line, column=column) from None
    except (YAMLError, ValueError, RecursionError) as error:
        raise SpecError(f"not valid YAML: {str(error).splitlines()[0]}", path=path) from None
    if not isinstance(data, dict):
        raise SpecError("must hold keys and values (a YAML mapping) at the top", path=path)
    return YamlFile(path, data, marks, hashlib.sha256(text.encode()).hexdigest())


@cached_until_changed
def read_trusted(path: Path, spec: type[S]) -> tuple[S, str] | None:
    """Read a shipped file as a spec, with the SHA-256 of its text in hex; None where anything is wrong with its content.

    Uses the parser in C where there is one: several times as fast, but without the places of keys. Where the result is None,
    `read_yaml` says what is wrong.

    Raises:
        SpecError: no such file, more than 128 KiB, or not text.
    """
    text = read_text(path)
    try:
        return spec.model_validate(load_plain(text)), hashlib.sha256(text.encode()).hexdigest()
    except (YAMLError, ValueError):
        return None


class _NotPlainError(Exception):
    """A document that `load_plain` leaves to ruamel.yaml."""


def load_plain(text: str) -> Any:
    """The plain data of a YAML document, as `YAML(typ="safe")` constructs them, in a third of its time.

    Mappings, sequences and scalars come straight from the events of the parser in C, without nodes and tags between. A
    document with anything else in it (anchors, tags, merged or repeated keys, numbers in unusual notations) goes through
    ruamel.yaml as a whole.
    """
    yaml = YAML(typ="safe", pure=False)
    if yaml.Parser is None or not hasattr(yaml.Parser, "raw_parse"):
        return yaml.load(text)  # no parser in C
    parser = yaml.Parser(text)
    try:
        return _document(parser)
    except _NotPlainError:
        return yaml.load(text)


def _document(parser: Any) -> Any:
    """The data of the only document."""
    parser.get_event()  # the start of the stream
    start = parser.get_event()
    if not isinstance(start, DocumentStartEvent) or start.version or start.tags:
        raise _NotPlainError
    data = _value(parser, parser.get_event())
    parser.get_event()  # the end of the document
    if not isinstance(parser.get_event(), StreamEndEvent):
        raise _NotPlainError
    return data


def _value(parser: Any, event: Any) -> Any:
    """The data that begin with an event."""
    if event.anchor is not None:  # of an alias too
        raise _NotPlainError
    kind = type(event)
    if kind is ScalarEvent:
        if event.tag is not None:
            raise _NotPlainError
        return _scalar(event.value) if event.implicit[0] else event.value
    if event.tag is not None:
        raise _NotPlainError
    if kind is MappingStartEvent:
        mapping: dict[Any, Any] = {}
        while type(event := parser.get_event()) is not MappingEndEvent:
            key = _value(parser, event)
            if type(event) is not ScalarEvent or key in mapping:
                raise _NotPlainError
            mapping[key] = _value(parser, parser.get_event())
        return mapping
    entries = []
    while type(event := parser.get_event()) is not SequenceEndEvent:
        entries.append(_value(parser, event))
    return entries


_INTEGER, _FLOAT, _DATE = (
    re.compile(pattern, re.ASCII) for pattern in (r"[-+]?\d+", r"[-+]?\d+(\.\d*)?([eE][-+]?\d+)?", r"\d{4}-\d\d-\d\d")
)
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}


@cache
def _patterns() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """Tags of ruamel.yaml for YAML 1.2 and what they match, by first character."""
    patterns: dict[str, list[tuple[str, re.Pattern[str]]]] = YAML(typ="safe", pure=True).resolver.versioned_resolver
    return patterns


@lru_cache(maxsize=10_000)
def _scalar(text: str) -> Any:
    """A scalar without quotes: text, unless one of the patterns of YAML 1.2 takes it for something else."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _DATE.fullmatch(text):
        return date.fromisoformat(text)
    # NB: the patterns match the three above too; they come last because compiling them takes as long as reading a file
    if any(pattern.match(text) for _, pattern in _patterns().get(text[0], ())):
        raise _NotPlainError
    return text


def read_text(path: Path) -> str:
    """The text of a file.

    Raises:
        SpecError: no such file, more than 128 KiB, not UTF-8, or control characters.
    """
    text = files.read_text(path, MAX_BYTES, _WHAT)
    if bad := _CONTROL.search(text):
        raise SpecError(f"holds a control character (U+{ord(bad[0]):04X}); {_WHAT} is needed", path=path)
    return text


def cached_text(path: Path) -> str:
    """The text of a file, read once until the file changes; raises as `read_text`."""
    return _cached_text(path)


@cached_until_changed
def _cached_text(path: Path) -> str:
    return read_text(path)


def _collect(
    node: Node, path: tuple[str | int, ...], marks: dict[tuple[str | int, ...], Mark], file: Path, seen: list[int]
) -> None:
    seen[0] += 1
    if seen[0] > MAX_NODES or len(path) > MAX_DEPTH:
        raise SpecError(f"is nested or repeated too far (over {MAX_DEPTH} levels or {MAX_NODES:,} values)", path=file)
    line, column = node.start_mark.line + 1, node.start_mark.column + 1
    marks.setdefault(path, (line, column))
    if isinstance(node, ScalarNode):
        if node.tag == _TIMESTAMP:
            node.tag = _TEXT  # read as text, and as a date where one is expected
        elif len(node.value) > MAX_DIGITS and node.tag in _NUMBERS:
            raise SpecError(f"a number of {len(node.value):,} digits", path=file, line=line, column=column)
    elif isinstance(node, MappingNode):
        for key, value in node.value:
            line, column = key.start_mark.line + 1, key.start_mark.column + 1
            if not isinstance(key, ScalarNode) or key.tag not in (_TEXT, _MERGE):
                raise SpecError("a key must be text: put it in quotes", path=file, line=line, column=column)
            name = (*path, key.value)
            marks[name] = (line, column)
            _collect(value, name, marks, file, seen)
    elif isinstance(node, SequenceNode):
        for index, value in enumerate(node.value):
            _collect(value, (*path, index), marks, file, seen)


def with_section(file: YamlFile, section: str, spec: type[Spec]) -> YamlFile:
    """The file with all keys that `spec` does not know moved under the key `section`; unchanged where it has that key."""
    if section in file.data:
        return file
    loose = {key: value for key, value in file.data.items() if key not in spec.model_fields}
    data = {key: value for key, value in file.data.items() if key not in loose} | {section: loose}
    marks = {(section, *keys) if keys and keys[0] in loose else keys: mark for keys, mark in file.marks.items()}
    return replace(file, data=data, marks=marks)


@dataclass(frozen=True, slots=True)
class SectionErrors:
    """Makes errors about keys of one section of a file, with their line and column.

    Attributes:
        file: the file.
        section: path of keys of the section.
    """

    file: YamlFile
    section: tuple[str | int, ...] = ()

    def __call__(self, key: str | tuple[str | int, ...], problem: str) -> SpecError:
        """The error about a key of the section (or a path of keys), with its place; the caller raises it.

        The place of a missing key is that of the innermost key that exists.
        """
        keys = (*self.section, *((key,) if isinstance(key, str) else key))
        marks = self.file.marks
        line, column = next((marks[keys[:n]] for n in range(len(keys), -1, -1) if keys[:n] in marks), (1, 1))
        where = ".".join(str(part) for part in keys)
        return SpecError(f"{where}: {problem}" if where else problem, path=self.file.path, line=line, column=column)
