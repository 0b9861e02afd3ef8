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

    FLOP and bytes are those of one call on one device. Lengths, widths and counts are in elements, tokens or heads, as their
    names say; bytes follow from `dtypes`, two per element by default.
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
        """FLOP, bytes and messages of one call on one device, as a `Cost` whose entries have the shape of the dimensions.

        Raises:
            NotImplementedError: the class does not define it.
        """
        raise NotImplementedError  # abstract: dataclasses with slots do not mix with ABCMeta's class cells

    def factored(self) -> tuple[Operator, Expr]:
        """An operator and a factor n: n times its cost and its time at the bound are those of this operator.

        An operator whose cost is proportional to a dimension, such as the batch, returns itself with 1 for that dimension, so
        that a grid over both is computed for the other dimension alone. Default: the operator itself and 1.
        """
        return self, 1

    @property
    def activation_bytes(self) -> Expr:
        """Bytes of activations that one call reads and writes; overridden where they are cheaper to compute than the cost."""
        return self.cost().activation_bytes

    @property
    def measured_as(self) -> str:
        """The op in measured records that is the same kernel, such as "gemm"; empty if none was measured."""
        return self.record_op

    def crossing(self, together: int) -> Expr:
        """The share of the link bytes that leave a node, from 0 to 1.

        Args:
            together: neighbouring devices that one node holds.
        """
        return 1

    def peers(self, together: int) -> int:
        """The number of devices, itself included, among which one device's messages go over the link inside a node.

        Args:
            together: neighbouring devices that the link joins.
        """
        return together

    @property
    def least_link_share(self) -> Expr:
        """The share of the link bytes that has to be sent whatever algorithm is used, from 0 to 1."""
        return 1

    def least_crossing(self, together: int) -> Expr:
        """The share of those bytes that leaves a node whatever algorithm is used, from 0 to 1.

        Args:
            together: neighbouring devices that one node holds.
        """
        return self.crossing(together)

    @property
    def on_one_device(self) -> Operator:
        """The operator that runs on one device as much work as this one does per device; its measured time is used for both.

        The operator itself, unless devices divide the queries or keys of one attention (context parallelism).
        """
        return self

    def borrowing(self) -> Operator:
        """The operator with weights that another one holds: read here, held there. Itself, if it has no weights.

        Raises:
            TypeError: it has weights, and its class does not know how to borrow them.
        """
        if isinstance(self.parameters, int) and self.parameters == 0:
            return self
        msg = f"{self.kind} cannot borrow its weights from another operator"
        raise TypeError(msg)

    @property
    def parameters(self) -> Expr:
        """Parameters that the operator holds on this device, in elements. Borrowed weights are read, not held."""
        return 0

    @property
    def held_bytes(self) -> Expr:
        """Bytes of the weights that the operator holds on this device, as they are stored.

        Raises:
            TypeError: the weight format has scales, but the operator has no matrix to which they could belong.
        """
        if self.dtypes.weight.metadata and not (isinstance(self.parameters, int) and self.parameters == 0):
            msg = f"{self.kind} holds no matrix: how its weights are stored in {self.dtypes.weight.name} is not known"
            raise TypeError(msg)
        return self.parameters * self.dtypes.weight.bytes

    @property
    def metadata_bytes(self) -> Expr:
        """Bytes of scales and zero points that one call reads in addition to the elements of the weights."""
        return 0

    @classmethod
    def dimensions(cls) -> tuple[str, ...]:
        """Names of the fields that are dimensions (annotated `Expr`), in the order of the class."""
        if cls not in _DIMENSIONS:
            _DIMENSIONS[cls] = tuple(field.name for field in fields(cls) if field.type in ("Expr", "Expr | None"))
        return _DIMENSIONS[cls]

    def dims(self) -> dict[str, Expr]:
        """The dimensions and their values by name; those that are None (no window) are left out."""
        return {name: value for name in self.dimensions() if (value := getattr(self, name)) is not None}


_DIMENSIONS: dict[type[Operator], tuple[str, ...]] = {}
"""Of each class, as they were collected for its first operator."""
