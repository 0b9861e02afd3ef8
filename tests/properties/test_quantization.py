"""What holds for weights in any scheme."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from roofline.blocks.model_files import load_model
from roofline.dtypes import FORMATS, Dtypes, Format, Precision
from roofline.formulas.symbolic import evaluate
from roofline.graph.build import CANONICAL, build
from roofline.operators.gemm import Gemm
from roofline.predict.memory import weights_by_path
from roofline.specs.deployment import Deployment
from roofline.specs.quantization import scheme, schemes

sizes = st.integers(1, 5000)
formats = st.sampled_from([scheme(name).format for name in schemes()])


def _held(format: Format, n: Any, k: Any) -> Any:
    dtypes = Dtypes(weight=format, activation=FORMATS["bf16"], kv=FORMATS["bf16"], bias=FORMATS["bf16"])
    return Gemm(m=1, n=n, k=k, dtypes=dtypes).held_bytes


@given(formats, sizes, sizes)
def test_scales_only_add(format: Format, n: int, k: int) -> None:
    """A matrix is never smaller than its elements, and larger where scales are tensors of their own."""
    held = _held(format, n, k)
    assert held > n * k * format.bytes if format.metadata else held == n * k * format.bytes


@given(formats, sizes, sizes, sizes)
def test_more_weights_take_more(format: Format, n: int, k: int, more: int) -> None:
    """In outputs and in inputs."""
    assert _held(format, n + more, k) > _held(format, n, k)
    assert _held(format, n, k + more) > _held(format, n, k)


@given(formats, sizes, sizes, sizes)
def test_a_matrix_in_parts_takes_no_less(format: Format, n: int, k: int, more: int) -> None:
    """Blocks that are cut are counted twice."""
    assert _held(format, n, k) + _held(format, more, k) >= _held(format, n + more, k)


@given(formats, sizes, sizes)
def test_in_every_kind_of_number(format: Format, n: int, k: int) -> None:
    """Ints, arrays and symbols."""
    exact = _held(format, n, k)
    assert _held(format, np.array([float(n), 1.0]), np.array([float(k), 7.0])).tolist() == [exact, _held(format, 1, 7)]
    rows, columns = sympy.symbols("n k", positive=True, integer=True)
    assert evaluate(_held(format, rows, columns), {rows: n, columns: k}) == exact


@pytest.mark.parametrize("name", schemes())
@pytest.mark.parametrize("model", ["llama-3.1-8b", "deepseek-v2-lite", "gpt-oss-20b", "gpt2"])
def test_devices_hold_what_the_model_has(model: str, name: str) -> None:
    """Each of two tensor-parallel devices holds at least half of the weights, and at most all."""
    loaded, chosen = load_model(model)[0], scheme(name)
    roles = tuple((role, chosen.format) for role in chosen.roles)
    precision = Precision(weight=FORMATS["bf16"], activation=FORMATS["bf16"], kv=FORMATS["bf16"], roles=roles)
    one, two = (
        sum(weights_by_path(build(loaded, Deployment(tensor_parallel_size=size), precision, CANONICAL)).values())
        for size in (1, 2)
    )
    assert one / 2 <= two <= one
