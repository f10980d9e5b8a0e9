"""A GGUF file that was cut off is found from its header."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from lmassay.errors import DataError
from lmassay.models.hf.gguf_header import check_gguf
from lmassay.models.hf.model import HuggingFace


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    """A file with values of every kind and two tensors."""
    gguf = pytest.importorskip("gguf", reason="needs lmassay[hf]")
    path = tmp_path_factory.mktemp("gguf") / "small.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint8("small", 1)
    writer.add_float64("large", 0.5)
    writer.add_bool("yes", True)
    writer.add_array("tokens", ["a", "한국어", ""])
    writer.add_array("scores", [0.5, 1.5])
    writer.add_tensor("first", np.ones((4, 8), dtype=np.float32))
    writer.add_tensor("second", np.ones((64, 8), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def written(folder: Path, content: bytes) -> Path:
    file = folder / "model.gguf"
    file.write_bytes(content)
    return file


def test_a_complete_file_is_accepted(whole, tmp_path):
    check_gguf(written(tmp_path, whole))


@pytest.mark.parametrize("kept_bytes", [0, 3, 4, 20, 100, 300])
def test_check_finds_a_file_that_was_cut_off(whole, tmp_path, kept_bytes):
    file = written(tmp_path, whole[:kept_bytes])
    with pytest.raises(DataError, match=r"model\.gguf is not a complete GGUF file: .*download it again"):
        HuggingFace(str(file)).check()


def test_a_file_that_ends_before_its_last_tensor_is_named_with_both_numbers(whole, tmp_path):
    size = len(whole) - 64 * 8 * 4 - 10
    with pytest.raises(DataError, match=f"it has {size} bytes, and its last tensor begins at {size + 10};"):
        check_gguf(written(tmp_path, whole[:size]))


def test_another_file_is_refused(tmp_path):
    with pytest.raises(DataError, match="its header cannot be read"):
        check_gguf(written(tmp_path, b"<html>not found</html>" * 20))


def test_a_damaged_header_never_crashes(whole, tmp_path):
    rng = random.Random(0)
    for _ in range(200):
        damaged = bytearray(whole)
        damaged[rng.randrange(400)] = rng.randrange(256)
        try:
            check_gguf(written(tmp_path, bytes(damaged)))
        except DataError as error:
            assert "model.gguf" in str(error)
