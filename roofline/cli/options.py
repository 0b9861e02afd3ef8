"""Arguments and options that several commands share. Values stay text: they are read, with their units, by the request."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from roofline.cli import complete

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="Id, YAML file, config.json or its folder, or org/name.", autocompletion=complete.models
    ),
]
HardwareOption = Annotated[
    str, typer.Option("--hardware", "-H", metavar="HW", help="Id or YAML file.", autocompletion=complete.hardware)
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write to FILE; its suffix says the format.", dir_okay=True),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No messages on stderr but errors.")]

WORKLOAD, DEPLOYMENT, HARDWARE, COUNTING = "Workload", "Deployment", "In place of the hardware's figures", "Counting"
SPECULATION = "Speculative decoding"


def option(*names: str, text: str, panel: str, metavar: str | None = None) -> Any:
    """An optional value, as text."""
    return typer.Option(*names, help=text, metavar=metavar, rich_help_panel=panel, show_default=False)


# One alias a flag, named after it: a command lists those that it takes.
Assume = Annotated[
    str | None,
    typer.Option("--assume", help="Read a config.json as one of this FAMILY, on your own risk.", metavar="FAMILY"),
]
Batch = Annotated[
    str | None, option("--batch", "-b", text="Sequences in the whole deployment. Default: 1.", panel=WORKLOAD, metavar="N")
]
InputLen = Annotated[
    str | None, option("--input-len", text="Prompt tokens a sequence; 8k = 8192. Default: 1024.", panel=WORKLOAD, metavar="N")
]
OutputLen = Annotated[
    str | None,
    option("--output-len", text="Generated tokens a sequence; adds TTFT, TPOT and E2E.", panel=WORKLOAD, metavar="N"),
]
Context = Annotated[
    str | None,
    option("--context", text="Tokens cached before the decode step. Default: input-len.", panel=WORKLOAD, metavar="N"),
]
Contexts = Annotated[
    str | None,
    option(
        "--context",
        text="Tokens cached before the decode step: 1k,4k,32k. Default: 1k to the model's longest.",
        panel=WORKLOAD,
        metavar="LIST",
    ),
]
TtftLimit = Annotated[
    str | None, option("--ttft", text='First token of a prompt alone within "500 ms".', panel=WORKLOAD, metavar="TIME")
]
TpotLimit = Annotated[str | None, option("--tpot", text='Each further token within "50 ms".', panel=WORKLOAD, metavar="TIME")]
Phase = Annotated[
    str | None, option("--phase", text="prefill, decode or both. Default: both.", panel=WORKLOAD, metavar="PHASE")
]
Segments = Annotated[
    str | None, option("--segments", text="One mixed step: COUNTxNEW@CACHED,...", panel=WORKLOAD, metavar="LIST")
]
Dtype = Annotated[
    str | None, option("--dtype", text="Of all weights. Default: the model's.", panel=DEPLOYMENT, metavar="DTYPE")
]
ActivationDtype = Annotated[
    str | None, option("--activation-dtype", text="Of activations. Default: the model's.", panel=DEPLOYMENT, metavar="DTYPE")
]
KvCacheDtype = Annotated[
    str | None, option("--kv-cache-dtype", text="Of the KV cache. Default: as activations.", panel=DEPLOYMENT, metavar="DTYPE")
]
MambaSsmCacheDtype = Annotated[
    str | None,
    option("--mamba-ssm-cache-dtype", text="Of recurrent state. Default: the model's.", panel=DEPLOYMENT, metavar="DTYPE"),
]
Quantization = Annotated[
    str | None,
    option(
        "--quantization",
        text="Scheme of linear layers and experts: fp8, fp8_block, int8, awq, gptq, mxfp4, nvfp4, nf4, none, ...",
        panel=DEPLOYMENT,
        metavar="NAME",
    ),
]
TensorParallelSize = Annotated[
    str | None, option("--tensor-parallel-size", "--tp", text="Default: 1.", panel=DEPLOYMENT, metavar="N")
]
PipelineParallelSize = Annotated[
    str | None, option("--pipeline-parallel-size", "--pp", text="Default: 1.", panel=DEPLOYMENT, metavar="N")
]
DataParallelSize = Annotated[
    str | None, option("--data-parallel-size", "--dp", text="Default: 1.", panel=DEPLOYMENT, metavar="N")
]
ExpertParallelSize = Annotated[
    str | None, option("--expert-parallel-size", "--ep", text="Default: 1.", panel=DEPLOYMENT, metavar="N")
]
ContextParallelSize = Annotated[
    str | None,
    option(
        "--context-parallel-size",
        "--prefill-context-parallel-size",
        "--cp",
        text="Devices that divide the tokens of a sequence. Default: 1.",
        panel=DEPLOYMENT,
        metavar="N",
    ),
]
SequenceParallel = Annotated[
    bool,
    typer.Option(
        "--sequence-parallel",
        help="Tensor-parallel devices divide the tokens between the blocks.",
        rich_help_panel=DEPLOYMENT,
    ),
]
MaxModelLen = Annotated[
    str | None, option("--max-model-len", text="Longest sequence that the engine accepts.", panel=DEPLOYMENT, metavar="N")
]
MaxNumSeqs = Annotated[
    str | None, option("--max-num-seqs", text="Most sequences in one step of a replica.", panel=DEPLOYMENT, metavar="N")
]
MaxNumBatchedTokens = Annotated[
    str | None,
    option("--max-num-batched-tokens", text="Most tokens in one step. Default: the engine's.", panel=DEPLOYMENT, metavar="N"),
]
GpuMemoryUtilization = Annotated[
    str | None,
    option(
        "--gpu-memory-utilization",
        text="Share of memory that the engine uses. Default: the engine's.",
        panel=DEPLOYMENT,
        metavar="SHARE",
    ),
]
Reserve = Annotated[
    str | None, option("--reserve", text='Memory kept free, such as "2 GiB". Default: 0.', panel=DEPLOYMENT, metavar="BYTES")
]
BlockSize = Annotated[
    str | None,
    option("--block-size", text="Tokens in a block of the KV cache. Default: the engine's.", panel=DEPLOYMENT, metavar="N"),
]
EnablePrefixCaching = Annotated[
    bool,
    typer.Option(
        "--enable-prefix-caching",
        help="Accepted as engines write it; --shared-prefix says how much is shared.",
        rich_help_panel=DEPLOYMENT,
    ),
]
Engine = Annotated[
    str | None, option("--engine", text="NAME or NAME@VERSION. Default: vllm.", panel=DEPLOYMENT, metavar="NAME")
]
Backend = Annotated[
    str | None, option("--backend", text="Whose kernels the estimate is for.", panel=DEPLOYMENT, metavar="NAME")
]
PeakFlops = Annotated[
    str | None, option("--peak-flops", text='"312 TFLOP/s", for every dtype.', panel=HARDWARE, metavar="RATE")
]
Bandwidth = Annotated[str | None, option("--bandwidth", text='"2039 GB/s".', panel=HARDWARE, metavar="RATE")]
Memory = Annotated[str | None, option("--memory", text='"80 GiB".', panel=HARDWARE, metavar="BYTES")]
Mask = Annotated[str | None, option("--mask", text="causal or full. Default: causal.", panel=COUNTING, metavar="MASK")]
Attention = Annotated[str | None, option("--attention", text="fused or eager. Default: fused.", panel=COUNTING, metavar="KIND")]
Logits = Annotated[str | None, option("--logits", text="last or all. Default: last.", panel=COUNTING, metavar="WHICH")]
Mla = Annotated[str | None, option("--mla", text="auto, expand or absorb. Default: auto.", panel=COUNTING, metavar="FORM")]
RoutingSkew = Annotated[
    str | None,
    option("--routing-skew", text="Zipf exponent of expert popularity. Default: 0 (uniform).", panel=COUNTING, metavar="A"),
]
ExpertImbalance = Annotated[
    str | None,
    option(
        "--expert-imbalance",
        text="Tokens of the busiest expert-parallel device over the mean. Default: 1.",
        panel=COUNTING,
        metavar="X",
    ),
]
SharedPrefix = Annotated[
    str | None, option("--shared-prefix", text="Cached tokens common to the batch. Default: 0.", panel=COUNTING, metavar="N")
]
SpeculativeModel = Annotated[
    str | None,
    typer.Option(
        "--speculative-model",
        help="Draft model: id, YAML file, config.json, ...",
        metavar="MODEL",
        rich_help_panel=SPECULATION,
        show_default=False,
        autocompletion=complete.models,
    ),
]
SpeculativeMethod = Annotated[
    str | None,
    option(
        "--speculative-method", text="draft_model, mtp (the model's own layer) or ngram.", panel=SPECULATION, metavar="NAME"
    ),
]
NumSpeculativeTokens = Annotated[
    str | None, option("--num-speculative-tokens", text="Tokens drafted a round.", panel=SPECULATION, metavar="K")
]
Acceptance = Annotated[
    str | None,
    option("--acceptance", text="Probability that a drafted token is accepted.", panel=SPECULATION, metavar="A"),
]
SpeculativeDraftTensorParallelSize = Annotated[
    str | None,
    option(
        "--speculative-draft-tensor-parallel-size",
        text="Of the draft model. Default: as the model's.",
        panel=SPECULATION,
        metavar="N",
    ),
]
SpeculativeConfig = Annotated[
    str | None,
    option("--speculative-config", text="The same as JSON, as vLLM takes it.", panel=SPECULATION, metavar="JSON"),
]
IgnoreCapacity = Annotated[
    bool, typer.Option("--ignore-capacity", help="Give times even if it does not fit.", rich_help_panel=COUNTING)
]
