"""The generated JavaScript agrees with NumPy, for every operator kind, every structure and every shipped model."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from strategies import KINDS

from roofline.cost import FIELDS
from roofline.dtypes import BF16, Precision
from roofline.errors import InputError
from roofline.formulas.javascript import module_source, operator_call
from roofline.graph import build
from roofline.operators import registry
from roofline.operators.base import Operator
from roofline.operators.grouped_gemm import GroupedGemm
from roofline.specs.deployment import Deployment
from roofline.specs.library import ids, load_model
from roofline.specs.workload import decode, prefill

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
POINTS = 12
TOLERANCE = 1e-12


def run(tmp_path: Path, expression: str, data: object) -> Any:
    """What Node makes of an expression over the module and `data`."""
    script = tmp_path / "page.js"
    harness = f'const data = JSON.parse(require("fs").readFileSync(0));\nconsole.log(JSON.stringify({expression}));\n'
    script.write_text(module_source() + harness, encoding="utf-8")
    assert NODE is not None
    done = subprocess.run([NODE, str(script)], input=json.dumps(data), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def check(tmp_path: Path, operators: list[Operator]) -> None:
    """Node's costs are those of float64 arrays; a field that is missing is 0."""
    calls = [operator_call(operator) for operator in operators]
    found = run(tmp_path, "data.map((call) => roofline[call.function](call.arguments))", calls)
    for operator, got in zip(operators, found, strict=True):
        in_arrays = replace(operator, **{name: np.array([float(value)]) for name, value in operator.dims().items()})
        cost = in_arrays.cost()
        for name in FIELDS:
            wanted = float(np.broadcast_to(getattr(cost, name), 1)[0])
            assert got.get(name, 0) == pytest.approx(wanted, rel=TOLERANCE, abs=1e-9), (operator, name)


@needs_node
@pytest.mark.parametrize("cls", registry().values(), ids=lambda cls: cls.kind)
def test_every_structure(cls: type[Operator], tmp_path: Path) -> None:
    """Random dimensions (seeded) in every structure that the operator can have."""
    chance, kind = random.Random(20260101), KINDS[cls]  # noqa: S311 - seeded on purpose
    structures = [found for found in kind.structures() if not found.get("skew")]
    check(tmp_path, [kind.draw(structure, chance) for structure in structures for _ in range(POINTS)])


@needs_node
@pytest.mark.parametrize("name", ids("models"))
def test_every_node_of_every_model(name: str, tmp_path: Path) -> None:
    """A page can evaluate any operator of a shipped model from data, alone and on several devices."""
    model, _ = load_model(name)
    precision = Precision(weight=BF16.weight, activation=BF16.activation, kv=BF16.kv)
    graphs = [
        build(model, Deployment(tensor_parallel_size=size), precision, step)
        for size in (1, 2)
        for step in (prefill(3, 700), decode(5, 4321))
    ]
    check(tmp_path, [operator for graph in graphs for operator, _ in graph.values()])


@needs_node
def test_ceil_div(tmp_path: Path) -> None:
    """525/75 is 7, which a product with 1/75 misses; so are all exact divisions and their neighbours."""
    pairs = [(quotient * n + extra, n) for n in range(1, 130) for quotient in (1, 7, 1000, 10**9) for extra in (0, 1)]
    found = run(tmp_path, "data.map(([a, b]) => roofline.ceilDiv(a, b))", [(525, 75), *pairs])
    assert found[0] == 7
    assert found[1:] == [-(-a // b) for a, b in pairs]


@needs_node
def test_unknown_structure_is_an_error(tmp_path: Path) -> None:
    """A mask that no formula knows is refused, never taken for another."""
    caught = run(
        tmp_path,
        "(() => { try { roofline.attention(data); } catch (error) { return error.message; } })()",
        {"mask": "diagonal"},
    )
    assert "no formula" in caught


def test_skewed_routing_is_refused() -> None:
    """It is a sum over experts, of which the pages have no formula."""
    with pytest.raises(InputError, match="skew = 0 only"):
        operator_call(GroupedGemm(tokens=1, n=4, k=5, experts=8, top_k=2, skew=1.0))


def test_it_is_a_classic_script() -> None:
    """Pages open from file://, where ES modules do not load; the size stays that of a picture."""
    source = module_source()
    assert "const roofline = " in source
    assert "export " not in source
    assert len(source) < 70_000
    assert all(f"    {kind}: " in source for kind in registry())
