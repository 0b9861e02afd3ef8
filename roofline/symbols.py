"""The nomenclature: one table of the symbols that formulas, documents and pages use.

`docs/nomenclature.md` is written from this table. A dimension that a model's file names has its key there as `hf_key`;
the keys are Hugging Face's, so that a reader can lay the file beside a `config.json`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Symbol:
    """One quantity: its name in code, its LaTeX, its unit, its meaning, and its key in a model's file.

    `whole`: it takes whole numbers only.
    """

    name: str
    latex: str
    unit: str
    meaning: str
    hf_key: str = ""
    whole: bool = True


TABLE = (
    Symbol("B", "B", "sequences", "batch: sequences in one step"),
    Symbol("S_q", "S_q", "tokens", "new tokens per sequence in one step (a prompt, a chunk of it, or 1 at decode)"),
    Symbol("S_c", "S_c", "tokens", "tokens of a sequence that are cached before the step"),
    Symbol("T", "T", "tokens", "tokens in one step over all sequences, B * S_q"),
    Symbol("L", "L", "layers", "layers of a kind", "num_hidden_layers"),
    Symbol("d_model", "d_{model}", "elements", "width of the residual stream", "hidden_size"),
    Symbol("d_ff", "d_{ff}", "elements", "inner width of the feed-forward block", "intermediate_size"),
    Symbol("n_q", "n_q", "heads", "query heads", "num_attention_heads"),
    Symbol("n_kv", "n_{kv}", "heads", "key and value heads", "num_key_value_heads"),
    Symbol("d_head", "d_{head}", "elements", "width of a head", "head_dim"),
    Symbol("w", "w", "tokens", "sliding window, the token itself included", "sliding_window"),
    Symbol("w_c", "w_c", "tokens", "chunk of the sequence, of which a query sees its own", "attention_chunk_size"),
    Symbol("V", "V", "tokens", "size of the vocabulary", "vocab_size"),
    Symbol("E", "E", "experts", "routed experts in a layer", "num_experts"),
    Symbol("k", "k", "experts", "routed experts that a token uses", "num_experts_per_tok"),
    Symbol("d_e", "d_e", "elements", "inner width of a routed expert", "moe_intermediate_size"),
    Symbol("d_s", "d_s", "elements", "inner width of the shared experts together", "shared_intermediate_size"),
    Symbol("d_lat", "d_{lat}", "elements", "latent width that routed experts work in", "moe_latent_size"),
    Symbol("r_q", "r_q", "elements", "rank of the compressed queries (MLA)", "q_lora_rank"),
    Symbol("r_kv", "r_{kv}", "elements", "rank of the compressed keys and values (MLA)", "kv_lora_rank"),
    Symbol("d_nope", "d_{nope}", "elements", "width of a head's part without rotation (MLA)", "qk_nope_head_dim"),
    Symbol("d_rope", "d_{rope}", "elements", "width of the rotated part (MLA)", "qk_rope_head_dim"),
    Symbol("d_v", "d_v", "elements", "width of a head's values", "v_head_dim"),
    Symbol("d_inner", "d_{inner}", "elements", "channels of a Mamba layer", "mamba_d_inner"),
    Symbol(
        "d_state", "d_{state}", "elements", "state of a channel (Mamba), rows of a head's state (Mamba-2)", "ssm_state_size"
    ),
    Symbol("r_dt", "r_{dt}", "elements", "rank of the step Delta (Mamba)", "time_step_rank"),
    Symbol("n_ssm", "n_{ssm}", "heads", "heads of a Mamba-2 layer", "mamba_num_heads"),
    Symbol("d_ssm", "d_{ssm}", "elements", "width of such a head", "mamba_head_dim"),
    Symbol("n_g", "n_g", "groups", "groups of heads that share B and C (Mamba-2)", "n_groups"),
    Symbol("n_lk", "n_{lk}", "heads", "query and key heads of linear attention (Gated DeltaNet)", "linear_num_key_heads"),
    Symbol("n_lv", "n_{lv}", "heads", "value heads of linear attention (Gated DeltaNet)", "linear_num_value_heads"),
    Symbol("d_lk", "d_{lk}", "elements", "width of such a key head", "linear_key_head_dim"),
    Symbol("d_lv", "d_{lv}", "elements", "width of such a value head", "linear_value_head_dim"),
    Symbol("n_l", "n_l", "heads", "heads of linear attention (KDA)", "linear_num_heads"),
    Symbol("d_l", "d_l", "elements", "width of such a head", "linear_head_dim"),
    Symbol("c", "c", "tokens", "chunk of a prompt in a scan", "chunk_size"),
    Symbol("k_c", "k_c", "tokens", "tokens that a short convolution sees (state-space layers)", "conv_kernel"),
    Symbol("k_lc", "k_{lc}", "tokens", "tokens that a short convolution sees (linear attention)", "linear_conv_kernel_dim"),
    Symbol("n_idx", "n_{idx}", "heads", "heads of an indexer that chooses keys", "index_n_heads"),
    Symbol("d_idx", "d_{idx}", "elements", "width of an indexer's head, and of its key", "index_head_dim"),
    Symbol("k_idx", "k_{idx}", "keys", "keys that a query attends to, at most, where an indexer chooses", "index_topk"),
    Symbol("r_c", "r_c", "tokens", "tokens that one compressed entry of the cache stands for", "compress_ratio"),
    Symbol("g_o", "g_o", "groups", "groups of heads in a grouped output projection", "o_groups"),
    Symbol("r_o", "r_o", "elements", "rank of a group's output", "o_lora_rank"),
    Symbol("n_hc", "n_{hc}", "streams", "residual streams that hyper-connections mix", "hc_mult"),
    Symbol("n_au", "n_{au}", "streams", "copies of the residual stream that AltUp keeps", "altup_num_inputs"),
    Symbol("b_w", "b_w", "bytes", "bytes per weight", whole=False),
    Symbol("b_a", "b_a", "bytes", "bytes per activation", whole=False),
    Symbol("b_kv", "b_{kv}", "bytes", "bytes per element of the KV cache", whole=False),
    Symbol("b_s", "b_s", "bytes", "bytes per element of recurrent state", whole=False),
    Symbol("P", "P", "FLOP/s", "dense peak of matrix products in the dtype used", whole=False),
    Symbol("beta", "\\beta", "bytes/s", "bandwidth of device memory", whole=False),
    Symbol("I", "I", "FLOP/byte", "arithmetic intensity", whole=False),
    Symbol("M", "M", "bytes", "memory left for the KV cache", whole=False),
)

BY_NAME = {symbol.name: symbol for symbol in TABLE}
BY_KEY = {symbol.hf_key: symbol for symbol in TABLE if symbol.hf_key}
