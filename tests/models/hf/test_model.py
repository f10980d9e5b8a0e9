"""A sweep loads a model's weights once, and a check does not load them at all."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from lmassay.errors import ConfigError, DataError, LmassayError
from lmassay.models.hf.model import HuggingFace
from lmassay.running.config import RunConfig
from lmassay.running.runner import plan
from tests.helpers import write_config, write_lines
from tests.tiny_models import save_model


def setup_module() -> None:
    """Import transformers when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("transformers", reason="the hf extra is not installed")


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    folders = {family: save_model(tmp_path_factory.mktemp("kept") / family, family) for family in ("gpt2", "bert")}
    return folders.__getitem__


def test_the_next_run_asks_the_model_that_is_loaded_already(folder_of, monkeypatch):
    opened = []
    monkeypatch.setattr(HuggingFace, "_open_engine", lambda self: opened.append(self.label) or object())
    first, again = (HuggingFace(str(folder_of("gpt2"))) for _ in range(2))
    assert first._engine is again._engine
    other = HuggingFace(str(folder_of("bert")))
    assert other._engine is not first._engine
    assert opened == ["gpt2", "bert", "gpt2"]


def test_a_tokenizer_is_read_again_only_if_its_file_changes(folder_of, tmp_path):
    folder = tmp_path / "gpt2"
    shutil.copytree(folder_of("gpt2"), folder)
    first, again = (HuggingFace(str(folder)).source.fast_tokenizer for _ in range(2))
    assert first is again
    file = folder / "tokenizer.json"
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")), indent=7), encoding="utf-8")
    assert HuggingFace(str(folder)).source.fast_tokenizer is not first
    file.write_text("{", encoding="utf-8")
    with pytest.raises(DataError):
        HuggingFace(str(folder)).check()


def test_a_device_that_only_workers_have_need_not_exist_here(folder_of):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has the device")
    with pytest.raises(ConfigError, match="there is no CUDA device here"):
        HuggingFace(str(folder_of("gpt2")), device="cuda").identity()
    identity = HuggingFace(str(folder_of("gpt2")), device="cuda", resources={"GPU": 1}).identity()
    assert identity["device"] == "cuda"
    assert "resources" not in identity


@pytest.mark.parametrize("device", ["mps", "xpu"])
def test_check_finds_a_device_that_does_not_exist(folder_of, device):
    import torch

    if torch.backends.mps.is_available() or torch.xpu.is_available():
        pytest.skip("this machine has one of the devices")
    with pytest.raises(ConfigError, match=rf"model\.device: there is no {device.upper()} device here"):
        HuggingFace(str(folder_of("gpt2")), device=device).check()


def test_the_merges_of_an_older_tokenizer_are_part_of_the_identity(folder_of, tmp_path):
    folder = shutil.copytree(folder_of("gpt2"), tmp_path / "older")
    (folder / "tokenizer.json").unlink()
    (folder / "merges.txt").write_text("#version: 0.2\na b\n", encoding="utf-8")
    before = HuggingFace(str(folder)).source.fingerprint
    (folder / "merges.txt").write_text("#version: 0.2\na c\n", encoding="utf-8")
    assert HuggingFace(str(folder)).source.fingerprint != before


_CHECK_AND_LIST_IMPORTS = """
import sys
from lmassay.cli import main
try:
    main(["check", "config.yaml"])
except SystemExit as stop:
    assert not stop.code, stop.code
imported = {"torch", "transformers", "safetensors"} & set(sys.modules)
sys.exit(f"imported: {imported}" if imported else 0)
"""


def test_check_imports_neither_torch_nor_transformers(folder_of, tmp_path):
    pairs = write_lines(tmp_path / "pairs.tsv", ["sentence_good\tsentence_bad", "The cat sleeps.\tThe cat sleep."])
    task = {"name": "minimal_pairs", "data": str(pairs)}
    write_config(tmp_path / "config.yaml", {"task": task, "model": {"name": "hf", "model": str(folder_of("gpt2"))}})
    command = [sys.executable, "-c", _CHECK_AND_LIST_IMPORTS]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert "minimal_pairs" in process.stdout


def test_check_finds_a_masked_model_whose_tokenizer_has_no_mask_token(folder_of, tmp_path):
    folder = shutil.copytree(folder_of("bert"), tmp_path / "maskless")
    file = folder / "tokenizer_config.json"
    settings = json.loads(file.read_text(encoding="utf-8"))
    del settings["mask_token"]
    file.write_text(json.dumps(settings), encoding="utf-8")
    pairs = write_lines(tmp_path / "pairs.tsv", ["sentence_good\tsentence_bad", "The cat sleeps.\tThe cat sleep."])
    config = RunConfig(
        task={"name": "minimal_pairs", "data": str(pairs)},
        model={"name": "hf", "model": str(folder)},
        base_dir=tmp_path,
    )
    with pytest.raises(ConfigError, match=r"the tokenizer in .*maskless has no mask token.*tokenizer_config\.json"):
        plan(config)
    # The advice works: transformers itself names the token so.
    file.write_text(json.dumps({**settings, "mask_token": "[MASK]"}), encoding="utf-8")
    plan(config)


def test_a_tokenizer_class_with_its_own_mask_token_needs_no_setting(folder_of, tmp_path):
    folder = shutil.copytree(folder_of("bert"), tmp_path / "own-class")
    settings = {"tokenizer_class": "BertTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    assert HuggingFace(str(folder)).can >= {"slot", "logprobs"}


@pytest.fixture
def damaged(folder_of, tmp_path):
    return shutil.copytree(folder_of("gpt2"), tmp_path / "damaged")


@pytest.mark.parametrize("kept_share", [0.0, 0.3, 0.99])
def test_check_finds_weights_that_were_cut_off(damaged, kept_share):
    weights = damaged / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[: int(len(content) * kept_share)])
    with pytest.raises(DataError, match=r"model\.safetensors is .*copy or download it again"):
        HuggingFace(str(damaged)).check()


def test_check_finds_a_tokenizer_that_cannot_be_read(damaged):
    (damaged / "tokenizer.json").write_text('{"version": "9.0"}', encoding="utf-8")
    with pytest.raises(DataError, match=r"the tokenizer in .*damaged cannot be read: tokenizer\.json: "):
        HuggingFace(str(damaged)).check()


@pytest.mark.parametrize("content", ["{bad", "[]"])
def test_check_finds_a_tokenizer_configuration_that_cannot_be_read(damaged, content):
    (damaged / "tokenizer_config.json").write_text(content, encoding="utf-8")
    with pytest.raises(
        DataError, match=r"damaged.tokenizer_config\.json (is not valid JSON|must contain a JSON object)"
    ):
        HuggingFace(str(damaged)).check()


def test_a_configuration_that_transformers_refuses_is_an_error_in_one_line(damaged):
    config = json.loads((damaged / "config.json").read_text(encoding="utf-8"))
    (damaged / "config.json").write_text(json.dumps({**config, "n_embd": "big"}), encoding="utf-8")
    with pytest.raises(DataError, match=r"the tokenizer in .*damaged cannot be read: .*n_embd"):
        HuggingFace(str(damaged)).identity()


def test_check_finds_an_architecture_that_needs_code_from_the_folder(damaged):
    config = json.loads((damaged / "config.json").read_text(encoding="utf-8"))
    own = {"model_type": "my-own", "auto_map": {"AutoConfig": "mine.Config"}, "architectures": ["MineForCausalLM"]}
    (damaged / "config.json").write_text(json.dumps({**config, **own}), encoding="utf-8")
    (damaged / "mine.py").write_text("raise SystemExit('this code must not run')", encoding="utf-8")
    with pytest.raises(DataError, match=r"damaged cannot be loaded: .*set model\.trust_remote_code: true"):
        HuggingFace(str(damaged)).check()


def test_check_finds_a_prefix_that_the_tokenizer_does_not_have(folder_of):
    with pytest.raises(LmassayError, match=r"model\.prefix: 'NoSuchToken' is not a token of this model"):
        HuggingFace(str(folder_of("gpt2")), prefix="NoSuchToken").check()
