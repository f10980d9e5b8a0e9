"""The digest of a function changes with everything that it uses, and with nothing else."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
import threading
from dataclasses import dataclass

import numpy as np
import pytest

from lmassay.plugins.fingerprint import fingerprint

FACTOR = 2


def digest(value):
    result = fingerprint(value)
    assert not result.not_comparable
    return result.digest


def from_source(text: str, **variables):
    """The function ``f`` in a piece of source, as in a cell of a notebook, where there is no file."""
    namespace = {"__name__": "__main__", **variables}
    exec(compile(text, "<cell>", "exec"), namespace)
    return namespace["f"]


def test_two_lambdas_on_one_line_differ():
    first, second = (lambda texts: [t + "a" for t in texts]), (lambda texts: [t + "b" for t in texts])
    assert digest(first) != digest(second)


def test_the_same_code_has_the_same_digest_wherever_it_is():
    source = "def f(texts):\n    return [t.upper() for t in texts]\n"
    assert digest(from_source(source)) == digest(from_source(f"# a comment\n\n{source}"))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("def f(x): return x + 1", "def f(x): return x + 2"),
        ("def f(x): return x + 1", "def f(x): return x - 1"),
        ("def f(x, y=1): return x + y", "def f(x, y=2): return x + y"),
        ("def f(x, *, y=1): return x + y", "def f(x, *, y=2): return x + y"),
        ("a = 1\ndef f(x): return x + a", "a = 2\ndef f(x): return x + a"),
        ("def g(x): return x\ndef f(x): return g(x)", "def g(x): return -x\ndef f(x): return g(x)"),
        ("f = lambda x: [y + 1 for y in x]", "f = lambda x: [y + 2 for y in x]"),
        ("def f(x):\n def g(): return 1\n return g()", "def f(x):\n def g(): return 2\n return g()"),
        ("class A:\n def m(self): return 1\nf = A().m", "class A:\n def m(self): return 2\nf = A().m"),
        ("class A:\n k = 1\ndef f(x): return A.k", "class A:\n k = 2\ndef f(x): return A.k"),
        ("class B:\n k = 1\nclass A(B): pass\nf = A", "class B:\n k = 2\nclass A(B): pass\nf = A"),
        ("import json\ndef f(x): return json.dumps(x)", "import re\ndef f(x): return re.dumps(x)"),
        ("a = {'k': 1}\ndef f(x): return a[x]", "a = {'k': 2}\ndef f(x): return a[x]"),
        (
            "from functools import cache\n@cache\ndef f(x): return x + 1",
            "from functools import cache\n@cache\ndef f(x): return x + 2",
        ),
        ("a = {1, 2}\ndef f(x): return x in a", "a = {1, 3}\ndef f(x): return x in a"),
    ],
)
def test_a_change_of_what_a_function_does_changes_the_digest(first, second):
    assert digest(from_source(first)) == digest(from_source(first))
    assert digest(from_source(first)) != digest(from_source(second))


def test_captured_variables_count():
    def made(suffix):
        return lambda text: text + suffix

    assert digest(made("a")) == digest(made("a"))
    assert digest(made("a")) != digest(made("b"))
    assert digest(functools.partial(made, "a")) != digest(functools.partial(made, "b"))


def test_the_state_of_an_object_counts():
    @dataclass
    class Settings:
        rate: float
        table: object = None

    assert digest(Settings(0.1)) == digest(Settings(0.1))
    assert digest(Settings(0.1)) != digest(Settings(0.2))
    assert digest(Settings(0.1, np.arange(3))) != digest(Settings(0.1, np.arange(4)))
    assert digest(Settings(0.1, re.compile("a"))) != digest(Settings(0.1, re.compile("b")))


def test_the_value_of_an_enum_member_counts():
    first = from_source("import enum\nclass Mode(enum.Enum):\n A = 'a'\nf = Mode.A")
    second = from_source("import enum\nclass Mode(enum.Enum):\n A = 'b'\nf = Mode.A")
    assert digest(first) != digest(second)


def test_a_recursive_function_and_an_object_that_refers_to_itself_end():
    class Node:
        pass

    node = Node()
    node.next = node
    assert digest(node)
    assert digest(from_source("def f(n): return n and f(n - 1)"))


def test_what_cannot_be_compared_is_named_and_counts_in_this_process_only():
    lock = threading.Lock()

    def locked():
        return lock

    def other():
        return lock

    result = fingerprint(locked)
    assert result.not_comparable == "lock (lock)"
    assert fingerprint(locked) == result
    assert fingerprint(other).digest != result.digest


def test_a_class_that_creates_such_an_object_can_be_compared_but_its_instance_cannot():
    class Locked:
        def __init__(self):
            self.lock = threading.Lock()

    assert not fingerprint(Locked).not_comparable
    assert fingerprint(Locked()).not_comparable == "Locked.lock (lock)"


def test_a_module_of_the_user_counts_with_its_contents(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_helper.py").write_text("def g(x): return 1\n", encoding="utf-8")
    import my_helper  # type: ignore[import-not-found]

    f = from_source("def f(x): return h.g(x)", h=my_helper)
    before = digest(f)
    (tmp_path / "my_helper.py").write_text("def g(x): return 2\n", encoding="utf-8")
    assert digest(f) != before


def test_the_digest_is_the_same_in_another_process():
    program = (
        "from lmassay.plugins.fingerprint import fingerprint\n"
        "words = {'a', 'b', 'c', 'd', 'e'}\n"
        "def f(texts): return [t for t in texts if t in words]\n"
        "print(fingerprint(f).digest)"
    )
    digests = set()
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, env={"PYTHONHASHSEED": seed}, check=True
        )
        digests.add(done.stdout)
    assert len(digests) == 1
