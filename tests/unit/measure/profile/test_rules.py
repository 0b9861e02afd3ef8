"""Files of kernel rules: every example is found by its own rule, shapes and annotations are read as arithmetic says."""

from __future__ import annotations

import csv
import gzip
import json
import re
from pathlib import Path
from typing import get_args

import pytest

from roofline.errors import SpecError
from roofline.measure.profile.rules import Rules, bare_name
from roofline.measure.profile.trace import HostOperator
from roofline.measure.records.columns import COLUMNS, canonical
from roofline.measure.records.ops import RECORD_OPS
from roofline.specs.kernel_rules import KINDS, Dimension, KernelFamily, KernelKind, rules_by_example
from roofline.specs.library import ids

BF16 = "c10::BFloat16"
FP8 = "c10::Float8_e4m3fn"


@pytest.fixture(scope="module")
def rules() -> Rules:
    return Rules.load()


def test_every_file_is_loaded_in_its_order(rules):
    assert set(rules.families) == set(ids("kernels"))
    orders = [family.order for family in rules.families.values()]
    assert orders == sorted(orders)


def test_every_kind_has_a_name_and_a_kernel(rules):
    assert set(KINDS) == set(get_args(KernelKind))
    used = {rule.kind for family in rules.families.values() for rule in family.kernels}
    assert used == set(KINDS)


def test_every_example_of_a_kernel_is_found_by_its_own_rule(rules):
    for example, (family, number) in rules_by_example(rules.families).items():
        found = rules.identify(example)
        assert found is not None, example
        assert found.rule is rules.families[family].kernels[number], (example, found.family, found.rule.match)


def test_order_of_names_of_files_decides_nothing(rules):
    """An example of one file is of the same kind by the others of its `order`, where they know it."""
    for name, family in rules.families.items():
        others = {other: rules.families[other] for other in rules.families if other != name}
        alone = [Rules({other: held}) for other, held in others.items() if held.order == family.order]
        for rule in family.kernels:
            for example in rule.examples:
                for elsewhere in alone:
                    claimed = elsewhere.identify(example)
                    assert claimed is None or claimed.kind == rule.kind, (example, claimed)


NAMES = Path(__file__).with_name("kernel_names.tsv")


def gathered() -> list[tuple[set[str], str]]:
    """Names of kernels in public profiles, issues and sources, with the kinds that are right (one that fuses several: any).

    Names that were cut where they were read stand as they were read. They are not the examples of the rules.
    """
    with NAMES.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [(set(row["kind"].split("|")), row["name"]) for row in rows]


def test_gathered_names_are_understood(rules):
    """No kind is wrong, and 98 % of the names have one."""
    names = gathered()
    assert len(names) > 350
    assert {kind for kinds, _ in names for kind in kinds} <= set(KINDS)
    known = [(kinds, name, identity.kind) for kinds, name in names if (identity := rules.identify(name)) is not None]
    assert [(name, kind) for kinds, name, kind in known if kind not in kinds] == []
    assert len(known) > 0.98 * len(names)


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("void flash::flash_fwd_kernel<Traits<64, 128> >(flash::Params)", "flash::flash_fwd_kernel"),
        ("void (anonymous namespace)::fused_rope_kernel<true>((anonymous namespace)::Params)", "fused_rope_kernel"),
        ("void at::native::<unnamed>::CatArrayBatchedCopy<at::<unnamed>::A<2>>", "at::native::CatArrayBatchedCopy"),
        ("_ZN5aiter15mhc_post_kernelIDF16bLi256EEEvPT_", "aiter::mhc_post_kernel"),
        ("_ZL13mul_mat_vec_qIL9ggml_type12ELi1EEvPKvS2_", "mul_mat_vec_q"),
        ("_Z33kn_get_mla_metadata_v1_2_parallelI20MlaMetadataV12TraitsEv", "kn_get_mla_metadata_v1_2_parallel"),
        ("fused_moe_kernel.kd", "fused_moe_kernel.kd"),
    ],
)  # fmt: skip
def test_names_without_arguments(name, bare):
    assert bare_name(name) == bare


def test_no_example_stands_twice(rules):
    examples = [example for family in rules.families.values() for rule in family.kernels for example in rule.examples]
    assert len(examples) == len(set(examples))


def test_every_example_of_an_operator_has_the_kind_of_its_rule(rules):
    for family in rules.families.values():
        for rule in family.operators:
            for example in rule.examples:
                found = rules.operator_rule(example)
                assert found is not None, example
                assert found.kind == rule.kind, (example, found.match)
                assert re.fullmatch(rule.match, example), example


def test_every_example_of_an_annotation_is_a_step(rules):
    for family in rules.families.values():
        for rule in family.steps:
            for example in rule.examples:
                assert rules.step(example) is not None, example


def test_formats_and_columns_are_those_of_records(rules):
    for family in rules.families.values():
        for rule in family.kernels:
            for dtype in (rule.dtype, *rule.dtypes.values()):
                canonical(dtype)
        for rule in family.operators:
            if isinstance(rule.weight, str):
                canonical(rule.weight)
            if rule.op:
                record = RECORD_OPS[rule.op]
                assert set(rule.columns) <= {*record.needs, *record.optional, "tokens"}
            assert set(rule.columns) <= {name for name, column in COLUMNS.items() if column.kind == "count"}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("something_that_nobody_wrote", None),
        ("_fwd_kernel_of_another_library", None),
        ("my_custom_kernel_v2", None),
        ("void foo::bar_kernel<float>(float*)", None),
        ("main_kernel", None),
        ("_update_kernel", None),
        # what a functor is named must not decide before the kernel that it is in
        ("void at::native::vectorized_elementwise_kernel<4, at::native::softmax_thing>(int)", "elementwise"),
        ("triton_poi_fused_add_addmm_cat_mul_5", "elementwise"),
        ("triton_poi_fused_mul_silu_topk_5", "activation"),
        # CUTLASS runs products and attention by a kernel of one name
        ("void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<int>>>(int)", "attention"),
        ("void cutlass::device_kernel<vllm::cutlass_3x_gemm_sm90<cutlass::float_e4m3_t>>(int)", "gemm"),
    ],
)  # fmt: skip
def test_a_name_that_is_not_known_stays_unknown(rules, name, kind):
    found = rules.identify(name)
    assert (None if found is None else found.kind) == kind


def test_the_operator_decides_for_generic_kernels_and_parts_only(rules):
    gather = "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, long, long, long, bool)"
    assert rules.identify(gather, HostOperator("aten::index_put_")).kind == "copy"
    assert rules.identify(gather, HostOperator("aten::an_operator_of_another_time")).kind == "embedding"
    memset = rules.identify("Memset (Device)", HostOperator("aten::addmm"))
    assert (memset.kind, memset.part) == ("gemm", True)
    assert rules.identify("Memset (Device)").kind == "fill"
    gemm = "nvjet_tst_64x24_64x16_4x1_v_bz_TNT"
    assert rules.identify(gemm, HostOperator("vllm::moe_forward")).kind == "gemm"


def test_a_kernel_without_a_rule_does_what_its_operator_does(rules):
    found = rules.identify("a_kernel_of_tomorrow", HostOperator("aten::mm"))
    assert (found.kind, found.family, found.dtype) == ("gemm", "torch_native", "")


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("nvjet_hsh_128x8_64x12_2x1_v_bz_TNT", "fp16"),
        ("nvjet_sm100_tst_128x256_64x6_2x1_2cta_v_bz_TNT", "bf16"),
        ("nvjet_qqtst_128x128_128x6_1x2_h_bz_TNT", "fp8"),
        ("sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize64x64x128_warpgroupsize1x1x1_execute", "fp8"),
        ("Cijk_Alik_Bljk_HHS_BH_Bias_HA_S_SAV_UserArgs_MT128x128x64", "fp16"),
        ("Cijk_Alik_Bljk_F8BS_BH_Bias_HA_S_SAB_SCD_SAV_UserArgs_MT256x256x128", "fp8"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_s16816gemm_bf16_64x64_64x6_tn_align8>(T1::Params)", "bf16"),
        ("bmm_Bfloat16_E2m1E2m1_Fp32_bA16_bB16_t128x8x256_s6_et128x8", "fp4"),
        ("bmm_Bfloat16_E4m3E4m3_Fp32_t128x8x128u2_s8_et64x8", "fp8"),
        ("bmm_Bfloat16_MxE2m1MxE4m3_Fp32_Ab32_Bb32_t128x8x512_s3_et128x8", "fp4"),
        ("fmhaSm100fKernel_QkvE4m3OBfloat16HQk576HV512PagedKvDenseP64VarSeqQ128Kv128", "fp8"),
        ("_matmul_ogs_NNT_bf16xbf16xmxfp4_128x128x128x1", "fp4"),
        ("_matmul_ogs_NNT_bf16xbf16xbf16_128x128x128x1", "bf16"),
    ],
)
def test_names_imply_formats(rules, name, dtype):
    assert rules.identify(name).dtype == dtype


@pytest.mark.parametrize(
    ("operator", "record"),
    [
        (
            HostOperator("aten::mm", ((8944, 1024), (1024, 2816)), (BF16, BF16)),
            {"op": "gemm", "dtype": "bf16", "m": 8944, "k": 1024, "n": 2816},
        ),
        (
            HostOperator("aten::addmm", ((5120,), (8192, 2880), (2880, 5120), (), ()), (BF16, BF16, BF16, "Scalar", "Scalar")),
            {"op": "gemm", "dtype": "bf16", "m": 8192, "k": 2880, "n": 5120},
        ),
        (
            HostOperator("aten::linear", ((16, 559, 1024), (2816, 1024), ()), (BF16, BF16, "")),
            {"op": "gemm", "dtype": "bf16", "m": 16 * 559, "k": 1024, "n": 2816},
        ),
        (
            HostOperator("aten::_scaled_mm", ((32, 4096), (4096, 6144), (), ()), (FP8, FP8, "float", "float")),
            {"op": "gemm", "dtype": "fp8", "m": 32, "k": 4096, "n": 6144},
        ),
        (
            HostOperator("_C::awq_gemm", ((4, 4096), (4096, 1536), (32, 12288), (32, 1536), ()), ("c10::Half", "int")),
            {"op": "gemm", "dtype": "int4", "m": 4, "k": 4096, "n": 12288},
        ),
        (
            HostOperator("aten::bmm", ((128, 4, 512), (128, 512, 64)), (BF16, BF16)),
            {"op": "bmm", "dtype": "bf16", "batch": 128, "m": 4, "k": 512, "n": 64},
        ),
        (
            HostOperator("aiter::rmsnorm", ((491520, 128), (491520, 128), (128,), ()), (BF16, BF16, BF16, "Scalar")),
            {"op": "rmsnorm", "dtype": "bf16", "tokens": 491520, "hidden": 128},
        ),
        (
            HostOperator("_C::rms_norm", ((8, 32, 128), (8, 32, 128), (128,), ()), (BF16, BF16, BF16, "Scalar")),
            {"op": "rmsnorm", "dtype": "bf16", "tokens": 8 * 32, "hidden": 128},
        ),
        (
            HostOperator("sgl_kernel::silu_and_mul", ((15360, 12288), (15360, 24576)), (BF16, BF16)),
            {"op": "silu_mul", "dtype": "bf16", "tokens": 15360, "inter": 12288},
        ),
        (
            HostOperator(
                "_C::rotary_embedding",
                ((8192,), (8192, 4096), (8192, 512), (), (131072, 64), ()),
                ("long int", BF16, BF16, "Scalar", BF16, "Scalar"),
                ("", "", "", "64", "", "True"),
            ),
            {"op": "rope", "dtype": "bf16", "tokens": 8192, "n_heads": 64, "n_kv_heads": 8, "head_dim": 64},
        ),
        (
            HostOperator("aten::embedding", ((151936, 1024), (16, 559), (), (), ()), (BF16, "long int")),
            {"op": "embedding", "dtype": "bf16", "tokens": 16 * 559, "hidden": 1024, "n": 151936},
        ),
        (
            HostOperator("aten::add", ((16, 559, 1024), (16, 559, 1024), ()), (BF16, BF16, "Scalar")),
            {"op": "add", "dtype": "bf16", "tokens": 16 * 559, "hidden": 1024},
        ),
        (
            HostOperator("aten::argmax", ((15, 151936), (), ()), ("float", "Scalar", "Scalar")),
            {"op": "sampling", "dtype": "fp32", "tokens": 15, "n": 151936},
        ),
        (
            HostOperator(
                "vllm::unified_attention_with_output",
                ((8192, 64, 64), (8192, 8, 64), (8192, 8, 64), (8192, 64, 64), (), (), (), (0,)),
                (BF16,) * 4,
            ),
            {"op": "attention_prefill", "dtype": "bf16", "tokens": 8192, "n_heads": 64, "n_kv_heads": 8, "head_dim": 64},
        ),
        # 2 * 8192 * 8 * 64 elements of 2 bytes in; as many bytes of a cache of 1 byte an element out
        (
            HostOperator(
                "_C_cache_ops::reshape_and_cache_flash",
                ((8192, 8, 64), (8192, 8, 64), (224304, 32, 8, 64), (224304, 32, 8, 64), (8192,), (), (), ()),
                (BF16, BF16, "unsigned char", "unsigned char", "long int"),
            ),
            {"read_bytes": 2 * 8192 * 8 * 64 * 2, "write_bytes": 2 * 8192 * 8 * 64},
        ),
        # read: 64 + 16 * 559 * 64 elements; written: all that they are together
        (
            HostOperator("aten::mul", ((16, 16, 559, 64), (1, 1, 559, 64)), (BF16, BF16)),
            {"dtype": "bf16", "read_bytes": 2 * 559 * 64 * (16 * 16 + 1), "write_bytes": 2 * 16 * 16 * 559 * 64},
        ),
        (
            HostOperator("aten::copy_", ((16, 1024), (16, 1024), ()), ("float", BF16, "Scalar")),
            {"dtype": "fp32", "read_bytes": 2 * 16 * 1024, "write_bytes": 4 * 16 * 1024},
        ),
        # in: x, residual and the weight; out: both in place
        (
            HostOperator("_C::fused_add_rms_norm", ((7, 4096), (7, 4096), (4096,), ()), (BF16, BF16, BF16, "Scalar")),
            {"dtype": "bf16", "read_bytes": 2 * (2 * 7 + 1) * 4096, "write_bytes": 2 * 2 * 7 * 4096},
        ),
        (HostOperator("aten::mm"), None),  # a trace without shapes
        (HostOperator("aten::view", ((4, 4),), (BF16,)), None),
    ],
    ids=lambda value: value.name if isinstance(value, HostOperator) else "",
)  # fmt: skip
def test_shapes_give_columns_and_bytes(rules, operator, record):
    found = rules.record(operator)
    assert found == record
    if record is not None and "op" in record and "attention" not in record["op"]:
        assert set(RECORD_OPS[record["op"]].needs) <= set(found)


SDPA = "aten::_scaled_dot_product_flash_attention"
ONE = {"batch": 16, "n_heads": 32, "n_kv_heads": 8, "head_dim": 64, "dtype": "bf16", "kv_dtype": "bf16"}


def sdpa(new: int, attended: int, causal: str) -> HostOperator:
    shapes = ((16, 32, new, 64), (16, 8, attended, 64), (16, 8, attended, 64), (), (), (), ())
    return HostOperator(SDPA, shapes, (BF16, BF16, BF16), ("", "", "", "0.", causal, "False", "0.125"))


def test_attention_is_read_where_it_is_causal_or_of_one_token(rules):
    assert rules.record(sdpa(559, 559, "True")) == {"op": "attention_prefill", "q_len": 559, "kv_len": 559, **ONE}
    assert rules.record(sdpa(1, 560, "False")) == {"op": "attention_decode", "q_len": 1, "kv_len": 560, **ONE}
    # every token sees every other one: twice the work of what a record means
    assert rules.record(sdpa(559, 559, "False")) is None


@pytest.mark.parametrize(
    ("annotation", "numbers"),
    [
        (
            "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)",
            {"kind": "mixed", "prefills": 9, "decodes": 37, "prefill_tokens": 8155, "decode_tokens": 37, "prefill_kv": 8430,
             "decode_kv": 34489, "prefill_pairs": 7671310, "tokens": 8192},
        ),
        (
            "execute_context_1(512)_generation_3(3)",
            {"kind": "mixed", "prefills": 1, "decodes": 3, "prefill_tokens": 512, "decode_tokens": 3, "tokens": 515},
        ),
        ("execute_context_0(0)_generation_8(8)", {"kind": "decode", "decodes": 8, "decode_tokens": 8, "tokens": 8}),
        ("step[EXTEND bs=15 toks=15360]", {"kind": "prefill", "prefills": 15, "prefill_tokens": 15360, "tokens": 15360}),
        ("step[DECODE bs=8]", {"kind": "decode", "decodes": 8}),
        ("step[IDLE bs=0]", {"kind": "step"}),
        ("[Executor] _forward_step 12: 1 ctx reqs, 3 gen reqs", {"kind": "mixed", "prefills": 1, "decodes": 3}),
        (
            "[Executor] _forward_step 8: 2 ctx reqs, 4096 ctx tokens, 30 gen reqs",
            {"kind": "mixed", "prefills": 2, "prefill_tokens": 4096, "decodes": 30, "tokens": None},
        ),
        ("[Executor] _forward_step: 2 ctx reqs, 0 gen reqs", {"kind": "prefill", "prefills": 2, "decodes": 0}),
        # two prompts of 8 and 4 new tokens behind 2 and 6 in the cache: 10 + 10 attended to, 8 x 10 + 4 x 10 pairs
        (
            "step[EXTEND bs=2 toks=12 c_sqsq=80 c_sqsk=120 c_sk=20]",
            {"kind": "prefill", "prefills": 2, "prefill_tokens": 12, "prefill_kv": 20, "prefill_pairs": 120, "tokens": 12},
        ),
        (
            "step[DECODE bs=2 g_sqsq=2 g_sqsk=30 g_sk=30]",
            {"kind": "decode", "decodes": 2, "decode_tokens": 2, "decode_kv": 30},
        ),
        (
            "step[MIXED bs=2 c=1 g=1 c_sq=5 c_sk=8 c_sqsq=25 c_sqsk=40 g_sq=1 g_sk=12 g_sqsq=1 g_sqsk=12]",
            {"kind": "mixed", "prefills": 1, "decodes": 1, "prefill_tokens": 5, "prefill_kv": 8, "decode_tokens": 1,
             "decode_kv": 12, "tokens": 6},
        ),
        ("step[VERIFY bs=4]", {"kind": "decode", "decodes": 4}),
        ("prefill[bs=2 tok=14721 ctx=[7803, 6918]]", {"kind": "prefill", "prefills": 2, "prefill_tokens": 14721}),
        ("decode[bs=117/128 tok=117 d=117]", {"kind": "decode", "decodes": 117, "decode_tokens": 117}),
        ("[Executor] _forward_step 7: 19 gen reqs", {"kind": "decode", "decodes": 19}),
        ("capture_8192_PIECEWISE", {"kind": "capture", "tokens": 8192}),
        ("ProfilerStep#6", {"kind": "step"}),
    ],
)  # fmt: skip
def test_annotations_give_numbers_of_steps(rules, annotation, numbers):
    step = rules.step(annotation)
    for name, value in numbers.items():
        assert getattr(step, name) == value, name


@pytest.mark.parametrize("annotation", ["## Call CompiledFxGraph fb3en3pm ##", "Optimizer.step#Adam.step", "forward", ""])
def test_other_annotations_are_no_steps(rules, annotation):
    assert rules.step(annotation) is None


@pytest.mark.parametrize("text", ["0[", "0[1]+1", "x", "", "0[1]*", "v", "2[*"])
def test_what_is_no_dimension_is_refused(text):
    with pytest.raises(ValueError, match="dimension"):
        Dimension.parse(text)


def test_a_file_with_a_wrong_rule_is_refused_at_its_place(tmp_path):
    from roofline.specs.library import read_spec

    path = tmp_path / "mine.yaml"
    path.write_text(
        "schema_version: 1\ntitle: mine\nsources: [{title: me}]\nkernels:\n  - {match: '(', kind: gemm, examples: [a]}\n",
        encoding="utf-8",
    )
    with pytest.raises(SpecError, match="regular expression"):
        read_spec(path, KernelFamily)


def test_files_of_ones_own_come_before(tmp_path, monkeypatch):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "mine.yaml").write_text(
        "schema_version: 1\ntitle: mine\norder: -9\nsources: [{title: me}]\nkernels:\n"
        "  - {match: '^my_gemm', kind: gemm, examples: [my_gemm_1]}\n"
        "  - {match: '^nvjet', kind: router, examples: [nvjet_x]}\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("ROOFLINE_PATH", str(tmp_path))
    rules = Rules.load()
    assert rules.identify("my_gemm_1").family == "mine"
    assert rules.identify("nvjet_tst_1x1").kind == "router"


def traces(folder: Path) -> list[Path]:
    return sorted((folder / "truth" / "profiles").glob("*.json.gz"))


@pytest.mark.slow
def test_all_time_of_real_traces_is_understood(rules, truth):
    found = traces(truth)
    assert found
    for path in found:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        hosts = {event["args"].get("External id"): event["name"] for event in events if event.get("cat") == "cpu_op"}
        total = known = 0.0
        for event in events:
            if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
                host = hosts.get(event["args"].get("External id"))
                total += event["dur"]
                if rules.identify(event["name"], HostOperator(host) if host else None) is not None:
                    known += event["dur"]
        assert known >= 0.999 * total, path.name
