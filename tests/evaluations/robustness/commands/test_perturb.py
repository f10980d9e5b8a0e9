"""``lmassay perturb``: what goes to standard output, and how mistakes in a perturbation are reported."""

from __future__ import annotations

from tests.helpers import lmassay, write_lines

LOUD = """
print("imported")

def loud(text, rng, rate):
    print("called")
    return text.upper()
"""


def test_prints_of_a_perturbation_are_not_among_the_lines(tmp_path):
    write_lines(tmp_path / "src.txt", ["one line", "another line"])
    (tmp_path / "loud.py").write_text(LOUD, encoding="utf-8")
    done = lmassay("perturb", "loud.py:loud", "--in", "src.txt", "--out", "-", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "ONE LINE\nANOTHER LINE\n"
    assert "imported" in done.stderr
    assert done.stderr.count("called") == 2


def test_an_exception_is_reported_with_the_line_of_the_file_and_of_the_text(tmp_path):
    write_lines(tmp_path / "src.txt", ["a long line", "short"])
    (tmp_path / "mine.py").write_text("def ninth(text, rng, rate):\n    return text[8]\n", encoding="utf-8")
    done = lmassay("perturb", "mine.py:ninth", "--in", "src.txt", "--out", "-", cwd=tmp_path)
    assert done.returncode == 2
    assert "the perturbation ninth failed on line 2 of the text: IndexError(" in done.stderr
    assert "mine.py, line 2)" in done.stderr


def test_a_wrong_option_of_a_perturbation_is_reported_with_the_line_of_the_configuration(tmp_path):
    write_lines(tmp_path / "src.txt", ["one line", "another line"])
    (tmp_path / "c.yaml").write_text(
        "task:\n"
        "  name: robustness\n"
        "  src: src.txt\n"
        "  attack:\n"
        "    perturb: keyboard\n"
        "    options:\n"
        "      layot: azerty\n"
        "model: echo\n",
        encoding="utf-8",
    )
    done = lmassay("check", "c.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "error: c.yaml, line 7: task.attack.options.layot: unknown key; did you mean 'layout'?\n"
