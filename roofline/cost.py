"""What an operator costs: FLOP by the unit that does them, bytes by what they hold."""

from __future__ import annotations

from dataclasses import dataclass, fields

from roofline.numeric import Expr, plus


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Work and compulsory traffic of one operator, or of a sum of them, on one device.

    Each field is a Python number, a NumPy array or a SymPy expression. Costs add up, and multiply by a number of repeats.

    >>> 2 * Cost(matrix_flops=6) + Cost(weight_bytes=4)
    Cost(matrix_flops=12, weight_bytes=4)
    """

    matrix_flops: Expr = 0
    """FLOP of matrix products (an FMA is 2), done by the tensor cores or what the accelerator has in their place."""
    vector_flops: Expr = 0
    """FLOP of everything else: norms, softmax, rotations, activations."""
    weight_bytes: Expr = 0
    """Bytes of parameters read from device memory."""
    activation_bytes: Expr = 0
    """Bytes of activations read and written."""
    kv_read_bytes: Expr = 0
    """Bytes of the KV cache read."""
    kv_write_bytes: Expr = 0
    """Bytes of the KV cache written."""
    state_read_bytes: Expr = 0
    """Bytes of recurrent state read."""
    state_write_bytes: Expr = 0
    """Bytes of recurrent state written."""
    link_bytes: Expr = 0
    """Bytes that each device sends over its link to others."""
    messages: Expr = 0
    """Steps of communication that follow one another, each with a latency of its own."""

    def __add__(self, other: Cost) -> Cost:
        return Cost(**{name: getattr(self, name) + getattr(other, name) for name in FIELDS})

    def __mul__(self, times: Expr) -> Cost:
        return Cost(**{name: getattr(self, name) * times for name in FIELDS})

    __rmul__ = __mul__

    @property
    def flops(self) -> Expr:
        """Return matrix and vector FLOP together."""
        return plus(self.matrix_flops, self.vector_flops)

    @property
    def bytes(self) -> Expr:
        """Return all bytes that cross the bus of device memory. Link bytes are not among them."""
        cache = plus(self.kv_write_bytes, self.kv_read_bytes)
        state = plus(self.state_read_bytes, self.state_write_bytes)
        return plus(plus(plus(self.weight_bytes, self.activation_bytes), state), cache)

    @property
    def arithmetic_intensity(self) -> Expr:
        """Return FLOP per byte of device memory traffic.

        Raises:
            ZeroDivisionError: the operator moves no bytes (plain numbers).
        """
        return self.flops / self.bytes

    def __repr__(self) -> str:
        values = ((name, getattr(self, name)) for name in FIELDS)
        listed = ", ".join(f"{name}={value}" for name, value in values if not (isinstance(value, (int, float)) and value == 0))
        return f"Cost({listed})"


FIELDS = tuple(field.name for field in fields(Cost))
ZERO = Cost()
