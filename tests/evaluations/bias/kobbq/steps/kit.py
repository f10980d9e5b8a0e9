"""A folder with small files for KoBBQ's steps, and what they make of them."""

from __future__ import annotations

import csv

from lmassay.evaluations.bias.kobbq.samples import OPTIONAL_COLUMNS, SAMPLE_COLUMNS
from lmassay.evaluations.bias.kobbq.steps.collect import collect
from lmassay.evaluations.bias.kobbq.steps.evaluate import METRICS, evaluate, write_results
from lmassay.evaluations.bias.kobbq.steps.postprocess import postprocess
from lmassay.evaluations.bias.kobbq.steps.preprocess import preprocess

PROMPT_HEADER = "prompt_id\tprompt\tinstruction\tcontext\tquestion\ta\tb\tc\tanswer\tunknown"
PROMPTS = f"{PROMPT_HEADER}\r\n1\t-\t고르시오.\t맥락: \t질문: \tA: \tB: \tC: \t정답:\t모름\r\n"
UNKNOWN = "모름"


class Work:
    """A folder with samples, a prompt and what the steps make of them."""

    def __init__(self, folder):
        self.folder = folder
        self.samples = folder / "samples.tsv"
        self.prompts = folder / "prompts.tsv"
        self.questions = folder / "data" / "topic_1.tsv"
        self.json = folder / "data" / "topic_1.json"
        self.predictions = folder / "topic_1_model_predictions.tsv"
        self.collected = folder / "out" / "topic_1_model.tsv"
        self.results = folder / "results.tsv"
        self.prompts.write_bytes(PROMPTS.encode())
        self.write_samples()

    def write_samples(self, header=(*SAMPLE_COLUMNS, *OPTIONAL_COLUMNS), extra=(), bbq=("1.0", "Age", "")):
        rows = []
        for version in "ab":
            first, second = ("손자", "할머니") if version == "a" else ("할머니", "손자")
            for kind in ("amb", "dis"):
                for polarity in ("bsd", "cnt"):
                    mentioned = first if polarity == "bsd" else second
                    biased = "할머니" if polarity == "bsd" else "손자"
                    answer = "알 수 없음" if kind == "amb" else mentioned
                    choices = f"['{first}', '{second}', '알 수 없음']"
                    key = f"age-001{version}-001-{kind}-{polarity}"
                    rows.append([key, "ST", "둘이 있다.", "누가?", choices, biased, answer, *bbq, *extra])
        write(self.samples, header, rows)

    def preprocess(self):
        return preprocess(self.samples, self.prompts, 1, tsv_path=self.questions, json_path=self.json)

    def read_questions(self):
        return read(self.questions)

    def answer(self, answers, header=("time", "topic", "guid", "truth", "raw"), **options):
        """Predictions of step 2; ``answers`` is a function of a question or a text for all."""
        answer_to = answers if callable(answers) else lambda row: answers
        rows = [
            ["2024-01-01 00:00:00", "topic_1", row["sample_id"], row["answer_abc"], answer_to(row)]
            for row in self.read_questions()
        ]
        write(self.predictions, header, rows, **{"end": "\r\n", **options})

    def postprocess(self, **options):
        return postprocess(self.predictions, self.questions, **options)

    def collect(self):
        return collect(self.predictions, self.questions, self.collected)

    def evaluate(self, mode="test", models=("model",)):
        evaluated = list(evaluate(models, self.collected.parent, "topic", mode, self.prompts, 1))
        write_results(self.results, evaluated)
        return evaluated

    def through(self, answers, mode="test"):
        """All steps; the numbers of the overall row."""
        self.preprocess()
        self.answer(answers)
        self.postprocess()
        self.collect()
        (evaluated,) = self.evaluate(mode)
        return dict(zip(METRICS, evaluated.rows[0].values, strict=True))


def write(path, header, rows, end="\n"):
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, delimiter="\t", lineterminator=end)
        writer.writerows([header, *rows])


def read(path):
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, delimiter="\t"))
