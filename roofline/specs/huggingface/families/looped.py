"""Models that run their layers several times: HRM-Text, IQuest Coder (loop) and Dory.

A pass is read as layers of its own, with a cache of its own; their weights are those of the first pass, held once.
"""

from __future__ import annotations

from dataclasses import replace

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers, vllm
from roofline.specs.huggingface.sections import explicit_kv_heads, gated_mlp, gqa, heads, layers_of, model_keys


def _pass(layers: list[Layer], name: str, enter: str, *, norm: bool, again: bool) -> list[Layer]:
    """One run through a stack of layers.

    Args:
        layers: of the stack.
        name: put before those of layers.
        enter: `loop_input` of the first layer.
        norm: whether a norm stands behind the last layer.
        again: whether an earlier run holds the weights.
    """
    run = []
    for index, layer in enumerate(layers):
        rest: Section = {"shared_weights": True} if again else {}
        if index == 0 and enter != "none":
            rest["loop_input"] = enter
        if index == len(layers) - 1 and norm:
            rest["loop_norm"] = True
        words = [name, *(["again"] if again else []), layer.name]
        run.append(replace(layer, name="_".join(word for word in words if word), rest={**layer.rest, **rest}))
    return run


@family("hrm_text", architectures=("HrmTextForCausalLM",), source=transformers("hrm_text"))
def hrm_text(config: Config) -> Draft:
    """Reads `hrm_text` configs: two stacks, of which the lower is run `L_cycles` times for each of the `H_cycles` of the other.

    Each run adds the other stack's stream to its own and ends with a norm. Norms have no weight. With `prefix_lm` every token
    of a prompt sees all of it.
    """
    high, low = config.whole("H_cycles"), config.whole("L_cycles")
    count, each = layers_of(config), config.whole("num_layers_per_stack", default=None)
    if each is not None and count != each * high * (low + 1):
        config.refuse("num_hidden_layers", f"{count} is not {each} layers in {high} times {low} + 1 runs")
    config.harmless("L_bp_cycles", "embedding_scale")
    n_q = config.whole("num_attention_heads")
    config.only("num_key_value_heads", n_q, "the class has as many as query heads")
    biased, mlp_bias = config.flag("attention_bias", default=False), config.flag("mlp_bias", default=False)
    prefix = config.flag("prefix_lm", default=True, why="the default of the class")
    mixer = gqa(n_q, n_q, config.whole("head_dim"), qkv_bias=biased, o_bias=biased, output_gate="elementwise")
    if prefix:
        mixer["causal"] = False
    stack = [Layer("layer", mixer, gated_mlp(config.whole("intermediate_size"), bias=mlp_bias))] * (each or count)
    layers: list[Layer] = []
    for cycle in range(high):
        for run in range(low):
            layers += _pass(stack, "low", "add", norm=True, again=cycle + run > 0)
        layers += _pass(stack, "high", "add", norm=True, again=cycle > 0)
    keys = model_keys(config, norm={"function": "rmsnorm", "weight": False}, final_norm=False, initial_state=True)
    return Draft(layers, keys)


@family(
    "iquestloopcoder",
    types=("iquest_loopcoder",),
    architectures=("IQuestLoopCoderForCausalLM",),
    source=vllm("iquest_loopcoder"),
)
def iquest_loopcoder(config: Config) -> Draft:
    """Reads `iquestloopcoder` configs: Llama's layers, run `loop_num` times.

    From the second run on a layer attends to its cache of the first run, and to a window of this run's.
    """
    config.off("attention_bias", "mlp_bias", "qkv_bias", "use_sliding_window", "sliding_window", "dual_chunk_attention_config")
    runs, window = config.whole("loop_num", low=2), config.whole("loop_window_size")
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config))
    config.only("head_dim", config.whole("hidden_size") // n_q, "the class has heads that divide hidden_size")
    config.divides(("num_attention_heads", n_q), ("hidden_size", config.whole("hidden_size")))
    block = gated_mlp(config.whole("intermediate_size"))
    mixer = gqa(n_q, n_kv, head_dim)
    count = layers_of(config)
    layers = [Layer("first", mixer, block)] * count
    for run in range(1, runs):
        shared = {"gate_shared": True} if run > 1 else {}
        looped = {**mixer, "kind": "loop_attention", "sliding_window": window, **shared}
        layers += [Layer("again", looped, block, {"shared_weights": True})] * count
    return Draft(layers, model_keys(config))
