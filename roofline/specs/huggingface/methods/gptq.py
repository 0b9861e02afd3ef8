"""GPTQ of AutoGPTQ and GPTQModel."""

from __future__ import annotations

from roofline.specs.huggingface.methods.base import AND_HEAD, LAYERS, Keys, Plan, Rule
from roofline.specs.huggingface.patterns import any_of

METHOD = "gptq"


HARMLESS = (
    "sym", "desc_act", "true_sequential", "static_groups", "damp_percent", "damp_auto_increment", "act_group_aware", "hyb_act",
    "dataset", "tokenizer", "batch_size", "model_seqlen", "max_input_length", "pad_token_id", "cache_block_outputs", "mse",
    "block_name_to_quantize", "module_name_preceding_first_block", "model_name_or_path", "model_file_base_name", "meta",
    "quantizer", "backend", "use_exllama", "disable_exllama", "exllama_config", "use_cuda_fp16", "pack_dtype",
    # what AutoRound adds: how it was tuned
    "autoround_version", "data_type", "iters", "lr", "minmax_lr", "nsamples", "seqlen", "amp", "scale_dtype",
    "gradient_accumulate_steps", "enable_minmax_tuning", "enable_norm_bias_tuning", "enable_quanted_input", "train_bs",
    "low_gpu_mem_usage",
    "to_quant_block_names",
)  # fmt: skip


def plan(keys: Keys, dtype: str) -> Plan:
    """GPTQConfig of transformers, QuantizeConfig of GPTQModel, whose `dynamic` has rules by the names of modules."""
    del dtype
    keys.choice("checkpoint_format", "format", of=("gptq", "gptq_v2"), default="gptq")
    keys.choice("is_marlin_format", of=(False,), default=False)
    plain = {"bits": keys.get("bits", default=4), "group_size": keys.get("group_size", default=128)}
    scheme = keys.make("gptq", **plain)
    rules = []
    for pattern, changed in keys.parts("dynamic").items():
        sign, _, expression = pattern.rpartition(":") if pattern[:2] in ("+:", "-:") else ("+", ":", pattern)
        own = {name: changed.get(name, default=value) for name, value in plain.items()}
        changed.done(*HARMLESS)
        rules.append(keys.named(None if sign == "-" else keys.make("gptq", **own), [f"re:{expression}"], "dynamic"))
    rules.append(keys.left("modules_to_not_convert"))
    roles = AND_HEAD if keys.flag("lm_head") else LAYERS
    inside = [
        name for names in keys.listed("modules_in_block_to_quantize") for name in ([names] if isinstance(names, str) else names)
    ]
    keys.done(*HARMLESS)
    if inside:
        only = any_of(inside, "quantization_config.modules_in_block_to_quantize")
        return Plan((*rules, Rule(scheme, only)))
    return Plan((*rules, Rule(scheme, roles=roles)))
