"""Tiny encoder-decoder models with real tokenizers, made in a moment, and one that is trained to do its task."""

from __future__ import annotations

import functools
import json
import random
from pathlib import Path
from typing import Any

FAMILIES = ("t5", "bart", "marian", "m2m_100")
WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
# What the trained model has learned: each word has a translation, and the order of words is kept.
TRANSLATION = dict(
    zip(WORDS, ("un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf", "dix"), strict=True)
)


def sentences(count: int, seed: int, longest: int = 4) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.sample(WORDS, k=rng.randint(2, longest))) for _ in range(count)]


def translated(text: str) -> str:
    return " ".join(TRANSLATION[word] for word in text.split())


# Words that have no translation.
FILLERS = ("please", "now", "then", "also", "just", "well", "still", "maybe", "here", "there", "today", "again")


def filled_sentences(count: int, seed: int) -> list[tuple[str, str]]:
    """Sentences with two numbers among words that are left out in the translation, with their translations."""
    rng = random.Random(seed)
    pairs = []
    for _ in range(count):
        first, second = rng.sample(WORDS, k=2)
        fillers = rng.sample(FILLERS, k=rng.randint(6, 9))
        start, end = sorted(rng.choices(range(len(fillers) + 1), k=2))
        words = [*fillers[:start], first, *fillers[start:end], second, *fillers[end:]]
        pairs.append((" ".join(words), translated(f"{first} {second}")))
    return pairs


def save(family: str, folder: Path) -> Path:
    """Write an untrained model of a family."""
    import torch

    torch.manual_seed(0)
    tokenizer = {"marian": _marian_tokenizer, "m2m_100": _m2m_tokenizer}.get(family, _word_tokenizer)(folder)
    model = _model(family, tokenizer)
    model.eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_trained(folder: Path, steps: int = 350, pairs: list[tuple[str, str]] | None = None) -> Path:
    """Write a T5 that translates numbers, trained in about ten CPU-seconds, or on other pairs of sentences."""
    import torch

    torch.manual_seed(0)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _word_tokenizer(folder)
    model = _model("t5", tokenizer, width=64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, total_iters=steps)
    pairs = pairs or [(text, translated(text)) for text in sentences(2000, seed=1)]
    model.train()
    for step in range(steps):
        batch = pairs[(32 * step) % (len(pairs) - 100) :][:32]
        inputs = tokenizer([source for source, _ in batch], padding=True, return_tensors="pt")
        labels = tokenizer([target for _, target in batch], padding=True, return_tensors="pt")["input_ids"]
        labels[labels == tokenizer.pad_token_id] = -100
        loss = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    model.eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_mbart(folder: Path) -> Path:
    """Write the first mBART: its languages follow the text, and one of them starts the decoder."""
    import torch
    import transformers

    special = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581", -3.0)]
    words = [(f"\u2581{word}", -2.0) for word in dict.fromkeys([*WORDS, *TRANSLATION.values()])]
    tokenizer = transformers.MBartTokenizer(vocab=[*special, *words], model_max_length=64)
    torch.manual_seed(0)
    config = transformers.MBartConfig(
        vocab_size=len(tokenizer),
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=64,
        init_std=0.3,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.convert_tokens_to_ids("ro_RO"),
    )
    transformers.MBartForConditionalGeneration(config).eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _word_tokenizer(folder: Path) -> Any:
    """Words as tokens, unknown ones letter by letter would be unknown; every text ends with </s>."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    letters = [f"{chr(ord('a') + index)}" for index in range(26)]
    tokens = ["<pad>", "</s>", "<unk>", *WORDS, *TRANSLATION.values(), *letters, "translate", ":", "."]
    tokens += FILLERS
    vocabulary = {token: index for index, token in enumerate(dict.fromkeys(tokens))}
    tokenizer = Tokenizer(models.WordLevel(vocab=vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", model_max_length=64
    )


@functools.cache
def _sentence_pieces(folder: Path) -> Path:
    import sentencepiece

    folder.mkdir(parents=True, exist_ok=True)
    text = folder / "text.txt"
    lines = sentences(300, seed=2)
    text.write_text("\n".join([*lines, *map(translated, lines)]), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(folder / "pieces"), vocab_size=60, minloglevel=2, hard_vocab_limit=False
    )
    text.unlink()
    return folder / "pieces.model"


def _piece_vocabulary(model: Path, special: list[str]) -> dict[str, int]:
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor()
    pieces.Load(str(model))
    names = [pieces.IdToPiece(index) for index in range(pieces.GetPieceSize())]
    tokens = [*special, *(name for name in names if name not in special)]
    return {token: index for index, token in enumerate(tokens)}


def _marian_tokenizer(folder: Path) -> Any:
    from transformers import MarianTokenizer

    model = _sentence_pieces(folder)
    vocabulary = _piece_vocabulary(model, ["</s>", "<unk>"])
    vocabulary["<pad>"] = len(vocabulary)
    path = folder / "marian_vocab.json"
    path.write_text(json.dumps(vocabulary), encoding="utf-8")
    return MarianTokenizer(
        source_spm=str(model),
        target_spm=str(model),
        vocab=str(path),
        source_lang="en",
        target_lang="fr",
        model_max_length=64,
    )


def _m2m_tokenizer(folder: Path) -> Any:
    from transformers import M2M100Tokenizer

    model = _sentence_pieces(folder)
    vocabulary = _piece_vocabulary(model, ["<s>", "<pad>", "</s>", "<unk>"])
    path = folder / "m2m_vocab.json"
    path.write_text(json.dumps(vocabulary), encoding="utf-8")
    return M2M100Tokenizer(vocab_file=str(path), spm_file=str(model), src_lang="en", tgt_lang="fr", model_max_length=64)


def _model(family: str, tokenizer: Any, width: int = 32) -> Any:
    import transformers

    # M2M100 numbers its languages after all words, without counting them as words.
    size = 1 + max([len(tokenizer) - 1, *getattr(tokenizer, "lang_token_to_id", {}).values()])
    shared = {"vocab_size": size, "d_model": width, "pad_token_id": tokenizer.pad_token_id}
    ends = {"eos_token_id": tokenizer.eos_token_id}
    if family == "t5":
        config = transformers.T5Config(
            **shared,
            **ends,
            d_kv=width // 4,
            d_ff=2 * width,
            num_layers=2,
            num_heads=4,
            dropout_rate=0.0,
            decoder_start_token_id=tokenizer.pad_token_id,
        )
        return transformers.T5ForConditionalGeneration(config)
    layers: dict[str, Any] = {
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
    }
    layers |= {"encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64, "dropout": 0.0}
    start = tokenizer.eos_token_id if family in ("bart", "m2m_100") else tokenizer.pad_token_id
    shared |= {**ends, **layers, "decoder_start_token_id": start}
    if family == "bart":
        return transformers.BartForConditionalGeneration(
            transformers.BartConfig(**shared, bos_token_id=None, forced_eos_token_id=None, num_beams=3)
        )
    if family == "marian":
        return transformers.MarianMTModel(
            transformers.MarianConfig(**shared, forced_eos_token_id=tokenizer.eos_token_id, num_beams=4)
        )
    return transformers.M2M100ForConditionalGeneration(transformers.M2M100Config(**shared))
