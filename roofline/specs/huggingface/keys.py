"""Keys that change no count, in every family, and words that make an unknown key suspicious."""

from __future__ import annotations

import re
from typing import Any

# Training, generation, tokens, numerics, positions, bookkeeping, and the parts that are not the language model.
_NO_COUNT = re.compile(
    r"""
    _.*                                            # private to a library
    | .*token_id | .*token_ids | .*token_index | .*token_indices | .*token_idx
    | .*dropout.* | .*_pdrop | .*pdrop.* | layerdrop
    | .*initializer.* | initializer_.* | init_.*(std|factor|range|scale|method|device|fn).* | mup_.* | .*_std
    | .*_eps | .*epsilon | .*_coef | .*_coeff | .*coefficient | .*_loss.* | aux_loss.* | .*jitter.* | .*_prob | .*_alpha
    | .*rope_theta.* | .*rope_scaling.* | rope_parameters | rope_.*(base|type|freq|interleave).* | .*rotary_(emb_)?base
    | .*rope_interleave | original_max_position_embeddings | rotary_emb_.* | .*_rope_base | mrope_.* | use_mrope | rope_ratio
    | .*softcap.* | .*_scale | .*_scaling | .*scaling_factor | scale
    | ((attention|ssm)(_in|_out)?|embedding|key|lm_head|logits|mlp|residual)_multipliers? | .*scale_.* | .*_limit | .*clip.*
    | .*(hidden_act|activation_function|hidden_activation|activation|act_fn|activation_type|mlp_hidden_act)
    | .*_act | .*version | .*dtype.* | architectures | auto_map | model_type | transformers.* | tokenizer.* | processor.*
    | use_cache | use_flash.* | .*attn_implementation | gradient_checkpointing | pretraining_tp | .*_impl | use_mamba_kernels
    | use_.*kernel.* | use_fused.* | fused_.*kernel.* | is_causal | causal | use_reentrant | use_parallel_residual_kernel
    | output_(attentions|hidden_states|router_logits|scores|dropout) | return_dict.* | torchscript | use_bfloat16
    | (max|min)_length | do_sample | early_stopping | num_beams | num_beam_groups | num_return_sequences | temperature
    | top_k | top_p | typical_p | repetition_penalty | .*_penalty | no_repeat_ngram_size | .*_ngram_size | bad_words_ids
    | .*suppress_tokens | problem_type | id2label | label2id | num_labels | finetuning_task | task.* | prefix
    | tf_legacy_loss | remove_invalid_values | chunk_size_feed_forward | tie_encoder_decoder | summary_.* | ep_size
    | attn_config_type | name_or_path | base_model.* | license | language | tags | unsloth.* | generation_config
    | scoring_func | topk_method | norm_topk_prob | .*route_scale | routed_scaling_factor | seq_aux | n_group | topk_group
    | score_function | router_scaling.* | moe_router_.*(dtype|fusion|scaling|scoring|score|enable).* | use_cpu_initialization
    | logits_to_keep | num_logits_to_keep | rescale_.* | residual_in_fp32 | time_step_(floor|limit|max|min) | .*in_fp32
    | model_max_length | max_sequence_length | runner_max_sequence_length | seq_length | seq_len | initial_context_length
    | move_model_to_device | device_map | .*softmax_in_fp32 | scale_attn_weights | scale_attn_by_inverse_layer_idx
    | reorder_and_upcast_attn | gguf | quantization_status | cls_token.* | sep_token.* | chat_template | hf_.*
    | max_window_layers | train_.* | .*_checkpointing | dist.* | .*_rank_zero | log_.* | reset_.* | bos | eos | pad
    | .*(vision|image|video|audio|visual|speech|mm_|multimodal|projector|img|spatial_merge|temporal_patch|siglip|patch).*
    | (boi|eoi|boa|eoa)_.* | ignore_index | media_.* | freeze_.* | mlp_ptdtype | use_unified_vision_chunk
    """,
    re.VERBOSE,
)

# A key with one of these words in it, that no family asked for, may be a dimension or a switch of the architecture.
_DIMENSION = re.compile(
    r"""
    (?: .*[\W_\d] )?
    (?: heads? | hidden | sizes? | dims? | dimension | rank | layers? | blocks? | experts? | windows? | chunk | vocab | bias
    | tied? | embeddings? | embed | mlp | ffn | ff | inner | intermediate | attn | attention | kv | query | key | value
    | qk | qkv | norms? | layernorm | conv | ssm | mamba | states? | groups? | latent | lora | moe | shared? | router | gated?
    | topk | index | indexer | pattern | ratio | depth | width | mixer | linear | sparse | sparsity | adapter | cross | compress
    | compression | positions? | residual | parallel | stride | interval | step | freq | frequency | every | nextn | mtp
    | stages | recurrent | memory | loops | cla | dense | interleave | sliding | local | global | quantization | bits
    | retention | kernel | n | d | num )
    (?: [\W_\d].* )?
    """,
    re.VERBOSE,
)


def changes_no_count(name: str, value: Any) -> bool:
    """Whether a key is known to change no parameter, byte or FLOP."""
    return _NO_COUNT.fullmatch(name) is not None


def may_change_counts(name: str, value: Any) -> bool:
    """Whether an unknown key looks like a dimension or a switch that is on."""
    if value is None or value is False or value in (0, "", [], {}):
        return False
    if isinstance(value, dict):
        return True
    return _DIMENSION.fullmatch(name.lower()) is not None
