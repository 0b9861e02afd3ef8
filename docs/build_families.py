"""Write families, multimodal classes and GGUF architectures into docs/configs.md: `python docs/build_families.py`."""  # noqa: INP001

from __future__ import annotations

from pathlib import Path

from roofline.errors import SpecError
from roofline.specs.gguf.architectures import ARCHITECTURES
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.document import parse_json
from roofline.specs.huggingface.families import by_architecture, families
from roofline.specs.huggingface.families.base import Family
from roofline.specs.huggingface.multimodal import WRAPPERS
from roofline.specs.huggingface.towers import senses_of

PAGE = Path(__file__).with_name("configs.md")
BEGIN, END = "<!-- families: written by docs/build_families.py -->", "<!-- end of families -->"
WRAPPERS_BEGIN, WRAPPERS_END = "<!-- multimodal: written by docs/build_families.py -->", "<!-- end of multimodal -->"

GGUF_BEGIN, GGUF_END = "<!-- architectures: written by docs/build_families.py -->", "<!-- end of architectures -->"


COVERAGE_BEGIN, COVERAGE_END = "<!-- coverage: written by docs/build_families.py -->", "<!-- end of coverage -->"
LISTS = PAGE.parent / "coverage"
# Classes of language models that are not read, and why. Those of a family that refuses its configs say so themselves.
_OWN = "layers of its own, which are not modeled"
_INKLING = "short convolutions of keys, values and both blocks' outputs, and learned biases of scores by distance"
NOT_READ = {
    "AliceAIForCausalLM": "a stream that is mixed from the outputs of earlier blocks by attention (AttnRes)",
    "InklingForCausalLM": _INKLING,
    "InklingForConditionalGeneration": _INKLING,
    "K2HorizonForCausalLM": "values of attention that come from experts, chosen by a router of their own (MoVA)",
    "Qwen4ExpForCausalLM": _OWN,
    "Step5ForCausalLM": "attention to keys that an indexer chooses by summaries of blocks, which it caches beside them",
}


def coverage() -> list[str]:
    """How many of the text architectures of vLLM and of transformers are read, and why the others are not."""
    classes = by_architecture()
    reads = {name for name, entry in classes.items() if not _refuses(entry)}
    reads |= {name for wrapper in WRAPPERS for name in wrapper.architectures} - set(classes)
    listed = (LISTS / "vllm-0.33-text.txt").read_text(encoding="utf-8").split()
    missing = [name for name in listed if name not in reads]
    types = [line.split()[0] for line in (LISTS / "transformers-5.23-causal.txt").read_text(encoding="utf-8").splitlines()]
    known = {name for name, entry in families().items() if not _refuses(entry)}
    causal = [name for name in types if name in known or f"{name}_text" in known]
    lines = [
        "",
        f"Of the {len(listed)} classes that vLLM 0.33 lists as text generation models {len(listed) - len(missing)} are read.",
        f"Of the {len(types)} model types that transformers 5.23 has a causal language model for {len(causal)} are read.",
        "Many of the latter are encoders that can be run as decoders (BERT, BART and their like), which are not read.",
        "",
        "| class of vLLM 0.33 that is not read | why |",
        "|---|---|",
    ]
    for name in sorted(missing, key=str.lower):
        entry = classes.get(name)
        lines.append(f"| {name} | {NOT_READ[name] if entry is None else _reason(entry)} |")
    rest = ", ".join(f"`{name}`" for name in sorted(set(types) - set(causal)))
    return [*lines, "", f"Model types of transformers 5.23 that are not read: {rest}.", ""]


def _refuses(entry: Family) -> bool:
    return entry.read.__module__.endswith(".refused")


def _reason(entry: Family) -> str:
    """Why a family's configs are refused, in its own words."""
    config = Config(parse_json(f'{{"model_type": "{entry.name}"}}', "config.json"), {"model_type": entry.name})
    try:
        entry.read(config)
    except SpecError as error:
        return str(error).partition("model_type: ")[2]
    message = f"{entry.name} is read"
    raise AssertionError(message)


def rows() -> list[str]:
    """A row a reader: what it reads, and where it is said what the keys mean."""
    readers: dict[str, Family] = {entry.name: entry for entry in families().values()}
    found = ["| `model_type` | class | keys |", "|---|---|---|"]
    for name in sorted(readers, key=str.lower):
        entry = readers[name]
        types = ", ".join(f"`{one}`" for one in sorted(entry.model_types, key=str.lower))
        refused = " (refused)" if _refuses(entry) else ""
        found.append(f"| {types}{refused} | {', '.join(entry.architectures)} | [{name}]({entry.source}) |")
    return found


def multimodal_rows() -> list[str]:
    """A row for each kind of multimodal config: what it is called, and whether its towers are counted."""
    lines = ["| `model_type` | class | towers | keys |", "|---|---|---|---|"]
    for wrapper in sorted(WRAPPERS, key=lambda one: one.name.lower()):
        types = ", ".join(f"`{one}`" for one in wrapper.model_types)
        towers = ", ".join(senses_of(wrapper.name)) or "named, not counted"
        lines.append(f"| {types} | {', '.join(wrapper.architectures)} | {towers} | [{wrapper.name}]({wrapper.source}) |")
    return lines


def architectures() -> list[str]:
    """The architectures of GGUF files, in a sentence between empty lines."""
    return ["", f"Architectures: {', '.join(f'`{name}`' for name in sorted(ARCHITECTURES))}.", ""]


def page() -> str:
    """The page with the tables as the readers have them now."""
    text = PAGE.read_text(encoding="utf-8")
    for begin, end, lines in (
        (BEGIN, END, rows()),
        (COVERAGE_BEGIN, COVERAGE_END, coverage()),
        (WRAPPERS_BEGIN, WRAPPERS_END, multimodal_rows()),
        (GGUF_BEGIN, GGUF_END, architectures()),
    ):
        head, _, rest = text.partition(begin)
        _, _, tail = rest.partition(end)
        text = "\n".join([f"{head}{begin}", *lines, f"{end}{tail}"])
    return text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
