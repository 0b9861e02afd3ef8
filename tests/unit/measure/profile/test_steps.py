"""Steps of traces written by hand: which kernels are theirs, and what is not said."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofline.measure.profile.profile import profile
from roofline.measure.profile.trace import Annotation, HostOperator, Trace

NAME = "execute_context_0(0)_generation_4(4)"
LAYER = (
    "rms_norm_kernel", "nvjet_hsh_128x64", "rotary_embedding_kernel", "reshape_and_cache_flash_kernel",
    "flash::flash_fwd_splitkv_kernel", "nvjet_hsh_64x64", "fused_add_rms_norm_kernel", "nvjet_hsh_256x64",
    "act_and_mul_kernel", "nvjet_hsh_64x128",
)  # fmt: skip


def decode(layers: int, steps: int) -> Trace:
    """Steps of four sequences without shapes, launches or lengths; each has its range on the device."""
    trace = Trace(Path("made"), "hand", device_names=["NVIDIA H100 80GB HBM3"])
    trace.kernels.names = list(LAYER)
    for step in range(steps):
        names = [*range(len(LAYER))] * layers + [0, 1]  # the last norm and the LM head
        for number, name in enumerate(names):
            trace.kernels.append(name, step + 1e-5 * number, 1e-5)
        trace.annotations.append(Annotation(NAME, step - 0.5, 0.1))
        trace.annotations.append(Annotation(NAME, float(step), 0.5, on_device=True))
    trace.annotations.sort(key=lambda entry: entry.start_s)
    return trace


def test_ranges_of_one_name_are_steps_of_their_own() -> None:
    """Three steps of one name: each has its own 22 kernels, by the ranges of the device in their order."""
    steps = profile(decode(2, 3)).steps
    assert [len(step.kernels) for step in steps] == [22, 22, 22]
    assert [step.start_s for step in steps] == pytest.approx([0, 1, 2])
    assert {(step.kind, step.batch, step.new_tokens, step.cached_tokens) for step in steps} == {("decode", 4, 4, None)}


def test_attention_without_lengths_has_no_bound() -> None:
    """The annotation has no lengths of contexts: products have their work, attention and the step have none, and a note."""
    result = profile(decode(32, 2), "llama-3.1-8b", "h100-sxm")
    details = {entry.label: entry for entry in result.details}
    assert details["layers/mlp/down_proj"].flops == 2 * 32 * 2 * 4 * 14336 * 4096
    assert details["layers/attention/core"].bound_s is None
    rows = {row.path: row for row in result.alignment}
    assert (rows["layers/attention/core"].planned, rows["layers/attention/core"].measured) == (64, 64)
    assert rows["layers/attention/core"].estimate_s is None
    assert result.step_estimates == [(None, None)] * 2
    assert [note for note in result.notes if "how long the contexts are" in note] == [
        "the trace does not say how long the contexts are: attention has no bound, nor has a whole step"
    ]


@pytest.mark.parametrize(
    ("annotation", "tokens", "kind", "batch", "new"),
    [
        # 30 sequences that generate run in the graph for 32; with 512 tokens they do not generate one each
        ("execute_new_0_cached_30", 32, "decode", 30, 30),
        ("execute_new_0_cached_30", 512, "", 30, 512),
        ("execute_new_2_cached_30", 512, "mixed", 32, 512),
    ],
)
def test_running_sequences_are_decodes_unless_there_are_more_tokens(
    annotation: str, tokens: int, kind: str, batch: int, new: int
) -> None:
    """`execute_new_N_cached_M` of vLLM beside a lookup of so many tokens in the embedding."""
    trace = Trace(Path("made"), "hand", device_names=["NVIDIA H100 80GB HBM3"])
    trace.kernels.names = ["void at::native::vectorized_gather_kernel<16, long>(...)"]
    trace.kernels.operators = [HostOperator("aten::embedding", ((151936, 1024), (tokens,)), ("c10::BFloat16", "long int"))]
    trace.kernels.append(0, 0.0, 1e-5, operator=0, launch_s=0.0)
    trace.annotations.append(Annotation(annotation, 0.0, 0.5))
    (step,) = profile(trace).steps
    assert (step.kind, step.batch, step.new_tokens) == (kind, batch, new)


def test_what_topk_chooses_depends_on_what_comes_next() -> None:
    """Before products of experts it chooses experts; after the LM head, before the attention of the next step, tokens."""
    trace = Trace(Path("made"), "hand")
    trace.kernels.names = [
        "void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>(...)",
        "fused_moe_kernel",
        "_fwd_kernel",
    ]
    for number, name in enumerate((2, 0, 1, 0, 2, 0, 1, 0)):
        trace.kernels.append(name, float(number), 0.5)
    kinds = [identity.kind for identity in profile(trace).identities if identity is not None]
    assert kinds == ["attention", "router", "grouped_gemm", "sampling"] * 2


def test_a_kernel_for_every_collective_is_named_as_a_guess() -> None:
    """RCCL's kernel without its operator: 2 s are called an all-reduce, and a note says so."""
    trace = Trace(Path("made"), "hand")
    trace.kernels.names = ["ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)"]
    trace.kernels.operators = [HostOperator("nccl:_allgather_base")]
    trace.kernels.append(0, 0.0, 2.0)
    trace.kernels.append(0, 3.0, 1.0, operator=0)
    result = profile(trace)
    assert [identity.kind for identity in result.identities if identity is not None] == ["all_reduce", "all_gather"]
    assert any(note.startswith("2 s in kernels that do any collective") for note in result.notes)
