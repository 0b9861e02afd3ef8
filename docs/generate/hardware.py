"""Accelerators and nodes: a table to compare them by, and a page each with the source of every number."""

from __future__ import annotations

from typing import Any

from generate.docstring import prose
from generate.table import table, toctree
from roofline import formatting
from roofline.cli.commands.hardware import amount
from roofline.cli.library import hardware_rows
from roofline.specs.hardware import facts
from roofline.specs.library import load_hardware, shipped

_HEAD = """\
# Hardware

Dense peaks of one accelerator, without sparsity; bandwidths are decimal, those of links in one direction. The ridge point is
the 16-bit peak over the bandwidth of memory. *Measured* says whose kernels [estimates](../../estimates.md) stand on; without,
they are another accelerator's, transferred, or bounds alone. The page of each has the source of every number, and its grade.
One of your own is [one file](../../extending.md#an-accelerator-or-a-node).
"""


def pages() -> dict[str, str]:
    """The table, and a page for each of its rows."""
    rows, _ = hardware_rows()
    listed = [(row, load_hardware(row["id"])[0]) for row in rows]
    head = ["accelerator", "16 bit", "fp8", "memory", "bandwidth", "ridge", "measured"]
    chips = [(row, one) for row, one in listed if one.node is None]
    nodes = [(row, one) for row, one in listed if one.node is not None]
    parts = [
        _HEAD,
        table(head, [_row(row, one) for row, one in chips], right=range(1, 6)),
        "## Nodes",
        table(
            ["node", "devices", "link", "to the host", "network"], [_node(row, one) for row, one in nodes], right=range(2, 5)
        ),
        toctree(row["id"] for row in rows),
    ]
    found = {f"hardware/{row['id']}.md": "\n\n".join(_facts(one)) + "\n" for row, one in listed}
    return {"hardware/index.md": "\n\n".join(parts) + "\n", **found}


def _row(row: dict[str, Any], one: Any) -> list[str]:
    chip = one.accelerator
    return [
        _linked(row["id"], chip.title),
        formatting.quantity(row["peak_flops_16bit"], "FLOP/s") if row["peak_flops_16bit"] else "",
        formatting.quantity(row["peak_flops_fp8"], "FLOP/s") if row["peak_flops_fp8"] else "",
        formatting.binary(row["memory_bytes"]),
        formatting.quantity(row["bandwidth"], "B/s"),
        f"{row['ridge_point']:.0f}" if row["ridge_point"] else "",
        ", ".join(_backends(row["id"])),
    ]


def _node(row: dict[str, Any], one: Any) -> list[str]:
    node = one.node
    rates = [node.links[0] if node.links else None, node.host_link, node.network]
    shown = [formatting.quantity(link.per_direction.value, "B/s") if link else "" for link in rates]
    return [_linked(row["id"], node.title), f"{node.count} x [{one.accelerator.title}]({node.accelerator}.md)", *shown]


def _linked(name: str, title: str) -> str:
    return f"[{title}]({name}.md) `{name}`"


def _backends(name: str) -> list[str]:
    return sorted(path.stem for path in (shipped("hardware") / "fits" / name).glob("*.yaml"))


def _facts(one: Any) -> list[str]:
    spec = one.node or one.accelerator
    keys = list(dict.fromkeys(fact.source for _, fact in facts(spec)))
    rows = [
        [f"`{path}`", amount(path, fact, 6), fact.grade, str(keys.index(fact.source) + 1), prose(fact.note)]
        for path, fact in facts(spec)
    ]
    sources = [f"{index}. {cited(spec.sources[key])}" for index, key in enumerate(keys, 1)]
    notes = [f"* {prose(note)}" for note in spec.notes]
    chip = one.accelerator
    inside = f": {one.node.count} x [{chip.title}]({chip.name}.md)" if one.node else ""
    return [
        f"# {prose(spec.title)}",
        f"`{one.name}`{inside}",
        table(["fact", "value", "grade", "source", "note"], rows, right=[1]),
        "Grades: A two independent sources agree, B one source, C from memory, not checked against a source. Sources:",
        "\n".join(sources),
        *(["\n".join(notes)] if notes else []),
    ]


def cited(source: Any) -> str:
    """A source with its link and date."""
    title = f"[{prose(source.title)}]({source.url})" if source.url else prose(source.title)
    return f"{title}, {source.read}" if source.read else title
