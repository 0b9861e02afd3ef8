"""Qwen1.5-MoE and Qwen2-57B-A14B: fine-grained experts beside one gated shared expert."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families import family, transformers
from roofline.specs.huggingface.kinds import DENSE, FULL, SLIDING, dense_block, names, sparse_by_step
from roofline.specs.huggingface.parts import experts_of, gqa, heads, layers_of, moe, stream
from roofline.specs.huggingface.windows import from_windows, switched_windows


@family("qwen2_moe", architectures=("Qwen2MoeForCausalLM",), source=transformers("qwen2_moe"))
def qwen2_moe(config: Config) -> Draft:
    """Switched on, the window is that of every second layer below `max_window_layers`."""
    n_q, n_kv, head_dim = heads(config)
    # NB: a key of later versions of the class; without it there are biases.
    biased, count = config.flag("qkv_bias", default=True), layers_of(config)

    def slides(index: int) -> str:
        return FULL if index % 2 or index >= config.whole("max_window_layers", low=0) else SLIDING

    found, blocks = switched_windows(config, count, slides), sparse_by_step(config, count)
    experts, top_k = experts_of(config, ("num_experts",))
    sparse = moe(
        experts,
        top_k,
        config.whole("moe_intermediate_size"),
        shared_intermediate_size=config.whole("shared_expert_intermediate_size"),
        shared_gate=True,
    )
    dense = dense_block(config, blocks)
    layers = [
        Layer(
            name,
            gqa(n_q, n_kv, head_dim, qkv_bias=biased, sliding_window=window),
            dense if block == DENSE else sparse,
        )
        for name, window, block in zip(names(from_windows(found), blocks), found, blocks, strict=True)
    ]
    return Draft(layers, stream(config))
