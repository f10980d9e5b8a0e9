"""Speed of the syntax evaluations, as ratios within one run.

    python benchmarks/syntax.py blimp [--pairs 500] [--threads 1]     against lm-evaluation-harness and minicons
    python benchmarks/syntax.py tse [--rows 320] [--threads 1]        against the original procedure, on its first rows

Both use the embedded model (`lmassay models get smollm2`) and the data in $LMASSAY_SHARED (else ../shared). `blimp`
needs `pip install lm-eval minicons`. Times are CPU-seconds. Both sides must give the same numbers.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lmassay.contracts import ask
from lmassay.evaluations.syntax.pair_files import BLIMP_FORMAT, read_pair_file
from lmassay.evaluations.syntax.pairs import open_pairs, split_at_difference, text_around
from lmassay.evaluations.syntax.task import PUBLISHED_BOTTOM, PUBLISHED_TOP, Syntax
from lmassay.models.hf.model import SmolLM2
from lmassay.statistics.intervals import Settings
from lmassay.statistics.table import ScoreTable
from lmassay.types import Continuation, LogProbs, Row

SETS = {
    "Simple": ["ML/simple_agrmt_all"],
    "In a sentential complement": ["ML/sent_comp_all"],
    "VP coordination": ["ML/vp_coord_all", "ML/long_vp_coord_all"],
    "Across prepositional phrase": ["ML/prep_anim_all", "ML/prep_inanim_all"],
    "Across subject relative clause": ["ML/subj_rel_all"],
    "Across object relative clause": ["ML/obj_rel_across_anim_all", "ML/obj_rel_across_inanim_all"],
    "Across object relative (no that)": ["ML/obj_rel_no_comp_across_anim_all", "ML/obj_rel_no_comp_across_inanim_all"],
    "In object relative clause": ["ML/obj_rel_within_anim_all", "ML/obj_rel_within_inanim_all"],
    "In object relative (no that)": ["ML/obj_rel_no_comp_within_anim_all", "ML/obj_rel_no_comp_within_inanim_all"],
    "BLiMP": [
        "blimp/distractor_agreement_relational_noun",
        "blimp/distractor_agreement_relative_clause",
        "blimp/irregular_plural_subject_verb_agreement_1",
        "blimp/regular_plural_subject_verb_agreement_1",
    ],
}
# The set whose first rows the original procedure is timed on.
TIMED = "ML/sent_comp_all"
# The number of paradigms that the pairs of BLiMP are taken from.
PARADIGMS = 10


def shared() -> Path:
    folder = Path(os.environ.get("LMASSAY_SHARED") or Path(__file__).resolve().parents[2] / "shared")
    if not (folder / "data" / "tse").is_dir():
        sys.exit(f"the data are not in {folder}; set LMASSAY_SHARED")
    return folder


def clocked(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return what ``work`` returns, and its CPU and wall seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    outcome = work()
    return outcome, time.process_time() - cpu, time.perf_counter() - wall


# --- whole sentences ------------------------------------------------------------------------------------------------


def blimp_sentences(pairs: int) -> list[str]:
    """Return good and bad sentences alternately: the first pairs of paradigms from the whole alphabet."""
    files = sorted((shared() / "data" / "blimp").glob("*.jsonl"))
    files = [file for file in files if file.stem != "models_summary"]
    chosen = files[:: max(len(files) // PARADIGMS, 1)][:PARADIGMS]
    pairs_per_file = -(-pairs // len(chosen))
    sentences: list[str] = []
    for file in chosen:
        for pair in read_pair_file(open_pairs(file), BLIMP_FORMAT, pairs_per_file):
            sentences += [pair.good, pair.bad]
    return sentences[: 2 * pairs]


def ours(sentences: Sequence[str], threads: int, **policy: Any) -> tuple[list[float], float, float]:
    model = SmolLM2(threads=threads, **policy)
    list(ask(model, "logprobs", [LogProbs("", "warm up")]))

    def score() -> list[float]:
        responses = dict(ask(model, "logprobs", [LogProbs("", sentence) for sentence in sentences]))
        totals = []
        for index in range(len(sentences)):
            answer = responses[index].answer
            assert isinstance(answer, Continuation)
            totals.append(answer.total)
        return totals

    return clocked(score)


def lm_eval(sentences: Sequence[str], model: Any, tokenizer: Any, batch: int) -> tuple[list[float], float, float]:
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    scorer = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=batch, device="cpu")
    requests = [
        Instance(request_type="loglikelihood", doc={}, arguments=("", f" {sentence}"), idx=0) for sentence in sentences
    ]
    return clocked(lambda: [total for total, _ in scorer.loglikelihood(requests, disable_tqdm=True)])


def minicons(sentences: Sequence[str], model: Any, tokenizer: Any, batch: int) -> tuple[list[float], float, float]:
    from minicons import scorer

    incremental = scorer.IncrementalLMScorer(model, "cpu", tokenizer=tokenizer)

    def score() -> list[float]:
        totals: list[float] = []
        for start in range(0, len(sentences), batch):
            part = list(sentences[start : start + batch])
            totals += incremental.sequence_score(part, reduction=lambda x: x.sum(0).item(), bos_token=True)
        return totals

    return clocked(score)


def compare_blimp(pairs: int, threads: int) -> bool:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = SmolLM2().source.path
    torch.set_num_threads(threads)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    sentences = blimp_sentences(pairs)
    count = len(sentences) // 2
    print(
        f"{count} BLiMP pairs of {PARADIGMS} paradigms, SmolLM2-135M float32, {threads} thread(s), pairs per CPU-second"
    )
    # Name, measurement, and the line of lmassay's measurement with the same treatment of the text.
    lines = [
        ("lmassay, as minicons", ours(sentences, threads, prefix="bos"), None),
        ("lmassay, as lm-eval", ours(sentences, threads, prefix="bos", leading_space=True), None),
        ("lm-eval, batch 1 (its default)", lm_eval(sentences, model, tokenizer, 1), 1),
        ("lm-eval, batch 32", lm_eval(sentences, model, tokenizer, 32), 1),
        ("minicons, one call a pair", minicons(sentences, model, tokenizer, 2), 0),
        ("minicons, batch 32", minicons(sentences, model, tokenizer, 32), 0),
    ]
    same = True
    for name, (totals, cpu, wall), counterpart in lines:
        right = sum(totals[i] > totals[i + 1] for i in range(0, len(totals), 2)) / count
        note = ""
        if counterpart is not None:
            own_totals, own_cpu, _ = lines[counterpart][1]
            worst = max(abs(a - b) for a, b in zip(totals, own_totals, strict=True))
            same = same and worst < 1e-2
            note = f"lmassay is {cpu / own_cpu:.2f} times as fast; largest difference of a sentence {worst:.1e}"
        print(f"  {name:32s} {count / cpu:7.2f}   wall {wall:6.1f} s   accuracy {right:.3f}   {note}")
    return same


# --- the blank: TSE, EW and MW ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Procedure:
    """A reimplementation of the original procedure: rows are scored one by one in batches of 64, lemmas in a loop.

    It keeps what makes the original slow and nothing else: the model runs on duplicates and over all positions, a
    dictionary of ranks is made for every row, and each lemma is looked at by itself with tensors of a batch.
    """

    model: Any
    tokenizer: Any
    lemmas: Sequence[tuple[int, int]]

    def run(self, rows: Sequence[tuple[str, str, str, bool]], equal: bool) -> tuple[float, float]:
        """Return (score at the top cut-off 1.0, TSE) of (left, good, bad, is plural) rows."""
        seen: set[str] = set()
        scores: list[float] = []
        hits: list[bool] = []
        for start in range(0, len(rows), 64):
            batch = rows[start : start + 64]
            logits = self._last_logits([left for left, *_ in batch])
            hits += self._tse(logits, batch)
            new = []
            for index, (left, *_) in enumerate(batch):
                if left not in seen:
                    seen.add(left)
                    new.append(index)
            if new:
                scores += self._weighted(logits[new], [batch[index][3] for index in new], equal)
        return float(np.nanmean(scores)), float(np.mean(hits))

    def _last_logits(self, lefts: Sequence[str]) -> torch.Tensor:
        encoded = [self.tokenizer(left.rstrip())["input_ids"] for left in lefts]
        lengths = [len(tokens) for tokens in encoded]
        ids = torch.zeros(len(encoded), max(lengths), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, tokens in enumerate(encoded):
            ids[row, : len(tokens)] = torch.tensor(tokens)
            mask[row, : len(tokens)] = 1
        with torch.no_grad():
            logits = self.model(input_ids=ids, attention_mask=mask).logits
        last_positions = torch.tensor(lengths) - 1
        last: torch.Tensor = logits[torch.arange(len(encoded)), last_positions]
        return last

    def _tse(self, logits: torch.Tensor, batch: Sequence[tuple[str, str, str, bool]]) -> Iterator[bool]:
        for row, (_, good, bad, _) in zip(logits, batch, strict=True):
            good_tokens = self.tokenizer(f" {good}")["input_ids"]
            bad_tokens = self.tokenizer(f" {bad}")["input_ids"]
            if len(good_tokens) == len(bad_tokens) == 1:
                yield bool(row[good_tokens[0]] > row[bad_tokens[0]])

    def _weighted(self, logits: torch.Tensor, plural: Sequence[bool], equal: bool) -> list[float]:
        p = torch.softmax(logits, dim=-1)
        # The score of each row at the last cut-off from the top, which covers the whole vocabulary.
        full_scores = np.full(len(p), np.nan)
        for cutoffs, descending in ((PUBLISHED_TOP, True), (PUBLISHED_BOTTOM, False)):
            ordered, tokens = torch.sort(p, dim=-1, descending=True)
            if not descending:
                ordered, tokens = ordered.flip(-1), tokens.flip(-1)
            reached = torch.cumsum(ordered, dim=-1).clamp(max=1.0)
            ranks = [dict(zip(row.tolist(), range(len(row)), strict=True)) for row in tokens]
            borders = torch.stack([(reached < v).sum(dim=-1) for v in cutoffs], dim=1)
            sums = [torch.zeros(2, len(p), len(cutoffs)) for _ in range(2)]
            for forms in self.lemmas:
                self._add_lemma(forms, p, ranks, borders, plural, equal, descending, sums)
            for right, wrong in sums:
                scores = (right / (right + wrong)).numpy()
                if descending:
                    full_scores = scores[:, -1]
        return [float(score) for score in full_scores]

    def _add_lemma(
        self,
        forms: tuple[int, int],
        p: torch.Tensor,
        ranks: Sequence[dict[int, int]],
        borders: torch.Tensor,
        plural: Sequence[bool],
        equal: bool,
        top: bool,
        sums: Sequence[torch.Tensor],
    ) -> None:
        """Add the weights of one lemma to the sums of right and wrong forms, without and with the border token."""
        singular, plural_form = forms
        right_tokens: list[int] = []
        wrong_tokens: list[int] = []
        right_ranks: list[int] = []
        wrong_ranks: list[int] = []
        for is_plural, ranks_of_row in zip(plural, ranks, strict=True):
            right_token, wrong_token = (plural_form, singular) if is_plural else (singular, plural_form)
            right_tokens.append(right_token)
            wrong_tokens.append(wrong_token)
            right_ranks.append(ranks_of_row[right_token])
            wrong_ranks.append(ranks_of_row[wrong_token])
        rows = torch.arange(len(p))
        p_right = p[rows, torch.tensor(right_tokens)]
        p_wrong = p[rows, torch.tensor(wrong_tokens)]
        right_rank = torch.tensor(right_ranks)[:, None]
        wrong_rank = torch.tensor(wrong_ranks)[:, None]
        for inclusive, (right_sum, wrong_sum) in enumerate(sums):
            if inclusive:
                right_in, wrong_in = right_rank <= borders, wrong_rank <= borders
            else:
                right_in, wrong_in = right_rank < borders, wrong_rank < borders
            counted = right_in | wrong_in if top else right_in & wrong_in
            if equal:
                better = (p_right > p_wrong)[:, None]
                right_sum += (counted & better).float()
                wrong_sum += (counted & ~better).float()
            else:
                right_sum += torch.where(right_in if top else counted, p_right[:, None], torch.zeros(1))
                wrong_sum += torch.where(wrong_in if top else counted, p_wrong[:, None], torch.zeros(1))


def rows_of(name: str, most: int) -> list[tuple[str, str, str, bool]]:
    """Return for each row the text before the verb, the right and the wrong form, and whether the subject is plural."""
    rows = []
    file = shared() / "data" / "tse" / f"{name}.jsonl"
    for pair in read_pair_file(open_pairs(file), BLIMP_FORMAT, most):
        blank = split_at_difference(pair.good, pair.bad)
        left, _ = text_around(blank, True, True)
        rows.append((left, blank.good, blank.bad, pair.number == "plural"))
    return rows


def single_token_lemmas(tokenizer: Any, file: Path) -> list[tuple[int, int]]:
    """Return the tokens of singular and plural, for the lemmas of which each form is one token."""
    lemmas = []
    with file.open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            singular = tokenizer(f" {row['sing']}")["input_ids"]
            plural = tokenizer(f" {row['plur']}")["input_ids"]
            if len(singular) == len(plural) == 1:
                lemmas.append((singular[0], plural[0]))
    return lemmas


def evaluate(data: dict[str, str | list[str]], threads: int, **options: Any) -> dict[tuple[str, str], Any]:
    verbs = shared() / "data" / "tse" / "verbs" / "combined_verb_list.csv"
    model = SmolLM2(threads=threads)
    task = Syntax(data, verbs=verbs, **options)
    task.check()
    task.check_model(model)
    rows: list[Row] = []
    examples = list(task.examples())
    for start in range(0, len(examples), task.chunk):
        part = examples[start : start + task.chunk]
        requests = [task.requests(example)[0] for example in part]
        answers = dict(ask(model, "slot", requests))
        scores = task.score(part, [[answers[position]] for position in range(len(part))])
        for example, score in zip(part, scores, strict=True):
            rows.append(Row(example, "scored", score))
    results = task.aggregate(ScoreTable(rows), Settings())
    return {(result.metric, result.group): result for result in results}


def compare_tse(rows: int, threads: int) -> bool:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = SmolLM2().source.path
    torch.set_num_threads(threads)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    data_folder = shared() / "data" / "tse"
    lemmas = single_token_lemmas(tokenizer, data_folder / "verbs" / "combined_verb_list.csv")
    procedure = Procedure(model, tokenizer, lemmas)
    part = rows_of(TIMED, rows)
    (ew, tse), cpu_ew, _ = clocked(lambda: procedure.run(part, equal=True))
    (mw, _), cpu_mw, _ = clocked(lambda: procedure.run(part, equal=False))
    theirs = len(part) / (cpu_ew + cpu_mw)
    print(f"original procedure, first {len(part)} rows of {TIMED}, {len(lemmas)} lemmas, {threads} thread(s):")
    print(f"  EW and TSE {cpu_ew:.1f} CPU-s, MW {cpu_mw:.1f} CPU-s: {theirs:.1f} rows per CPU-second")
    timed_file = str(data_folder / f"{TIMED}.jsonl")
    small, cpu, _ = clocked(lambda: evaluate({"x": timed_file}, threads, max_per_file=rows))
    largest_difference = 0.0
    for metric, original_value in (("ew@top1", ew), ("mw@top1", mw), ("tse", tse)):
        largest_difference = max(largest_difference, abs(small[metric, "overall"].value - original_value))
    print(f"lmassay on the same rows, loading included: {cpu:.1f} CPU-s; largest difference {largest_difference:.1e}")
    data: dict[str, str | list[str]] = {}
    total = 0
    for name, file_names in SETS.items():
        paths = [data_folder / f"{file_name}.jsonl" for file_name in file_names]
        data[name] = [str(path) for path in paths]
        for path in paths:
            with path.open(encoding="utf-8") as stream:
                total += sum(1 for _ in stream)
    results, cpu, wall = clocked(lambda: evaluate(data, threads))
    print(f"lmassay, all ten sets, {total} rows: {cpu:.1f} CPU-s ({wall:.1f} s): {total / cpu:.0f} rows per CPU-second")
    print(f"the original procedure would take {total / theirs:.0f} CPU-s: {total / theirs / cpu:.1f} times as much")
    for name in SETS:
        line: dict[str, Any] = {"set": name}
        for metric in ("mw", "ew", "tse"):
            line[metric] = round(results[metric, f"construction={name}"].value, 6)
        line["n_tse"] = results["tse", f"construction={name}"].n
        print(json.dumps(line))
    return bool(largest_difference < 2e-3)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("blimp", "tse"))
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--rows", type=int, default=320)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, torch {torch.__version__}, {os.cpu_count()} cores")
    if options.what == "blimp":
        agrees = compare_blimp(options.pairs, options.threads)
    else:
        agrees = compare_tse(options.rows, options.threads)
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
