"""GPT-NeoX: GPT-NeoX-20B, Pythia, Dolly, RedPajama-INCITE, StableLM-Alpha."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families import family, transformers
from roofline.specs.huggingface.families.gpt2 import LAYERNORM
from roofline.specs.huggingface.parts import divided, gqa, layers_of, mlp, rotary, stream


@family("gpt_neox", architectures=("GPTNeoXForCausalLM",), source=transformers("gpt_neox"))
def gpt_neox(config: Config) -> Draft:
    """Multi-head attention with biases; both blocks side by side, each under a norm of its own, or one after the other."""
    n_q, hidden = config.whole("num_attention_heads"), config.whole("hidden_size")
    head_dim = divided(config, ("num_attention_heads", n_q), ("hidden_size", hidden))
    config.only("num_key_value_heads", n_q, "GPT-NeoX has as many KV heads as query heads")
    biased = config.flag("attention_bias", default=True, why="configs written before the key was made have biases")
    parallel = config.flag("use_parallel_residual", default=True, why="the default of the class, on which GPT-NeoX-20B relies")
    layer = Layer(
        "decoder",
        gqa(n_q, n_q, head_dim, **rotary(config, head_dim, 0.25, "rotary_pct"), qkv_bias=biased, o_bias=biased),
        mlp(config.whole("intermediate_size"), bias=True),
        {"parallel": True, "parallel_norms": 2} if parallel else {},
    )
    return Draft([layer] * layers_of(config), stream(config, norm=LAYERNORM))
