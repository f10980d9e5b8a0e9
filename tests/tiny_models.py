"""Tiny language models of many families with real tokenizers, made in a moment: random weights, exact arithmetic."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SENTENCES = [
    "The author laughs near the pilot.",
    "The authors laugh and the surgeons swim.",
    "Some dancers that the teacher admires are tall.",
    "A customer who is old has been unpopular here.",
    "the movie from the guards brings joy to people",
]
# Pieces of a SentencePiece vocabulary; listed, because UnigramTrainer gives other ones in every process.
_PIECES = [
    *("\u2581th", "\u2581t", "\u2581laugh", "\u2581author", "\u2581b", "\u2581p", "\u2581a", "\u2581s"),
    *("ar", "he", "op", "ome", "her", "an", "om", "re", "ha", "ho", "er", "ea", "eo", "to"),
]
MASKED = ("bert", "roberta", "albert", "deberta-v2", "electra", "distilbert", "modernbert")
CAUSAL = ("gpt2", "llama", "opt", "gpt_neox", "gemma2", "qwen2", "bloom")
# Models that read one token after the other and cannot be given a tree.
RECURRENT = ("mamba",)
# Begins with the mark that the tokenizer would put before a text, too, and knows no system.
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "{{ message['role'] + ' says ' + message['content'] | trim + '.\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'the author says\\n' }}{% endif %}"
)


def word_piece(lower: bool = True) -> Any:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    # The vocabulary is listed, not trained: WordPieceTrainer breaks ties differently in every process, and a test on
    # a model with another vocabulary is another test.
    text = " ".join(SENTENCES)
    words = re.findall(r"\w+|[^\w\s]", text.lower() if lower else text)
    letters = sorted({letter for word in words for letter in word})
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*special, *letters, *(f"##{letter}" for letter in letters), *words]
    vocabulary = {piece: place for place, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordPiece(vocab=vocabulary, unk_token="[UNK]"))
    tokenizer.add_special_tokens(special)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    return _fast(tokenizer, names)


def byte_level(mask: bool) -> Any:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>"] if mask else ["<|endoftext|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=special, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(SENTENCES * 3, trainer)
    if not mask:
        return _fast(tokenizer, {"bos": "<|endoftext|>", "eos": "<|endoftext|>", "unk": "<|endoftext|>"})
    # As RoBERTa has it: the mask swallows the space before it.
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    names = {"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>", "cls": "<s>", "sep": "</s>"}
    fast = _fast(tokenizer, names)
    fast.mask_token = AddedToken("<mask>", lstrip=True, special=True)
    return fast


def sentence_piece(mask: bool, words: Sequence[str] = ()) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    special = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"] if mask else ["<unk>", "<s>", "</s>"]
    letters = sorted({letter for sentence in SENTENCES for letter in sentence if letter != " "})
    # The less a piece costs, the sooner it is taken; these are the costs that a trained vocabulary has, about.
    scored = [(piece, 0.0) for piece in special]
    scored += [("\u2581", -2.0)]
    scored += [(letter, -4.0) for letter in letters]
    scored += [(piece, -5.0) for piece in _PIECES]
    scored += [(f"\u2581{word}", -5.0) for word in words]
    tokenizer = Tokenizer(models.Unigram(vocab=scored, unk_id=special.index("<unk>")))
    tokenizer.add_special_tokens(special)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    if mask:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
        return _fast(tokenizer, {"pad": "<pad>", "unk": "<unk>", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"})
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return _fast(tokenizer, {"unk": "<unk>", "bos": "<s>", "eos": "</s>"})


def tokenizer_of(family: str, words: Sequence[str] = ()) -> Any:
    if family in ("bert", "electra", "distilbert", "modernbert"):
        return word_piece()
    if family in ("albert", "deberta-v2"):
        return sentence_piece(mask=True, words=words)
    if family in ("llama", "gemma2"):
        return sentence_piece(mask=False)
    return byte_level(mask=family == "roberta")


def save_model(
    folder: Path,
    family: str,
    seed: int = 0,
    window: int = 64,
    reach: int | None = None,
    template: str | None = None,
    words: Sequence[str] = (),
) -> Path:
    """A model of the family with its tokenizer in a folder; ``reach`` is how far local attention looks back,
    ``template`` how chat turns are written, ``words`` are single tokens of an ALBERT or DeBERTa."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM

    tokenizer = tokenizer_of(family, words)
    tokenizer.chat_template = template
    size = len(tokenizer)
    local = {} if reach is None else {"window_size" if family == "gpt_neo" else "sliding_window": reach}
    config = AutoConfig.for_model(family, **{**_sizes(family, size, window), **_special_ids(tokenizer), **local})
    torch.manual_seed(seed)
    kind: Any = AutoModelForMaskedLM if family in MASKED else AutoModelForCausalLM
    model = kind.from_config(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                # Peaked distributions, so that a wrong position or mask shows.
                generator = torch.Generator().manual_seed(seed + len(name))
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _special_ids(tokenizer: Any) -> dict[str, int | None]:
    return {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "bos", "eos")}


def _sizes(family: str, vocabulary: int, window: int) -> dict[str, Any]:
    sizes = {
        "vocab_size": vocabulary,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": window,
    }
    own: dict[str, dict[str, Any]] = {
        "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": window},
        "albert": {"embedding_size": 16},
        "electra": {"embedding_size": 32},
        "distilbert": {"dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 4},
        "opt": {"ffn_dim": 48, "word_embed_proj_dim": 32},
        "llama": {"num_key_value_heads": 2},
        "qwen2": {"num_key_value_heads": 2},
        "gemma2": {"num_key_value_heads": 2, "head_dim": 8, "query_pre_attn_scalar": 8},
        "roberta": {"max_position_embeddings": window + 2, "type_vocab_size": 1},
        "deberta-v2": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 16},
        "bloom": {"n_layer": 2, "n_head": 4},
        "mamba": {"state_size": 8},
        "mistral": {"num_key_value_heads": 2},
        "gpt_neo": {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]]},
    }
    if family in ("gpt2", "distilbert"):
        sizes = {"vocab_size": vocabulary, "max_position_embeddings": window}
    return {**sizes, **own.get(family, {})}


def _fast(tokenizer: Any, names: dict[str, str]) -> Any:
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=512, **{f"{name}_token": token for name, token in names.items()}
    )


FIGURES_GPT2 = str(Path(__file__).with_name("published") / "figures/tse/models/gpt2-tiny")
"""A tiny GPT-2 that is part of the repository."""
