"""AWQ of AutoAWQ."""

from __future__ import annotations

from roofline.specs.huggingface.methods.base import Keys, Plan, Rule
from roofline.specs.huggingface.methods.gptq import HARMLESS

METHOD = "awq"


def plan(keys: Keys, dtype: str) -> Plan:
    """AwqConfig of transformers, and quant_config.json of AutoAWQ. NB: zero points are stored whether they are used or not."""
    del dtype
    keys.choice("version", "format", of=("gemm", "exllama", "ipex"), default="gemm")
    scheme = keys.make(
        "awq", bits=keys.get("bits", "w_bit", default=4), group_size=keys.get("group_size", "q_group_size", default=128)
    )
    left = keys.left("modules_to_not_convert")
    keys.done("zero_point", "backend", "do_fuse", "fuse_max_seq_len", "modules_to_fuse", "exllama_config", *HARMLESS)
    return Plan((left, Rule(scheme)))
