"""Options of copies to the host and back. Values stay text: they are read, with their units, by what makes the copies."""

from __future__ import annotations

from typing import Annotated

import typer

from roofline.cli.options import own as option

COPIES = "Copies"

HostLink = Annotated[
    str | None,
    option("--host-link", text='What large copies reach in one direction: "25 GB/s".', panel=COPIES, metavar="RATE"),
]
Pinned = Annotated[
    bool, typer.Option("--pinned/--pageable", help="Whether the host's memory is page-locked.", rich_help_panel=COPIES)
]
Coalesced = Annotated[bool, typer.Option("--coalesced", help="Blocks are gathered: one call each way.", rich_help_panel=COPIES)]
GpusPerLink = Annotated[
    str | None,
    option("--gpus-per-link", text="Devices behind one link to the host. Default: 1.", panel=COPIES, metavar="N"),
]
HostMemory = Annotated[
    str | None,
    option("--host-memory", text="For evicted sequences of a replica. Default: the node's share.", panel=COPIES,
           metavar="BYTES"),
]  # fmt: skip
