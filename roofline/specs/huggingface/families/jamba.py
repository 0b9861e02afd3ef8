"""Jamba: Mamba-1 with norms inside, attention in one of several layers, experts in every second one."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.sections import experts_of, gated_mlp, gqa, heads, layers_of, mamba, model_keys, moe


@family("jamba", architectures=("JambaForCausalLM",), source=transformers("jamba"))
def jamba(config: Config) -> Draft:
    """Reads `jamba` configs: attention has no positions; one expert, or none, is a dense block of the same width."""
    config.off("sliding_window")
    config.only("mamba_inner_layernorms", True, "the class has norms of Delta, B and C")
    config.harmless("n_ctx", "calc_logits_for_entire_prompt", "use_mambapy", "use_associative_scan")
    count, width = layers_of(config), config.whole("intermediate_size")
    attention, sparse = _every(config, "attn_layer", count), _every(config, "expert_layer", count)
    blocks = {"dense": gated_mlp(width)}
    if config.whole("num_experts", "num_local_experts") > 1:
        experts, chosen = experts_of(config, ("num_experts", "num_local_experts"))
        blocks["moe"] = moe(experts, chosen, width)
    else:
        config.harmless("num_experts_per_tok")
        sparse = [False] * count
    n_q, n_kv, head_dim = heads(config)
    mixers = {"attention": gqa(n_q, n_kv, head_dim, rotary_dim=0), "mamba": _mamba(config)}
    layers = []
    for index in range(count):
        mixer, block = "attention" if attention[index] else "mamba", "moe" if sparse[index] else "dense"
        layers.append(Layer(f"{mixer}_{block}" if len(blocks) > 1 else mixer, mixers[mixer], blocks[block]))
    return Draft(layers, model_keys(config))


def _mamba(config: Config) -> dict[str, object]:
    return mamba(
        config,
        config.whole("mamba_expand") * config.whole("hidden_size"),
        state="mamba_d_state",
        rank="mamba_dt_rank",
        kernel="mamba_d_conv",
        conv_bias="mamba_conv_bias",
        bias="mamba_proj_bias",
        ssm_norms=True,
    )


def _every(config: Config, name: str, count: int) -> list[bool]:
    """Layers `offset`, `offset + period`, ..."""
    period, offset = config.whole(f"{name}_period"), config.whole(f"{name}_offset", low=0)
    if offset >= period:
        config.refuse(f"{name}_offset", f"{offset} must be less than {name}_period ({period})")
    return [index % period == offset for index in range(count)]
