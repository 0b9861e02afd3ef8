"""What the keys of a GGUF file are called in a config.json: one entry for each `general.architecture`.

A file's own keys stand behind the name of its architecture (`llama.block_count`). Whether there are biases, and whether the LM
head is the embedding, is in no key: the tensors say it.

Source: https://github.com/ggml-org/llama.cpp, gguf-py/gguf/constants.py and src/llama-model.cpp
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from roofline.errors import UnknownNameError
from roofline.specs.gguf.header import Entries, Gguf
from roofline.specs.huggingface.config import MAX_LAYERS, MAX_WHOLE

_NOTHING = object()
# Keys that change no count: how positions are rotated, scales, norms' epsilons, what a router makes of its scores.
_HARMLESS = re.compile(
    r"rope\..*|attention\.(layer_norm_(rms_)?epsilon|group_norm_epsilon|scale|output_scale|causal|clamp_kqv|temperature_\w+"
    r"|layer_norm_rms_epsilon)|(attn_|final_|router_)logit_softcapping|attn_logit_softcapping|logit_scale|residual_scale"
    r"|embedding_scale|expert_(weights_scale|weights_norm|gating_func|group_count|group_used_count|group_scale)"
    r"|pooling_type|tensor_data_layout|vocab_size|swiglu_clamp_\w+|n_deepstack_layers|interleave_moe_layer_step|ssm\.dt_b_c_rms"
)


@dataclass
class Metadata:
    """The keys of a file behind the name of its architecture, handed out by name; `left` are those that were not."""

    file: Gguf
    architecture: str
    requested: set[str] = field(default_factory=set)

    def raw(self, name: str, default: Any = None) -> Any:
        """The value of a key, whatever its type; `default` where it is absent."""
        self.requested.add(name)
        return self.file.keys.get(f"{self.architecture}.{name}", default)

    def whole(self, name: str, default: Any = _NOTHING, low: int = 0) -> Any:
        """The value of an integer key, or of a list that has one integer for all layers.

        Raises:
            SpecError: the key is missing without a `default`, is no such integer, or layers differ.
        """
        value = self.raw(name)
        if value is None:
            if default is _NOTHING:
                raise self.file.error(f"key {self.architecture}.{name} is missing")
            return default
        if isinstance(value, list) and value and all(one == value[0] for one in value):
            value = value[0]
        if isinstance(value, list):
            self.refuse(name, f"differs from layer to layer ({value!s:.60}), which is not read for {self.architecture}")
        return self._checked(name, value, low)

    def wholes(self, name: str, count: int, low: int = 0) -> list[int]:
        """The value of a key for each of `count` layers, which may be one for all of them.

        Raises:
            SpecError: the key is missing, or is neither an integer nor a list of as many.
        """
        value = self.raw(name)
        if value is None:
            raise self.file.error(f"key {self.architecture}.{name} is missing")
        listed = value if isinstance(value, list) else [value] * count
        if len(listed) < count:
            self.refuse(name, f"must have one entry for each of {count} layers; it has {len(listed)}")
        return [self._checked(name, one, low) for one in listed[:count]]

    def flag(self, name: str, default: bool = False) -> bool:
        """The value of a boolean key.

        Raises:
            SpecError: it is neither true nor false.
        """
        value = self.raw(name, default)
        if not isinstance(value, bool):
            self.refuse(name, f"must be true or false, not {value!r:.60}")
        return value

    def has_tensor(self, name: str) -> bool:
        """Whether some layer has a tensor, such as `attn_q.bias`, or the file one of that name outside the layers."""
        pattern = re.compile(rf"(blk\.\d+\.)?{re.escape(name)}")
        return any(pattern.fullmatch(tensor) for tensor in self.file.tensors)

    def refuse(self, name: str, message: str) -> NoReturn:
        """Refuse the file because of a key.

        Raises:
            SpecError: always, with the name of the key.
        """
        raise self.file.error(f"{self.architecture}.{name}: {message}")

    def done(self) -> None:
        """Refuse keys of the architecture that were not read and may change counts.

        Raises:
            SpecError: there is one; the message has its name.
        """
        prefix = f"{self.architecture}."
        for name, value in self.file.keys.items():
            own = name.removeprefix(prefix)
            if own == name or own in self.requested or _HARMLESS.fullmatch(own) or value in (0, False, ""):
                continue
            text = f"{value.count} entries" if isinstance(value, Entries) else f"{value!r:.60}"
            raise self.file.error(f"key {name} ({text}) is not understood, and it may change counts")

    def _checked(self, name: str, value: Any, low: int) -> int:
        high = MAX_LAYERS if name == "block_count" else MAX_WHOLE
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.refuse(name, f"must be a whole number from {low} to {high:,}, not {value!r:.60}")
        return value


Config = dict[str, Any]
Reader = Callable[[Metadata], Config]


def _base(keys: Metadata, *, biases: bool = True) -> Config:
    """What every architecture has: widths, layers, vocabulary; heads where all layers have as many."""
    file = keys.file
    table = file.tensors.get("token_embd.weight")
    if table is None or len(table.shape) != 2:
        raise file.error("has no tensor token_embd.weight, or it is no matrix: what is read is a language model")
    config = {
        "hidden_size": keys.whole("embedding_length", low=1),
        "num_hidden_layers": keys.whole("block_count", low=1) - keys.whole("nextn_predict_layers", 0),
        "max_position_embeddings": keys.whole("context_length", low=1),
        "vocab_size": table.shape[0],
        "tie_word_embeddings": "output.weight" not in file.tensors,
        "torch_dtype": "float32",
    }
    if biases:
        config["attention_bias"] = keys.has_tensor("attn_q.bias") or keys.has_tensor("attn_qkv.bias")
    return config


def _heads(keys: Metadata, config: Config) -> Config:
    """Query and KV heads and their width; values have that of keys."""
    n_q = keys.whole("attention.head_count", low=1)
    n_kv = keys.whole("attention.head_count_kv", n_q, low=1)
    width = keys.whole("attention.key_length", None, low=1) or config["hidden_size"] // n_q
    if keys.whole("attention.value_length", width) != width:
        keys.refuse(
            "attention.value_length", f"values of another width than keys ({width}) are not read for {keys.architecture}"
        )
    return {"num_attention_heads": n_q, "num_key_value_heads": n_kv, "head_dim": width}


def _dense(keys: Metadata) -> Config:
    """Layers with attention and one feed-forward block each."""
    config = _base(keys)
    return {**config, **_heads(keys, config), "intermediate_size": keys.whole("feed_forward_length", low=1)}


def _experts(keys: Metadata, count: str = "num_experts", chosen: str = "num_experts_per_tok") -> Config:
    return {count: keys.whole("expert_count", low=1), chosen: keys.whole("expert_used_count", low=1)}


def _llama(keys: Metadata) -> Config:
    config = _dense(keys)
    if not keys.whole("expert_count", 0):
        keys.whole("expert_used_count", 0)
        return {"model_type": "llama", **config, "mlp_bias": keys.has_tensor("ffn_gate.bias")}
    return {"model_type": "mixtral", **config, **_experts(keys, "num_local_experts"), "sliding_window": None}


def _of(model_type: str, *without: str, **more: Any) -> Reader:
    """A reader of dense layers: the keys of a family, without some and with others."""

    def read(keys: Metadata) -> Config:
        config = {"model_type": model_type, **_dense(keys), **more}
        return {name: value for name, value in config.items() if name not in without}

    return read


_QWEN_WINDOW = {"use_sliding_window": False}


def _qwen2moe(keys: Metadata) -> Config:
    config = {
        "model_type": "qwen2_moe",
        **_dense(keys),
        **_experts(keys),
        **_QWEN_WINDOW,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    }
    config["qkv_bias"] = config.pop("attention_bias")
    config["moe_intermediate_size"] = keys.whole("expert_feed_forward_length", low=1)
    config["shared_expert_intermediate_size"] = keys.whole("expert_shared_feed_forward_length", low=1)
    return config


def _qwen3moe(model_type: str, **more: Any) -> Reader:
    def read(keys: Metadata) -> Config:
        width = {"moe_intermediate_size": keys.whole("expert_feed_forward_length", low=1)}
        return {
            "model_type": model_type,
            **_dense(keys),
            **_experts(keys),
            **width,
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
            **more,
        }

    return read


def _gemma(model_type: str, every: int | None) -> Reader:
    """Gemma, whose layers have a window but for each of `every`; None: none has."""

    def read(keys: Metadata) -> Config:
        config = {"model_type": model_type, **_dense(keys)}
        if every is not None:
            config["sliding_window"] = keys.whole("attention.sliding_window", low=1)
            config["layer_types"] = _windowed(config["num_hidden_layers"], every)
        return config

    return read


def _exaone4(keys: Metadata) -> Config:
    config = {"model_type": "exaone4", **_dense(keys)}
    del config["attention_bias"]
    width = keys.whole("attention.sliding_window", 0) or None
    every = 4 if width else 1
    return {**config, "sliding_window": width, "layer_types": _windowed(config["num_hidden_layers"], every)}


def _windowed(count: int, every: int) -> list[str]:
    """Kinds of attention of layers that have a window but for the last of each `every`."""
    return ["full_attention" if (index + 1) % every == 0 else "sliding_attention" for index in range(count)]


def _phi3(keys: Metadata) -> Config:
    config = _dense(keys)
    keys.whole("attention.sliding_window", 0)  # NB: llama.cpp lets these layers see every token
    turned = keys.whole("rope.dimension_count", config["head_dim"], low=1)
    share = {} if turned == config["head_dim"] else {"partial_rotary_factor": turned / config["head_dim"]}
    return {"model_type": "phi3", **config, **share, "sliding_window": None}


def _starcoder2(keys: Metadata) -> Config:
    config = _dense(keys)
    biased = config.pop("attention_bias")
    return {"model_type": "starcoder2", **config, "use_bias": biased, "sliding_window": None}


def _falcon(keys: Metadata) -> Config:
    config = _base(keys, biases=False)
    n_q, n_kv = keys.whole("attention.head_count", low=1), keys.whole("attention.head_count_kv", low=1)
    two = keys.has_tensor("attn_norm_2.weight")
    width = {"ffn_hidden_size": keys.whole("feed_forward_length", low=1)}
    more = (
        {"new_decoder_architecture": True, "num_kv_heads": n_kv}
        if two
        else {"new_decoder_architecture": False, "multi_query": n_kv == 1}
    )
    return {
        "model_type": "falcon", **config, **width, "num_attention_heads": n_q, **more, "parallel_attn": True, "alibi": False,
        "bias": keys.has_tensor("attn_qkv.bias"),
    }  # fmt: skip


def _command_r(keys: Metadata) -> Config:
    return {"model_type": "cohere", **_dense(keys), "use_qk_norm": keys.has_tensor("attn_q_norm.weight")}


def _cohere2(keys: Metadata) -> Config:
    return {"model_type": "cohere2", **_dense(keys), "sliding_window": keys.whole("attention.sliding_window", low=1)}


def _granite(keys: Metadata) -> Config:
    config = {**_dense(keys), "mlp_bias": False}
    if not keys.whole("expert_count", 0):
        return {"model_type": "granite", **config}
    del config["mlp_bias"]
    config = {"model_type": "granitemoe", **config, **_experts(keys, "num_local_experts")}
    if shared := keys.whole("expert_shared_feed_forward_length", 0):
        config = {**config, "model_type": "granitemoeshared", "shared_intermediate_size": shared}
    return config


def _granitehybrid(keys: Metadata) -> Config:
    config = _base(keys)
    count = config["num_hidden_layers"]
    n_kv = keys.wholes("attention.head_count_kv", count)
    inner, heads = keys.whole("ssm.inner_size", low=1), keys.whole("ssm.time_step_rank", low=1)
    n_q = keys.whole("attention.head_count", low=1)
    sparse = keys.whole("expert_count", 0)
    dense = keys.whole("feed_forward_length", 0)
    return {
        "model_type": "granitemoehybrid", **config, "num_attention_heads": n_q, "num_key_value_heads": max(n_kv),
        "layer_types": ["attention" if heads else "mamba" for heads in n_kv],
        "intermediate_size": dense or 1,
        "shared_intermediate_size": keys.whole("expert_shared_feed_forward_length", 0) or dense,
        "num_local_experts": sparse, "num_experts_per_tok": keys.whole("expert_used_count", 0),
        "mamba_expand": inner // config["hidden_size"], "mamba_n_heads": heads, "mamba_d_head": inner // heads,
        "mamba_n_groups": keys.whole("ssm.group_count", low=1), "mamba_d_state": keys.whole("ssm.state_size", low=1),
        "mamba_d_conv": keys.whole("ssm.conv_kernel", low=1), "mamba_conv_bias": keys.has_tensor("ssm_conv1d.bias"),
        "mamba_chunk_size": 256, "mamba_proj_bias": False,
    }  # fmt: skip


def _gpt_oss(keys: Metadata) -> Config:
    config = {"model_type": "gpt_oss", **_base(keys)}
    config |= {**_heads(keys, config), **_experts(keys, "num_local_experts")}
    keys.whole("feed_forward_length", 0)
    return {
        **config,
        "intermediate_size": keys.whole("expert_feed_forward_length", low=1),
        "sliding_window": keys.whole("attention.sliding_window", low=1),
    }


def _glm4(keys: Metadata) -> Config:
    config = _dense(keys)
    turned = keys.whole("rope.dimension_count", config["head_dim"] // 2, low=1)
    return {"model_type": "glm4", **config, "partial_rotary_factor": turned / config["head_dim"]}


def _glm4moe(keys: Metadata) -> Config:
    config = _dense(keys)
    turned = keys.whole("rope.dimension_count", config["head_dim"] // 2, low=1)
    return {
        "model_type": "glm4_moe", **config, **_experts(keys, "n_routed_experts"),
        "partial_rotary_factor": turned / config["head_dim"],
        "use_qk_norm": keys.has_tensor("attn_q_norm.weight"),
        "moe_intermediate_size": keys.whole("expert_feed_forward_length", low=1),
        "n_shared_experts": keys.whole("expert_shared_count", low=1),
        "first_k_dense_replace": keys.whole("leading_dense_block_count"),
    }  # fmt: skip


def _deepseek2(keys: Metadata) -> Config:
    config = _base(keys)
    rank, rotated = keys.whole("attention.kv_lora_rank", low=1), keys.whole("rope.dimension_count", low=1)
    # NB: since latents are cached (2025), key_length is that of a latent, and _mla has the width of a head.
    key = keys.whole("attention.key_length_mla", 0) or keys.whole("attention.key_length", low=1)
    value = keys.whole("attention.value_length_mla", 0) or keys.whole("attention.value_length", low=1)
    keys.requested |= {"attention.key_length", "attention.value_length", "attention.head_count_kv"}
    corrected = keys.has_tensor("exp_probs_b.bias")
    v3 = {"model_type": "deepseek_v3"} if corrected else {"model_type": "deepseek_v2", "topk_method": "greedy"}
    return {
        **v3, **config, **_experts(keys, "n_routed_experts"), "num_attention_heads": keys.whole("attention.head_count", low=1),
        "intermediate_size": keys.whole("feed_forward_length", low=1),
        "q_lora_rank": keys.whole("attention.q_lora_rank", 0) or None, "kv_lora_rank": rank, "qk_rope_head_dim": rotated,
        "qk_nope_head_dim": key - rotated, "v_head_dim": value,
        "moe_intermediate_size": keys.whole("expert_feed_forward_length", low=1),
        "n_shared_experts": keys.whole("expert_shared_count", low=1),
        "first_k_dense_replace": keys.whole("leading_dense_block_count"), "moe_layer_freq": 1,
    }  # fmt: skip


def _nemotron_h(keys: Metadata) -> Config:
    config = _base(keys, biases=False)
    count = config["num_hidden_layers"]
    n_kv, widths = keys.wholes("attention.head_count_kv", count), keys.wholes("feed_forward_length", count)
    n_q = max(keys.wholes("attention.head_count", count))
    inner, heads = keys.whole("ssm.inner_size", low=1), keys.whole("ssm.time_step_rank", low=1)
    width = keys.whole("attention.key_length", low=1)
    if keys.whole("attention.value_length", width) != width:
        keys.refuse(
            "attention.value_length", f"values of another width than keys ({width}) are not read for {keys.architecture}"
        )
    pattern = "".join("*" if attended else "-" if inside else "M" for attended, inside in zip(n_kv, widths, strict=True))
    return {
        "model_type": "nemotron_h", **config, "hybrid_override_pattern": pattern, "num_attention_heads": n_q,
        "num_key_value_heads": max(n_kv), "head_dim": width,
        "intermediate_size": max(widths), "mamba_num_heads": heads, "mamba_head_dim": inner // heads,
        "n_groups": keys.whole("ssm.group_count", low=1), "ssm_state_size": keys.whole("ssm.state_size", low=1),
        "conv_kernel": keys.whole("ssm.conv_kernel", low=1), "use_conv_bias": keys.has_tensor("ssm_conv1d.bias"),
        "attention_bias": keys.has_tensor("attn_q.bias"), "mlp_bias": keys.has_tensor("ffn_up.bias"), "use_bias": False,
        "mamba_proj_bias": keys.has_tensor("ssm_in.bias"), "chunk_size": 128,
    }  # fmt: skip


def _minimax_m2(keys: Metadata) -> Config:
    config = {"model_type": "minimax_m2", **_dense(keys), **_experts(keys, "num_local_experts")}
    width = keys.whole("expert_feed_forward_length", config["intermediate_size"], low=1)
    turned = keys.whole("rope.dimension_count", config["head_dim"], low=1)
    return {**config, "intermediate_size": width, "use_qk_norm": True, "rotary_dim": turned}


def _delta_net(keys: Metadata) -> Config:
    """Qwen3-Next and Qwen3.5: Gated DeltaNet but for each of a few layers, which has attention."""
    config = _base(keys)
    config |= _heads(keys, config)
    turned = keys.whole("rope.dimension_count", config["head_dim"], low=1)
    heads = keys.whole("ssm.time_step_rank", low=1)
    return {
        **config, "partial_rotary_factor": turned / config["head_dim"],
        "full_attention_interval": keys.whole("full_attention_interval", 4, low=1),
        "linear_conv_kernel_dim": keys.whole("ssm.conv_kernel", low=1),
        "linear_num_key_heads": keys.whole("ssm.group_count", low=1), "linear_num_value_heads": heads,
        "linear_key_head_dim": keys.whole("ssm.state_size", low=1),
        "linear_value_head_dim": keys.whole("ssm.inner_size", low=1) // heads,
    }  # fmt: skip


def _delta_net_moe(model_type: str, **more: Any) -> Reader:
    def read(keys: Metadata) -> Config:
        keys.whole("feed_forward_length", 0)
        return {
            "model_type": model_type, **_delta_net(keys), **_experts(keys),
            "moe_intermediate_size": keys.whole("expert_feed_forward_length", low=1),
            "shared_expert_intermediate_size": keys.whole("expert_shared_feed_forward_length", low=1), **more,
        }  # fmt: skip

    return read


def _qwen35(keys: Metadata) -> Config:
    return {"model_type": "qwen3_5_text", **_delta_net(keys), "intermediate_size": keys.whole("feed_forward_length", low=1)}


def _olmoe(keys: Metadata) -> Config:
    return {"model_type": "olmoe", **_dense(keys), **_experts(keys)}


def _dots1(keys: Metadata) -> Config:
    return {
        "model_type": "dots1", **_dense(keys), **_experts(keys, "n_routed_experts"),
        "moe_intermediate_size": keys.whole("expert_feed_forward_length", low=1),
        "n_shared_experts": keys.whole("expert_shared_count", low=1),
        "first_k_dense_replace": keys.whole("leading_dense_block_count"),
    }  # fmt: skip


ARCHITECTURES: dict[str, Reader] = {
    "arcee": _of("arcee", mlp_bias=False),
    "cohere2": _cohere2,
    "command-r": _command_r,
    "deepseek2": _deepseek2,
    "dots1": _dots1,
    "ernie4_5": _of("ernie4_5", "attention_bias", use_bias=False),
    "exaone4": _exaone4,
    "falcon": _falcon,
    "gemma": _gemma("gemma", None),
    "gemma2": _gemma("gemma2", 2),
    "gemma3": _gemma("gemma3_text", 6),
    "glm4": _glm4,
    "glm4moe": _glm4moe,
    "gpt-oss": _gpt_oss,
    "granite": _granite,
    "granitehybrid": _granitehybrid,
    "granitemoe": _granite,
    "hunyuan-dense": _of("hunyuan_v1_dense"),
    "internlm2": _of("internlm2", "attention_bias", bias=False),
    "llama": _llama,
    "minimax-m2": _minimax_m2,
    "mistral3": _of("mistral", "attention_bias", sliding_window=None),
    "nemotron_h": _nemotron_h,
    "olmo2": _of("olmo2"),
    "olmoe": _olmoe,
    "phi3": _phi3,
    "qwen2": _of("qwen2", "attention_bias", **_QWEN_WINDOW),
    "qwen2moe": _qwen2moe,
    "qwen2vl": _of("qwen2_vl", "attention_bias", **_QWEN_WINDOW),
    "qwen3": _of("qwen3", **_QWEN_WINDOW),
    "qwen35": _qwen35,
    "qwen35moe": _delta_net_moe("qwen3_5_moe_text"),
    "qwen3next": _delta_net_moe("qwen3_next", decoder_sparse_step=1, mlp_only_layers=[]),
    "qwen3moe": _qwen3moe("qwen3_moe", **_QWEN_WINDOW),
    "qwen3vl": _of("qwen3_vl_text"),
    "qwen3vlmoe": _qwen3moe("qwen3_vl_moe_text"),
    "seed_oss": _of("seed_oss", attention_out_bias=False, mlp_bias=False),
    "smollm3": _of("smollm3", mlp_bias=False),
    "starcoder2": _starcoder2,
}
"""Readers by `general.architecture`, each from the keys of a file to those of a config.json."""


def config_of(file: Gguf) -> Config:
    """The keys of a config.json that say what a GGUF file says.

    Raises:
        SpecError: the file holds no language model; its architecture is not known; a key is missing, wrong, or not understood.
    """
    if (kind := file.keys.get("general.type", "model")) != "model":
        raise file.error(f"general.type is {kind!r:.60}: what is read is a model")
    name = file.keys.get("general.architecture")
    if not isinstance(name, str):
        raise file.error("key general.architecture is missing: it says what the other keys mean")
    if name == "clip":
        raise file.error("holds a vision or audio tower (general.architecture clip): give the file of the language model")
    if name not in ARCHITECTURES:
        hint = "The config.json of the model, if its family is known, and --bits-per-weight give its sizes."
        raise file.error(str(UnknownNameError("general.architecture", name, ARCHITECTURES, hint)))
    keys = Metadata(file, name)
    config = ARCHITECTURES[name](keys)
    keys.done()
    return config
