"""A GGUF file becomes an ordinary model folder that answers as the model it was made from."""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from lmassay.errors import DataError
from lmassay.models import cache
from lmassay.models.hf.gguf import converted
from lmassay.storage.files import sha256
from tests.forked import in_forks


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    global gguf, torch, transformers
    gguf = pytest.importorskip("gguf", reason="needs lmassay[hf]")
    torch = pytest.importorskip("torch", reason="needs lmassay[hf]")
    transformers = pytest.importorskip("transformers", reason="needs lmassay[hf]")


HEADS, KV_HEADS, WIDTH, LAYERS = 4, 2, 32, 2
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["Ġ c", "a t", "Ġc at", "Ġ 1", "Ġ Ġ"]
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"


def byte_letters() -> list[str]:
    """GPT-2's 256 letters, one for each byte, in the order of the bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


# The last one cannot be reached by merging.
BYTE_PAIR_TOKENS = [*SPECIAL, *byte_letters(), *(merge.replace(" ", "") for merge in MERGES), "Ġdog"]


def small_model(tied: bool = True, vocabulary: int = len(BYTE_PAIR_TOKENS)):
    import torch
    import transformers

    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=WIDTH,
        intermediate_size=64,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=64,
        rope_parameters={"rope_theta": 5000.0, "rope_type": "default"},
        tie_word_embeddings=tied,
        initializer_range=0.5,
    )
    return transformers.LlamaForCausalLM(config).eval()


def in_llama_cpp_order(weights: np.ndarray, heads: int) -> np.ndarray:
    """llama.cpp turns neighbouring pairs of a head's rows, transformers the two halves of it."""
    rows = weights.reshape(heads, 2, weights.shape[0] // heads // 2, weights.shape[1])
    return rows.swapaxes(1, 2).reshape(weights.shape)


def tensors_of(model) -> dict[str, np.ndarray]:
    names = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    parts = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v"}
    parts |= {"self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up"}
    parts |= {"mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
    names |= {f"model.layers.{n}.{long}": f"blk.{n}.{short}" for n in range(LAYERS) for long, short in parts.items()}
    tensors = {names[key.removesuffix(".weight")]: value.numpy() for key, value in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        del tensors["output"]
    for name, value in tensors.items():
        if name.endswith(("attn_q", "attn_k")):
            tensors[name] = in_llama_cpp_order(value, HEADS if name.endswith("attn_q") else KV_HEADS)
    return {f"{name}.weight": value for name, value in tensors.items()}


def byte_pair_tokenizer(writer, cut: str = "smollm", adds_bos: bool | None = False) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(cut)
    writer.add_token_list(BYTE_PAIR_TOKENS)
    writer.add_token_types([3] * len(SPECIAL) + [1] * (len(BYTE_PAIR_TOKENS) - len(SPECIAL)))
    writer.add_token_merges(MERGES)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    if adds_bos is not None:
        writer.add_add_bos_token(adds_bos)
    writer.add_chat_template(TEMPLATE)


def sentence_piece_tokenizer(writer) -> None:
    pieces = [
        "<unk>",
        "<s>",
        "</s>",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        "▁",
        "c",
        "a",
        "t",
        "at",
        "▁c",
        "▁cat",
    ]
    kinds = [2, 3, 3, *[6] * 256, *[1] * 7]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(pieces)
    writer.add_token_scores([0.0] * 259 + [-float(n) for n in range(7)])
    writer.add_token_types(kinds)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def write_gguf(
    path: Path, model=None, *, tokenizer=byte_pair_tokenizer, kind="F32", architecture="llama", extra=(), without=""
):
    """A GGUF file with a small Llama in it, as llama.cpp's converter writes it."""
    import gguf

    model = small_model() if model is None else model
    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    tokenizer(writer)
    packed = gguf.GGMLQuantizationType[kind]
    for name, value in {**tensors_of(model), **dict(extra)}.items():
        if name == without:
            continue
        if kind != "F32" and value.ndim == 2:
            writer.add_tensor(name, gguf.quantize(value, packed), raw_dtype=packed)
        else:
            writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def loaded(folder: Path):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def tokens_of(folder: Path):
    return transformers.AutoTokenizer.from_pretrained(folder)


def logits(model) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.arange(3, 40)[None]).logits


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("LMASSAY_CACHE", str(tmp_path / "cache"))


def quiet(_: str) -> None:
    pass


@pytest.mark.parametrize("tied", [True, False])
def test_the_folder_answers_as_the_model_that_the_file_was_made_from(tmp_path, tied):
    model = small_model(tied)
    folder = converted(write_gguf(tmp_path / "small.gguf", model), quiet)
    again = loaded(folder)
    torch.testing.assert_close(logits(again), logits(model))
    assert (again.lm_head.weight is again.model.embed_tokens.weight) is tied
    assert (folder / "model.safetensors").is_file()


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_1", "F16", "BF16"])
def test_packed_weights_are_unpacked_exactly(tmp_path, kind):
    model, packed = small_model(), gguf.GGMLQuantizationType[kind]
    folder = converted(write_gguf(tmp_path / "small.gguf", model, kind=kind), quiet)
    # What packing leaves of the weights, worked out apart from the conversion; rows of a head keep their blocks.
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 2:
                weight.copy_(torch.from_numpy(gguf.dequantize(gguf.quantize(weight.numpy(), packed), packed)))
    again = loaded(folder)
    assert {weight.dtype for weight in again.parameters()} == {torch.float32}
    torch.testing.assert_close(logits(again), logits(model))


def test_the_tokenizer_keeps_its_special_tokens_its_pre_tokenizer_and_its_chat_template(tmp_path):
    folder = converted(write_gguf(tmp_path / "small.gguf"), quiet)
    assert (folder / "tokenizer.json").is_file()
    tokenizer = tokens_of(folder)
    assert tokenizer.is_fast
    assert (tokenizer.unk_token, tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token) == (
        *SPECIAL,
        SPECIAL[2],
    )
    assert tokenizer.tokenize("cat<|im_end|> cat") == ["c", "at", "<|im_end|>", "Ġcat"]
    # Digits stand alone, so the merge of a space and a digit is never made.
    assert tokenizer.tokenize(" cat 12  1") == ["Ġcat", "Ġ", "1", "2", "ĠĠ", "1"]
    assert tokenizer.tokenize(" dog") == ["Ġ", "d", "o", "g"]
    assert tokenizer("cat")["input_ids"] == [BYTE_PAIR_TOKENS.index("c"), BYTE_PAIR_TOKENS.index("at")]
    assert tokenizer.decode(tokenizer(" cät 1!")["input_ids"]) == " cät 1!"
    chat = tokenizer.apply_chat_template([{"role": "user", "content": "cat"}], tokenize=False)
    assert chat == "<|im_start|>user\ncat<|im_end|>\n"


def test_a_sentence_piece_tokenizer_starts_a_text_with_bos(tmp_path):
    model = small_model(vocabulary=266)
    folder = converted(write_gguf(tmp_path / "piece.gguf", model, tokenizer=sentence_piece_tokenizer), quiet)
    tokenizer = tokens_of(folder)
    assert tokenizer.convert_ids_to_tokens(tokenizer("cat")["input_ids"]) == ["<s>", "▁cat"]
    assert tokenizer.tokenize("é") == ["▁", "<0xC3>", "<0xA9>"]


def test_an_unknown_pre_tokenizer_is_reported(tmp_path):
    messages: list[str] = []
    converted(write_gguf(tmp_path / "odd.gguf", tokenizer=lambda w: byte_pair_tokenizer(w, "martian")), messages.append)
    assert any("martian" in line for line in messages)


@pytest.mark.parametrize("cut", ["llama-bpe", "tekken"])
@pytest.mark.parametrize(("adds_bos", "start"), [(None, ["<|im_start|>"]), (True, ["<|im_start|>"]), (False, [])])
def test_llama_3_and_tekken_keep_known_words_and_start_with_bos_unless_the_file_says_otherwise(
    tmp_path, cut, adds_bos, start
):
    path = write_gguf(tmp_path / "3.gguf", tokenizer=lambda w: byte_pair_tokenizer(w, cut, adds_bos))
    tokenizer = tokens_of(converted(path, quiet))
    assert tokenizer.convert_ids_to_tokens(tokenizer(" dog")["input_ids"]) == [*start, "Ġdog"]


def test_numbers_without_a_place_are_said(tmp_path):
    messages: list[str] = []
    converted(
        write_gguf(tmp_path / "more.gguf", extra={"rope_freqs.weight": np.ones(4, "f4")}.items()), messages.append
    )
    assert "note: 4 numbers of more.gguf are not used by LlamaForCausalLM" in messages


def test_a_file_is_converted_once_and_known_by_its_content(tmp_path):
    messages: list[str] = []
    path = write_gguf(tmp_path / "small.gguf")
    folder = converted(path, messages.append)
    assert len(messages) == 1
    assert folder == cache.gguf_folder(sha256(path))
    path = path.rename(tmp_path / "renamed.gguf")
    assert converted(path, messages.append) == folder
    assert len(messages) == 1
    card = cache.read_card(folder)
    assert (card["name"], card["sha256"], card["architecture"]) == ("small", sha256(path), "llama")
    assert card["parameters"] == sum(weight.numel() for weight in small_model().parameters())


def test_files_next_to_it_do_not_matter(tmp_path):
    path = write_gguf(tmp_path / "small.gguf")
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": "!", "auto_map": {"AutoTokenizer": ["x.Y", null]}}')
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    assert tokens_of(converted(path, quiet)).eos_token == "<|im_end|>"


def test_nothing_is_printed(tmp_path, capfd):
    converted(write_gguf(tmp_path / "small.gguf"), quiet)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("share", [0.01, 0.2, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused_and_leaves_nothing(tmp_path, share):
    whole = write_gguf(tmp_path / "small.gguf").read_bytes()
    path = tmp_path / "half.gguf"
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(DataError, match=r"half\.gguf is not a complete GGUF file: .*; download it again"):
        converted(path, quiet)
    assert os.listdir(tmp_path / "cache" / "gguf") == []


@pytest.mark.parametrize("content", [b"", b"GGUF", b"not a model at all", b"GGUF" + b"\xff" * 100])
def test_what_is_no_gguf_file_is_refused(tmp_path, content):
    path = tmp_path / "junk.gguf"
    path.write_bytes(content)
    with pytest.raises(DataError, match="not a complete GGUF file"):
        converted(path, quiet)


def test_a_damaged_header_never_crashes(tmp_path):
    whole = write_gguf(tmp_path / "small.gguf").read_bytes()
    rng, path = np.random.default_rng(1), tmp_path / "damaged.gguf"
    for _ in range(30):
        damaged = bytearray(whole)
        damaged[int(rng.integers(4, 1000))] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        try:
            converted(path, quiet)
        except DataError as error:
            assert "damaged.gguf" in str(error)


def test_an_unknown_architecture_is_refused_with_a_remedy(tmp_path):
    path = write_gguf(tmp_path / "odd.gguf", architecture="perceptron")
    with pytest.raises(DataError, match=r"architecture 'perceptron'\) cannot be converted: .* safetensors weights"):
        converted(path, quiet)
    assert os.listdir(tmp_path / "cache" / "gguf") == []


def test_missing_weights_are_refused_and_not_made_up(tmp_path):
    path = write_gguf(tmp_path / "less.gguf", without="blk.1.ffn_down.weight")
    with pytest.raises(DataError, match=r"missing weights: \['model.layers.1.mlp.down_proj.weight'\]"):
        converted(path, quiet)


def test_a_part_of_a_split_model_is_refused(tmp_path):
    def with_parts(writer) -> None:
        byte_pair_tokenizer(writer)
        writer.add_uint16("split.count", 3)

    with pytest.raises(DataError, match="one part of a split model"):
        converted(write_gguf(tmp_path / "a-00001-of-00003.gguf", tokenizer=with_parts), quiet)


def test_a_disk_that_is_too_small_is_reported_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr("lmassay.models.hf.gguf._MARGIN", 10**18)
    with pytest.raises(DataError, match=r"GB are needed .* set LMASSAY_CACHE"):
        converted(write_gguf(tmp_path / "small.gguf"), quiet)
    assert os.listdir(tmp_path / "cache" / "gguf") == []


def test_the_file_is_read_once_and_the_library_is_left_as_it_was(tmp_path, monkeypatch):
    read = []

    class Counting(gguf.GGUFReader):
        def __init__(self, *arguments) -> None:
            read.append(arguments)
            super().__init__(*arguments)

    monkeypatch.setattr(gguf, "GGUFReader", Counting)
    names = gguf.get_tensor_name_map
    path = write_gguf(tmp_path / "small.gguf")
    converted(path, quiet)
    assert read == [(path,)]
    assert (gguf.GGUFReader, gguf.get_tensor_name_map) == (Counting, names)


def test_two_threads_convert_once_and_standard_error_stays(tmp_path):
    path, messages, before = write_gguf(tmp_path / "small.gguf"), [], sys.stderr
    with ThreadPoolExecutor(2) as pool:
        folders = set(pool.map(lambda _: converted(path, messages.append), range(2)))
    assert folders == {cache.gguf_folder(sha256(path))}
    assert len(messages) == 1
    assert sys.stderr is before


def test_two_processes_convert_the_same_file_at_once(tmp_path):
    path = write_gguf(tmp_path / "small.gguf")
    notes = [tmp_path / "first", tmp_path / "second"]
    # Two forks of this process: importing torch and transformers takes longer than the conversion.
    assert in_forks(*(lambda note=note: note.write_text(str(converted(path))) for note in notes)) == [0, 0]
    folders = {note.read_text() for note in notes}
    assert folders == {str(cache.gguf_folder(sha256(path)))}
    assert len(os.listdir(tmp_path / "cache" / "gguf")) == 1
    assert json.loads((Path(folders.pop()) / "config.json").read_text(encoding="utf-8"))["model_type"] == "llama"
