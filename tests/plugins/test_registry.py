"""Plug-ins are found by name; mistakes are reported with file, line and remedy."""

from pathlib import Path

import pytest

from lmassay.errors import PluginError
from lmassay.plugins.registry import Registry, current_registry, register


def test_a_builtin_is_found_by_name():
    from lmassay.evaluations.robustness.scorers.exact import ZeroOne

    assert current_registry().get("scorer", "exact_match") is ZeroOne


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(PluginError, match="did you mean 'chrf'"):
        current_registry().get("scorer", "chfr")


def test_a_file_is_loaded_and_its_name_found(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("class Mine:\n    pass\n")
    assert Registry(current_registry()).get("model", f"{file}:Mine").__name__ == "Mine"


def test_a_relative_file_starts_at_the_configuration(tmp_path):
    (tmp_path / "mine.py").write_text("def mine(): ...\n")
    assert Registry(current_registry()).get("scorer", "mine.py:mine", tmp_path).__name__ == "mine"


def test_a_decorator_registers_into_the_registry_in_force():
    child = Registry(current_registry())
    with child.active():
        register("scorer", "only-here")(object)
    assert "only-here" in child.names("scorer")
    assert "only-here" not in current_registry().names("scorer")


@pytest.mark.fault(34)
def test_a_name_taken_twice_names_both_places(tmp_path):
    child = Registry(current_registry())
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text("from lmassay import register\n@register('scorer', 'dup')\nclass S: ...\n")
    child.load_file(tmp_path / "one.py")
    with pytest.raises(PluginError, match=r"one\.py, again in .*two\.py"):
        child.load_file(tmp_path / "two.py")


def test_a_builtin_name_cannot_be_taken():
    with pytest.raises(PluginError, match="lmassay itself"):
        Registry(current_registry()).add("scorer", "chrf", object)


@pytest.mark.parametrize(
    ("source", "line"),
    [("x = 1\nimport nowhere_at_all\n", 2), ("x = (\n", 1), ("def f():\n    return 1 / 0\n\n\nf()\n", 2)],
)
def test_a_file_that_fails_names_its_line(tmp_path, source, line):
    file = tmp_path / "broken.py"
    file.write_text(source)
    with pytest.raises(PluginError, match=rf"broken\.py, line {line}: the file failed to import"):
        Registry(current_registry()).load_file(file)


def test_a_file_that_failed_after_it_registered_a_name_can_be_loaded_again(tmp_path, monkeypatch):
    file = tmp_path / "half.py"
    file.write_text(
        "import os\n"
        "from lmassay import register\n"
        "@register('scorer', 'half')\n"
        "class Half: ...\n"
        "setting = os.environ['HALF_SETTING']\n"
    )
    (tmp_path / "intact.py").write_text("from lmassay import register\n@register('scorer', 'intact')\nclass I: ...\n")
    registry = Registry(current_registry())
    registry.load_file(tmp_path / "intact.py")
    for _ in range(2):
        with pytest.raises(PluginError, match="HALF_SETTING"):
            registry.load_file(file)
    assert "half" not in registry.names("scorer")
    monkeypatch.setenv("HALF_SETTING", "1")
    registry.load_file(file)
    assert registry.get("scorer", "half").__name__ == "Half"
    assert registry.get("scorer", "intact").__name__ == "I"


def test_a_function_in_a_file_may_have_the_name_of_a_builtin(tmp_path):
    (tmp_path / "own.py").write_text("def delete(text, rng, rate):\n    return 'mine'\n")
    assert Registry(current_registry()).get("perturbation", f"{tmp_path / 'own.py'}:delete")("x", None, 1.0) == "mine"


def test_a_name_registered_by_one_file_is_not_found_through_another(tmp_path):
    (tmp_path / "a.py").write_text("from lmassay import register\n@register('model', 'M')\nclass Other: ...\n")
    (tmp_path / "b.py").write_text("class M: ...\n")
    registry = Registry(current_registry())
    assert registry.get("model", f"{tmp_path / 'a.py'}:M").__name__ == "Other"
    assert registry.get("model", f"{tmp_path / 'b.py'}:M").__name__ == "M"


def test_a_package_that_takes_a_builtin_name_is_named(tmp_path, monkeypatch):
    for package in ("one", "two"):
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[lmassay.models]\necho = plug_two:Good\nmine = plug_two:Good\n")
    (tmp_path / "plug_two.py").write_text("class Good:\n    'A model.'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(PluginError, match="lmassay and one and two"):
        current_registry().get("model", "echo")
    with pytest.raises(PluginError, match="provided by one and two"):
        current_registry().get("model", "mine")
    entries = {entry.name: entry for entry in current_registry().entries("model")}
    assert "also provided by" in entries["echo"].problem


def test_a_missing_file_and_a_missing_name_are_distinguished(tmp_path):
    with pytest.raises(PluginError, match="there is no file"):
        Registry(current_registry()).get("scorer", f"{tmp_path / 'no.py'}:X")
    (tmp_path / "some.py").write_text("Overlap = 1\n")
    with pytest.raises(PluginError, match="did you mean 'Overlap'"):
        Registry(current_registry()).get("scorer", f"{tmp_path / 'some.py'}:overlap_")


@pytest.mark.fault(35)
def test_an_installed_plug_in_is_listed_and_a_broken_one_does_not_spoil_the_list(tmp_path, monkeypatch):
    info = tmp_path / "plug-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plug\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[lmassay.scorers]\ngood = plug:Good\nbad = plug_that_is_not:Bad\n")
    (tmp_path / "plug.py").write_text("class Good:\n    'A good scorer.'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    entries = {entry.name: entry for entry in current_registry().entries("scorer")}
    assert entries["good"].summary == "A good scorer."
    assert entries["good"].origin == "plug"
    assert "cannot be loaded" in entries["bad"].problem
    assert current_registry().get("scorer", "good").__name__ == "Good"
    with pytest.raises(PluginError, match="cannot be loaded"):
        current_registry().get("scorer", "bad")


def test_every_builtin_can_be_imported():
    for kind in ("task", "model", "scorer", "perturbation"):
        for name in current_registry().names(kind):
            assert callable(current_registry().get(kind, name)), (kind, name)


def test_an_unknown_name_of_a_model_may_be_one_on_the_hub():
    with pytest.raises(PluginError, match=r"there is no model 'gpt2'; .*write \{name: hf, model: gpt2\}"):
        current_registry().get("model", "gpt2")


def test_an_unknown_kind_is_an_error():
    with pytest.raises(PluginError, match="did you mean 'scorer'"):
        register("scorers", "x")


def test_a_path_without_a_name_says_what_to_write(tmp_path):
    file = Path(tmp_path / "some.py")
    file.write_text("")
    with pytest.raises(PluginError, match="NAME"):
        Registry(current_registry()).get("scorer", str(file))


def test_a_folder_in_place_of_a_models_name_is_answered_with_what_to_write(tmp_path):
    (tmp_path / "my-model").mkdir()
    with pytest.raises(PluginError, match=r"no model 'my-model'; .*, write \{name: hf, model: my-model\}"):
        current_registry().get("model", "my-model", tmp_path)
    with pytest.raises(PluginError, match="no model 'other-model'; available"):
        current_registry().get("model", "other-model", tmp_path)
