"""Your own few-shot task in FewNLU's style: do two sentences mean the same?

Use it as ``mrpc.py:mrpc`` with ``mrpc`` as its data folder (train.jsonl, dev.jsonl, unlabeled.jsonl). The same task as
a YAML file: mrpc.yaml.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

from lmassay.evaluations.fewshot import PVP, DataProcessor, InputExample, PVPOutputPattern


class MRPCPVP(PVP):
    """How a pair becomes a sentence with a blank, and which word represents which label."""

    VERBALIZER: ClassVar = {"1": ["Yes"], "0": ["No"]}

    def available_patterns(self) -> list[int]:
        return [1] if self.use_continuous_prompt else [0]

    def get_parts(self, example: InputExample) -> PVPOutputPattern:
        text_a = self.shortenable(example.text_a)
        text_b = self.shortenable(example.text_b or "")
        if not self.use_cloze:
            return [text_a], [text_b]
        if not self.use_continuous_prompt:
            return ['Does "', text_a, '" has the same meaning with "', text_b, '"?', [self.mask_id], "."], []
        # A number N stands for N continuous prompt tokens, which P-tuning learns.
        return ['Does "', text_a, '" has the same meaning with "', text_b, '"?', 1, [self.mask_id], "."], []

    def verbalize(self, label: str) -> list[str]:
        return list(self.VERBALIZER[label])


class MRPCProcessor(DataProcessor):
    """One JSON object per line: sentence1, sentence2 and, except for unlabelled data, label."""

    def get_labels(self) -> list[str]:
        return ["0", "1"]

    def _create_examples(self, path: str, set_type: str) -> list[InputExample]:
        examples = []
        # Not splitlines(), which would also split a sentence at its U+2028 or U+0085.
        with Path(path).open(encoding="utf-8") as file:
            for number, line in enumerate(file):
                row = json.loads(line)
                examples.append(
                    InputExample(
                        guid=f"{set_type}-{number}",
                        text_a=row["sentence1"],
                        text_b=row["sentence2"],
                        label=row.get("label"),
                        idx=number,
                    )
                )
        return examples


GLUE_METRICS = {"mrpc": ["acc", "f1"]}
GLUE_PVPS = {"mrpc": MRPCPVP}
GLUE_PROCESSORS = {"mrpc": MRPCProcessor}
