"""Bytes of operators by hand, paths of modules, bounds, and what is refused."""

from __future__ import annotations

import gzip
import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from small_llama import SMALL, KVCache, SmallLlama, model_file
from torch.nn import functional

import roofline
from roofline.errors import InputError, MissingExtraError, RooflineError, UnknownNameError
from roofline.torch import CountResult


def of(function: Any, *inputs: Any, **options: Any) -> CountResult:
    return roofline.torch.count(function, inputs, **options)


def moved(function: Any, *inputs: Any) -> tuple[float, float]:
    """Bytes of weights, and of everything else."""
    cost = of(function, *inputs).cost
    return cost.weight_bytes, cost.activation_bytes


def zeros(*shape: int, dtype: Any = torch.float32) -> Any:
    return torch.zeros(shape, dtype=dtype)


def test_linear() -> None:
    """Activations [8, 16] @ w [16, 32] + b [32], in bf16: each read once, the output [8, 32] written once."""
    layer = torch.nn.Linear(16, 32, dtype=torch.bfloat16)
    (operator,) = of(layer, zeros(8, 16, dtype=torch.bfloat16)).operators
    assert operator.operator == "aten.addmm"
    assert operator.dtype == "bf16"
    assert operator.cost.weight_bytes == 2 * (16 * 32 + 32)
    assert operator.cost.activation_bytes == 2 * (8 * 16 + 8 * 32)
    assert operator.cost.matrix_flops == 2 * 8 * 16 * 32
    assert operator.arithmetic_intensity == operator.cost.matrix_flops / (2 * (16 * 32 + 32 + 8 * 16 + 8 * 32))


@pytest.mark.parametrize(
    ("function", "inputs", "elements"),
    [
        (torch.add, [(8, 16), (8, 16)], 3 * 8 * 16),
        (torch.add, [(8, 16), (16,)], 2 * 8 * 16 + 16),  # a broadcast input has its own size
        (lambda x, y: x + y.expand(8, 16), [(8, 16), (16,)], 2 * 8 * 16 + 16),
        (lambda x: x * x, [(8, 16)], 2 * 8 * 16),  # the same tensor twice is read once
        (lambda x: x + x.T, [(8, 8)], 2 * 8 * 8),  # and under another view
        (lambda x: x + 1, [(8, 16)], 2 * 8 * 16),
        (functional.relu_, [(8, 16)], 2 * 8 * 16),  # read, and written in place
        (lambda x: x.zero_(), [(8, 16)], 8 * 16),  # written alone
        (lambda x, y: x.copy_(y), [(8, 16), (16,)], 8 * 16 + 16),
        (lambda x, y: torch.add(x, 1, out=y), [(8, 16), (8, 16)], 2 * 8 * 16),
        (lambda x, y: torch.cat([x, y]), [(8, 16), (4, 16)], 2 * 12 * 16),
        (lambda x: x.view(4, 32).transpose(0, 1)[3:5].unsqueeze(0), [(8, 16)], 0),  # views move nothing
        (lambda x: x.chunk(2, dim=-1), [(8, 16)], 0),
        (lambda x: x.T.contiguous(), [(8, 16)], 2 * 8 * 16),
        (lambda x: x.T.reshape(-1), [(8, 16)], 2 * 8 * 16),  # cannot be a view
        (lambda x: x.reshape(-1), [(8, 16)], 0),
        (lambda x: x[:, :4] * 2, [(8, 16)], 2 * 8 * 4),  # of a slice its own elements
        (torch.empty_like, [(8, 16)], 0),
        (torch.zeros_like, [(8, 16)], 8 * 16),
        (lambda x: x.softmax(-1), [(8, 16)], 2 * 8 * 16),
        (lambda x: functional.dropout(x, training=False), [(8, 16)], 0),
        (lambda x, w: functional.rms_norm(x, (16,), w), [(8, 16), (16,)], 2 * 8 * 16 + 16),  # one kernel, as on accelerators
        (lambda x, w: functional.layer_norm(x, (16,), w), [(8, 16), (16,)], 2 * 8 * 16 + 16 + 2 * 8),  # and means, deviations
        (lambda x: functional.interpolate(x, scale_factor=2), [(1, 2, 8, 8)], 2 * 8 * 8 + 2 * 16 * 16),
        (lambda x: x.sum(-1), [(8, 16)], 8 * 16 + 8),
    ],
)  # fmt: skip
def test_elements_moved(function: Any, inputs: list[tuple[int, ...]], elements: int) -> None:
    """In fp32, 4 bytes each."""
    assert moved(function, *(zeros(*shape) for shape in inputs)) == (0, 4 * elements)


def test_embedding_reads_rows() -> None:
    """3 of 100 rows of 8; more tokens than rows read at most the table; indices are int64, rows written are activations."""
    table = torch.nn.Embedding(100, 8)
    assert moved(table, zeros(3, dtype=torch.long)) == (4 * 3 * 8, 8 * 3 + 4 * 3 * 8)
    assert moved(table, zeros(500, dtype=torch.long)) == (4 * 100 * 8, 8 * 500 + 4 * 500 * 8)


def test_lookups_and_updates_of_rows() -> None:
    """Rows by index are read; rows that are written in place are all that is written."""
    rows = zeros(3, dtype=torch.long)
    assert moved(lambda x, at: x[at], zeros(100, 8), rows) == (0, 8 * 3 + 2 * 4 * 3 * 8)
    assert moved(lambda x, at: x.index_select(0, at), zeros(100, 8), rows) == (0, 8 * 3 + 2 * 4 * 3 * 8)

    def put(x: Any, at: Any, new: Any) -> None:
        x[at] = new

    assert moved(put, zeros(100, 8), rows, zeros(3, 8)) == (0, 8 * 3 + 2 * 4 * 3 * 8)
    assert moved(put, zeros(100, 8), rows, zeros(8)) == (0, 8 * 3 + 4 * 8 + 4 * 3 * 8)
    assert moved(lambda x, at, new: x.index_copy_(0, at, new), zeros(100, 8), rows, zeros(3, 8)) == (0, 24 + 2 * 4 * 24)
    # adding to rows reads them too
    assert moved(lambda x, at, new: x.index_add_(0, at, new), zeros(100, 8), rows, zeros(3, 8)) == (0, 24 + 3 * 4 * 24)


def test_cache_in_place() -> None:
    """One token into a cache of 128 positions writes one position; reading 21 positions reads 21."""
    cache = zeros(2, 128, 16)

    def step(cache: Any, new: Any) -> Any:
        cache[:, 20:21] = new
        return cache[:, :21] * 2

    assert moved(step, cache, zeros(2, 1, 16)) == (0, 4 * (2 * 2 * 16 + 2 * 2 * 21 * 16))


def test_sdpa_does_not_write_its_scores() -> None:
    """Queries, keys and values of two heads for eight, and the output; on a host as anywhere."""

    def attention(q: Any, k: Any, v: Any) -> Any:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    q, kv = zeros(1, 8, 64, 16), zeros(1, 2, 64, 16)
    (operator,) = of(attention, q, kv, kv.clone()).operators
    assert operator.operator == "aten.scaled_dot_product_attention"
    assert operator.cost.bytes == 4 * (2 * 8 * 64 * 16 + 2 * 2 * 64 * 16)
    with torch.device("meta"):
        meta = of(attention, zeros(1, 8, 64, 16), zeros(1, 2, 64, 16), zeros(1, 2, 64, 16))
    assert meta.operators[0].cost == operator.cost


class Cached(torch.nn.Module):
    """A weight, and two buffers: a table that it reads, and a cache that it writes."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(16))
        self.register_buffer("table", torch.zeros(16))
        self.register_buffer("cache", torch.zeros(4, 16))

    def forward(self, x: Any) -> Any:
        """Writes a row, reads all."""
        self.cache[0:1] = x
        return self.cache * self.weight + self.table


def test_weights_are_parameters_and_buffers_that_nothing_writes() -> None:
    """Parameter and table; the cache is state."""
    # copy_: x read, a row written; mul: cache read, product written; add: product read, sum written
    assert moved(Cached(), zeros(1, 16)) == (4 * 2 * 16, 4 * (2 * 16 + 2 * 64 + 2 * 64))


def test_views_of_weights_are_weights() -> None:
    """Tied and sliced ones too, of functions as of modules."""
    weight = torch.nn.Parameter(torch.zeros(32, 16))
    assert moved(lambda x: x @ weight[:8].T, zeros(4, 16)) == (4 * 8 * 16, 4 * (4 * 16 + 4 * 8))


def test_paths_and_repeats() -> None:
    """Operators lie in the innermost module; totals of modules have all that is inside."""
    cache = KVCache(SMALL, 2)
    result = of(SmallLlama(), zeros(2, 16, dtype=torch.long), cache)
    q = [op for op in result.operators if op.path == "layers.0.self_attn.q_proj"]
    assert [(op.operator, op.repeat) for op in q] == [("aten.mm", 1)]
    assert q[0].inputs[1].shape == (SMALL.hidden_size, SMALL.num_attention_heads * SMALL.head_dim)
    mlp = 3 * 2 * (2 * 16) * SMALL.hidden_size * SMALL.intermediate_size
    assert result.modules["layers.1.mlp"].matrix_flops == mlp
    assert result.modules[""] == result.cost
    layers = [result.modules[f"layers.{index}"].matrix_flops for index in range(2)]
    assert result.cost.matrix_flops == sum(layers) + result.modules["lm_head"].matrix_flops
    twice = of(lambda x: (x + 1, x + 1), zeros(4))
    assert [(op.path, op.operator, op.repeat) for op in twice.operators] == [("", "aten.add", 2)]
    assert result.modules["layers"].matrix_flops == sum(layers)


def test_modules_in_a_function() -> None:
    """Named by their classes."""
    layer = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    assert [op.path for op in of(lambda x: layer(x) + 1, zeros(2, 4)).operators] == ["Sequential.0", "Sequential.1", ""]
    assert [op.path for op in of(layer.forward, zeros(2, 4)).operators] == ["0", "1"]


def test_bounds() -> None:
    """Of each operator the longer of two times, of the whole their sum; the floor has nothing in between."""
    net = torch.nn.Sequential(torch.nn.Linear(8192, 8192, bias=False), torch.nn.ReLU()).to("meta").bfloat16()
    result = of(net, torch.zeros(4096, 8192, dtype=torch.bfloat16, device="meta"), hardware="h100-sxm")
    product, relu = result.operators
    card = roofline.load_hardware("h100-sxm")
    peak, bandwidth = card.peak("bf16"), card.bandwidth
    assert product.time.bound == 2 * 4096 * 8192 * 8192 / peak
    assert product.bound_by == "compute"
    assert relu.time.bound == 2 * 4096 * 8192 * 2 / bandwidth
    assert relu.bound_by == "memory"
    assert result.time.bound == product.time.bound + relu.time.bound
    assert result.bound_by == "compute"
    assert result.external_bytes == 2 * (8192 * 8192 + 2 * 4096 * 8192)
    assert result.time.floor == product.time.bound  # as the bytes of the whole take less
    moved = 2 * (8192 * 8192 + 4 * 4096 * 8192)
    assert result.time.sum == pytest.approx(product.time.bound + moved / bandwidth)
    assert of(net, torch.zeros(1, 8192, dtype=torch.bfloat16, device="meta"), hardware="h100-sxm").bound_by == "memory"


def test_the_floor_of_a_decode_step() -> None:
    """Of two sequences after 20 tokens: every weight once (the embedding is the LM head), 20 cached tokens and one written."""
    model, cache = SmallLlama(), KVCache(SMALL, 2)
    cache.length = 20
    result = of(model, zeros(2, 1, dtype=torch.long), cache, hardware="h100-sxm")
    weights = sum(parameter.numel() for parameter in model.parameters())
    position = SMALL.num_hidden_layers * 2 * 2 * SMALL.num_key_value_heads * SMALL.head_dim  # keys and values of both sequences
    elements = weights + (20 + 1) * position + 2 * SMALL.vocab_size
    assert result.external_bytes == 4 * elements + 8 * 2
    assert result.time.floor == result.external_bytes / roofline.load_hardware("h100-sxm").bandwidth


def test_the_dtype_of_products_has_its_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    """fp32 at its own, or in tf32 where PyTorch may; fp64, which no file has, at the fp32 vector peak; fp8 not on an A100."""
    x = {name: zeros(64, 64, dtype=dtype) for name, dtype in {"fp32": torch.float32, "fp64": torch.float64}.items()}
    card = roofline.load_hardware("a100-sxm-80gb")

    def peaks(name: str) -> dict[str, float]:
        result = of(torch.mm, x[name], x[name].clone(), hardware="a100-sxm-80gb")
        assert result.hardware is not None
        return result.hardware["peak_flops"]

    assert peaks("fp32") == {"fp32": card.peak("fp32")}
    assert peaks("fp64") == {"float64": card.vector_peak}
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "high")
    assert peaks("fp32") == {"fp32": card.peak("tf32")}
    fp8 = torch.zeros(64, 64, dtype=torch.float8_e4m3fn, device="meta")
    scale = torch.ones(1, device="meta")

    def scaled(a: Any, b: Any) -> Any:
        return torch._scaled_mm(a, b.t(), scale, scale, out_dtype=torch.bfloat16)

    assert of(scaled, fp8, fp8.clone(), hardware="h100-sxm").operators[-1].dtype == "fp8"
    with pytest.raises(InputError, match="no peak for products in fp8"):
        of(scaled, fp8, fp8.clone(), hardware="a100-sxm-80gb")


def test_products_that_the_counter_of_pytorch_leaves_out() -> None:
    """int8, matrix with vector, and one matrix for each group of rows."""
    a, b = zeros(32, 16, dtype=torch.int8), zeros(16, 24, dtype=torch.int8)
    assert of(torch._int_mm, a, b).cost.matrix_flops == 2 * 32 * 16 * 24
    assert of(torch._int_mm, a, b).operators[0].dtype == "int8"
    assert of(torch.mv, zeros(8, 16), zeros(16)).cost.matrix_flops == 2 * 8 * 16
    assert of(torch.dot, zeros(16), zeros(16)).cost.matrix_flops == 2 * 16


def test_recurrent_and_compiled_layers_are_seen_into() -> None:
    """An LSTM is its products, of 10 tokens by 4 gates of 32 in both layers; a compiled module is counted as eager code."""
    lstm = torch.nn.LSTM(16, 32, num_layers=2, batch_first=True)
    result = of(lstm, zeros(2, 5, 16))
    assert result.not_counted == ()
    assert result.cost.matrix_flops == 2 * 10 * 4 * 32 * ((16 + 32) + (32 + 32))
    layer = torch.nn.Linear(4, 4)
    assert of(torch.compile(layer, backend="eager"), zeros(2, 4)) == of(layer, zeros(2, 4))


def test_constants_and_numbers_in_python() -> None:
    """Tensors that code writes out have values; what a buffer says outside of products decides as in any call."""
    length = torch.tensor(3)
    assert of(lambda x: x[: int(length)] + torch.tensor([2.0]), zeros(5)).cost.activation_bytes == 4 * (3 + 1 + 3)
    assert of(lambda x: x * torch.tensor(2.0).item(), zeros(5)).not_counted == ()


def test_what_has_no_formula_is_listed() -> None:
    """A solver has products that nothing counts: its bytes are there, its FLOP are said to be missing."""
    result = of(lambda a, b: torch.linalg.solve(a, b) + 1, zeros(8, 8), zeros(8, 2), hardware="h100-sxm")
    assert [op.operator for op in result.not_counted] == ["aten._linalg_solve_ex"]
    assert result.not_counted[0].cost.bytes > 0
    assert result.to_dict()["not_counted"] == {"aten._linalg_solve_ex": 1}
    assert "_linalg_solve_ex (1 call)" in str(result)


def test_a_formula_of_the_user() -> None:
    """`register_flop_formula` counts an operator of the user's."""
    from torch.utils.flop_counter import flop_registry, register_flop_formula

    with torch.library._scoped_library("rooflinetest", "FRAGMENT") as library:
        library.define("square(Tensor x) -> Tensor")
        library.impl("square", lambda x: x @ x, "CompositeExplicitAutograd")
        packet = torch.ops.rooflinetest.square
        assert [op.operator for op in of(packet, zeros(4, 4)).not_counted] == ["rooflinetest.square"]
        register_flop_formula(packet)(lambda shape, **_: 2 * shape[0] ** 3)
        try:
            result = of(packet, zeros(4, 4))
        finally:
            del flop_registry[packet]
    assert result.not_counted == ()
    assert result.cost.matrix_flops == 2 * 4**3


def test_keyword_arguments_and_state() -> None:
    """A mapping is of keyword arguments; the state of an object goes on as in any call."""
    layer = torch.nn.Linear(4, 4)
    assert roofline.torch.count(layer, {"input": zeros(2, 4)}).cost == roofline.torch.count(layer, zeros(2, 4)).cost
    cache = KVCache(SMALL, 1)
    of(SmallLlama(), zeros(1, 5, dtype=torch.long), cache)
    assert cache.length == 5


def test_data_is_neither_read_nor_changed() -> None:
    """Nothing is computed: buffers stay as they are, and a model of terabytes is counted."""
    norm = torch.nn.BatchNorm1d(4).train()
    assert [op.operator for op in of(norm, torch.full((8, 4), 3.0)).operators] == ["aten.add_", "aten.native_batch_norm"]
    assert norm.running_mean is not None
    assert norm.running_mean.eq(0).all()
    assert norm.num_batches_tracked == 0
    with torch.device("meta"):
        huge = torch.nn.Linear(2**20, 2**20, bias=False)
    assert of(huge, torch.zeros(1, 2**20, device="meta")).cost.weight_bytes == 4 * 2**40


def test_plain_data_frame_and_text() -> None:
    """The same numbers in each."""
    result = of(SmallLlama(), zeros(2, 16, dtype=torch.long), KVCache(SMALL, 2), hardware="h100-sxm")
    document = json.loads(result.to_json())
    assert document["flops"]["matrix"] == result.cost.matrix_flops == result.flops.matrix
    assert document["bytes"]["total"] == result.cost.bytes == result.bytes.total
    assert document["time_s"]["bound"] == result.time_s.bound
    assert len(document["operators"]) == len(result.operators)
    assert document["operators"][0]["time_s"]["bound"] == result.operators[0].time_s.bound
    assert document["modules"]["lm_head"]["flops"]["matrix"] == 2 * 32 * SMALL.hidden_size * SMALL.vocab_size
    frame = result.to_frame()
    assert frame["matrix_flops"].sum() == result.cost.matrix_flops
    assert frame["bytes"].sum() == result.cost.bytes
    assert math.isclose(frame["time_bound_s"].sum(), document["time_s"]["bound"])
    text = str(result)
    assert text.startswith("SmallLlama on NVIDIA H100")
    assert "layers.*.mlp.gate_proj" in text
    assert of(torch.relu, zeros(4)).to_dict()["time_s"] == {"floor": None, "bound": None, "sum": None}


class Branching(torch.nn.Module):
    """Decides by a value."""

    def forward(self, x: Any) -> Any:
        """One way or the other."""
        return x * 2 if x.sum().item() > 0 else x @ x


def test_data_dependent_control_flow() -> None:
    """Named, with the way out; with data it is counted as it runs."""
    net = torch.nn.Sequential(torch.nn.ReLU(), Branching())
    with pytest.raises(RooflineError, match=r"Sequential, in 1: aten\._local_scalar_dense.*fake=False"):
        of(net, zeros(4, 4))
    assert of(net, zeros(4, 4), fake=False).cost.matrix_flops == 2 * 4**3
    assert of(net, torch.ones(4, 4), fake=False).cost.matrix_flops == 0
    for placeholder in (zeros(), torch.zeros((), device="meta")):
        with pytest.raises(RooflineError, match=r"aten\._local_scalar_dense.*fake=False"):
            of(lambda x: (x + 1).item(), placeholder)
    with pytest.raises(RooflineError, match=r"aten\._local_scalar_dense.*fake=False"):
        of(lambda x: x.item(), torch.zeros((), device="meta"))
    with pytest.raises(RooflineError, match=r"aten\.nonzero"):
        of(lambda x: x[x > 0], zeros(4, 4))


def test_with_data_and_without_is_the_same() -> None:
    """Where nothing depends on data."""
    model, tokens = SmallLlama(), zeros(2, 16, dtype=torch.long)
    fake, real = (of(model, tokens, KVCache(SMALL, 2), fake=fake) for fake in (True, False))
    assert fake.operators == real.operators
    assert fake.external_bytes == real.external_bytes


def test_modules_that_raise() -> None:
    """What was raised, and where: the operator, or the module."""
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(9, 4))
    with pytest.raises(RooflineError, match=r"Sequential, in 1: .* at aten\.addmm"):
        of(net, zeros(2, 4))

    class Refusing(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            raise ValueError("no such mode")

    with pytest.raises(RooflineError, match=r"^Sequential, in 0: ValueError: no such mode$") as raised:
        of(torch.nn.Sequential(Refusing()), zeros(2, 4))
    assert isinstance(raised.value.__cause__, ValueError)
    with pytest.raises(UnknownNameError):
        of(torch.relu, zeros(4), hardware="h1000")
    assert of(torch.relu, zeros(4)).cost.bytes == 32  # nothing of the failures is left behind


def test_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to install."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"roofline\[torch\]"):
        roofline.torch.count(len, ())
    with pytest.raises(MissingExtraError, match=r"roofline\[torch\]"):
        roofline.torch.profile()


class Reader:
    """Instead of `roofline profile`: keeps what it was called with, and the names in the trace."""

    def __init__(self) -> None:
        self.called: dict[str, Any] = {}
        self.path = Path()

    def profile(self, path: Path, **options: Any) -> list[str]:
        """Names of operators with shapes."""
        self.path, self.called = path, options
        text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        events = json.loads(text)["traceEvents"]
        return [event["name"] for event in events if "Input Dims" in event.get("args", {})]


@pytest.mark.parametrize("kept", [False, True])
def test_profile_reads_the_trace_of_its_block(kept: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With shapes; the file is deleted once it is read, or kept under the path given."""
    reader, path = Reader(), tmp_path / "run.json"
    monkeypatch.setitem(sys.modules, "roofline.measure.profile.profile", reader)
    kwargs: dict[str, Any] = {"trace": path} if kept else {}
    with roofline.torch.profile(model="llama-3.1-8b", hardware="h100-sxm", option=3, **kwargs) as p:
        zeros(4, 5) @ zeros(5, 6)
        with pytest.raises(InputError, match="has not ended"):
            _ = p.result
    assert "aten::mm" in p.result
    assert reader.called == {"model": "llama-3.1-8b", "hardware": "h100-sxm", "option": 3}
    assert reader.path.exists() == kept == path.exists()


def test_a_block_that_raises_has_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exception is the block's own."""
    monkeypatch.setitem(sys.modules, "roofline.measure.profile.profile", Reader())
    with pytest.raises(ZeroDivisionError), roofline.torch.profile() as p:
        _ = 1 / 0
    with pytest.raises(InputError, match="raised"):
        _ = p.result


def test_profile_gives_what_the_command_gives(tmp_path: Path) -> None:
    """The result has the products of the block, 7 in each of two layers and the LM head, and the same figures as the file."""
    from roofline.measure.profile.profile import profile

    model = SmallLlama().eval()
    options = {"model": str(model_file(tmp_path)), "hardware": "h100-sxm", "dtype": "fp32"}
    with torch.no_grad(), roofline.torch.profile(**options, trace=tmp_path / "run.json.gz") as p:
        model(zeros(2, 16, dtype=torch.long), KVCache(SMALL, 2))
    kernels = p.result.trace.kernels
    names = [kernels.operators[index].name for index in kernels.operator]
    assert names.count("aten::mm") == 2 * 7 + 1
    assert p.result.to_dict() == profile(tmp_path / "run.json.gz", **options).to_dict()
