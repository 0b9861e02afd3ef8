"""YAML files of one or several documents with the place of each key: files of other tools, of which we read a part."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.scalarbool import ScalarBoolean
from ruamel.yaml.scalarstring import LiteralScalarString

from roofline.errors import SpecError
from roofline.specs.yaml_file import MAX_DEPTH, MAX_NODES, Mark, SectionErrors, YamlFile, read_text

Keys = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class LocatedValue:
    """A value of a file, and its place there.

    Attributes:
        value: plain data.
        path: of the file.
        key: keys from the top, joined by dots.
        line: counted from 1.
        column: counted from 1.
        block: whether the value is a block of lines (`|`), whose first line is the one after `line`.
    """

    value: Any
    path: Path
    key: str
    line: int
    column: int | None
    block: bool = False

    def error(self, problem: str) -> SpecError:
        """An error about this value, with file, line, column and key; the caller raises it."""
        return SpecError(f"{self.key}: {problem}" if self.key else problem, path=self.path, line=self.line, column=self.column)

    @property
    def place(self) -> str:
        """The place as text, such as `line 12`."""
        return f"line {self.line}"


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a file; `literal` are the keys whose values are blocks of lines (`|`)."""

    file: YamlFile
    literal: frozenset[Keys]

    def get(self, *keys: str | int) -> Any:
        """The value under these keys (of lists: indices); None where one of them is missing."""
        node: Any = self.file.data
        for key in keys:
            inside = isinstance(node, dict) and key in node
            inside = inside or (isinstance(node, list) and isinstance(key, int) and key < len(node))
            if not inside:
                return None
            node = node[key]
        return node

    def located(self, *keys: str | int) -> LocatedValue | None:
        """The value under these keys with its place; None where one of them is missing."""
        value = self.get(*keys)
        return None if value is None else self.at(*keys, value=value)

    def at(self, *keys: str | int, value: Any = None) -> LocatedValue:
        """A value with the place of these keys, or of the innermost of them that exists.

        `value` is taken as it is given, and not read from the document.
        """
        marks = self.file.marks
        line, column = next((marks[keys[:n]] for n in range(len(keys), -1, -1) if keys[:n] in marks), (1, 1))
        return LocatedValue(value, self.file.path, ".".join(map(str, keys)), line, column, keys in self.literal)

    def entries(self, *keys: str | int) -> list[Any]:
        """The list under these keys; empty where the key is missing.

        Raises:
            SpecError: the value is not a list.
        """
        entries = self.get(*keys)
        if entries is not None and not isinstance(entries, list):
            raise self.error(keys, "must be a list")
        return entries or []

    def error(self, keys: Keys, problem: str) -> SpecError:
        """An error about the value under these keys, with its place; the caller raises it."""
        return SectionErrors(self.file)(keys, problem)


def read_documents(path: Path) -> tuple[Document, ...]:
    """Read the documents of a YAML file that are mappings.

    Raises:
        SpecError: no such file, invalid YAML (such as templates that are not filled in), more than 30 levels or 50,000 values,
            a key that is not text, or no mapping at all.
    """
    text = read_text(path)
    hint = " (fill in the templates first, such as by `helm template`)" if "{{" in text else ""
    digest = hashlib.sha256(text.encode()).hexdigest()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded = list(YAML(typ="rt", pure=True).load_all(text))
        documents = [_document(path, digest, node, hint) for node in loaded if isinstance(node, CommentedMap)]
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        problem = f"not valid YAML: {error.problem or error.context}{hint}"
        raise SpecError(problem, path=path, line=line, column=column) from None
    except (YAMLError, ValueError, RecursionError) as error:
        raise SpecError(f"not valid YAML: {str(error).splitlines()[0]}{hint}", path=path) from None
    if not documents:
        raise SpecError("must hold keys and values (a YAML mapping) at the top", path=path)
    return tuple(documents)


def _document(path: Path, digest: str, node: CommentedMap, hint: str) -> Document:
    # NB: lines count from 0, and the line of a mapping is that of its first key
    marks: dict[Keys, Mark] = {(): (node.lc.line + 1, 1)}
    literal: set[Keys] = set()
    data = _Plain(path, marks, literal, hint).of(node, ())
    return Document(YamlFile(path, data, marks, digest), frozenset(literal))


@dataclass
class _Plain:
    """Plain data; places and blocks of lines are noted on the way."""

    path: Path
    marks: dict[Keys, Mark]
    literal: set[Keys]
    hint: str
    seen: int = 0

    def of(self, node: Any, keys: Keys) -> Any:
        self.seen += 1
        if self.seen > MAX_NODES or len(keys) > MAX_DEPTH:
            raise SpecError(f"is nested or repeated too far (over {MAX_DEPTH} levels or {MAX_NODES:,} values)", path=self.path)
        if isinstance(node, CommentedMap):
            return self._mapping(node, keys)
        if isinstance(node, CommentedSeq):
            for index in range(len(node)):
                self._mark(node, index, (*keys, index))
            return [self.of(value, (*keys, index)) for index, value in enumerate(node)]
        if isinstance(node, LiteralScalarString):
            self.literal.add(keys)
        if isinstance(node, bool | ScalarBoolean):
            return bool(node)
        for kind in (int, float, str):
            if isinstance(node, kind):
                return kind(node)
        return None if node is None else str(node)  # dates

    def _mapping(self, node: CommentedMap, keys: Keys) -> dict[str, Any]:
        for key in node:
            if not isinstance(key, str | int | float | bool):
                problem = f"a key must be text: put it in quotes{self.hint}"
                raise SpecError(problem, path=self.path, line=node.lc.line + 1)
            self._mark(node, key, (*keys, str(key)))
        return {str(key): self.of(value, (*keys, str(key))) for key, value in node.items()}

    def _mark(self, node: CommentedMap | CommentedSeq, key: Any, keys: Keys) -> None:
        place = (node.lc.data or {}).get(key)
        if place is not None:  # a merged key has none here
            self.marks[keys] = (place[0] + 1, place[1] + 1)
