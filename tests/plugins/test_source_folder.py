"""A plug-in's file imports what lies next to it, as a script does; nobody else sees those modules."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from lmassay.errors import PluginError
from lmassay.plugins.registry import Registry, current_registry
from lmassay.plugins.source_folder import SourceFolder
from lmassay.storage.provenance import source_digest


def write(folder: Path, **files: str) -> Path:
    """Write Python files; ``helpers__text`` is helpers/text.py, ``helpers__init`` is helpers/__init__.py."""
    for name, text in files.items():
        parts = name.split("__")
        if parts[-1] == "init":
            parts[-1] = "__init__"
        path = folder.joinpath(*parts).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def load(path: Path, registry: Registry | None = None) -> Any:
    return (registry or Registry(current_registry())).load_file(path)


@pytest.mark.parametrize(
    "statement",
    [
        "import utils\nvalue = utils.value",
        "import utils as u\nvalue = u.value",
        "from utils import value",
        "from utils import *",
        "from . import utils\nvalue = utils.value",
        "from .utils import value",
        "import os, utils\nvalue = utils.value",
        "import helpers.text\nvalue = helpers.text.value",
        "import helpers.text as t\nvalue = t.value",
        "from helpers import text\nvalue = text.value",
        "from helpers.text import value",
        "from .helpers.text import value",
        "from helpers.inner.deep import value",
        "from plain_folder.part import value",
        "import importlib\nvalue = importlib.import_module('.utils', __package__).value",
        "def late():\n    import utils\n    return utils.value\nvalue = late()",
        "try:\n    from utils import value\nexcept ImportError:\n    value = 0",
    ],
)
def test_every_form_of_import_finds_a_module_next_to_the_file(tmp_path, statement):
    write(
        tmp_path,
        plug=f"{statement}\n",
        utils="value = 42\n",
        helpers__init="",
        helpers__text="from utils import value\n",
        helpers__inner__init="from ..text import value as again\n",
        helpers__inner__deep="from . import again as value\n",
        plain_folder__part="from helpers.text import value\n",
    )
    assert load(tmp_path / "plug.py").value == 42
    assert "utils" not in sys.modules
    assert not (tmp_path / "__pycache__").exists()


def test_an_import_inside_a_function_is_found_when_the_function_is_called(tmp_path):
    write(tmp_path, plug="def f():\n    import utils\n    return utils.value\n", utils="value = 42\n")
    assert load(tmp_path / "plug.py").f() == 42


def test_two_folders_with_a_module_of_the_same_name_work_in_one_process(tmp_path):
    for number in (1, 2):
        write(
            tmp_path / str(number),
            plug="def f():\n    import utils\n    return utils.value\n",
            utils=f"value = {number}",
        )
    registry = Registry(current_registry())
    first, second = (load(tmp_path / name / "plug.py", registry) for name in ("1", "2"))
    assert (first.f(), second.f()) == (1, 2)


def test_a_module_that_is_not_there_is_an_error_though_another_plug_in_has_one(tmp_path):
    write(tmp_path / "a", plug="import only_in_a\n", only_in_a="")
    write(tmp_path / "b", plug="\nimport only_in_a\n")
    registry = Registry(current_registry())
    load(tmp_path / "a" / "plug.py", registry)
    with pytest.raises(PluginError, match=r"plug\.py, line 2: .*No module named 'only_in_a'"):
        load(tmp_path / "b" / "plug.py", registry)


def test_a_sibling_named_like_a_module_of_python_is_seen_by_its_folder_only(tmp_path):
    write(
        tmp_path,
        plug="import json, random, statistics\nfrom utils import dumps\nnames = json.value, random.value\n",
        json="value = 'ours'\n",
        random="from random import *\nvalue = 'ours, too'\n",
        utils="from json import value as dumps\n",
    )
    module = load(tmp_path / "plug.py")
    assert module.names == ("ours", "ours, too")
    assert module.dumps == "ours"
    # A file that imports its own name means the module of Python.
    assert module.random.choice([1]) == 1
    assert module.statistics.random is random
    assert json.dumps([1]) == "[1]"


def test_a_folder_of_data_does_not_hide_an_installed_package(tmp_path):
    (tmp_path / "email").mkdir()
    (tmp_path / "email" / "message.txt").touch()
    write(tmp_path, plug="import email.utils\n")
    assert load(tmp_path / "plug.py").email.utils.formatdate


def test_lmassay_is_always_the_one_that_runs(tmp_path):
    write(tmp_path, plug="import lmassay\n", lmassay__init="")
    assert load(tmp_path / "plug.py").lmassay is sys.modules["lmassay"]


def test_siblings_that_import_each_other(tmp_path):
    write(
        tmp_path,
        plug="import left\nvalue = left.value()\n",
        left="import right\ndef value():\n    return right.value\n",
        right="import left\nvalue = 1\n",
    )
    assert load(tmp_path / "plug.py").value == 1


def test_a_circle_that_cannot_work_is_reported_with_the_names_in_the_files(tmp_path):
    write(tmp_path, plug="\nimport left\n", left="from right import b\na = 1\n", right="from left import a\nb = 1\n")
    with pytest.raises(PluginError) as caught:
        load(tmp_path / "plug.py")
    text = str(caught.value)
    assert text.startswith(f"{tmp_path / 'right.py'}, line 1: the file failed to import: ImportError")
    assert "cannot import name 'a' from partially initialized module 'left'" in text
    assert text.endswith(f"; imported by {tmp_path / 'plug.py'}, line 2")


@pytest.mark.parametrize(
    ("source", "line", "what"),
    [
        ("x = 1\nx = (\n", 2, "SyntaxError: '(' was never closed"),
        ("\n\n1 / 0\n", 3, "ZeroDivisionError"),
        ("\nimport nowhere_at_all\n", 2, "No module named 'nowhere_at_all'"),
        ("x = '\0'\n", 1, "SyntaxError: source code string cannot contain null bytes"),
    ],
)
def test_a_mistake_in_a_sibling_is_reported_with_its_file_and_line(tmp_path, source, line, what):
    write(tmp_path, plug="import utils\n", utils=source)
    with pytest.raises(PluginError) as caught:
        load(tmp_path / "plug.py")
    assert str(caught.value).startswith(f"{tmp_path / 'utils.py'}, line {line}: the file failed to import: ")
    assert what in str(caught.value)


def test_a_name_for_importlib_is_explained(tmp_path):
    write(tmp_path, plug="import importlib\nimportlib.import_module('utils')\n", utils="")
    with pytest.raises(
        PluginError, match=r"write `import utils`, or importlib.import_module\('\.utils', __package__\)"
    ):
        load(tmp_path / "plug.py")


def test_a_plug_in_that_another_one_imports_is_run_once(tmp_path):
    write(
        tmp_path,
        first="from lmassay import register\n@register('scorer', 'first')\nclass First: ...\n",
        second="from first import First\nclass Second(First): ...\n",
    )
    registry = Registry(current_registry())
    second = registry.get("scorer", f"{tmp_path / 'second.py'}:Second")
    assert issubclass(second, registry.get("scorer", f"{tmp_path / 'first.py'}:First"))


def test_a_linked_file_finds_the_modules_next_to_the_file_itself(tmp_path):
    write(tmp_path / "there", plug="from utils import value\n", utils="value = 42\n")
    link = tmp_path / "link.py"
    try:
        link.symlink_to(tmp_path / "there" / "plug.py")
    except OSError:
        pytest.skip("links are not allowed here")
    assert load(link).value == 42


@pytest.mark.parametrize("name", ["my-plug.py", "a.b.py", "한글 파일.py", "__init__.py", "class.py"])
def test_any_name_of_a_file_and_folder_will_do(tmp_path, name):
    folder = write(tmp_path / "두 번째 folder.with dots", utils="value = 42\n")
    (folder / name).write_text("from utils import value\nfrom .utils import value as again\n", encoding="utf-8")
    module = load(folder / name)
    assert (module.value, module.again) == (42, 42)


def test_a_file_with_a_deeply_nested_expression_is_loaded(tmp_path):
    write(tmp_path, plug="import data\n", data=f"value = {' + '.join(['1'] * 1500)}\n")
    assert load(tmp_path / "plug.py").data.value == 1500


@pytest.mark.parametrize(
    "source",
    [
        "match 1:\n    case 1:\n        import utils\n",
        "try:\n    1 / 0\nexcept ZeroDivisionError:\n    import utils\n",
        "try:\n    pass\nfinally:\n    import utils\n",
        "for _ in ():\n    pass\nelse:\n    import utils\n",
        "with open(__file__):\n    import utils\n",
        "class A:\n    import utils\nutils = A.utils\n",
        "f = lambda: 1 if 1 else 2\nimport utils\n",
    ],
)
def test_an_import_is_found_wherever_a_statement_may_stand(tmp_path, source):
    write(tmp_path, plug=source, utils="value = 42\n")
    assert load(tmp_path / "plug.py").utils.value == 42


def test_a_thousand_other_files_are_left_alone(tmp_path):
    for number in range(1000):
        (tmp_path / f"broken{number}.py").write_text("(", encoding="utf-8")
    write(tmp_path, plug="import json\nfrom utils import value\n", utils="value = 42\n")
    folder = SourceFolder(tmp_path)
    assert folder.load(tmp_path / "plug.py").value == 42
    assert folder.files(tmp_path / "plug.py") == [tmp_path / "plug.py", tmp_path / "utils.py"]


# --- which files a plug-in consists of --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import json\n", []),
        ("import a\n", ["a", "b"]),
        ("def f():\n    if False:\n        import a\n", ["a", "b"]),
        ("from . import b\n", ["b"]),
        ("from .b import value\n", ["b"]),
        ("import pack.one\n", ["pack/__init__", "pack/one"]),
        ("from pack import one\n", ["pack/__init__", "pack/one"]),
        ("from pack import *\n", ["pack/__init__", "pack/one", "pack/two"]),
        ("from pack import two\n", ["b", "pack/__init__", "pack/two"]),
        ("import importlib\nimportlib.import_module('.b', __package__)\n", ["b"]),
        ("import importlib\nimportlib.import_module('.' + 'b', __package__)\n", "all"),
        ("from ... import far\n", []),
    ],
)
def test_the_files_of_a_plug_in_are_known_before_it_runs(tmp_path, source, expected):
    write(
        tmp_path,
        plug=source,
        a="import b\n",
        b="",
        pack__init="",
        pack__one="",
        pack__two="from .. import b\n",
        unrelated="",
    )
    if expected == "all":
        expected = ["a", "b", "pack/__init__", "pack/one", "pack/two", "unrelated"]
    if "import *" in source:
        expected = ["b", *expected]
    files = SourceFolder(tmp_path).files(tmp_path / "plug.py")
    names = [file.relative_to(tmp_path).with_suffix("").as_posix() for file in files]
    assert sorted(names) == sorted([*expected, "plug"])


def test_the_digest_of_a_plug_in_covers_what_it_imports_and_nothing_else(tmp_path):
    def digest() -> str:
        return source_digest(load(tmp_path / "plug.py").Mine)

    write(tmp_path, plug="class Mine:\n    def f(self):\n        import utils\n", utils="import more\n", more="x = 1\n")
    before = digest()
    write(tmp_path, unrelated="x = 1\n")
    assert digest() == before
    write(tmp_path, more="x = 2\n")
    assert digest() != before
    write(tmp_path, more="x = 1\n")
    assert digest() == before


def test_the_digest_of_a_single_file_is_that_of_earlier_versions(tmp_path):
    (tmp_path / "plug.py").write_bytes(b"class Mine:\r\n    pass\r\n")
    assert source_digest(load(tmp_path / "plug.py").Mine) == "src:d72047db"


def test_the_digest_does_not_depend_on_where_the_folder_lies(tmp_path):
    digests = set()
    for name in ("one", "two"):
        write(tmp_path / name, plug="import utils\nclass Mine: ...\n", utils="x = 1\n")
        digests.add(source_digest(load(tmp_path / name / "plug.py").Mine))
    assert len(digests) == 1


def test_what_runs_is_what_the_digest_says_though_a_file_changes_meanwhile(tmp_path):
    write(
        tmp_path, plug="class Mine:\n    def f(self):\n        import utils\n        return utils.x\n", utils="x = 1\n"
    )
    mine = load(tmp_path / "plug.py").Mine
    before = source_digest(mine)
    write(tmp_path, utils="x = 2\n")
    assert mine().f() == 1
    assert source_digest(mine) == before


def test_a_file_that_has_changed_is_loaded_again_with_what_it_imports(tmp_path):
    plug = (
        "from lmassay import register\nfrom utils import x\n@register('scorer', 'mine')\nclass Mine:\n    value = x\n"
    )
    write(tmp_path, plug=plug, utils="x = 1\n")
    registry = Registry(current_registry())
    first = registry.get("scorer", f"{tmp_path / 'plug.py'}:Mine")
    assert registry.get("scorer", f"{tmp_path / 'plug.py'}:Mine") is first
    write(tmp_path, utils="x = 2\n")
    second = registry.get("scorer", f"{tmp_path / 'plug.py'}:Mine")
    assert (first.value, second.value) == (1, 2)
    assert source_digest(first) != source_digest(second)


def test_a_plug_in_that_failed_can_be_fixed(tmp_path):
    registry = Registry(current_registry())
    write(tmp_path, plug="import utils\n")
    for source in ("(", "1 / 0\n"):
        with pytest.raises(PluginError):
            load(tmp_path / "plug.py", registry)
        write(tmp_path, utils=source)
    with pytest.raises(PluginError, match="ZeroDivisionError"):
        load(tmp_path / "plug.py", registry)
    write(tmp_path, utils="value = 42\n")
    assert load(tmp_path / "plug.py", registry).utils.value == 42


def test_a_file_that_a_module_reads_through_lmassay_counts(tmp_path):
    write(
        tmp_path,
        plug="import utils\nclass Mine:\n    words = utils.WORDS.read_text()\n",
        utils="from lmassay import data_file\nWORDS = data_file(__file__.replace('utils.py', 'words.txt'))\n",
    )
    (tmp_path / "words.txt").write_text("one", encoding="utf-8")
    registry = Registry(current_registry())
    first = load(tmp_path / "plug.py", registry).Mine
    before = source_digest(first)
    (tmp_path / "words.txt").write_text("two", encoding="utf-8")
    second = load(tmp_path / "plug.py", registry).Mine
    assert (first.words, second.words) == ("one", "two")
    assert source_digest(first) == before != source_digest(second)


def test_the_names_offered_for_a_misspelt_plug_in_are_those_that_the_file_defines(tmp_path):
    write(
        tmp_path, plug="from pathlib import Path\nfrom lmassay import scorer\n\ndef same(hyp, ref):\n    return 1.0\n"
    )
    with pytest.raises(PluginError, match="has no scorer 'sme'; did you mean 'same'"):
        current_registry().get("scorer", f"{tmp_path / 'plug.py'}:sme")
    with pytest.raises(PluginError, match=r"has no scorer 'other'; available: same$"):
        current_registry().get("scorer", f"{tmp_path / 'plug.py'}:other")
