"""The operators of a vision tower on one device: what it computes for the images of some prompts, before their prefill."""

from __future__ import annotations

from roofline.blocks.vision import VisionTower
from roofline.dtypes import Dtypes, parse_dtype
from roofline.graph.build import Graph
from roofline.numeric import Expr, ceil_div
from roofline.operators.activation import Activation
from roofline.operators.attention import Attention
from roofline.operators.base import Operator
from roofline.operators.collectives import AllReduce
from roofline.operators.gemm import Gemm
from roofline.operators.norm import Norm


def encoder_graph(tower: VisionTower, images: Expr, dtype: str | Dtypes, tensor_parallel_size: int = 1) -> Graph:
    """The operators of a vision tower for some images, with the number of layers that run them, by path.

    Attention is over all rows of an image, without a mask; its keys and values stand under `kv_read`, though nothing caches
    them. Adding to the stream is part of the norm that follows, as in the language model. NB: positions, pooling and the
    rearrangement of patches are not counted.

    Args:
        tower: its sizes.
        images: number of images.
        dtype: of weights and activations: towers are not quantised. Or their formats.
        tensor_parallel_size: devices that divide heads, the inner width and the products around the layers
            (vLLM, `--mm-encoder-tp-mode weights`).

    Source: Dosovitskiy et al. 2020, arXiv:2010.11929, section 3.1; LLaVA's projector: Liu et al. 2023, arXiv:2310.03744.
    """
    tp = tensor_parallel_size
    if isinstance(dtype, Dtypes):
        dtypes = dtype
    else:
        number = parse_dtype(dtype)
        dtypes = Dtypes(weight=number, activation=number, kv=number)
    width, inner = tower.hidden_size, ceil_div(tower.intermediate_size, tp)
    heads, head_dim = ceil_div(tower.num_attention_heads, tp), tower.hidden_size // tower.num_attention_heads
    rows = images * tower.rows
    norm = Norm(rows=rows, width=width, function="layernorm", bias=True, dtypes=dtypes)
    summed: dict[str, Operator] = {}
    if tp > 1:
        summed = {"all_reduce": AllReduce(elements=rows * width, world=tp, dtypes=dtypes)}
    attention = Attention(
        batch=images, new=tower.rows, cached=0, n_heads=heads, n_kv_heads=heads, head_dim=head_dim, mask="full", dtypes=dtypes
    )
    layer: dict[str, Operator] = {
        "attention/norm": norm,
        "attention/qkv_proj": Gemm(m=rows, n=3 * heads * head_dim, k=width, bias=True, dtypes=dtypes),
        "attention/core": attention,
        "attention/o_proj": Gemm(m=rows, n=width, k=heads * head_dim, bias=True, dtypes=dtypes),
        **{f"attention/{name}": op for name, op in summed.items()},
        "mlp/norm": norm,
        "mlp/up_proj": Gemm(m=rows, n=inner, k=width, bias=True, dtypes=dtypes),
        "mlp/activation": Activation(rows=rows, width=inner, gated=False, dtypes=dtypes),
        "mlp/down_proj": Gemm(m=rows, n=width, k=inner, bias=True, dtypes=dtypes),
        **{f"mlp/{name}": op for name, op in summed.items()},
    }
    around: dict[str, Operator] = {
        product.name: Gemm(m=images * product.rows, n=ceil_div(product.outputs, tp), k=product.inputs, dtypes=dtypes)
        for product in tower.products
    }
    return {
        **{f"vision/{path}": (op, 1) for path, op in around.items()},
        **{f"vision/layers/{path}": (op, tower.num_hidden_layers) for path, op in layer.items()},
    }
