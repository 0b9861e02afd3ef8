"""4 and 8 bits of bitsandbytes."""

from __future__ import annotations

from roofline.specs.huggingface.methods.base import Keys, Plan, Rule

METHOD = "bitsandbytes"


def plan(keys: Keys, dtype: str) -> Plan:
    """BitsAndBytesConfig of transformers: 4 bits or 8."""
    del dtype
    four = keys.flag("load_in_4bit", "_load_in_4bit")
    eight = keys.flag("load_in_8bit", "_load_in_8bit")
    if four == eight:
        keys.refuse("load_in_4bit", "either load_in_4bit or load_in_8bit has to be true")
    keys.choice("llm_int8_has_fp16_weight", of=(False,), default=False)
    keys.choice("bnb_4bit_quant_type", of=("nf4", "fp4"), default="fp4")
    double = keys.flag("bnb_4bit_use_double_quant")
    left = keys.left("llm_int8_skip_modules")
    keys.done(
        "bnb_4bit_compute_dtype", "bnb_4bit_quant_storage", "llm_int8_threshold", "llm_int8_enable_fp32_cpu_offload",
        "load_in_4bit", "load_in_8bit", "_load_in_4bit", "_load_in_8bit",
    )  # fmt: skip
    return Plan((left, Rule(keys.make("nf4", double_quant=double) if four else keys.make("llm_int8"))))
