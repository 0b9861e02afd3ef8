"""Records against estimates: what is said of each row, the page, serving points."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from roofline.errors import InputError
from roofline.measure.validate import to_dict, validate
from roofline.measure.validate.serving import validate_serving
from roofline.serving.queueing.closed_loop import ClosedLoop

pytestmark = pytest.mark.slow

HEADER = "source,gpu,op,dtype,backend,m,n,k,latency_us"


@pytest.fixture
def products(tmp_path: Path) -> Path:
    """A few products, near what they take and far from it."""
    rows = [
        f"aiconfigurator,h100-sxm,gemm,bf16,vllm,{m},4096,4096,{us}" for m, us in ((1, 14), (64, 15), (4096, 190), (16, 900))
    ]
    path = tmp_path / "records.csv"
    path.write_text("\n".join([HEADER, *rows]) + "\n", encoding="utf-8")
    return path


def test_each_row_has_an_estimate_and_an_interval(products: Path) -> None:
    """Of the fit of its backend; the point that takes sixty times as long leads the worst and lies outside its interval."""
    found = to_dict(validate([products]))
    worst = found["worst"][0]
    assert (worst["dims"]["m"], worst["stands_on"]) == (16, "h100-sxm vllm gemm/bf16 (fitted)")
    assert worst["low_s"] < worst["estimate_s"] < worst["high_s"] < worst["measured_s"]
    assert found["overall"]["coverage"] <= 0.75
    assert found["overall"]["estimate"]["median_ape"] < found["overall"]["bound"]["median_ape"]


def test_warm_and_cold_differ_where_a_cache_matters(tmp_path: Path) -> None:
    """On an L40S, with 96 MB of L2, a matrix of 32 MB that is read again and again is faster than one that is cold."""
    path = tmp_path / "records.csv"
    rows = [f"ours,l40s,gemm,bf16,vllm,1,4096,4096,50,{cache}" for cache in ("cold", "warm")]
    path.write_text("\n".join([HEADER + ",cache", *rows]) + "\n", encoding="utf-8")
    cold, warm = validate([path]).frame.sort_values("cache")["estimate_s"]
    assert warm < 0.8 * cold


def test_page(products: Path, tmp_path: Path) -> None:
    """It holds both plots and the tables, and loads nothing from anywhere."""
    page = tmp_path / "parity.html"
    command = [sys.executable, "-m", "roofline", "validate", str(products), "-o", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    text = page.read_text(encoding="utf-8")
    assert 'id="figure-parity"' in text
    assert 'id="figure-residuals"' in text
    assert "Furthest off" in text
    body = text[text.index("<body>") :]
    assert not re.search(r"(src|href)\s*=\s*[\"']https?:", body)
    assert "default-src &#39;none&#39;" in text
    assert len(text) < 2e6


POINTS = "backend,backend_version,model_path,system,gemm_quant_mode,batch_size,isl,osl,tp_size,silicon_tpot_ms"


@pytest.mark.night
def test_serving_points(tmp_path: Path) -> None:
    """A point of the closed loop: predicted to a third; a model that is not known is refused by line, the others are used."""
    path = tmp_path / "points.csv"
    rows = [
        "vllm,0.12.0,meta-llama/Llama-3.1-8B-Instruct,h100_sxm,,32,1024,256,1,11",
        "vllm,0.12.0,nobody/nothing,h100_sxm,,32,1024,256,1,11",
        "vllm,0.12.0,meta-llama/Llama-3.1-8B-Instruct,h100_sxm,,many,1024,256,1,11",
        "vllm,0.12.0,meta-llama/Llama-3.1-8B-Instruct,h100_sxm,,32,1024,256,1,-3",
    ]
    path.write_text("\n".join([POINTS, *rows]) + "\n", encoding="utf-8")
    found = validate_serving([path])
    (row,) = found.frame.to_dict("records")
    assert row["estimate_s"] == pytest.approx(0.011, rel=0.35)
    assert row["bound_s"] < row["estimate_s"]
    assert sorted((refusal.line, refusal.rows) for refusal in found.refusals) == [(3, 1), (4, 1), (5, 1)]
    with pytest.raises(InputError, match="serving points need the columns"):
        validate_serving([_without_a_column(tmp_path)])


def _without_a_column(folder: Path) -> Path:
    path = folder / "short.csv"
    path.write_text("backend,isl\nvllm,3\n", encoding="utf-8")
    return path


def test_serving_command(tmp_path: Path) -> None:
    """JSON in the layout of records; exit code 1 beyond --max-error."""
    path = tmp_path / "points.csv"
    path.write_text(f"{POINTS}\nsglang,1,meta-llama/Llama-3.1-8B,h200_sxm,fp8_block,64,1000,500,1,50\n", encoding="utf-8")
    command = [sys.executable, "-m", "roofline", "validate", "--serving", str(path), "--json", "--max-error", "10%"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert found["groups"][0]["op"] == "tpot"
    assert found["overall"]["estimate"]["mape"] > 0.1


def test_a_closed_loop_adds_up() -> None:
    """One client alone sees decode steps only; of many each sees the others' prompts, and the more, the shorter answers are."""
    loop = ClosedLoop.of("llama-3.1-8b", "h100-sxm", backend="trtllm")
    alone = loop.tpot(1, 1024, 128)
    assert alone["prefill"] == 0
    many = loop.tpot([64, 64], 1024, [128, 512])
    assert many["prefill"][0] > 3 * many["prefill"][1] > 0
    total = many["decode"] + many["prefill"] + many["engine"]
    assert many["estimate"] == pytest.approx(total)
    assert (many["low"] < many["estimate"]).all()
    assert (many["bound"] < many["estimate"]).all()


def test_the_bound_of_a_closed_loop_has_no_prompts_of_others() -> None:
    """Shorter answers mean shorter contexts, so less to read in a decode step, however many prompts come between."""
    loop = ClosedLoop.of("llama-3.1-8b", "h100-sxm", backend="trtllm")
    found = loop.tpot([64, 64], 1024, [128, 512])
    assert found["bound"][0] < found["bound"][1]
    assert found["shared_bound"][0] > found["shared_bound"][1]
    alone = loop.tpot(1, 1024, 128)
    assert alone["shared_bound"] == alone["bound"]


def test_a_closed_loop_knows_what_memory_holds() -> None:
    """Llama 3.1 8B on an H100: 85 GB x 0.9 less 16 GB of weights leave 60 GB, at 128 KiB per token 460,000 tokens.

    That is 52 sequences of 8,192 + 512. More clients wait, and do not decode.
    """
    loop = ClosedLoop.of("llama-3.1-8b", "h100-sxm", backend="vllm")
    found = loop.tpot([16, 512, 2048], 8192, 1024)
    assert found["running"][0] == 16
    assert 45 <= found["running"][1] <= 55
    assert found["running"][2] == found["running"][1]
    assert found["estimate"][2] == found["estimate"][1]


def test_clients_of_each_rank(tmp_path: Path) -> None:
    """`batch_size` is of one attention-DP rank: AIConfigurator lists runs of DeepSeek-R1 as 8 on 8 ranks and as 1 on 64.

    Two devices of attention beside four of experts are two ranks, whether the column says so or not.
    """
    path = tmp_path / "points.csv"
    head = f"{POINTS},attention_dp_size,moe_tp_size,moe_ep_size"
    name = "vllm,0.19.0,MiniMaxAI/MiniMax-M2.5,b200_sxm,fp8"
    path.write_text(f"{head}\n{name},4,1024,1024,2,11,2,1,4\n{name},4,1024,1024,2,11,,4,1\n", encoding="utf-8")
    frame = validate_serving([path]).frame
    assert list(frame["batch"]) == [8, 8]
    assert list(frame["replica"]) == [4, 4]
    assert set(frame["kernel"]) == {"minimax-m2.5"}


def test_devices_that_a_table_counts_twice(tmp_path: Path) -> None:
    """DeepSeek-R1 on 8 devices that share tokens and experts is listed as 64 = 8 x 8 too, with the same times at three loads.

    With times that 64 devices could have, half of those, the row is of what it says, and 64 devices are not joined.
    """
    path = tmp_path / "points.csv"
    head = f"{POINTS},attention_dp_size,moe_tp_size,moe_ep_size"
    name = "trtllm,1.1,deepseek-ai/DeepSeek-R1,h200_sxm,fp8"
    times = {4: 8.58, 8: 11.37, 16: 14.19}
    eight = [f"{name},{clients},1024,1024,8,{ms},1,1,8" for clients, ms in times.items()]
    twice = [f"{name},{clients},1024,1024,64,{ms},1,8,8" for clients, ms in times.items()]
    path.write_text("\n".join([head, *eight, *twice]) + "\n", encoding="utf-8")
    found = validate_serving([path])
    assert not found.refusals
    assert found.frame.groupby("batch")["estimate_s"].nunique().tolist() == [1, 1, 1]
    assert set(found.frame["layout"]) == {"tp8 dp1 moe_tp1 ep8", "tp64 dp1 moe_tp8 ep8"}
    faster = [f"{name},{clients},1024,1024,64,{ms / 2},1,8,8" for clients, ms in times.items()]
    path.write_text("\n".join([head, *eight, *faster]) + "\n", encoding="utf-8")
    assert sum(refusal.rows for refusal in validate_serving([path]).refusals) == 3


def test_experts_that_no_engine_can_divide(tmp_path: Path) -> None:
    """1,536 columns over 8 devices are 192, one block of 128 and a half: the experts are spread whole. Over 4 they are 384."""
    path = tmp_path / "points.csv"
    head = f"{POINTS},attention_dp_size,moe_tp_size,moe_ep_size"
    name = "vllm,0.18.0,MiniMaxAI/MiniMax-M2.5,h200_sxm,fp8"
    rows = [f"{name},4,1024,1024,{tp},8,1,{shared},{ep}" for tp, shared, ep in ((8, 8, 1), (8, 1, 8), (4, 4, 1), (4, 1, 4))]
    path.write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    cut, spread, divided, whole = validate_serving([path]).frame["estimate_s"]
    assert cut == spread
    assert divided != whole


def test_experts_of_uneven_popularity(tmp_path: Path) -> None:
    """Fewer experts are met, so that fewer weights are read: where picks are about as many as experts, not with thousands."""
    path = tmp_path / "points.csv"
    head = f"{POINTS},attention_dp_size,moe_tp_size,moe_ep_size"
    name = "vllm,0.18.0,MiniMaxAI/MiniMax-M2.5,h200_sxm,fp8"
    rows = [f"{name},{clients},1024,1024,4,8,1,1,4" for clients in (1, 32, 2048)]
    path.write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    even, uneven = (validate_serving([path], routing_skew=skew).frame["decode_s"] for skew in (0.0, 0.7))
    one, few, many = uneven / even
    assert few < 0.9
    assert one > 0.95
    assert many > 0.95
