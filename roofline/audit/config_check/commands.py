"""Command lines: their words with places and variables, and the server that they start with its flags.

A variable that the file does not set is not guessed: the word keeps its `$NAME`, and what needs its value refuses it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from roofline.audit.config_check.documents import LocatedValue
from roofline.audit.config_check.servers import SERVERS, Server, Setting

_SEPARATORS = frozenset(";&|()\n")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(
    r"\$\$|\\\$|\$(?P<plain>[A-Za-z_]\w*)|\$\((?P<kubernetes>[A-Za-z_]\w*)\)"
    r"|\$\{(?P<braced>[A-Za-z_]\w*)(?:(?P<how>:?[-?=])(?P<default>[^{}]*))?\}"
)


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command line, and its place in the file."""

    text: str
    source: LocatedValue


def expand_variables(text: str, variables: Mapping[str, str]) -> str:
    """Replace the variables in a text by their values; those without a value and a default stay as they are.

    Reads `$NAME`, `${NAME}`, `${NAME:-default}` (also `-`, `=`, `:=`), and `$(NAME)` of Kubernetes; `$$` is a dollar sign.

    >>> expand_variables("$A ${B:-two} ${C} $(A) $$ '$A'", {"A": "one"})
    "one two ${C} one $ 'one'"
    """

    def replacement(match: re.Match[str]) -> str:
        if match[0] in ("$$", "\\$"):
            return "$"
        name = match["plain"] or match["kubernetes"] or match["braced"]
        known = variables.get(name)
        how = match["how"] or ""
        if known is not None and (known or not how.startswith(":")):
            return known
        return match["default"] if how[-1:] in ("-", "=") and how else match[0]

    return _VARIABLE.sub(replacement, text)


def argument_words(items: list[LocatedValue], variables: Mapping[str, str]) -> list[Word]:
    """The words of a list of arguments, one per entry, with variables replaced; booleans become `true` and `false`."""
    return [Word(expand_variables(_text(one.value), variables), one) for one in items]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def script_commands(value: LocatedValue, variables: Mapping[str, str]) -> list[list[Word]]:
    """Split a shell script into simple commands, in their order; what it assigns or exports is known from there on.

    Args:
        value: the text of the script, with its place.
        variables: values that are known at the start.

    Raises:
        SpecError: a quotation that has no end.
    """
    known = dict(variables)
    lines: list[list[Word]] = []
    for words in _simple(value):
        rest = list(words)
        if rest and rest[0].text in ("export", "local", "declare", "set", "env"):
            rest = rest[1:]
        while rest and (match := _ASSIGNMENT.fullmatch(rest[0].text)) is not None:
            known[match[1]] = expand_variables(match[2], known)
            rest = rest[1:]
        lines.append([replace(word, text=expand_variables(word.text, known)) for word in rest])
    return [words for words in lines if words]


def _simple(value: LocatedValue) -> list[list[Word]]:
    text = re.sub(r"\\\r?\n", lambda _: " \0", str(value.value))  # a line that goes on; \0 counts it
    lexer = shlex.shlex(_protected(text), posix=True, punctuation_chars=";&|()\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    commands_read: list[list[Word]] = [[]]
    line, comment = 0, False
    try:
        tokens = list(lexer)
    except ValueError:
        raise value.error("a quotation in the command has no end") from None
    for token in tokens:
        lines = token.count("\n") + token.count("\0")
        if set(token) <= _SEPARATORS:
            line += lines
            comment = comment and "\n" not in token
            commands_read.append([])
            continue
        text = token.replace("\0", "").translate(_UNPROTECTED)
        before = token.count("\0")
        line += before
        comment = comment or text.startswith("#")
        if text and not comment:
            where = replace(value, value=text, line=value.line + 1 + line) if value.block else value
            commands_read[-1].append(Word(text, where))
        line += lines - before
    return [words for words in commands_read if words]


# `$(NAME)` and `${NAME:-a b}` are one word to a shell, also without quotes.
_PROTECTED = {ord("("): "\ue000", ord(")"): "\ue001", ord(" "): "\ue002"}
_UNPROTECTED = {ord(hidden): chr(plain) for plain, hidden in _PROTECTED.items()}


def _protected(text: str) -> str:
    return re.sub(r"\$\([^()\n]*\)|\$\{[^{}\n]*\}", lambda match: match[0].translate(_PROTECTED), text)


_NEGATIVE_NUMBER = re.compile(r"-\d")
_SCRIPT = re.compile(r"-[a-z]*c")
_SHELLS = ("sh", "bash", "dash", "zsh", "ash")


def find_server(words: Sequence[Word], variables: Mapping[str, str], image: str = "") -> tuple[Server, list[Setting]] | None:
    """The engine's server that a command starts, also within `sh -c`, and its flags; None where it starts none.

    Args:
        words: of the command.
        variables: values for a script within the command.
        image: name of the container's image; where it starts an engine by itself, the words are the engine's flags.

    Raises:
        SpecError: a quotation in a script that has no end.
    """
    match = _server_in(words, variables)
    if match is None and image:
        match = next(((server, list(words)) for server in SERVERS.values() if server.image.search(image)), None)
        if match is not None and words and not words[0].text.startswith("-") and "/" not in words[0].text:
            return None  # something else is started in it, such as a shell
    return None if match is None else (match[0], _settings(match[0], match[1]))


def _server_in(words: Sequence[Word], variables: Mapping[str, str]) -> tuple[Server, list[Word]] | None:
    shell = next((at for at, word in enumerate(words) if word.text.rpartition("/")[2] in _SHELLS), len(words))
    for at in range(shell + 1, len(words) - 1):
        if _SCRIPT.fullmatch(words[at].text):
            return _in_script(words[at + 1], variables)
    return _start(words) or _image(words)


def _start(words: Sequence[Word]) -> tuple[Server, list[Word]] | None:
    """The first place at which a server is started by its own name."""
    for at in range(len(words)):
        here = " ".join(word.text for word in words[at : at + 3])
        for server in SERVERS.values():
            for start in server.starts:
                if (match := start.match(here)) is not None and here[match.end() : match.end() + 1] in ("", " "):
                    return server, list(words[at + len(match[0].split()) :])
    return None


def _image(words: Sequence[Word]) -> tuple[Server, list[Word]] | None:
    """An image that starts a server by itself: `docker run ... vllm/vllm-openai:v0.9.1 --model ...`."""
    for at, word in enumerate(words):
        for server in SERVERS.values():
            if at and server.image.search(word.text) and ("/" in word.text or ":" in word.text):
                return server, list(words[at + 1 :])
    return None


def _in_script(script: Word, variables: Mapping[str, str]) -> tuple[Server, list[Word]] | None:
    """The first command of a script that starts an engine."""
    for words in script_commands(replace(script.source, value=script.text), variables):
        if (match := _server_in(words, variables)) is not None:
            return match
    return None


def _settings(server: Server, words: list[Word]) -> list[Setting]:
    """Flags with their values; the model without a flag, where it is the first word that is none."""
    settings: list[Setting] = []
    loose: list[Word] = []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if not word.text.startswith("-") or _NEGATIVE_NUMBER.match(word.text):
            loose.append(word)
            continue
        name, equals, value = word.text.partition("=")
        flag = server.full(name)
        if equals:
            settings.append(Setting(name, value, word.source))
            continue
        takes = _values(server, flag, words[at:])
        text = " ".join(each.text for each in words[at : at + takes])
        settings.append(Setting(name, text if takes else True, words[at].source if takes else word.source))
        at += takes
    if loose and not any(server.full(one.flag) in ("--model", "--model-path") for one in settings):
        model = "--model" if "--model" in server.flags else "--model-path"
        settings.insert(0, Setting(model, loose[0].text, loose[0].source))
    return settings


def _values(server: Server, flag: str, rest: list[Word]) -> int:
    """Number of the words after a flag that are its values."""
    plain = flag.replace("--no-", "--", 1)
    switch = flag in server.switches or plain in server.switches or flag in server.bare or flag[:5] == "--no-"
    if switch:
        return 1 if rest and flag in server.switches and rest[0].text.lower() in ("true", "false") else 0
    count = 0
    for word in rest:
        if word.text.startswith("-") and not _NEGATIVE_NUMBER.match(word.text):
            break
        count += 1
        if flag not in server.several:
            break
    return count
