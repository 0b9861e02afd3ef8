"""What every operator is: a frozen value with dimensions and formats, and a rule that says what it costs."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from roofline.cost import Cost
from roofline.dtypes import BF16, Dtypes
from roofline.numeric import Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One operator of one step on one device.

    Fields annotated `Expr` are dimensions and may be Python numbers, NumPy arrays or SymPy symbols; the other fields
    are structure (a flag, an absent window) and never are. `cost` is ordinary arithmetic over them: compulsory traffic
    only, each input and weight read once and each output written once.
    """

    kind: ClassVar[str]
    record_op: ClassVar[str] = ""
    """The op of measured records that is its kernel, where that is the same for all its dimensions."""
    multiplies_weights: ClassVar[bool] = True
    """Whether its products have weights in them, whose format then decides which matrix peak applies."""
    to_host: ClassVar[bool] = False
    """Whether its link bytes cross the link to the host, not one to other devices."""
    dtypes: Dtypes = BF16

    def cost(self) -> Cost:
        """FLOP and bytes of one call."""
        raise NotImplementedError  # abstract: dataclasses with slots do not mix with ABCMeta's class cells

    def factored(self) -> tuple[Operator, Expr]:
        """An operator, and how many of it cost and take at the bound what this one does: on a grid one of fewer axes."""
        return self, 1

    @property
    def activation_bytes(self) -> Expr:
        """Bytes of activations that one call reads and writes; where that is known without the rest of its cost, cheaper."""
        return self.cost().activation_bytes

    @property
    def measured_as(self) -> str:
        """The op under which measured records know its kernel; empty where it is known by none."""
        return self.record_op

    def crossing(self, together: int) -> Expr:
        """Share of the link bytes that leave a node in which `together` neighbouring devices of the group are."""
        return 1

    def peers(self, together: int) -> int:
        """Devices among which a message of one device goes, itself included, of `together` that the link joins."""
        return together

    @property
    def alone(self) -> Operator:
        """The operator by whose kernel this one is timed: itself, unless devices share a work that was measured on one."""
        return self

    @property
    def parameters(self) -> Expr:
        """Weights that the operator holds on this device (not: reads), in elements."""
        return 0

    @property
    def held_bytes(self) -> Expr:
        """Bytes of the weights that the operator holds on this device, as they are stored."""
        if self.dtypes.weight.metadata and not (isinstance(self.parameters, int) and self.parameters == 0):
            msg = f"{self.kind} holds no matrix: how its weights are stored in {self.dtypes.weight.name} is not known"
            raise TypeError(msg)
        return self.parameters * self.dtypes.weight.bytes

    @property
    def metadata_bytes(self) -> Expr:
        """Bytes beside the elements of the weights that one call reads at once: scales, zero points."""
        return 0

    @classmethod
    def dimensions(cls) -> tuple[str, ...]:
        """Names of the fields that are dimensions."""
        if cls not in _DIMENSIONS:
            _DIMENSIONS[cls] = tuple(field.name for field in fields(cls) if field.type in ("Expr", "Expr | None"))
        return _DIMENSIONS[cls]

    def dims(self) -> dict[str, Expr]:
        """The dimensions by name; an absent one (no window) is left out."""
        return {name: value for name in self.dimensions() if (value := getattr(self, name)) is not None}


_DIMENSIONS: dict[type[Operator], tuple[str, ...]] = {}
"""Of each class, as they were collected for its first operator."""
