"""TEAPOT's command-line options and their help."""

from __future__ import annotations

import argparse

_SCORERS = "zero_one, exact_match, bleu, chrf, meteor"


def command_line_parser() -> argparse.ArgumentParser:
    """Return a parser with TEAPOT's options, without those that scorers add."""
    # The name is part of usage errors, whose text is exactly the original's.
    parser = argparse.ArgumentParser(
        prog="TEAPOT",
        conflict_handler="resolve",
        description="Evaluate an attack on a text system by how much of the input it keeps and how much of the output "
        "it destroys. All files have one sentence per line.",
    )
    add = parser.add_argument
    for side, compared in (("src", "the original and the attacked inputs"), ("tgt", "the outputs")):
        add(
            f"--s-{side}",
            default="chrf",
            help=f"scorer that compares {compared}: {_SCORERS}, or one from --custom-scores-source "
            "(default: %(default)s)",
        )
    add("--src", help="file with the original inputs")
    add("--adv-src", help="file with the attacked inputs")
    add("--ref", help="file with reference outputs; without it the two outputs are compared with each other")
    add("--out", help="file with the system's outputs for the original inputs")
    add("--adv-out", help="file with the system's outputs for the attacked inputs")
    for side, texts in (("src", "inputs"), ("tgt", "outputs")):
        add(
            f"--{side}-lang",
            help=f"language of the {texts}, which METEOR needs: en; also cz, de, es, fr or ru if the jar comes with "
            "their paraphrase tables",
        )
    add("--scale", type=float, default=100, help="factor for the printed scores (default: %(default)s)")
    add(
        "--success-threshold",
        type=float,
        default=1,
        help="an attack on a sentence succeeds if s_src + d_tgt is above this value or, without a reference, if "
        "s_src / s_tgt is; raise it if the scorers differ and 1 is too easy to pass (default: %(default)s)",
    )
    add("--terse", action="store_true", help="print the means and the success percentage only, one number per line")
    add(
        "--custom-scores-source",
        nargs="*",
        default=[],
        help="Python files that register scorers",
    )
    return parser
