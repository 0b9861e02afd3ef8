"""OPT and Galactica: learned positions, biases, and in OPT-350m a narrower embedding and norms after the blocks."""

from __future__ import annotations

from roofline.specs.huggingface.config import REQUIRED, Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.sections import gqa, head_dim_from_hidden, layers_of, mlp, model_keys

# The table of positions has two rows that no position uses: fairseq counted from the padding token on.
_UNUSED = 2


@family("opt", architectures=("OPTForCausalLM",), source=transformers("opt"))
def opt(config: Config) -> Draft:
    """Reads `opt` configs: one switch for all biases, one for the parameters of the norms."""
    config.only("learned_embeddings", True, "OPT has a learned table of positions")
    config.off("scale_embeddings")
    n_q, hidden = config.whole("num_attention_heads"), config.whole("hidden_size")
    head_dim = head_dim_from_hidden(config, ("num_attention_heads", n_q), ("hidden_size", hidden))
    why = "the default of the class, where the key is absent"
    biased = config.flag("enable_bias", default=True, why=why)
    weighted = config.flag("layer_norm_elementwise_affine", default=True, why=why)
    # Either of OPT-350m's two peculiarities is taken as absent only where the other one is.
    projected = config.whole("word_embed_proj_dim", default=None)
    narrow = projected is not None and projected != hidden
    first = config.flag("do_layer_norm_before", default=REQUIRED if narrow else True, why=why)
    if projected is None and not first:
        projected = config.whole("word_embed_proj_dim")
    positions = config.whole("max_position_embeddings")
    # NB: a norm after the sum with the stream is one at the start of what follows; there is no last one then.
    layer = Layer(
        "decoder",
        gqa(n_q, n_q, head_dim, rotary_dim=0, qkv_bias=biased, o_bias=biased),
        mlp(config.whole("ffn_dim"), bias=biased),
    )
    keys = model_keys(
        config,
        tie=True,
        learned_positions=positions + _UNUSED,
        norm={"function": "layernorm", "weight": weighted, "bias": weighted},
        final_norm=first and not config.flag("_remove_final_layer_norm", default=False),
    )
    return Draft([layer] * layers_of(config), {**keys, **({"word_embed_proj_dim": projected} if narrow else {})})
