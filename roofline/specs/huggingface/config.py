"""The keys of a config, handed out by name and kind. What a family does not ask for is looked at in the end."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NoReturn

from roofline.errors import UnknownNameError
from roofline.specs.huggingface.document import Document, Place

# No layer is wider and no model deeper than this; it keeps slips of the keyboard out of results.
MAX_WHOLE = 2**31 - 1
MAX_LAYERS = 10_000
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")


ASSUMED = "left aside, as --assume has it: it may change counts"


class _Required:
    """Stands for a default that there is not."""


REQUIRED = _Required()


@dataclass(frozen=True, slots=True)
class Reading:
    """A choice that the reader made because the config left it open."""

    name: str
    value: Any
    why: str


@dataclass
class Config:
    """One JSON object of a config: the whole file, or the part that describes the language model.

    `outer` are keys of the file around a nested part that hold for it too, where it does not say otherwise. Methods that hand
    out a value take several names of one key: the first that is there counts, and others must agree with it. They raise a
    `SpecError` with the line of the key where it is missing without a `default`, of the wrong type or out of range. A default
    with a `why` is recorded as an assumption.
    """

    document: Document
    data: dict[str, Any]
    place: Place = ()
    outer: dict[str, Any] = field(default_factory=dict)
    lenient: bool = False
    """Whether keys that may change counts are left aside at the user's own risk."""
    requested: set[str] = field(default_factory=set)
    readings: list[Reading] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    parts: list[Config] = field(default_factory=list)

    # Values by kind. Each takes several names for one thing: the first that is there counts.

    def whole(self, *names: str, default: Any = REQUIRED, low: int = 1, why: str = "") -> Any:
        """The value of an integer key; null is the same as absent.

        Args:
            names: of the key.
            default: returned as it is where the key is absent; without one the key is required.
            low: the least value allowed. The largest is 2^31 - 1, or 10,000 for a number of layers.
            why: the reason for the default, put on record.

        Raises:
            SpecError: the key is missing, is no integer, or is out of range.
        """
        name, value = self._take(names, default, why)
        if name is None:
            return value
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(name, f"must be a whole number, not {_spelled(value)}")
        high = MAX_LAYERS if name in _LAYERS else MAX_WHOLE
        if not low <= value <= high:
            self.refuse(name, f"must be from {low} to {high:,}, not {_spelled(value)}")
        return value

    def flag(self, *names: str, default: Any = REQUIRED, why: str = "") -> Any:
        """The value of a boolean key; null is not allowed, because readers differ on what it means.

        Raises:
            SpecError: the key is missing, or neither true nor false.
        """
        name, value = self._take(names, default, why, null=False)
        if name is not None and not isinstance(value, bool):
            self.refuse(name, f"must be true or false, not {_spelled(value)}")
        return value

    def choice(self, *names: str, of: Collection[str], default: Any = REQUIRED, why: str = "") -> Any:
        """The value of a key that is one of the strings `of`.

        Raises:
            SpecError: the key is missing, or another value.
        """
        name, value = self._take(names, default, why)
        if name is not None and (not isinstance(value, str) or value not in of):
            self.refuse(name, f"must be {' or '.join(map(repr, of))}, not {_spelled(value)}")
        return value

    def fraction(self, *names: str, default: Any = REQUIRED, why: str = "") -> Any:
        """The value of a key that is a number above 0, at most 1.

        Raises:
            SpecError: the key is missing, no number, or out of range.
        """
        name, value = self._take(names, default, why)
        if name is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1):
            self.refuse(name, f"must be a number above 0, at most 1, not {_spelled(value)}")
        return value

    def text(self, *names: str, default: Any = REQUIRED) -> Any:
        """The value of a string key.

        Raises:
            SpecError: the key is missing, or no string.
        """
        name, value = self._take(names, default, "")
        if name is not None and not isinstance(value, str):
            self.refuse(name, f"must be a text, not {_spelled(value)}")
        return value

    def words(self, name: str, count: int, of: Collection[str], default: Any = REQUIRED) -> Any:
        """The value of a key that lists one string per layer.

        Args:
            name: of the key.
            count: number of layers.
            of: strings that are allowed.
            default: returned where the key is absent; without one the key is required.

        Raises:
            SpecError: the key is missing, no list, of another length, or an entry is unknown.
        """
        key, value = self._take((name,), default, "")
        if key is None:
            return value
        if not isinstance(value, list) or len(value) != count:
            size = f" {len(value)}" if isinstance(value, list) else " none"
            self.refuse(name, f"must be a list with one entry for each of the {count} layers; it has{size}")
        for index, word in enumerate(value):
            if word not in of:
                unknown = UnknownNameError("entry", word, of, list_all=True)
                raise self.document.error((*self.place, name, index), f"{self._path(name)}[{index}]: {unknown}")
        return value

    def wholes(self, name: str, count: int, default: Any = REQUIRED, low: int = 0) -> Any:
        """The value of a key that lists one integer, at least `low`, for each of `count` layers.

        Raises:
            SpecError: the key is missing, no such list, or of another length.
        """
        key, value = self._take((name,), default, "")
        if key is None:
            return value
        good = isinstance(value, list) and all(
            isinstance(one, int) and not isinstance(one, bool) and low <= one <= MAX_WHOLE for one in value
        )
        if not good or len(value) != count:
            self.refuse(name, f"must be a list of {count} whole numbers from {low}, one for each layer, not {_spelled(value)}")
        return value

    def indices(self, name: str, count: int, default: Any = REQUIRED) -> Any:
        """The value of a key that lists layers by their index, from 0 to count - 1.

        Raises:
            SpecError: the key is missing, or no such list.
        """
        key, value = self._take((name,), default, "")
        if key is None:
            return value
        good = isinstance(value, list) and all(isinstance(i, int) and not isinstance(i, bool) and 0 <= i < count for i in value)
        if not good:
            self.refuse(name, f"must be a list of layers, numbered from 0 to {count - 1}, not {_spelled(value)}")
        return value

    def part(self, name: str, default: Any = REQUIRED, *, looked_at: bool = True) -> Any:
        """An object inside this one, as a `Config` of its own.

        Args:
            name: of the key.
            default: returned where the key is absent; without one the key is required.
            looked_at: whether `finish` checks its keys as well; not so for objects that hardly change counts (rotations).

        Raises:
            SpecError: the key is missing, or no object.
        """
        key, value = self._take((name,), default, "")
        if key is None:
            return value
        if not isinstance(value, dict):
            self.refuse(name, f"must be an object with keys and values, not {_spelled(value)}")
        inner = Config(
            self.document,
            value,
            (*self.place, name),
            lenient=self.lenient,
            readings=self.readings,
            ignored=self.ignored,
        )
        if looked_at:
            self.parts.append(inner)
        return inner

    def raw(self, *names: str, default: Any = None) -> Any:
        """The value of a key, whatever its type; `default` where it is absent or null.

        Raises:
            SpecError: two of the names have different values.
        """
        return self._take(names, default, "")[1]

    def only(self, name: str, allowed: Any, why: str) -> None:
        """Refuse every value of a key but one; an absent key is allowed.

        Args:
            name: of the key.
            allowed: the value whose effect on counts is known.
            why: the reason, for the message.

        Raises:
            SpecError: the key has another value.
        """
        key, value = self._take((name,), allowed, "")
        # NB: Python takes true for equal to 1
        if key is not None and (value != allowed or isinstance(value, bool) != isinstance(allowed, bool)):
            self.refuse(name, f"{_spelled(value)} is not understood: {why}")

    def off(self, *names: str) -> None:
        """Refuse what any of these keys switches on; absent, null, false, 0 and empty are off.

        Raises:
            SpecError: one of the keys is on.
        """
        for name in names:
            _, value = self._take((name,), None, "")
            if value:
                self.refuse(
                    name, f"{_spelled(value)} is not understood: it would change counts, and this reader knows it off only"
                )

    def has(self, name: str) -> bool:
        """Whether a key is there with a value other than null."""
        return self.data.get(name) is not None

    def note(self, name: str, value: Any, why: str) -> None:
        """Record an assumption: the value taken for a key that the config leaves open, and the reason."""
        self.readings.append(Reading(name, value, why))

    def needs(self, message: str, name: str, *others: str) -> NoReturn:
        """Refuse values that contradict each other, at the first of the keys.

        Raises:
            SpecError: always.
        """
        self.refuse(name, message + (f" (see also {', '.join(others)})" if others else ""))

    def divides(self, smaller: tuple[str, int], larger: tuple[str, int]) -> None:
        """Refuse a number that does not divide another.

        Args:
            smaller: the key and value of the divisor.
            larger: the name and value of the other.

        Raises:
            SpecError: there is a remainder.
        """
        if larger[1] % smaller[1]:
            self.refuse(smaller[0], f"{smaller[1]} does not divide {larger[0]} ({larger[1]})")

    def refuse(self, name: str, message: str) -> NoReturn:
        """Refuse the config because of a key.

        Args:
            name: of the key.
            message: what is wrong with it.

        Raises:
            SpecError: always, with the place of the key in the file.
        """
        raise self.document.error(self._place(name), f"{self._path(name)}: {message}")

    # Keys that were not read

    def harmless(self, *names: str) -> None:
        """Accept keys of this family that change no count, so that `finish` does not refuse them."""
        self.requested.update(names)

    def finish(self) -> None:
        """Check the keys that the family did not read: refuse those that may change counts, record the others in `ignored`.

        With `lenient`, keys that may change counts are recorded as assumptions instead.

        Raises:
            SpecError: a key is unknown, and is like one that the family reads or may change counts.
        """
        absent = sorted(name for name in self.requested if name not in self.data)
        for name, value in self.data.items():
            if name in self.requested or changes_no_count(name, value):
                continue
            near = value is not None and (
                difflib.get_close_matches(name, absent, n=1, cutoff=0.8)
                or [known for known in absent if len(known) > 4 and known in name]
            )
            if self.lenient and (near or may_change_counts(name, value)):
                self.note(self._path(name), _spelled(value), ASSUMED)
                continue
            if near:
                self.refuse(name, f"is not known; did you mean {near[0]}?")
            if may_change_counts(name, value):
                message = f"{_spelled(value)} is not understood, and it may change counts. Take it out if it does not."
                self.refuse(name, message)
            self.ignored.append(self._path(name))
        for part in self.parts:
            part.finish()

    # Inside

    def _take(self, names: tuple[str, ...], default: Any, why: str, *, null: bool = True) -> tuple[str | None, Any]:
        """The name under which a value stands and the value, or None and the default."""
        self.requested.update(names)
        there = [name for name in names if name in self.data and not (null and self.data[name] is None)]
        if there:
            first = there[0]
            for other in there[1:]:
                if self.data[other] != self.data[first]:
                    both = f"{_spelled(self.data[first])} and {other} {_spelled(self.data[other])} say different things"
                    self.refuse(first, both)
            return first, self.data[first]
        for name in names:
            if self.outer.get(name) is not None:
                return name, self.outer[name]
        if default is REQUIRED:
            given = next((name for name in names if name in self.data), None)
            if given is not None:
                self.refuse(given, "null is no value: it has to be a number")
            spelled = " or ".join(names)
            near = difflib.get_close_matches(
                names[0], [key for key in self.data if key not in self.requested], n=1, cutoff=0.75
            )
            hint = f"; is it {near[0]!r}?" if near else ""
            raise self.document.error(self.place, f"key {self._path(spelled)} is missing{hint}")
        if why:
            self.note(names[0], default, why)
        return None, default

    def _place(self, name: str) -> Place:
        return (name,) if name not in self.data and name in self.outer else (*self.place, name)

    def _path(self, name: str) -> str:
        return ".".join(str(part) for part in self._place(name))


def _spelled(value: Any) -> str:
    text = "null" if value is None else repr(value).replace("True", "true").replace("False", "false")
    return text if len(text) <= 60 else text[:57] + "..."


# Keys that change no count, in every family, and words that make an unknown key suspicious.

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

# A key with one of these words in it that no family reads may be a dimension or a switch of the architecture.
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


# Texts that name an activation, an initialisation, a kernel or a mode of running, whatever key they stand under.
_NOT_A_DIMENSION = re.compile(
    r"""
    (quick_|fast_)?gelu(_new|_fast|_python|_pytorch(_tanh)?|_tanh|_accurate|_10)? | silu | swish | swiglu(oai)? | geglu | mish
    | relu(2|6|_squared)? | leaky_relu | prelu | elu | selu | celu | laplace | sigmoid | hard_?(swish|sigmoid|tanh) | tanh
    | softplus | softmax | (log_?)?softmax | linear_relu | sqrtsoftplus
    | (xavier|glorot|kaiming|he|lecun|trunc|truncated|scaled|small|orthogonal|mitchell|full_megatron)(_(uniform|normal|init))?
    | normal | uniform | zeros | ones | fan_(in|out|avg) | auto | eager | sdpa | (paged_)?flash_attention(_\d)? | flex_attention
    | triton | cuda | torch | cutlass | native | fused | (torch\.)?(bfloat16|float16|float32|half|bf16|fp16|fp32)
    | greedy | noaux_tc | group_limited_greedy
    """,
    re.VERBOSE,
)


def changes_no_count(name: str, value: Any) -> bool:
    """Whether a key is known to change no parameter, byte or FLOP, in any family."""
    return _NO_COUNT.fullmatch(name) is not None


def may_change_counts(name: str, value: Any) -> bool:
    """Whether an unknown key looks like a dimension, or like a switch that is on; the name of an activation is neither."""
    if value is None or value is False or value in (0, "", [], {}):
        return False
    if isinstance(value, dict):
        return True
    if isinstance(value, str) and _NOT_A_DIMENSION.fullmatch(value.lower()):
        return False
    return _DIMENSION.fullmatch(name.lower()) is not None
