"""docs/extending.md, followed to the letter: its code is taken out of the page, installed as a package, and run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
FILES = {
    match[1]: match[2] for match in re.finditer(r"^`(my_roofline/\S+)`:\n\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
}
GROUP = re.compile(r'\[project\.entry-points\."(roofline\.\w+)"\]\n(.*?)\n(?=\n|```)', re.DOTALL)

TRIALS = {
    "operator": """
from roofline.operators import OPERATORS
print(OPERATORS["scale"](elements=8).cost())
""",
    "block": """
from roofline.blocks import BLOCKS
print(BLOCKS["mlp/scaled_mlp"].__name__)
import pathlib, roofline
text = pathlib.Path("my_roofline/models/my-model.yaml").read_text().replace("gated_mlp", "scaled_mlp")
pathlib.Path("scaled.yaml").write_text(text)
result = roofline.analyze("scaled.yaml", "my-card", phase="decode")
print(sorted(op.path for op in result.phases[0].operators if "/mlp/" in op.path))
""",
    "model": """
import roofline
print(roofline.analyze("my-model", "a100-sxm-80gb").model["parameters"]["total"])
""",
    "accelerator": """
import roofline
card = roofline.load_hardware("my-card")
print(card.peak("bf16") / card.bandwidth)
""",
    "family": """
import roofline
print(roofline.load_model("toy/config.json").num_hidden_layers)
""",
    "command": """
import sys
from roofline.cli.app import main
sys.argv = ["roofline", "ridge", "my-card"]
sys.exit(main())
""",
    "scheduler": """
import roofline
load = {"workload": "at-once:4", "input_len": 512, "output_len": 16, "requests": 4}
print(roofline.simulate("my-model", "my-card", scheduler="longest-first", **load).server["scheduler"])
""",
    "worksheet": """
from roofline.teach.worksheets import TEMPLATES, make, sheet
problem = make(TEMPLATES["roofline-time-to-read"], 1)
assert problem.solution[0].make().value == problem.answer.value
print(sheet("roofline", 1).problems[-1].template)
""",
}
"""What is done with each, as a user of the package would do it."""

EXPECTED = {
    "operator": "Cost(vector_flops=8, activation_bytes=32)",
    "block": "ScaledMlp\n['layers/mlp/down_proj', 'layers/mlp/norm', 'layers/mlp/scale', 'layers/mlp/up_proj']",
    # 2 tables; 16 layers of q and o (2048 x 2048), k and v (2048 x 512), three matrices of the MLP, two norms; the last norm
    "model": str(2 * 32000 * 2048 + 16 * (2 * 2048**2 + 2 * 2048 * 512 + 3 * 2048 * 5632 + 2 * 2048) + 2048),
    "accelerator": "200.0",  # 800e12 / 4e12
    "family": "3",
    "command": "200 FLOP/byte",
    "scheduler": "longest-first",
    "worksheet": "roofline-time-to-read",
}

TOY = {
    "model_type": "toy", "architectures": ["ToyForCausalLM"], "hidden_size": 256, "intermediate_size": 512, "vocab_size": 1000,
    "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "tie_word_embeddings": False,
    "max_position_embeddings": 4096,
}  # fmt: skip


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package of the page, and the metadata that an installation would write."""
    folder = tmp_path_factory.mktemp("extending")
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    info = folder / "my_roofline-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my_roofline\nVersion: 1.0\n", encoding="utf-8")
    points = "\n".join(f"[{group}]\n{entries}" for group, entries in GROUP.findall(PAGE)).replace('"', "")
    (info / "entry_points.txt").write_text(points + "\n", encoding="utf-8")
    (folder / "toy").mkdir()
    (folder / "toy" / "config.json").write_text(json.dumps(TOY), encoding="utf-8")
    return folder


def test_the_page_has_all_trials() -> None:
    """Eight kinds: six files of Python with an entry point each, two of data."""
    assert len(FILES) == len(TRIALS) == len(EXPECTED) == 8
    assert len(GROUP.findall(PAGE)) == sum(name.endswith(".py") for name in FILES) == 6


@pytest.mark.slow
@pytest.mark.parametrize("kind", TRIALS)
def test_what_the_page_says_works(kind: str, installed: Path) -> None:
    """One file, and at most the line that registers it."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(installed), str(ROOT)]),
        "ROOFLINE_PATH": str(installed / "my_roofline"),
    }
    done = subprocess.run(
        [sys.executable, "-c", TRIALS[kind]], cwd=installed, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == EXPECTED[kind]
