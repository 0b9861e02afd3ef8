"""Copies in device memory and over the link to the host.

`kernel` says which: `read` only reads (a sum), `write` only writes (a fill); anything else reads and writes.
"""

from __future__ import annotations

from typing import Any

from roofline.measure.records.ops.base import Call, Operators, Rule
from roofline.numeric import Expr
from roofline.operators.copy import Copy
from roofline.operators.host_copy import HostCopy

_ONE_WAY: dict[str, dict[str, Any]] = {"read": {"write": "nothing"}, "write": {"read": "nothing"}}


def _in_memory(call: Call) -> Operators:
    return {"copy": (Copy(elements=call.elements(), **_ONE_WAY.get(call.text("kernel").lower(), {}), dtypes=call.dtypes), 1)}


def _to_host(call: Call) -> Operators:
    calls: Expr = call["bytes"] / call["chunk_bytes"] if "chunk_bytes" in call.numbers else 1
    return {"copy": (HostCopy(size=call["bytes"], calls=calls, dtypes=call.dtypes), 1)}


D2D = Rule("copy_d2d", ("bytes",), _in_memory, ("bytes",), ("chunk_bytes",))
H2D = Rule("copy_h2d", ("bytes",), _to_host, ("bytes",), ("chunk_bytes",))
D2H = Rule("copy_d2h", ("bytes",), _to_host, ("bytes",), ("chunk_bytes",))
