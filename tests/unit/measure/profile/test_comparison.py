"""The difference between measured steps and their estimate, by hand."""

from __future__ import annotations

from roofline.measure.profile.comparison import AlignedOperator, decompose


def test_parts_add_up_to_the_difference() -> None:
    """A step of 20 ms, of which kernels run 15: 9 + 4 of the model and 3 of a copy, of which 1 at once with others.

    The estimate is 12: 8 + 2 of operators, 1 of a norm that another kernel does, and 1 between operators.
    """
    rows = [
        AlignedOperator("layers/mlp", "gemm", "matched", 1, 1, 1, 9.0, 7.0, 8.0),
        AlignedOperator("layers/core", "attention", "matched", 1, 1, 1, 4.0, 1.0, 2.0),
        AlignedOperator("layers/norm", "norm", "fused", 1, 0, 0, 0.0, 0.5, 1.0, into="layers/mlp"),
        AlignedOperator("copy", "copy", "extra", 0, 1, 1, 3.0),
    ]
    found = decompose(steps=1, measured_s=20.0, running_s=15.0, estimate_s=12.0, rows=rows)
    by_name = {part.name: part.difference_s for part in found.parts}
    assert by_name == {
        "idle": 5.0, "copy": 3.0, "layers/core": 2.0, "layers/mlp": 1.0, "layers/norm": -1.0, "overlap": -1.0, "steps": -1.0,
    }  # fmt: skip
    assert sum(by_name.values()) == 20.0 - 12.0
    assert [part.name for part in found.parts][:3] == ["idle", "copy", "layers/core"]
    assert found.to_dict()["difference_s"] == 8.0
