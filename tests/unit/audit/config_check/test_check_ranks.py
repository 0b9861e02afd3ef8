"""A deployment with data-parallel attention: prompts that are held for balance shorten TPOT, as in `plan` and `simulate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from roofline.audit.config_check import check

FILE = """\
schema_version: 1
kind: deployment
hardware: dgx-h200
replicas: 1
command: >
  vllm serve deepseek-ai/DeepSeek-V3 --data-parallel-size 8 --enable-expert-parallel
  --max-num-seqs 128 --max-num-batched-tokens 8192 --max-model-len 16384
"""


@pytest.mark.slow
def test_balance_is_an_option_of_the_check(tmp_path: Path) -> None:
    """At 6 requests/s prompts that are not held take most of the time of all ranks (0.23 s a token, held 0.06 s)."""
    path = tmp_path / "deployment.yaml"
    path.write_text(FILE, encoding="utf-8")
    load: dict[str, Any] = {"rate": 6, "input_len": "lognormal:2000:1000", "output_len": "lognormal:300:200", "tpot": "120 ms"}
    assert not check(path, **load).passed
    assert check(path, **load, attention_dp_balance=True).passed
