"""BERTScore with a tiny encoder, against the formula written out."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys

import pytest

from lmassay.errors import UserError
from lmassay.evaluations.robustness.scorers import bertscore
from lmassay.evaluations.robustness.scorers.bertscore import BERTScore
from tests.helpers import ROOT

FOLDER = ROOT / "tests/published/figures/tse/models/bert-tiny"
PAIRS = [("the author laughs", "the authors laugh"), ("the pilot is tall.", "some dancers swim")]


def by_hand(hyp, ref, layer):
    torch = pytest.importorskip("torch", reason="the hf extra is not installed")
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(FOLDER), AutoModel.from_pretrained(FOLDER).eval()
    vectors = []
    for text in (hyp, ref):
        with torch.inference_mode():
            hidden = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states[layer][0]
        vectors.append(torch.nn.functional.normalize(hidden.double(), dim=-1))
    cosines = vectors[0] @ vectors[1].T
    precision = cosines.max(dim=1).values[1:-1].mean()
    recall = cosines.max(dim=0).values[1:-1].mean()
    return float(2 * precision * recall / (precision + recall))


@pytest.mark.parametrize("layer", [1, 2])
def test_scores_are_those_of_the_formula(layer):
    pytest.importorskip("torch", reason="the hf extra is not installed")
    scorer = BERTScore(FOLDER, layer=layer)
    scores = scorer.score([hyp for hyp, _ in PAIRS], [ref for _, ref in PAIRS])
    assert scores == pytest.approx([by_hand(*pair, layer) for pair in PAIRS], abs=1e-5)
    assert f"layer:{layer}|" in scorer.signature


def test_the_signature_has_the_digest_of_all_weights(tmp_path, monkeypatch):
    monkeypatch.setattr(bertscore, "_BYTES_AT_A_TIME", 4)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", "num_hidden_layers": 12}), encoding="utf-8")
    (tmp_path / "b.safetensors").write_bytes(b"second")
    (tmp_path / "a.safetensors").write_bytes(b"first")
    digest = hashlib.sha256(b"firstsecond").hexdigest()[:8]
    assert f"|sha:{digest}|layer:9|" in BERTScore(tmp_path).signature


def test_equal_texts_score_one_and_empty_ones_are_decided():
    pytest.importorskip("torch", reason="the hf extra is not installed")
    scores = BERTScore(FOLDER).score(["the pilot", "", "the pilot", ""], ["the pilot", "", "", "the pilot"])
    assert scores == pytest.approx([1, 1, 0, 0], abs=1e-6)


def test_a_missing_folder_and_a_wrong_layer_are_named(tmp_path):
    with pytest.raises(UserError, match="needs the folder of an encoder"):
        BERTScore().check()
    with pytest.raises(UserError, match="there is no folder"):
        BERTScore(tmp_path / "none").check()
    with pytest.raises(UserError, match="cannot be read"):
        BERTScore(tmp_path).check()


@pytest.mark.parametrize("layer", [-1, 0, 3])
def test_check_finds_a_wrong_layer_in_the_configuration(layer):
    with pytest.raises(UserError, match=f"the model has layers 1 to 2, not {layer}"):
        BERTScore(FOLDER, layer=layer).check()


def test_check_finds_a_wrong_layer_without_importing_torch():
    program = (
        "import sys\n"
        "from lmassay.evaluations.robustness.scorers.bertscore import BERTScore\n"
        "from lmassay.errors import UserError\n"
        f"try: BERTScore({str(FOLDER)!r}, layer=9).check()\n"
        "except UserError: sys.exit('torch' in sys.modules)\n"
        "sys.exit(3)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("config", [[1], {"is_encoder_decoder": True, "num_hidden_layers": 2}])
def test_a_folder_without_an_encoder_is_refused(tmp_path, config):
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(UserError, match=r"is not the configuration of a model|is an encoder-decoder model"):
        BERTScore(tmp_path).check()


def test_loading_prints_nothing(capfd):
    pytest.importorskip("torch", reason="the hf extra is not installed")
    from lmassay.models.hf.embeddings import TokenEmbedder

    TokenEmbedder(FOLDER, layer=1)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("family", ["roberta", "gpt2"])
def test_long_texts_are_cut_and_short_ones_padded_whatever_the_tokenizer_says(tmp_path, family):
    pytest.importorskip("torch", reason="the hf extra is not installed")
    from tests.tiny_models import save_model

    scorer = BERTScore(save_model(tmp_path / family, family))
    long = "the author laughs " * 200
    assert scorer.score(["the author", long], ["the author", long]) == pytest.approx([1, 1], abs=1e-6)
    together = scorer.score(["the author laughs", "x"], ["some dancers swim", "the pilot is tall here"])
    alone = [
        scorer.score(["the author laughs"], ["some dancers swim"])[0],
        scorer.score(["x"], ["the pilot is tall here"])[0],
    ]
    assert together == pytest.approx(alone, abs=1e-5)
