"""Parameters of shipped models, to the last one, against totals from outside."""

from __future__ import annotations

import pytest

import roofline
from roofline.predict.parameters import count_parameters

TOTALS = {
    "deepseek-r1": 671_026_404_352,
    "deepseek-v3.1": 671_026_404_352,
    "deepseek-v4-pro": 1_572_997_179_491,
    "devstral-2-123b": 125_025_988_608,
    "devstral-small-2-24b": 23_572_403_200,
    "exaone-4.0-32b": 32_003_216_384,
    "exaone-4.5-33b": 32_527_504_384,
    "gemma-2-27b": 27_227_128_320,
    "gemma-2-2b": 2_614_341_888,
    "gemma-3-1b": 999_885_952,
    "gemma-3-27b": 27_009_346_304,
    "gemma-3-4b": 3_880_263_168,
    "gemma-4-26b-a4b": 25_233_141_760,
    "gemma-4-31b": 30_697_345_280,
    "glm-4.5": 352_797_814_784,
    "glm-4.5-air": 106_852_245_504,
    "glm-4.7": 352_797_814_784,
    "glm-4.7-flash": 29_943_390_976,
    "glm-5": 743_911_199_232,
    "glm-5.1": 743_911_199_232,
    "glm-5.3": 743_377_000_704,
    "kimi-k2": 1_026_408_209_408,
    "kimi-k2.5": 1_026_408_209_408,
    "lfm2.5-vl-1.6b": 1_170_340_608,
    "llama-3-8b": 8_030_261_248,
    "llama-3.1-405b": 405_853_388_800,
    "llama-3.2-3b": 3_212_749_824,
    "llama-3.3-70b": 70_553_706_496,
    "llama-4-maverick": 400_711_848_960,
    "llama-4-scout": 107_769_861_120,
    "mimo-v2-flash": 308_778_768_832,
    "minimax-m2.7": 228_689_748_992,
    "mistral-7b-v0.3": 7_248_023_552,
    "mistral-large-2411": 122_610_069_504,
    "mistral-small-3.1-24b": 23_572_403_200,
    "mixtral-8x22b": 140_620_634_112,
    "nemotron-3-nano-30b-a3b": 31_577_937_344,
    "nemotron-3-super-120b-a12b": 120_668_687_360,
    "nemotron-3-ultra-550b": 549_308_968_960,
    "olmo2-13b": 13_716_198_400,
    "olmo2-32b": 32_234_279_936,
    "olmo2-7b": 7_298_617_344,
    "olmo3.1-32b": 32_233_522_176,
    "phi-3.5-mini": 3_821_079_552,
    "phi-4": 14_659_507_200,
    "phi-4-mini": 3_836_021_760,
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-1.5b": 1_543_714_304,
    "qwen2.5-14b": 14_770_033_664,
    "qwen2.5-32b": 32_763_876_352,
    "qwen2.5-3b": 3_085_938_688,
    "qwen2.5-72b": 72_706_203_648,
    "qwen2.5-vl-7b": 7_615_616_512,
    "qwen3-0.6b": 596_049_920,
    "qwen3-1.7b": 1_720_574_976,
    "qwen3-14b": 14_768_307_200,
    "qwen3-4b": 4_022_468_096,
    "qwen3-coder-480b-a35b": 480_154_875_392,
    "qwen3-next-80b-a3b": 79_674_391_296,
    "qwen3-vl-30b-a3b": 30_532_122_624,
    "qwen3-vl-8b": 8_190_735_360,
    "qwen3.5-122b-a10b": 122_111_526_912,
    "qwen3.5-27b": 26_895_998_464,
    "qwen3.5-35b-a3b": 34_660_610_688,
    "qwen3.5-397b-a17b": 396_346_350_336,
    "qwen3.5-9b": 8_953_803_264,
    "qwen3.6-27b": 26_895_998_464,
    "qwen3.6-35b-a3b": 34_660_610_688,
    "seed-oss-36b": 36_151_104_512,
    "smollm3-3b": 3_075_098_624,
    "voxtral-mini-3b": 4_014_136_320,
}
"""Of the language model: the class of transformers 5.23 on the meta device, from the published config.json."""

PUBLISHED = {
    "gemma-3-4b": 4_300_079_472, "gemma-3-12b": 12_187_325_040, "gemma-3-27b": 27_432_406_640,
    "qwen2.5-vl-7b": 8_292_166_656, "qwen3-vl-8b": 8_767_123_696, "qwen3-vl-30b-a3b": 31_070_754_032,
    "lfm2.5-vl-1.6b": 1_596_625_904, "exaone-4.5-33b": 33_813_987_328,
}  # fmt: skip
"""Of the whole checkpoint, towers included: of Gemma 3 and Qwen as Hugging Face prints it (https://huggingface.co/google/gemma-3-27b-it),
and the sum over the tensors of the checkpoint; of LFM2.5-VL and EXAONE 4.5 the class of transformers 5.23."""


@pytest.mark.parametrize("name", list(TOTALS))
def test_total(name: str) -> None:
    """Tied weights once; towers and modules for multi-token prediction stand apart."""
    assert count_parameters(roofline.load_model(name)).total == TOTALS[name]


@pytest.mark.parametrize("name", list(PUBLISHED))
def test_total_with_the_tower(name: str) -> None:
    """The tower (SigLIP, 416,866,032) and its projector beside the language model make the whole checkpoint."""
    counted = count_parameters(roofline.load_model(name))
    assert counted.total + sum(counted.apart.values()) == PUBLISHED[name]
