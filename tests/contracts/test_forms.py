"""What every form must be: parts that are named, the same numbers for floats and for arrays, sane beyond the data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from roofline.measure.records.columns import dtypes
from roofline.measure.records.ops import RECORD_OPS, Call
from roofline.predict.bounds import times as bound_of
from roofline.predict.efficiency.form import SERVING, KernelForm, chip
from roofline.predict.efficiency.forms import FORMS, forms_by_op
from roofline.specs.fit import Family
from roofline.specs.library import fit_files, load_fit, load_hardware

# Rows of each op, small and large, of ordinary models.
ROWS: dict[str, list[dict[str, int]]] = {
    "gemm": [{"m": m, "n": n, "k": k} for m in (1, 64, 4096) for n, k in ((4096, 4096), (28672, 4096), (256, 7168))],
    "bmm": [{"batch": 16, "m": m, "n": 512, "k": 128} for m in (1, 512)],
    "attention_prefill": [
        {"batch": b, "q_len": q, "kv_len": kv, "n_heads": 32, "n_kv_heads": 8, "head_dim": 128}
        for b, q, kv in ((1, 128, 128), (4, 4096, 4096), (1, 512, 16384))
    ],
    "attention_decode": [
        {"batch": b, "q_len": 1, "kv_len": kv, "n_heads": 32, "n_kv_heads": 8, "head_dim": 128}
        for b, kv in ((1, 2), (1, 8192), (256, 4096))
    ],
    "mla_prefill": [{"batch": 1, "q_len": q, "kv_len": q, "n_heads": 16, "head_dim": 192} for q in (128, 8192)],
    "mla_decode": [{"batch": b, "q_len": 1, "kv_len": 4096, "n_heads": 16, "head_dim": 576} for b in (1, 128)],
    "moe": [{"tokens": t, "hidden": 2048, "inter": 768, "experts": 128, "topk": 8} for t in (1, 64, 8192)],
    "rmsnorm": [{"tokens": t, "hidden": 4096} for t in (1, 8192)],
    "rope": [{"tokens": t, "n_heads": 32, "n_kv_heads": 8, "head_dim": 128} for t in (1, 8192)],
    "silu_mul": [{"tokens": t, "inter": 14336} for t in (1, 8192)],
    "add": [{"tokens": t, "hidden": 4096} for t in (1, 8192)],
    "embedding": [{"tokens": t, "hidden": 4096, "n": 32000} for t in (1, 8192)],
    "sampling": [{"tokens": t, "n": 32000} for t in (1, 256)],
    "copy_d2d": [{"bytes": b} for b in (4096, 1 << 28)],
    "copy_h2d": [{"bytes": b} for b in (4096, 1 << 28)],
    "copy_d2h": [{"bytes": b} for b in (4096, 1 << 28)],
    **{
        op: [{"bytes": b, "world": w} for b in (1024, 1 << 20, 1 << 28) for w in (2, 4, 8)]
        for op in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
    },
    "p2p": [{"bytes": b, "world": 2} for b in (1024, 1 << 28)],
}
CASES = [(op, form) for op, forms in forms_by_op().items() for form in forms]
IDS = [f"{op} {form.name}" for op, form in CASES]
FITTED = [
    (accelerator, path, key, family)
    for accelerator, paths in fit_files().items()
    for path in paths
    for key, family in load_fit(path)[0].families.items()
]


def operators(op: str, row: dict[str, Any]) -> dict[str, Any]:
    """The operators of a row."""
    return {name: operator for name, (operator, _) in RECORD_OPS[op].operators(Call(dtypes("bf16"), row)).items()}


@pytest.mark.parametrize(("op", "form"), CASES, ids=IDS)
def test_parameters_say_what_they_are(op: str, form: KernelForm) -> None:
    """At most eight are fitted; each has a meaning, a unit, and a start between its bounds."""
    assert op in RECORD_OPS
    assert len([entry for entry in form.parameters if not entry.choices]) <= 8
    for entry in form.parameters:
        assert entry.meaning
        assert entry.unit in ("s", "1", "byte", "byte/s", "FLOP/s")
        assert entry.low <= entry.start <= entry.high
    assert form.about


@pytest.mark.parametrize(("op", "form"), CASES, ids=IDS)
def test_the_last_term_is_the_total(op: str, form: KernelForm) -> None:
    """Every part is a number of seconds that is not negative; each is no more than the total."""
    device = chip(load_hardware("h100-sxm")[0])
    for row in ROWS[op]:
        terms = form.terms(operators(op, row), device, SERVING, form.starts())
        assert list(terms)[-1] == "total"
        assert all(float(value) >= 0 for value in terms.values()), (row, terms)
        assert terms["total"] > 0


@pytest.mark.parametrize(("op", "form"), CASES, ids=IDS)
def test_arrays_and_floats_agree(op: str, form: KernelForm) -> None:
    """One formula, two tongues. The world and a decode's one token are structure: they stay plain."""
    device = chip(load_hardware("h100-sxm")[0])
    for world in {row.get("world") for row in ROWS[op]}:
        rows = [row for row in ROWS[op] if row.get("world") == world]
        plain = [float(form.seconds(operators(op, row), device, SERVING, form.starts())) for row in rows]
        fixed = {"world": world} if world is not None else {}
        fixed |= {"q_len": 1} if all(row.get("q_len") == 1 for row in rows) else {}
        arrays = {name: np.array([row[name] for row in rows]) for name in rows[0] if name not in fixed} | fixed
        many = form.seconds(operators(op, arrays), device, SERVING, form.starts())
        assert np.broadcast_to(many, len(rows)) == pytest.approx(plain, rel=1e-9)


@pytest.mark.parametrize(
    ("accelerator", "path", "key", "family"), FITTED, ids=[f"{p.parent.name}/{p.stem} {k}" for _, p, k, _ in FITTED]
)
def test_shipped_fits_are_sane(accelerator: str, path: Any, key: str, family: Family) -> None:
    """Values are within their bounds; cold, no kernel takes less than 0.8 of what it has to move and to multiply."""
    form, op = FORMS[family.form], key.split("/", maxsplit=1)[0]
    for entry in form.parameters:
        assert entry.low * 0.999 <= family.parameters[entry.name] <= entry.high * 1.001
    assert form.applies_to(key)
    assert family.rows > 0
    for low, high in family.bands.values():
        assert 0.2 < low < high < 5
    device = load_hardware(accelerator)[0]
    for row in ROWS[op]:
        cast = operators(op, row)
        seconds = form.seconds(cast, chip(device), SERVING, family.parameters)
        # activations may come from L2 a moment after they were written: they are no part of what has to cross memory
        busy = [bound_of(one, replace(one.cost(), activation_bytes=0), device) for one in cast.values()]
        assert 0.8 * sum(max(part.matrix, part.memory) for part in busy) <= seconds < 60, row
