"""What ships with lmassay: kind → name → (where it lives, what it is). Strings only: listing imports nothing."""

from __future__ import annotations

from typing import Final

_SCORERS = "lmassay.evaluations.robustness.scorers"
_PERTURBATIONS = "lmassay.evaluations.robustness.perturbations"
_API = "lmassay.models.api"
_METHODS = "lmassay.evaluations.fewshot.methods"
_INTERCHANGE = "lmassay.interchange.lm_eval_import"

BUILTINS: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "task": {
        "robustness": (
            "lmassay.evaluations.robustness.task:Robustness",
            "does it break under attack? TEAPOT's s_src, d_tgt and success rate",
        ),
        "syntax": (
            "lmassay.evaluations.syntax.task:Syntax",
            "does it know grammar? TSE, EW and MW at the verb of minimal pairs",
        ),
        "minimal_pairs": (
            "lmassay.evaluations.syntax.sentences:MinimalPairs",
            "does it prefer the grammatical sentence? BLiMP and any other pairs",
        ),
        "bias": (
            "lmassay.evaluations.bias.task:Bias",
            "is it biased? KoBBQ's accuracy and diff-bias, BBQ's scores, data of your own",
        ),
        "fewshot": (
            "lmassay.evaluations.fewshot.task:FewShot",
            "does it learn from a few examples? FewNLU's methods under its protocol",
        ),
        "refining_tse": (
            "lmassay.evaluations.syntax.refining_tse.plugins:RefiningTse",
            "the syntax task with metrics in refining-tse's style; `lmassay tse` makes it",
        ),
        "lm_eval": (
            f"{_INTERCHANGE}:logged_task",
            "a sample log of lm-evaluation-harness, judged; `lmassay import` makes it",
        ),
    },
    "model": {
        "outputs": ("lmassay.models.outputs:Outputs", "answers already in hand, read from files"),
        "openai": (f"{_API}.openai_models:OpenAICompatible", "OpenAI, or any compatible server by base URL"),
        "azure": (f"{_API}.openai_models:Azure", "a deployment of Azure OpenAI"),
        "clova": (f"{_API}.openai_models:Clova", "CLOVA X through CLOVA Studio"),
        "claude": (f"{_API}.claude:Claude", "Claude through Anthropic's API"),
        "hf": ("lmassay.models.hf.model:HuggingFace", "a local Hugging Face model: folder, GGUF file or hub name"),
        "smollm2": ("lmassay.models.hf.model:SmolLM2", "the default: a small real model; lmassay models get smollm2"),
        "predictions": (
            "lmassay.evaluations.bias.kobbq.predictions:Predictions",
            "answers of KoBBQ's second step, read from its file",
        ),
        "mpe": (
            "lmassay.evaluations.syntax.refining_tse.model:MpeModel",
            "a class in refining-tse's style: word_to_index and predict",
        ),
        "lm_eval": (f"{_INTERCHANGE}:LoggedModel", "answers in a sample log of lm-evaluation-harness"),
        "echo": ("lmassay.models.echo:Echo", "gives the prompt back; deterministic, for trying things out"),
    },
    "scorer": {
        "zero_one": (f"{_SCORERS}.exact:ZeroOne", "1 where the two texts are equal, else 0"),
        "exact_match": (f"{_SCORERS}.exact:ZeroOne", "the same as zero_one"),
        "bleu": (f"{_SCORERS}.bleu:BLEU", "sentence BLEU, 13a tokens, floor smoothing 0.01"),
        "chrf": (f"{_SCORERS}.chrf:ChrF", "character n-gram F-score, order 6, beta 2"),
        "meteor": (f"{_SCORERS}.meteor:METEOR", "METEOR 1.5, the Java program (needs java and the jar)"),
        "semantic": (f"{_SCORERS}.semantic:Semantic", "cosine of sentence embeddings (extra: semantic)"),
    },
    "perturbation": {
        "charswap": (f"{_PERTURBATIONS}:charswap", "swap two neighbouring letters inside a word"),
        "keyboard": (f"{_PERTURBATIONS}:keyboard", "hit the key next to the right one; per keyboard layout"),
        "delete": (f"{_PERTURBATIONS}:delete", "leave out a letter"),
        "insert": (f"{_PERTURBATIONS}:insert", "type a letter twice or add one"),
        "homoglyph": (f"{_PERTURBATIONS}:homoglyph", "replace a letter by one that looks the same"),
        "case": (f"{_PERTURBATIONS}:case", "flip upper and lower case"),
        "diacritics": (f"{_PERTURBATIONS}:diacritics", "drop accents, or add one"),
        "wordswap": (f"{_PERTURBATIONS}:wordswap", "swap two neighbouring words"),
        "worddrop": (f"{_PERTURBATIONS}:worddrop", "leave out a word"),
    },
    "method": {
        "sequence_classifier": (f"{_METHODS}.classifier:SequenceClassifier", "a classifier head, all weights trained"),
        "pet": (f"{_METHODS}.pet:Pet", "patterns and verbalizers (PET); lm_training adds a masked-word loss"),
        "ptuning": (f"{_METHODS}.ptuning:PTuning", "PET with continuous prompt tokens: raw, lstm or mlp"),
        "adapet": (f"{_METHODS}.adapet:Adapet", "decoupled label loss and label-conditioned masked words (ADAPET)"),
        "lora": (f"{_METHODS}.lora:Lora", "PET's loss on low-rank adapters, the model frozen (extra: fewshot)"),
        "prompt_tuning": (f"{_METHODS}.prompt_tuning:PromptTuning", "only prompt embeddings trained, the model frozen"),
        "sentence_encoder": (f"{_METHODS}.sentence_encoder:SentenceEncoder", "SetFit's way: contrast, then a head"),
        "icl": (
            "lmassay.evaluations.fewshot.icl:InContext",
            "in-context learning: demonstrations, no training, any model",
        ),
        "majority": (
            "lmassay.evaluations.fewshot.baselines:Majority",
            "the most frequent label of the training examples",
        ),
        "random": (
            "lmassay.evaluations.fewshot.baselines:Random",
            "a label at random, by the shares in the training examples",
        ),
    },
    "trainer": {
        "fewshot": ("lmassay.evaluations.fewshot.trainer:teach", "teaches a model by a few-shot method and tests it"),
    },
}
