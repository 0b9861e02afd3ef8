"""From the words of a container, a service or a line to the engine that they start, and its flags."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from roofline.audit.config_check.documents import Said
from roofline.audit.config_check.servers import servers
from roofline.audit.config_check.servers.base import Server, Setting
from roofline.audit.config_check.words import Word, commands

_NUMBER = re.compile(r"-\d")
_SCRIPT = re.compile(r"-[a-z]*c")
_SHELLS = ("sh", "bash", "dash", "zsh", "ash")


def started(words: Sequence[Word], variables: Mapping[str, str], image: str = "") -> tuple[Server, list[Setting]] | None:
    """The engine that these words start, also within a shell, and its flags; None where they start none.

    `image`: the name of the container's image, whose own start these words may be the flags of.
    """
    found = _found(words, variables)
    if found is None and image:
        found = next(((server, list(words)) for server in servers() if server.image.search(image)), None)
        if found is not None and words and not words[0].text.startswith("-") and "/" not in words[0].text:
            return None  # something else is started in it, such as a shell
    return None if found is None else (found[0], _settings(found[0], found[1]))


def _found(words: Sequence[Word], variables: Mapping[str, str]) -> tuple[Server, list[Word]] | None:
    shell = next((at for at, word in enumerate(words) if word.text.rpartition("/")[2] in _SHELLS), len(words))
    for at in range(shell + 1, len(words) - 1):
        if _SCRIPT.fullmatch(words[at].text):
            return _in_script(words[at + 1], variables)
    return _start(words) or _image(words)


def _start(words: Sequence[Word]) -> tuple[Server, list[Word]] | None:
    """The first place at which a server is started by its own name."""
    for at in range(len(words)):
        here = " ".join(word.text for word in words[at : at + 3])
        for server in servers():
            for start in server.starts:
                if (match := start.match(here)) is not None and here[match.end() : match.end() + 1] in ("", " "):
                    return server, list(words[at + len(match[0].split()) :])
    return None


def _image(words: Sequence[Word]) -> tuple[Server, list[Word]] | None:
    """An image that starts a server by itself: `docker run ... vllm/vllm-openai:v0.9.1 --model ...`."""
    for at, word in enumerate(words):
        for server in servers():
            if at and server.image.search(word.text) and ("/" in word.text or ":" in word.text):
                return server, list(words[at + 1 :])
    return None


def _in_script(script: Word, variables: Mapping[str, str]) -> tuple[Server, list[Word]] | None:
    """The first command of a script that starts an engine."""
    said = script.said
    text = Said(script.text, said.path, said.key, said.line, said.column, said.lines)
    for words in commands(text, variables):
        if (found := _found(words, variables)) is not None:
            return found
    return None


def _settings(server: Server, words: list[Word]) -> list[Setting]:
    """Flags with their values; the model without a flag, where it is the first word that is none."""
    found: list[Setting] = []
    loose: list[Word] = []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if not word.text.startswith("-") or _NUMBER.match(word.text):
            loose.append(word)
            continue
        name, equals, value = word.text.partition("=")
        flag = server.full(name)
        if equals:
            found.append(Setting(name, value, word.said))
            continue
        takes = _values(server, flag, words[at:])
        text = " ".join(each.text for each in words[at : at + takes])
        found.append(Setting(name, text if takes else True, words[at].said if takes else word.said))
        at += takes
    if loose and not any(server.full(one.flag) in ("--model", "--model-path") for one in found):
        model = "--model" if "--model" in server.flags else "--model-path"
        found.insert(0, Setting(model, loose[0].text, loose[0].said))
    return found


def _values(server: Server, flag: str, rest: list[Word]) -> int:
    """How many of the words that follow a flag are its own."""
    plain = flag.replace("--no-", "--", 1)
    switch = flag in server.switches or plain in server.switches or flag in server.bare or flag[:5] == "--no-"
    if switch:
        return 1 if rest and flag in server.switches and rest[0].text.lower() in ("true", "false") else 0
    mine = 0
    for word in rest:
        if word.text.startswith("-") and not _NUMBER.match(word.text):
            break
        mine += 1
        if flag not in server.several:
            break
    return mine
