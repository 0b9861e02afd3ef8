"""The ways in which a model can be divided over the devices of a claim that does not say how."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.audit.claims.claim import Statement
from roofline.blocks.model import Model
from roofline.errors import InputError
from roofline.specs.hardware import Hardware

Split = dict[str, int]
_MOST = 2**14


def count(statement: Statement, hardware: Hardware) -> int:
    """Devices of the claim."""
    given = _given(statement)
    if statement.devices is not None:
        return statement.devices
    if given:
        return statement.tp_pp_dp
    return hardware.node.count if hardware.node else 1


def splits(statement: Statement, model: Model, hardware: Hardware) -> Iterator[Split]:
    """Sizes of tensor, pipeline, data and expert parallelism: those stated, else every one that the devices allow."""
    given, devices = _given(statement), count(statement, hardware)
    if devices > _MOST:
        raise InputError(f"{devices:,} devices are more than the {_MOST:,} that are looked at")
    if given:
        stated = statement.tp_pp_dp
        if devices % stated:
            msg = f"{devices} devices are not a multiple of the {stated} that tp, pp and dp make"
            raise InputError(msg)
        dp = (statement.dp or 1) * (devices // stated)
        yield _split(statement.tp or 1, statement.pp or 1, dp, statement.ep or 1)
        return
    for tp in _divisors(devices):
        for pp in _divisors(devices // tp):
            dp = devices // tp // pp
            if pp > 1 and dp > 1:
                continue  # gains nothing that pipelines or replicas alone do not
            yield _split(tp, pp, dp, statement.ep or 1)
            if statement.ep is None and dp > 1 and pp == 1 and _experts(model):
                yield _split(tp, pp, dp, devices)


def _given(statement: Statement) -> bool:
    sizes = (statement.tp, statement.pp, statement.dp, statement.deployment.get("context_parallel_size"))
    return any(size is not None for size in sizes)


def _split(tp: int, pp: int, dp: int, ep: int) -> Split:
    return {"tp": tp, "pp": pp, "dp": dp, "ep": ep}


def _divisors(number: int) -> list[int]:
    return [size for size in range(number, 0, -1) if number % size == 0]


def _experts(model: Model) -> bool:
    return any(block.experts is not None for block in model.blocks)


def described(split: Split) -> str:
    """Sizes above one, as engines write them.

    >>> described({"tp": 4, "pp": 1, "dp": 2, "ep": 1}), described({"tp": 1, "pp": 1, "dp": 1, "ep": 1})
    ('tp 4, dp 2', 'one device')
    """
    return ", ".join(f"{name} {size}" for name, size in split.items() if size > 1) or "one device"
