"""One call of a PyTorch module, operator by operator: each as PyTorch dispatches it, with its FLOP and the bytes it moves.

Under inference mode composite operators reach a dispatch mode whole. They are decomposed here, as PyTorch's own counter does
it, all but SDPA and RMSNorm, which are one kernel on accelerators whatever a host or the meta device makes of them.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from math import prod
from types import MethodType
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.flop_counter import flop_registry, sdpa_flop_count

from roofline.cost import Cost
from roofline.dtypes import parse_dtype
from roofline.errors import InputError, RooflineError, UnknownNameError
from roofline.torch.result import CountedOperator, Run, TensorSpec

Tensor = Any
Operator = Any

SDPA = "aten.scaled_dot_product_attention"


def run(module: Callable[..., Any], inputs: Any, *, fake: bool) -> Run:
    """Call a module once and count what it does.

    Args:
        module: a module, a method of one, or any function.
        inputs: a tensor, positional arguments, or keyword arguments.
        fake: without data; else for real.

    Raises:
        InputError: it raises, or decides by data that fake tensors do not have.
    """
    module = getattr(
        module, "_orig_mod", module
    )  # of a module that is compiled: its operators are counted as eager code has them
    owner = module.__self__ if isinstance(module, MethodType) else module
    named = type(owner).__name__ if isinstance(owner, torch.nn.Module) else getattr(module, "__name__", type(module).__name__)
    arguments: Sequence[Any] = ()
    keywords: Mapping[str, Any] = {}
    if isinstance(inputs, Mapping):
        keywords = inputs
    else:
        arguments = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    tensors = [leaf for leaf in tree_leaves((arguments, dict(keywords))) if isinstance(leaf, torch.Tensor)]
    counter = _Counter(owner if isinstance(owner, torch.nn.Module) else None, tensors, fake=fake)
    with ExitStack() as stack:
        # Fused layers of inference, of recurrent networks and of compiled code would hide their operators.
        for enabled, enable in (
            (torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled),
            (torch._C._get_mkldnn_enabled, torch._C._set_mkldnn_enabled),  # noqa: SLF001 - the public form warns
            (torch._C._get_cudnn_enabled, torch._C._set_cudnn_enabled),  # noqa: SLF001
        ):
            stack.callback(enable, enabled())
            enable(False)
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message="Using `torch.compile")  # of hooks, which compiled modules inside call twice
        log = logging.getLogger("torch._subclasses.fake_tensor")  # what fails is raised too
        stack.callback(setattr, log, "disabled", log.disabled)
        log.disabled = True
        stack.enter_context(torch.inference_mode())
        stack.enter_context(counter.tracked())
        try:
            with counter:
                # NB: as arguments, tensors with data stay what they are until an operator takes them
                output = module(*arguments, **keywords)
        except RooflineError:
            raise
        except Exception as error:
            raise InputError(counter.reason(named, error)) from error
    return counter.finished(named, output)


@dataclass(slots=True)
class _Entry:
    """Calls of one operator with one kind of inputs in one module."""

    inputs: tuple[TensorSpec, ...]
    dtype: str | None
    counted: bool
    repeat: int = 0
    flops: int = 0
    other_bytes: int = 0
    weight_bytes: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """By storage."""


@dataclass(frozen=True, slots=True)
class _Access:
    """What one operator reads or writes of a tensor: its storage, the range of bytes it lies in, and bytes."""

    storage: int
    start: int
    end: int
    bytes: int


class _Counter(TorchDispatchMode):  # type: ignore[misc] # PyTorch is partly typed
    """Sees every operator, turns tensors into fake ones where they are to be, and counts."""

    supports_higher_order_operators = True

    def __init__(self, module: Any, tensors: Sequence[Tensor], *, fake: bool) -> None:
        super().__init__()
        self.fake = FakeTensorMode(allow_non_fake_inputs=True) if fake else None
        self.entries: dict[tuple[str, str, tuple[TensorSpec, ...]], _Entry] = {}
        self._refused: tuple[BaseException, str] | None = None
        """The last exception that an operator raised, and its name."""
        self.paths: list[str] = []
        """Of the modules that are being called, the innermost last."""
        self._names: dict[int, str] = {}
        self._modules: list[Any] = []
        """Kept alive, for they are known by their addresses."""
        self._weights: set[int] = set()
        self._produced: set[int] = set()
        """Storages that operators made: what is in neither came from outside."""
        self._reads: set[_Access] = set()
        self._writes: set[_Access] = set()
        """Of storages from outside."""
        self._copies: dict[int, tuple[Tensor, Tensor]] = {}
        self._storages: dict[int, tuple[Any, Any]] = {}
        self._failure: tuple[BaseException, str] | None = None
        """The last exception, and the module that it left first."""
        if module is not None:
            self._adopt(module, "")
        devices = [tensor.device for tensor in (*(module.parameters() if module is not None else ()), *tensors)]
        self._device = next((device for device in devices if device.type != "meta"), torch.device("cpu"))

    # Modules: where an operator was called.

    @contextmanager
    def tracked(self) -> Iterator[None]:
        """Hooks on all modules, which say what is being called."""
        before = register_module_forward_pre_hook(self._enter)
        after = register_module_forward_hook(self._leave, always_call=True)
        try:
            yield
        finally:
            before.remove()
            after.remove()

    def _adopt(self, module: Any, name: str) -> None:
        """Take a module and all inside it: their paths, and which tensors are weights."""
        for path, inner in module.named_modules():
            self._names.setdefault(id(inner), f"{name}.{path}".strip("."))
            self._modules.append(inner)
            self._weights |= {_storage(tensor) for tensor in chain(inner.parameters(False), inner.buffers(False))}

    def _enter(self, module: Any, _: Any) -> None:
        if id(module) not in self._names:
            self._adopt(module, type(module).__name__)
        self.paths.append(self._names[id(module)])

    def _leave(self, _: Any, __: Any, ___: Any) -> None:
        error = sys.exception()  # this hook runs also when the module raises
        if error is not None and (self._failure is None or self._failure[0] is not error):
            self._failure = error, self.paths[-1]
        self.paths.pop()

    # Operators.

    def __torch_dispatch__(
        self, function: Operator, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call one operator, and count it unless others that it consists of are."""
        kwargs = kwargs or {}
        if any(is_traceable_wrapper_subclass(leaf) for leaf in tree_leaves((args, kwargs))):
            return NotImplemented  # it says itself of which operators it is made
        if not isinstance(function, torch._ops.OpOverload):  # noqa: SLF001 - as PyTorch's counter does
            return self._call(function, args, kwargs, name=function.name())
        name = str(function.overloadpacket)
        if name in _QUESTIONS:
            return NotImplemented
        if function.namespace == "prim":
            return function(*args, **kwargs)
        if _formula(function.overloadpacket, name) is None and name not in _WHOLE:
            with self:
                result = _decomposed(function, args, kwargs)
            if result is not NotImplemented:
                return result
        return self._call(function, args, kwargs, name=name)

    def _call(self, function: Operator, args: Any, kwargs: Any, *, name: str) -> Any:
        if self.fake is not None:
            if name in _WITH_DATA and not any(_is_fake(tensor) or tensor.is_meta for tensor in _tensors(args)):
                return function(*args, **kwargs)  # a number that Python code keeps in a tensor
            if (device := kwargs.get("device")) is not None and torch.device(device).type == "meta":
                kwargs = {**kwargs, "device": self._device}  # beside tensors on the meta device, which pass for some of this
            if name not in _LIFTS:
                args, kwargs = tree_map_only(torch.Tensor, self._copy, (args, kwargs))
        try:
            with self.fake or nullcontext():
                result = function(*args, **kwargs)
        except Exception as error:
            self._refused = error, name
            raise
        taken = {_storage(tensor) for tensor in _tensors((args, kwargs))}
        self._produced |= {_storage(tensor) for tensor in _tensors(result)} - taken
        if not isinstance(function, torch._ops.OpOverload):  # noqa: SLF001
            # A higher-order operator is one kernel that reads its tensors and writes its results.
            formula, plain = flop_registry.get(function), False
            reads, writes = _accesses(_tensors((args, kwargs))), _accesses(_tensors(result))
        else:
            formula = _formula(function.overloadpacket, name)
            plain = formula is None and _without_products(function, name)
            reads, writes = _traffic(function, name, args, kwargs, result)
            if not reads and not writes:
                return result  # a view, or memory without contents
        flops = 0 if formula is None else int(formula(*args, **kwargs, out_val=result))
        self._add(name, (args, kwargs), flops, reads, writes, counted=plain or formula is not None)
        return result

    def _copy(self, tensor: Tensor) -> Tensor:
        """The fake tensor that stands for one with data, or on the meta device; views share the storage that they shared."""
        if _is_fake(tensor):
            return tensor
        if id(tensor) in self._copies:
            return self._copies[id(tensor)][1]
        with torch.inference_mode(False):  # as the tensor was made, whose views know what was written
            copy = self._stand_in(tensor)
        if isinstance(tensor, torch.nn.Parameter) or _storage(tensor) in self._weights:
            self._weights.add(_storage(copy))
        self._copies[id(tensor)] = tensor, copy
        return copy

    def _stand_in(self, tensor: Tensor) -> Tensor:
        if tensor.layout != torch.strided or tensor.is_quantized:
            return self.fake.from_tensor(tensor, static_shapes=True)  # type: ignore[union-attr]
        storage, key = tensor.untyped_storage(), _storage(tensor)
        if key not in self._storages:
            empty = torch.empty(storage.nbytes(), dtype=torch.uint8, device="meta").untyped_storage()
            self._storages[key] = storage, empty
            self._produced.discard(empty._cdata)  # noqa: SLF001 - of one that is no more, at the same address
        shaped = torch.empty(0, dtype=tensor.dtype, device="meta")
        shaped.set_(self._storages[key][1], tensor.storage_offset(), tensor.shape, tensor.stride())
        return FakeTensor(self.fake, shaped, self._device if tensor.device.type == "meta" else tensor.device)

    # Counting.

    def _add(
        self, name: str, taken: Any, flops: int, reads: Iterable[_Access], writes: Iterable[_Access], *, counted: bool
    ) -> None:
        inputs = tuple(TensorSpec(tuple(tensor.shape), _dtype(tensor)) for tensor in _tensors(taken))
        path = self.paths[-1] if self.paths else ""
        entry = self.entries.get((path, name, inputs))
        if entry is None:
            dtype = _product_dtype(name, _tensors(taken)) if flops else None
            entry = self.entries[path, name, inputs] = _Entry(inputs, dtype, counted)
        entry.repeat += 1
        entry.flops += flops
        for access in reads:
            if access.storage in self._weights:
                entry.weight_bytes[access.storage] += access.bytes
            else:
                entry.other_bytes += access.bytes
        entry.other_bytes += sum(access.bytes for access in writes)
        self._reads |= {access for access in reads if access.storage not in self._produced}
        self._writes |= {access for access in writes if access.storage not in self._produced}

    def finished(self, named: str, output: Any) -> Run:
        """The run, once the module has returned."""
        # A buffer that the run writes, such as a KV cache, is state and no weight.
        weights = self._weights - {access.storage for access in self._writes}
        operators = []
        for (path, name, inputs), entry in self.entries.items():
            of_weights = sum(size for storage, size in entry.weight_bytes.items() if storage in weights)
            others = entry.other_bytes + sum(entry.weight_bytes.values()) - of_weights
            cost = Cost(matrix_flops=entry.flops, weight_bytes=of_weights, activation_bytes=others)
            operators.append(
                CountedOperator(
                    path=path, operator=name, inputs=inputs, dtype=entry.dtype, repeat=entry.repeat, cost=cost,
                    counted=entry.counted,
                )
            )  # fmt: skip
        made = [tensor for tensor in _tensors(output) if _storage(tensor) in self._produced]
        external = _union(self._reads, self._writes) + _union(self._writes) + sum(a.bytes for a in _accesses(made))
        tf32 = torch.get_float32_matmul_precision() != "highest"
        return Run(module=named, operators=tuple(operators), external_bytes=external, tf32=tf32)

    def reason(self, named: str, error: Exception) -> str:
        """Why a call failed, and where."""
        path = self._failure[1] if self._failure is not None and self._failure[0] is error else ""
        where = f"{named}, in {path}" if path and path != named else named
        if isinstance(error, (DataDependentOutputException, DynamicOutputShapeException)):
            return (
                f"{where}: {error.func} depends on the values of a tensor, and tensors without data have none. "
                "To count with data: count(..., fake=False)"
            )
        if isinstance(error, UnsupportedOperatorException):
            return f"{where}: {error.func} does not say the shape of its result (it has no fake implementation)"
        at = f" at {self._refused[1]}" if self._refused is not None and self._refused[0] is error else ""
        return f"{where}: {type(error).__name__}{at}: {str(error).strip().partition(chr(10))[0]}"


def _decomposed(function: Operator, args: Any, kwargs: Any) -> Any:
    """What an operator returns that is composite in eager code, from the operators that it calls; NotImplemented of others."""
    key = torch._C.DispatchKey.CompositeImplicitAutograd  # noqa: SLF001 - as OpOverload.decompose does it
    if not torch._C._dispatch_has_kernel_for_dispatch_key(function.name(), key):  # noqa: SLF001
        return NotImplemented
    if "dropout" in function.name() or "upsample" in function.name():
        # NB: their forms for compilers do what eager code does not: a copy in inference, an index for each pixel
        return function._op_dk(key, *args, **kwargs)  # noqa: SLF001
    return function.decompose(*args, **kwargs)


def _storage(tensor: Tensor) -> int:
    """A number that tensors have in common which share memory."""
    number: int = tensor.untyped_storage()._cdata  # noqa: SLF001 - what PyTorch's own tools know storages by
    return number


def _is_fake(tensor: Tensor) -> bool:
    return isinstance(tensor, FakeTensor)


def _tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _dtype(tensor: Tensor) -> str:
    name = str(tensor.dtype).removeprefix("torch.")
    try:
        return parse_dtype(name).name
    except UnknownNameError:
        return name


# FLOP.


def _sdpa(query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> int:
    """Both products of attention, whole under any mask; keys and values of a group are multiplied with each of its heads."""
    (queries, width), (keys, values) = query.shape[-2:], value.shape[-2:]
    heads = max(prod(tensor.shape[:-2]) for tensor in (query, key, value))
    return int(sdpa_flop_count((heads, 1, queries, width), (heads, 1, keys, width), (heads, 1, keys, values)))


def _grouped(left: Tensor, right: Tensor, *_: Any, **__: Any) -> int:
    """Each row with the matrix of its group; groups of equal size where both have a dimension of them."""
    groups = left.shape[0] if left.dim() == right.dim() == 3 else 1
    return int(2 * groups * prod(left.shape[-2:]) * right.shape[-1])


def _matrix_vector(*tensors: Any, out_val: Any, **_: Any) -> int:
    return int(2 * max(tensor.numel() for tensor in _tensors(tensors)))


def _product(left: Tensor, right: Tensor, *_: Any, **__: Any) -> int:
    return int(2 * prod(left.shape) * right.shape[-1])


_PRODUCTS: dict[str, Callable[..., int]] = {
    SDPA: _sdpa,
    "aten._scaled_dot_product_flash_attention_for_cpu": _sdpa,
    "aten._scaled_dot_product_fused_attention_overrideable": _sdpa,
    "aten._grouped_mm": _grouped,
    "aten._scaled_grouped_mm": _grouped,
    "aten._int_mm": _product,
    "aten.mv": _matrix_vector,
    "aten.addmv": _matrix_vector,
    "aten.dot": _matrix_vector,
    "aten.vdot": _matrix_vector,
}
"""Products that PyTorch's counter (2.13) has no formula of. One that it has wins."""


def _formula(packet: Operator, name: str) -> Callable[..., int] | None:
    formula: Callable[..., int] | None = flop_registry.get(packet) or _PRODUCTS.get(name)
    return formula


def _product_dtype(name: str, tensors: Sequence[Tensor]) -> str:
    """The dtype that is multiplied: of queries, else the narrowest of the matrices, as scales and biases are wider."""
    matrices = [tensor for tensor in tensors if tensor.dim() >= 2 and tensor.dtype not in (torch.bool, torch.int64)]
    first = matrices if "attention" not in name else matrices[:1]
    return _dtype(min(first or tensors, key=lambda tensor: tensor.itemsize))


# Bytes.


def _accesses(tensors: Iterable[Tensor], at_most: int | None = None) -> list[_Access]:
    """Tensors in memory, each once: of an expanded one the part that there is."""
    accesses: dict[_Access, None] = {}
    for tensor in tensors:
        dimensions = [(size, step) for size, step in zip(tensor.shape, tensor.stride(), strict=True) if step]
        size = min(prod(size for size, _ in dimensions) * tensor.itemsize, tensor.untyped_storage().nbytes())
        start = tensor.storage_offset() * tensor.itemsize
        end = start + (sum((size - 1) * step for size, step in dimensions) + 1) * tensor.itemsize
        if size and tensor.numel():
            accesses[_Access(_storage(tensor), start, end, size if at_most is None else min(size, at_most))] = None
    return list(accesses)


def _traffic(
    function: Operator, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any
) -> tuple[list[_Access], list[_Access]]:
    """What a kernel reads and writes; nothing of a view."""
    base = name.removeprefix("aten.")
    schema = function._schema.arguments  # noqa: SLF001 - public in all but its name
    values = {argument.name: (argument, value) for argument, value in zip(schema, args, strict=False)}
    values |= {argument.name: (argument, kwargs[argument.name]) for argument in schema if argument.name in kwargs}
    taken = {_storage(tensor) for tensor in _tensors((args, kwargs))}
    made = [tensor for tensor in _tensors(result) if _storage(tensor) not in taken]
    changed = [
        tensor
        for argument, value in values.values()
        if argument.alias_info is not None and argument.alias_info.is_write
        for tensor in _tensors(value)
    ]
    if name in _LIFTS or base in _ALLOCATIONS or torch.Tag.inplace_view in function.tags or not (made or changed):
        return [], []
    rows = _rows_read(base, {key: value for key, (_, value) in values.items()}, made)
    touched = _touched(base, {key: value for key, (_, value) in values.items()})
    reads: list[_Access] = []
    for key, (argument, value) in values.items():
        writes = argument.alias_info is not None and argument.alias_info.is_write
        adds = base in _ADDS or values.get("accumulate", (None, False))[1]
        if writes and (argument.is_out or base in _OVERWRITES or (base in _SCATTERS and not adds)):
            continue
        if key == "self" and (base.endswith("_like") or base.startswith("new_")):
            continue
        limit = rows if key == _GATHERS.get(base) else touched if writes else None
        reads += _accesses(_tensors(value), limit)
    written = [access for tensor in changed for access in _accesses([tensor], touched)]
    return list(dict.fromkeys(reads)), list(dict.fromkeys([*written, *_accesses(made)]))


def _rows_read(base: str, values: Mapping[str, Any], made: Sequence[Tensor]) -> int | None:
    """Bytes of a table of which rows are looked up."""
    if base not in _GATHERS or not made:
        return None
    table = values[_GATHERS[base]]
    if base == "_embedding_bag":
        return int(values["indices"].numel() * prod(table.shape[1:]) * table.itemsize)
    return int(made[0].numel() * table.itemsize)


def _touched(base: str, values: Mapping[str, Any]) -> int | None:
    """Bytes of a tensor of which an operator in place changes some elements; None: all."""
    if base not in _SCATTERS:
        return None
    target = values["self"]
    if "indices" in values:
        given = [index for index in values["indices"] if index is not None]
        if any(index.dtype in (torch.bool, torch.uint8) for index in given):
            return None
        rest = [size for size, index in zip_longest(target.shape, values["indices"]) if index is None]
        count = prod(torch.broadcast_shapes(*(index.shape for index in given))) * prod(rest)
    elif base == "index_fill_":
        count = target.numel() // max(target.shape[values["dim"]], 1) * values["index"].numel()
    else:
        count = values["source" if "source" in values else "index"].numel()
    return int(count * target.itemsize)


def _union(accesses: Iterable[_Access], without: Iterable[_Access] = ()) -> int:
    """Bytes that have to be moved once whatever is accessed again; of ranges that overlap as much as the largest has.

    Args:
        accesses: any.
        without: what was written before it was read, so that it need not be.
    """
    by_storage: dict[int, list[_Access]] = defaultdict(list)
    for access in accesses:
        by_storage[access.storage].append(access)
    own: dict[int, list[_Access]] = defaultdict(list)
    for access in without:
        own[access.storage].append(access)
    total = 0
    for storage, listed in by_storage.items():
        listed.sort(key=lambda access: (access.start, access.end))
        clusters: list[tuple[int, int, int]] = []
        for access in listed:
            if clusters and access.start < clusters[-1][1]:
                start, end, size = clusters[-1]
                clusters[-1] = start, max(end, access.end), max(size, access.bytes)
            else:
                clusters.append((access.start, access.end, access.bytes))
        for start, end, size in clusters:
            inside = sum(write.bytes for write in own[storage] if write.start < end and write.end > start)
            total += max(size - inside, 0)
    return total


_QUESTIONS = frozenset(
    f"aten.{name}"
    for name in (
        "sym_is_contiguous", "is_contiguous", "is_strides_like_format", "is_non_overlapping_and_dense", "size", "sym_size",
        "stride", "sym_stride", "storage_offset", "sym_storage_offset", "numel", "sym_numel", "dim",
    )
)  # fmt: skip
"""Of which PyTorch's counter says that they are no operators."""
_WHOLE = frozenset({"aten.rms_norm"})
"""Composite operators that are one kernel on accelerators, as SDPA is."""
_LIFTS = frozenset({"aten.lift_fresh", "aten.lift_fresh_copy", "aten.lift"})
"""Tensors that Python code writes out: fake ones remember their values."""
_WITH_DATA = frozenset({"aten._local_scalar_dense", "aten.item", "aten.is_nonzero", "aten.equal"})
_ALLOCATIONS = frozenset(
    {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_", "set_"}
)
"""Memory without contents."""
_OVERWRITES = frozenset(
    """
    copy_ fill_ zero_ normal_ uniform_ random_ bernoulli_ exponential_ geometric_ log_normal_ cauchy_
    """.split()  # noqa: SIM905 - a list to read
)
"""In place, and do not read what was there."""
_GATHERS = {
    "embedding": "weight", "_embedding_bag": "weight", "index": "self", "index_select": "self", "gather": "self",
    "take": "self",
}  # fmt: skip
"""Read of this argument what is looked up."""
_SCATTERS = frozenset(
    "index_put_ _index_put_impl_ index_copy_ index_add_ index_fill_ scatter_ scatter_add_ scatter_reduce_".split()  # noqa: SIM905
)
"""Change some elements in place."""
_ADDS = frozenset({"index_add_", "scatter_add_", "scatter_reduce_"})
"""And read them."""
_PLAIN = frozenset(
    """
    floor_divide rms_norm sum mean prod amax amin max min argmax argmin any all norm linalg_vector_norm std var std_mean
    var_mean logsumexp cumsum cumprod cummax cummin logcumsumexp median nanmedian mode nansum count_nonzero topk sort kthvalue
    bincount histc searchsorted bucketize unique_dim _unique2 unique_consecutive nonzero nonzero_static isin equal aminmax
    _softmax _log_softmax _safe_softmax native_layer_norm native_group_norm native_batch_norm _native_batch_norm_legit
    _native_batch_norm_legit_no_training _batch_norm_with_update cudnn_batch_norm batch_norm_elemt batch_norm_stats
    _fused_rms_norm native_dropout _fused_dropout glu prelu _prelu_kernel rrelu_with_noise log_sigmoid_forward
    max_pool2d_with_indices max_pool3d_with_indices avg_pool2d avg_pool3d adaptive_max_pool2d adaptive_max_pool3d
    _adaptive_avg_pool2d _adaptive_avg_pool3d fractional_max_pool2d upsample_nearest1d upsample_nearest2d upsample_nearest3d
    _upsample_nearest_exact1d _upsample_nearest_exact2d upsample_linear1d upsample_bilinear2d upsample_bicubic2d
    upsample_trilinear3d _upsample_bilinear2d_aa _upsample_bicubic2d_aa grid_sampler_2d grid_sampler_3d im2col col2im
    pixel_shuffle pixel_unshuffle channel_shuffle embedding _embedding_bag index index_select gather take index_put
    _index_put_impl index_copy index_add index_fill scatter scatter_add scatter_reduce masked_fill masked_scatter
    masked_select where cat stack repeat repeat_interleave clone copy _to_copy fill zero flip roll tril triu constant_pad_nd
    reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d slice_scatter
    select_scatter diagonal_scatter as_strided_scatter complex polar view_as_real_copy one_hot nll_loss_forward
    nll_loss2d_forward mse_loss binary_cross_entropy smooth_l1_loss huber_loss multinomial _local_scalar_dense scalar_tensor
    zeros_like ones_like full_like new_zeros new_ones new_full arange linspace eye tril_indices triu_indices isnan isinf
    _pack_padded_sequence _assert_async _assert_scalar
    """.split()  # noqa: SIM905 - a list to read
)
"""Data movement, reductions, norms and pooling: no products, under these names or in place."""


def _without_products(function: Operator, name: str) -> bool:
    """Whether an operator is known to have no product: element by element, by its tag or name, or made from no tensor."""
    if function.namespace != "aten":
        return False
    tags = {getattr(torch.Tag, tag, None) for tag in ("pointwise", "reduction", "nondeterministic_seeded", "view_copy")}
    takes = any("Tensor" in str(argument.type) for argument in function._schema.arguments)  # noqa: SLF001
    base = name.removeprefix("aten.")
    return not takes or bool(tags & set(function.tags)) or base.removesuffix("_") in _PLAIN or base.startswith("_foreach_")
