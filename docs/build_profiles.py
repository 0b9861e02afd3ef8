"""Write what `roofline profile` finds in four real traces into docs/profiles.md: `python docs/build_profiles.py`.

Traces are found as tests find them (ROOFLINE_TRUTH); without them the page stays as it is.
"""  # noqa: INP001 - no package

from __future__ import annotations

import os
import re
from pathlib import Path

from roofline.measure.profile.profile import profile
from roofline.report.profile_page import answer
from roofline.text import answer_text

PAGE = Path(__file__).with_name("profiles.md")
TRUTH = Path(os.environ.get("ROOFLINE_TRUTH") or PAGE.parents[2] / "shared") / "truth" / "profiles"
TRACES = {
    "h100": ("h100_torch_eager_qwen1.5-0.5b-chat.json.gz", None, None),
    "sglang": ("mi300x_sglang_qwen3-8b_prefill_decode.json.gz", "qwen3-8b", None),
    "vllm": ("mi300x_vllm_gpt-oss_prefill_decode_piecewise.json.gz", "gpt-oss-20b", "mi300x"),
    "capture": ("mi300x_vllm_gpt-oss_graph_capture.json.gz", None, "mi300x"),
}
"""Each with the model that it is of, and the accelerator where the trace does not name it."""


def page() -> str:
    """The page with the outputs in their places; without the traces as it stands."""
    text = PAGE.read_text(encoding="utf-8")
    if not TRUTH.is_dir():
        return text
    return re.sub(r"<!-- trace (\w+) -->\n.*?<!-- end -->", _shown, text, flags=re.DOTALL)


def _shown(match: re.Match[str]) -> str:
    name, model, hardware = TRACES[match[1]]
    shown = answer_text(answer(profile(TRUTH / name, model, hardware)))
    return f"<!-- trace {match[1]} -->\n```text\n{shown}\n```\n<!-- end -->"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
