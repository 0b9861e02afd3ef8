"""Models that run their layers several times: HRM-Text, IQuest Coder (loop) and Dory.

A pass is read as layers of its own, with a cache of its own; their weights are those of the first pass, held once.
"""

from __future__ import annotations

from dataclasses import replace

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers, vllm
from roofline.specs.huggingface.layer_types import FULL, SLIDING
from roofline.specs.huggingface.sections import explicit_kv_heads, gated_mlp, gqa, heads, layers_of, model_keys, rotary_of


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


_MLP = "mlp"


@family("dory", architectures=("DoryForCausalLM",), source=vllm("dory"))
def dory(config: Config) -> Draft:
    """Reads `dory` configs: layers of one block each, some of which are run `n_recurrent_loops` times, each with its cache.

    Norms have no weight. Learned vectors scale queries, gates, the two halves of the feed-forward block, the step from the
    stream to a block's output, and logits. vLLM 0.33 runs it on one device alone.
    """
    config.off("attention_bias", "mlp_bias", "tie_word_embeddings")
    count, kinds = layers_of(config), _kinds_of_blocks(config)
    first, last = config.whole("n_input_layers", default=0, low=0), config.whole("n_output_layers", default=0, low=0)
    middle = config.whole("n_recurrent_layers", default=max(count - first - last, 1))
    if first + middle + last != count:
        parts = f"{first} (n_input_layers) + {middle} + {last} (n_output_layers)"
        config.refuse("n_recurrent_layers", f"{parts} are not the {count} layers of num_hidden_layers")
    runs = config.whole("n_recurrent_loops", default=1, why="the default of the class")
    mode = config.choice("recurrent_kv_cache_mode", of=("per_loop", "last_loop"), default="per_loop", why="the class' default")
    if runs > 1 and mode == "last_loop":
        config.refuse("recurrent_kv_cache_mode", "last_loop: a cache that each run overwrites is not modeled")
    config.harmless("ngpt_alpha_init", "attention_output_gate_logit_scale_init")
    n_q, n_kv, head_dim = heads(config, head_dim=config.whole("head_dim"))
    config.harmless("sliding_window")
    blocks = [_block(config, kind, n_q, n_kv, head_dim) for kind in kinds]
    layers = blocks[:first]
    for run in range(runs):
        layers += _pass(blocks[first : first + middle], "", "norm", norm=True, again=run > 0)
    layers += blocks[first + middle :]
    keys = model_keys(config, tie=False, norm={"function": "rmsnorm", "weight": False}, final_norm=False, lm_head_scale=True)
    return Draft(layers, keys)


def _kinds_of_blocks(config: Config) -> list[str]:
    """What each layer is: a word of `layer_types`, or for a config without them the rule of the class."""
    count = layers_of(config)
    listed = config.words("layer_types", count, (FULL, SLIDING, _MLP), default=None)
    if listed is not None:
        return list(listed)
    config.note("layer_types", "mlp every second layer, full attention every eighth", "the rule of the class")
    return [_MLP if index % 2 else FULL if index % 8 == 6 else SLIDING for index in range(count)]


def _block(config: Config, kind: str, n_q: int, n_kv: int, head_dim: int) -> Layer:
    """A layer of Dory: attention, or a feed-forward block."""
    rest = {"norms": "interpolated"}
    if kind == _MLP:
        inner = gated_mlp(config.whole("intermediate_size"), inner_norm=True, inner_scales=True)
        return Layer("mlp", mlp={**inner, "inner_norm_weight": False}, rest=rest)
    window = config.whole("sliding_window") if kind == SLIDING else None
    mixer = gqa(
        n_q, n_kv, head_dim, **rotary_of(config, kind, head_dim), sliding_window=window, qk_norm="full",
        output_gate="elementwise", gate_scale=True, output_norm=True,
    )  # fmt: skip
    return Layer("sliding" if window else "full", {**mixer, "k_norm_weight": False, "output_norm_weight": False}, rest=rest)
