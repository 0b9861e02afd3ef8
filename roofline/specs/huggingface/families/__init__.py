"""Families of models: what the keys of their configs mean.

`FAMILIES` holds those that ship and those that other packages add by the entry-point group `roofline.families`.
"""

from __future__ import annotations

from functools import cache

from roofline.registry import Registry
from roofline.specs.huggingface.families.afmoe import afmoe, laguna
from roofline.specs.huggingface.families.apertus import apertus
from roofline.specs.huggingface.families.aria import aria
from roofline.specs.huggingface.families.baichuan import baichuan
from roofline.specs.huggingface.families.bailing import (
    bailing_hybrid,
    bailing_moe,
    pangu_pro_moe_v2,
    pangu_ultra_moe,
    param2moe,
    sarvam_mla,
)
from roofline.specs.huggingface.families.base import Family
from roofline.specs.huggingface.families.beam import beam
from roofline.specs.huggingface.families.bloom import bloom
from roofline.specs.huggingface.families.cohere import cohere, cohere2, cohere2_moe
from roofline.specs.huggingface.families.cosmos3 import cosmos3_edge
from roofline.specs.huggingface.families.dbrx import dbrx
from roofline.specs.huggingface.families.deepseek import (
    axk1,
    deepseek,
    deepseek_ocr2,
    deepseek_v2,
    deepseek_v3,
    deepseek_v32,
    glm_moe_dsa,
    mistral4,
    youtu,
)
from roofline.specs.huggingface.families.deepseek_v4 import deepseek_v4
from roofline.specs.huggingface.families.domyn import domyn_edge
from roofline.specs.huggingface.families.dots1 import dots1
from roofline.specs.huggingface.families.ernie4_5 import ernie4_5, ernie4_5_moe, ernie4_5_vl_moe
from roofline.specs.huggingface.families.exaone4 import exaone, exaone4, exaone_moe, kolibri1
from roofline.specs.huggingface.families.falcon import falcon
from roofline.specs.huggingface.families.falcon_h1 import falcon_h1
from roofline.specs.huggingface.families.gemma import gemma, gemma2, gemma3, rnj1, vaultgemma
from roofline.specs.huggingface.families.gemma3n import gemma3n
from roofline.specs.huggingface.families.gemma4 import gemma4
from roofline.specs.huggingface.families.glm import (
    chatglm,
    glm,
    glm4,
    glm4_moe,
    glm4_moe_lite,
    glm4v,
    glm4v_moe,
    glm_ocr,
    solar_open,
)
from roofline.specs.huggingface.families.glm5_next import glm5_next
from roofline.specs.huggingface.families.gpt import gpt2, gpt_bigcode, gpt_neo, gpt_neox, gptj
from roofline.specs.huggingface.families.gpt_oss import gpt_oss
from roofline.specs.huggingface.families.granite import (
    granite,
    granite_swa,
    granitemoe,
    granitemoe_swa,
    granitemoehybrid,
    granitemoeshared,
    hyperclovax,
)
from roofline.specs.huggingface.families.hunyuan import hunyuan_dense, hunyuan_moe, hy_v3
from roofline.specs.huggingface.families.hy_v4 import hy_v4
from roofline.specs.huggingface.families.internlm import internlm, internlm2, internlm3
from roofline.specs.huggingface.families.jamba import jamba
from roofline.specs.huggingface.families.kimi_linear import kimi_linear
from roofline.specs.huggingface.families.lfm2 import lfm2, lfm2_moe, lfm3
from roofline.specs.huggingface.families.llama import (
    arcee,
    bitnet,
    cwm,
    helium,
    jais2,
    llama,
    minicpm,
    minicpm3,
    orion,
    pangu_embedded,
    plamo3,
    seed_oss,
    solar,
    step1,
    telechat2,
    teleflm,
)
from roofline.specs.huggingface.families.llama4 import llama4
from roofline.specs.huggingface.families.longcat import longcat_flash
from roofline.specs.huggingface.families.looped import dory, hrm_text, iquest_loopcoder
from roofline.specs.huggingface.families.mamba import bamba, falcon_mamba, mamba, mamba2
from roofline.specs.huggingface.families.mimo_v2 import mimo_v2_flash
from roofline.specs.huggingface.families.minimax import minimax, minimax_m2, minimax_m3
from roofline.specs.huggingface.families.mistral import ministral, mistral, mixtral
from roofline.specs.huggingface.families.mllama import mllama
from roofline.specs.huggingface.families.molmo import molmo, molmo2
from roofline.specs.huggingface.families.mpt import mpt
from roofline.specs.huggingface.families.muse_glimmer import muse_glimmer
from roofline.specs.huggingface.families.nemotron import nemotron, nemotron_h, nemotron_h_puzzle, nemotron_nas
from roofline.specs.huggingface.families.olmo import flex_olmo, olmo, olmo2, olmo3, olmo_hybrid, olmoe
from roofline.specs.huggingface.families.opt import opt
from roofline.specs.huggingface.families.phi import phi, phi3, phimoe
from roofline.specs.huggingface.families.qwen2 import mimo, qwen, qwen2, qwen2_moe, qwen2_vl
from roofline.specs.huggingface.families.qwen3 import flint, mellum, qwen3, qwen3_moe, qwen3_vl, qwen3_vl_moe
from roofline.specs.huggingface.families.qwen3_next import qwen3_5, qwen3_5_moe, qwen3_next
from roofline.specs.huggingface.families.refused import (
    phi3small,
    phi4flash,
    zamba2,
)
from roofline.specs.huggingface.families.smollm3 import smollm3
from roofline.specs.huggingface.families.stablelm import stablelm
from roofline.specs.huggingface.families.starcoder2 import starcoder2
from roofline.specs.huggingface.families.step3p5 import step3, step3p5

FAMILIES: Registry[Family] = Registry(
    "family",
    (
        afmoe, apertus, arcee, aria, axk1, baichuan, bailing_hybrid, bailing_moe, bamba, beam, bitnet, bloom, chatglm, cohere,
        cohere2, cohere2_moe, cosmos3_edge, cwm, dbrx, deepseek, deepseek_ocr2, deepseek_v2, deepseek_v3, deepseek_v32,
        deepseek_v4, domyn_edge, dory, dots1, ernie4_5, ernie4_5_moe, ernie4_5_vl_moe, exaone, exaone4, exaone_moe, falcon,
        falcon_h1,
        falcon_mamba, flex_olmo, flint, gemma, gemma2, gemma3, gemma3n, gemma4, glm, glm4, glm4_moe, glm4_moe_lite, glm4v,
        glm4v_moe, glm5_next, glm_moe_dsa, glm_ocr, gpt2, gpt_bigcode, gpt_neo, gpt_neox, gpt_oss, gptj, granite, granite_swa,
        granitemoe, granitemoe_swa, granitemoehybrid, granitemoeshared, helium, hrm_text, hunyuan_dense, hunyuan_moe, hy_v3,
        hy_v4, hyperclovax, internlm, internlm2, internlm3, iquest_loopcoder, jais2, jamba, kimi_linear, kolibri1, laguna,
        lfm2, lfm2_moe, lfm3, llama, llama4, longcat_flash, mamba, mamba2, mellum, mimo, mimo_v2_flash, minicpm, minicpm3,
        minimax, minimax_m2, minimax_m3, ministral, mistral, mistral4, mixtral, mllama, molmo, molmo2, mpt, muse_glimmer,
        nemotron, nemotron_h, nemotron_h_puzzle, nemotron_nas, olmo, olmo2, olmo3, olmo_hybrid, olmoe, opt, orion,
        pangu_embedded, pangu_pro_moe_v2, pangu_ultra_moe, param2moe, phi, phi3, phi3small, phi4flash, phimoe, plamo3, qwen,
        qwen2, qwen2_moe, qwen2_vl, qwen3, qwen3_5, qwen3_5_moe, qwen3_moe, qwen3_next,
        qwen3_vl, qwen3_vl_moe, rnj1, sarvam_mla, seed_oss, smollm3, solar, solar_open, stablelm, starcoder2, step1,
        step3, step3p5, telechat2, teleflm, vaultgemma, youtu, zamba2,
    ),
    group="roofline.families",
    accepts=Family,
)  # fmt: skip


@cache
def families() -> dict[str, Family]:
    """Families by model_type, in alphabetical order.

    Raises:
        TypeError: two families read one model_type.
    """
    types: dict[str, Family] = {}
    for family in FAMILIES.values():
        for model_type in family.model_types:
            other = types.setdefault(model_type, family)
            if other is not family:
                where = f"{other.read.__module__} and {family.read.__module__}"
                msg = f"two families read model_type {model_type!r}: {where}"
                raise TypeError(msg)
    return dict(sorted(types.items()))


def by_architecture() -> dict[str, Family]:
    """Families by the name of the model's class, such as "LlamaForCausalLM".

    Raises:
        TypeError: two families read one model_type.
    """
    return {architecture: entry for entry in families().values() for architecture in entry.architectures}
