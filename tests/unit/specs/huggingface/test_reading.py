"""The reader itself, whatever the family: files, places, wrappers, missing and unknown keys."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline.blocks.model_files import load_model
from roofline.errors import RooflineError, SpecError, UnknownNameError
from roofline.predict.parameters import count_parameters
from roofline.specs.huggingface.config import changes_no_count, may_change_counts
from roofline.specs.huggingface.document import parse_json, read_json
from roofline.specs.huggingface.draft import patterns
from roofline.specs.huggingface.families import by_architecture, families
from roofline.specs.huggingface.read import slug

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
    "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 3, "vocab_size": 100,
    "max_position_embeddings": 128, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "transformers_version": "4.45.0",
}  # fmt: skip
# Two tables of 100 x 64, a final norm, and of each layer: q and o of 64 x 64, k and v of 64 x 32, three of 64 x 96, two norms.
TOTAL = 2 * 6400 + 64 + 3 * (2 * 4096 + 2 * 2048 + 3 * 6144 + 128)


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """Write a config.json, changed, and give its path."""

    def written(without: tuple[str, ...] = (), **changes: Any) -> Path:
        config = {key: value for key, value in (LLAMA | changes).items() if key not in without or key in changes}
        path = tmp_path / "config.json"
        path.write_text(json.dumps(config, indent=2), encoding="utf-8")
        return path

    return written


def refusal(path: Path, assume: str | None = None) -> str:
    with pytest.raises(RooflineError) as caught:
        load_model(path, assume)
    return str(caught.value)


def test_counts(write: Any) -> None:
    """To the last parameter; a folder means the config.json in it, which gives the model its name."""
    model, read = load_model(str(write().parent) + "/")
    assert count_parameters(model).total == TOTAL
    assert model.name == slug(write().parent.name)
    assert read.path.endswith("config.json")
    assert not model.assumptions
    assert not model.notes


# The file


def test_place_of_a_key(write: Any) -> None:
    """Line and column of the key that is wrong: the fifth of the object, on the sixth line, behind two spaces."""
    path = write(hidden_size=0)
    assert refusal(path).startswith(f"{path}:6:3: hidden_size: ")


@pytest.mark.parametrize(
    ("text", "what", "line"),
    [
        ("{", "not valid JSON", 1),
        ('{"a": 1,\n  "b": }', "not valid JSON", 2),
        ("[1]", "must hold one JSON object", None),
        ('{"a": 1, "a": 2}', "'a' stands twice", None),
        ("", "not valid JSON", 1),
    ],
)
def test_text_that_is_no_config(text: str, what: str, line: int | None) -> None:
    """Told with the line where JSON ends to be JSON."""
    with pytest.raises(SpecError, match=what) as caught:
        parse_json(text, "config.json")
    assert caught.value.line == line


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """One clear message each."""
    (tmp_path / "huge.json").write_bytes(b" " * (2**23 + 1))
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "deep.json").write_text("[" * 100_000, encoding="utf-8")
    for name, what in (
        ("huge", "has 8,388,609 bytes; of a JSON file at most 8,388,608 are read"),
        ("binary", "UTF-8"),
        ("deep", "not valid JSON"),
        ("none", "no such file"),
    ):
        with pytest.raises(SpecError, match=what):
            read_json(tmp_path / f"{name}.json")
    with pytest.raises(SpecError):
        read_json(tmp_path)


def test_what_python_writes_for_infinity(write: Any) -> None:
    """`time_step_limit: [0.0, Infinity]` stands in published configs."""
    assert count_parameters(load_model(write(time_step_limit=[0.0, float("inf")]))[0]).total == TOTAL


# Which family


def test_unknown_type_names_the_nearest(write: Any) -> None:
    """And says what can be done about it."""
    told = refusal(write(model_type="lama"))
    assert "unknown model_type 'lama'" in told
    assert "Did you mean llama" in told
    assert "--assume" in told


@pytest.mark.parametrize(
    ("keys", "hint"),
    [
        ({}, "Its keys are those of llama: `--assume llama`"),
        ({"q_lora_rank": 128, "conv_width": 3}, "Its keys are those of llama plus q_lora_rank, conv_width: `--assume llama`"),
        (
            {
                "num_experts": 8,
                "num_experts_per_tok": 2,
                "moe_intermediate_size": 96,
                "head_dim": 128,
                "decoder_sparse_step": 1,
            },
            "Its keys are those of qwen3_moe: `--assume qwen3_moe`",
        ),
    ],
)
def test_unknown_type_suggests_by_keys(write: Any, keys: dict[str, Any], hint: str) -> None:
    """What its keys are like, and which are left over; never a name that is spelt alike and has other keys."""
    for name in ("mystery", "bamba2"):
        message = refusal(write(model_type=name, **keys))
        assert hint in message
        assert "Did you mean" not in message


def test_unknown_type_of_other_keys(write: Any) -> None:
    """Without a family that it is like, none is suggested."""
    message = refusal(write(without=("hidden_size", "num_attention_heads"), model_type="glm5", d_model=64))
    assert "Did you mean" not in message
    assert "Its keys are those of" not in message
    assert "--assume FAMILY" in message


def test_the_class_stands_in_for_the_type(write: Any) -> None:
    """Without model_type the architecture tells; without both the config is refused."""
    assert count_parameters(load_model(write(without=("model_type",)))[0]).total == TOTAL
    assert "model_type is missing" in refusal(write(without=("model_type", "architectures")))


def test_type_and_class_have_to_agree(write: Any) -> None:
    """Which of the two is wrong is a guess."""
    assert "architectures" in refusal(write(architectures=["MixtralForCausalLM"]))


@pytest.mark.parametrize("head", ["LlamaForSequenceClassification", "LlamaForTokenClassification"])
def test_other_heads_are_refused(write: Any, head: str) -> None:
    """They have no LM head, which we would count."""
    assert "another head" in refusal(write(architectures=[head]))


def test_assume(write: Any) -> None:
    """At the user's own risk: on record, and keys that may change counts are left aside."""
    path = write(model_type="my_llama", architectures=["MyLlamaForCausalLM"], num_gates=7)
    model, _ = load_model(path, "llama")
    assert count_parameters(model).total == TOTAL
    found = [(choice.name, choice.value, choice.origin) for choice in model.assumptions]
    assert found == [("family", "llama", "assumed"), ("num_gates", "7", "assumed")]
    result = roofline.analyze(path, "h100-sxm", assume="llama")
    assert ("model.family", "assumed") in [(entry.name, entry.origin) for entry in result.assumptions]
    with pytest.raises(UnknownNameError, match="llama"):
        load_model(path, "lama")


def test_assume_is_for_configs(write: Any) -> None:
    """A shipped model says what it is."""
    with pytest.raises(RooflineError, match="assume"):
        load_model("llama-3.1-8b", "llama")


def test_no_two_families_share_a_class() -> None:
    """An architecture names one family."""
    seen: dict[str, str] = {}
    for entry in {entry.name: entry for entry in families().values()}.values():
        for architecture in entry.architectures:
            assert seen.setdefault(architecture, entry.name) == entry.name, architecture
    assert set(seen) == set(by_architecture())


# Parts


def test_the_language_model_of_several_parts(write: Any) -> None:
    """It alone is counted, and the result says so; the dtype around it holds for it too."""
    inner = {key: value for key, value in LLAMA.items() if key != "torch_dtype"}
    path = write(
        without=tuple(LLAMA), text_config=inner, vision_config={"hidden_size": 9}, torch_dtype="float16", model_type="some_vlm"
    )
    model, _ = load_model(path)
    assert count_parameters(model).total == TOTAL
    assert model.dtype == "fp16"
    assert any("vision_config" in note for note in model.notes)


def test_a_part_that_is_missing(write: Any) -> None:
    """Gemma 3's language model is described in text_config."""
    assert "text_config is missing" in refusal(write(model_type="gemma3", architectures=[]))


def test_dimensions_outside_of_their_part(write: Any) -> None:
    """Whether they are for the language model is a guess."""
    inner = {key: value for key, value in LLAMA.items() if key != "num_hidden_layers"}
    told = refusal(write(without=("model_type",), text_config=inner))
    assert "num_hidden_layers" in told


@pytest.mark.parametrize("key", ["is_encoder_decoder", "add_cross_attention"])
def test_other_kinds_of_models(write: Any, key: str) -> None:
    """Cross-attention is not counted here."""
    assert key in refusal(write(**{key: True}))
    assert count_parameters(load_model(write(**{key: False}))[0]).total == TOTAL


# Keys


@pytest.mark.parametrize(
    "key", ["hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "intermediate_size", "vocab_size"]
)
def test_dimensions_have_to_be_there(write: Any, key: str) -> None:
    """Though the class has defaults for all of them."""
    assert f"{key} is missing" in refusal(write(without=(key,)))
    assert key in refusal(write(**{key: None}))


def test_configs_from_before_grouped_heads(write: Any) -> None:
    """Transformers has num_key_value_heads since 4.31: what is older is multi-head, and that is on record."""
    path = write(without=("num_key_value_heads",), transformers_version="4.28.1")
    model, _ = load_model(path)
    assert count_parameters(model).total == TOTAL + 3 * 2 * 2048
    assert [(choice.name, choice.value) for choice in model.assumptions] == [("num_key_value_heads", 4)]


def test_layers_are_counted_in_thousands(write: Any) -> None:
    """A slip of the keyboard is refused before anything is made of it."""
    assert "num_hidden_layers: must be from 1 to 10,000" in refusal(write(num_hidden_layers=10**9))


def test_folders(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As text or as a path; a bare name is an id, and the message says how to mean the folder."""
    folder = write().parent
    assert count_parameters(load_model(folder)[0]).total == TOTAL
    monkeypatch.chdir(folder.parent)
    with pytest.raises(UnknownNameError, match=rf"write \./{folder.name}"):
        load_model(folder.name)


@pytest.mark.parametrize("value", ["64", 64.0, True, [64], {"value": 64}, -64, 0, 10**30])
def test_a_dimension_is_a_whole_number(write: Any, value: object) -> None:
    """Not text, not a fraction, not a switch."""
    assert "hidden_size" in refusal(write(hidden_size=value))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("output_gate_type", "swish"),
        ("moe_router_act", "sigmoid"),
        ("mlp_init", "xavier_normal"),
        ("attn_kernel", "flash_attention_2"),
    ],
)
def test_a_word_is_no_dimension(write: Any, key: str, value: str) -> None:
    """The name of an activation, an initialisation or a kernel refuses no model (Qwen3.6: `output_gate_type: swish`).

    The key is listed in the notes. A number or a switch under the same key refuses it.
    """
    model = load_model(write(**{key: value}))[0]
    assert count_parameters(model).total == TOTAL
    assert any(key in note for note in model.notes) or changes_no_count(key, value)
    for other in (8, True, "wide"):
        assert changes_no_count(key, other) or key in refusal(write(**{key: other}))


def test_hf_quant_config_beside_it(write: Any) -> None:
    """ModelOpt's file of its own is read, unless config.json says how weights are quantised.

    A byte per weight of the layers, an fp32 scale per matrix and one for its inputs; tables and norms stay in bf16.
    """
    path = write()
    beside = path.with_name("hf_quant_config.json")
    quantized = {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}
    beside.write_text(json.dumps({"producer": {"name": "modelopt", "version": "0.23"}, "quantization": quantized}))
    result = roofline.analyze(str(path.parent), "h100-sxm")
    matrices = 3 * (2 * 4096 + 2 * 2048 + 3 * 6144)
    scales = 3 * 7 * 2 * 4  # weight_scale and input_scale of seven matrices a layer
    assert result.memory.weights_bytes == matrices + scales + 2 * (2 * 6400 + 64 + 3 * 128)
    assert result.deployment["kv_dtype"] == "fp8"
    beside.write_text(json.dumps({"quantization": {"quant_algo": "W3A3"}}))
    assert "hf_quant_config.json:1:" in refusal(path)
    assert load_model(write(quantization_config={"quant_method": "fp8"}))[0].quantization[0].kv_cache_dtype is None


def test_parts_that_are_not_counted_are_named(write: Any) -> None:
    """The answer says in a line which parts of a multimodal model it leaves out."""
    inner = {key: value for key, value in LLAMA.items() if key != "architectures"}
    path = write(without=tuple(LLAMA), model_type="llava", text_config=inner, vision_config={"hidden_size": 1024})
    text = str(roofline.analyze(str(path), "h100-sxm"))
    assert "Not counted weights, memory and time of vision_config" in " ".join(text.split())
    assert "vision tower (417 M parameters)" in str(roofline.analyze("gemma-3-12b", "h100-sxm"))


@pytest.mark.parametrize(
    "key", ["num_key_value_head", "hidden_sizes", "n_experts", "sliding_window_pattern", "attention_window"]
)
def test_keys_that_may_change_counts(write: Any, key: str) -> None:
    """Refused by name, whatever they are."""
    assert key in refusal(write(**{key: 4}))


def test_keys_that_are_off(write: Any) -> None:
    """What is null, false or empty is not there."""
    model, _ = load_model(write(num_gates=None, use_gates=False, gate_layers=[]))
    assert count_parameters(model).total == TOTAL


def test_a_null_key_that_is_spelt_like_another(write: Any) -> None:
    """Null says nothing, whatever it is called; a number under that name is refused."""
    model, _ = load_model(write(num_key_value_head=None, sliding_window=None))
    assert count_parameters(model).total == TOTAL
    assert "did you mean use_sliding_window" in refusal(write(sliding_window=64))


@pytest.mark.parametrize(
    ("key", "same", "other"),
    [("n_layer", 3, 4), ("n_head", 4, 8), ("n_embd", 64, 32), ("kv_channels", 16, 8), ("rotary_dim", 16, 8)],
)
def test_a_number_under_a_second_name(write: Any, key: str, same: int, other: int) -> None:
    """Says the same once more, or contradicts the first; true is no number."""
    model, _ = load_model(write(head_dim=16, **{key: same}))
    assert count_parameters(model).total == TOTAL
    assert f"{key}: " in refusal(write(head_dim=16, **{key: other}))
    assert f"{key}: " in refusal(write(head_dim=16, **{key: True}))


def test_rotated_positions_by_name(write: Any) -> None:
    """A key that says that heads are rotated, as they are; another way of telling positions is not understood."""
    assert count_parameters(load_model(write(position_embedding_type="rope"))[0]).total == TOTAL
    assert "position_embedding_type" in refusal(write(position_embedding_type="alibi"))
    learned = {"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 3, "n_positions": 128, "vocab_size": 100}
    gpt2 = write(without=tuple(LLAMA), **learned, position_embedding_type="rope")
    assert "position_embedding_type" in refusal(gpt2)


def test_no_tied_tables_where_a_llama_does_not_say(write: Any) -> None:
    """The default of the class, put on record; also of a text part, as Voxtral's."""
    model, _ = load_model(write(without=("tie_word_embeddings",)))
    assert count_parameters(model).total == TOTAL
    assert [choice.name for choice in model.assumptions] == ["tie_word_embeddings"]


def test_the_first_llava(write: Any) -> None:
    """Its config is flat: the class says which family, and what the tower is cannot be counted."""
    tower = {"mm_vision_tower": "openai/clip-vit-large-patch14-336", "mm_hidden_size": 1024, "mm_projector_type": "mlp2x_gelu"}
    for model_type in ("llava", "llava_llama"):
        model, _ = load_model(write(model_type=model_type, architectures=["LlavaLlamaForCausalLM"], **tower))
        assert model.family == "llama"
        assert count_parameters(model).total == TOTAL
        assert [choice.name for choice in model.assumptions] == ["parts"]
    assert "text_config is missing" in refusal(write(model_type="llava", architectures=["LlavaForConditionalGeneration"]))
    qwen = load_model(write(model_type="llava_qwen", architectures=["LlavaQwenForCausalLM"], **tower))[0]
    assert count_parameters(qwen).total == TOTAL + 3 * (64 + 2 * 32)  # biases of queries, keys and values


def test_harmless_and_unknown(write: Any) -> None:
    """Listed, not refused."""
    model, _ = load_model(write(flavour="vanilla"))
    assert model.notes == ("Keys that are not known and were taken to change no count: flavour.",)


@pytest.mark.parametrize(
    "key",
    [
        "num_experts",
        "n_embd",
        "head_dim",
        "layer_types",
        "intermediate_size_mlp",
        "experts_per_token",
        "kv_lora_rank",
        "index_topk",
    ],
)
def test_no_dimension_is_passed_over(key: str) -> None:
    """The patterns of keys that change no count match none that does."""
    assert not changes_no_count(key, 8)
    assert may_change_counts(key, 8)


def test_patterns_cover_the_sequence() -> None:
    """Written out, they are the layers again."""
    for text in ("a", "ab", "aaab" * 5 + "aa", "MEMEM*EMEMEM*E", "abcabcabd"):
        assert [name for pattern, repeat in patterns(list(text)) for _ in range(repeat) for name in pattern] == list(text)


def test_no_network(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A config on disk is read without a socket."""

    def refuse(*arguments: object) -> None:
        pytest.fail("the network was touched")

    monkeypatch.setattr(socket, "socket", refuse)
    assert roofline.analyze(write(), "h100-sxm").decode.cost.flops > 0


def test_a_width_that_is_null(write: Any) -> None:
    """Classes with a width of their own differ on what null means."""
    seed = {"model_type": "seed_oss", "architectures": ["SeedOssForCausalLM"], "head_dim": None, "attention_bias": True}
    assert "head_dim: null is no width" in refusal(write(**seed, attention_out_bias=False, mlp_bias=False))
