"""The page: self-contained and escaped."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest

from lmassay.evaluations.robustness.report import scatter_chart, success_region
from lmassay.reporting.blocks import Tile, TileEntry
from lmassay.reporting.page import _gist, _tiles_of_section
from lmassay.reporting.tiles import anchor
from tests.helpers import lmassay, write_config, write_lines

NASTY = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "{{7*7}} ${7*7}",
    '"><svg onload=alert(1)>',
    "javascript:alert(1)",
    "\u202eright to left\u202c & <b>bold</b>",
]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    write_lines(folder / "src.txt", [f"{text} number {i} sentence" for i, text in enumerate(NASTY)])
    attacks = [{"name": "<script>alert('attack')</script>", "perturb": "charswap", "rate": 1.0}, "wordswap"]
    task = {"name": "robustness", "src": "src.txt", "attack": attacks}
    model = {"name": "echo", "transform": "upper", "label": "<script>alert('model')</script>"}
    write_config(folder / "c.yaml", {"task": task, "model": model, "resamples": 200})
    assert lmassay("run", "c.yaml", cwd=folder).returncode == 0
    assert lmassay("report", "-o", "page.html", cwd=folder).returncode == 0
    return folder / "page.html"


def test_nothing_of_the_data_becomes_markup(page):
    text = page.read_text(encoding="utf-8")
    assert [tag.partition(">")[0] for tag in text.split("<script")[1:]] == [' type="application/gzip"', ""], "our own"
    assert "&lt;script&gt;" in text
    assert "{{7*7}}" in text


def test_the_page_asks_the_network_for_nothing(page):
    text = page.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert not re.search(r'(src|href)\s*=\s*["\']?(https?:)?//', text)
    assert "url(" not in text


def test_the_page_shows_numbers_with_intervals_counts_and_provenance(page):
    text = page.read_text(encoding="utf-8")
    for needed in ("s_src", "errors", "unscored", "task:robustness.1", "Paired by example", "lmassay run c.yaml"):
        assert needed in text
    assert text.count("<svg") == 2, "the tile, and a scatter plot of the attack that did something"
    assert "All 2 runs have the same success rate: 0.000" in text
    assert "No scatter plot of wordswap" in text


def test_every_link_of_the_page_leads_somewhere_on_it(page):
    text = page.read_text(encoding="utf-8")
    links = re.findall(r'href="([^"]*)"', text)
    assert {"#overview", "#evaluation-robustness", "#examples", "#provenance"} <= set(links)
    # What comes after a question mark is for the example browser.
    assert all(text.count(f'id="{link[1:].partition("?")[0]}"') == 1 for link in links)


def test_the_page_says_how_to_reproduce_each_run(page, tmp_path):
    text = html.unescape(page.read_text(encoding="utf-8"))
    commands = re.findall(r"lmassay show (\S+) --results (\S+) --yaml > run\.yaml && lmassay run run\.yaml", text)
    assert len(commands) == 2
    run, folder = commands[0]
    shown = lmassay("show", run, "--results", str(page.parent / folder), "--yaml", cwd=page.parent)
    assert shown.returncode == 0
    assert "robustness" in shown.stdout


@pytest.mark.parametrize(
    ("region", "corners"),
    [
        (success_region("d_tgt", 1.0), {(1, 0), (1, 1), (0, 1)}),
        (success_region("d_tgt", -1.0), {(0, 0), (1, 0), (1, 1), (0, 1)}),
        (success_region("d_tgt", 2.5), set()),
        (success_region("d_tgt", 1.8), {(1, 0.8), (1, 1), (0.8, 1)}),
        (success_region("s_tgt", 1.0), {(0, 0), (1, 0), (1, 1)}),
        (success_region("s_tgt", 2.0), {(0, 0), (1, 0), (1, 0.5)}),
    ],
)
def test_the_region_of_success_is_drawn_where_it_is(region, corners):
    clipped, _ = region.clipped((0, 1), (0, 1))
    assert {(round(x, 9), round(y, 9)) for x, y in clipped} == corners


def test_texts_in_figures_are_escaped():
    drawing = scatter_chart([{"s_src": 0.5, "<x>&": 0.5}], "<x>&", 1.0, '"><script>').svg()
    assert "<x>" not in drawing
    assert "<script>" not in drawing
    assert "&lt;x&gt;&amp;" in drawing


def test_a_run_without_results_is_called_what_it_is(tmp_path):
    write_lines(tmp_path / "src.txt", ["one two three four"])
    dead = {"name": "openai", "base_url": "http://127.0.0.1:9/v1", "model": "dead", "tries": 1}
    write_config(
        tmp_path / "c.yaml", {"task": {"name": "robustness", "src": "src.txt", "attack": "case"}, "model": dead}
    )
    assert lmassay("run", "c.yaml", cwd=tmp_path).returncode == 2
    assert lmassay("report", "-o", "page.html", cwd=tmp_path).returncode == 0
    assert "case on dead has no results; its status is failed" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_report_of_nothing_says_so(tmp_path):
    done = lmassay("report", cwd=tmp_path)
    assert done.returncode == 2
    assert "run something first" in done.stderr


def own_task(folder, number: int, more: str = ""):
    """A task of the user's own, whose examples are numbered from 10 times ``number``; ``more`` is in its class."""
    name = f"own{number}.py"
    (folder / name).write_text(
        "import lmassay.types\n"
        "from lmassay.statistics.intervals import mean_results\nfrom lmassay.types import Example, Score\n"
        "class Own:\n    name, version, needs = 'own', 1, frozenset()\n"
        f"    def examples(self):\n        return iter(Example(str(10 * {number} + i), {{}}) for i in range(3))\n"
        "    def requests(self, example):\n        return []\n"
        "    def score(self, examples, responses):\n        return [Score({'good': 0.25}) for _ in examples]\n"
        "    def aggregate(self, table, settings):\n        return mean_results(table, ['good'], settings)\n"
        f"    def signature(self):\n        return {{}}\n{more}"
    )
    return write_config(folder / f"own{number}.yaml", {"task": f"{name}:Own"}).name


def test_a_task_without_a_section_of_its_own_has_its_results_in_a_table(tmp_path):
    assert lmassay("run", own_task(tmp_path, 1), cwd=tmp_path).returncode == 0
    assert lmassay("report", "-o", "page.html", cwd=tmp_path).returncode == 0
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert '<th scope="row">good</th><td>overall</td><td class="num">0.2500</td>' in text
    assert "on none" not in text
    assert "<h1>own</h1>" in text, "there is no model to name"


def test_repetitions_are_called_what_they_are_not_examples(tmp_path):
    design = "    design = lmassay.types.Design(replicates=lmassay.types.Replicates('split'))\n"
    assert lmassay("run", own_task(tmp_path, 1, design), cwd=tmp_path).returncode == 0
    assert lmassay("report", "-o", "page.html", cwd=tmp_path).returncode == 0
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "1 run, 3 splits, " in text
    assert "All splits were scored." in text
    assert "<h2>Splits</h2>" in text
    assert '<p class="count" role="status">3 splits</p>' in text
    assert "<dt>splits</dt><dd>3 scored" in text
    assert "3 examples" not in text


def test_runs_that_share_no_example_are_not_compared_and_named(tmp_path):
    assert lmassay("run", own_task(tmp_path, 1), own_task(tmp_path, 2), cwd=tmp_path).returncode == 0
    assert lmassay("report", "-o", "page.html", cwd=tmp_path).returncode == 0
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert (
        "Not compared with own, task=own1.py:Own [a], because they share no example with it: "
        "own, task=own2.py:Own" in text
    )
    assert "Paired by example" not in text


def test_one_run_without_scores_does_not_hide_the_comparison_of_the_others(tmp_path):
    write_lines(tmp_path / "src.txt", ["one two three four", "five six seven eight"])
    (tmp_path / "broken.py").write_text(
        "from lmassay.models.echo import Echo\nfrom lmassay.types import Response\n"
        "class Broken(Echo):\n    def generate(self, requests):\n"
        "        return [Response(error='broken') for _ in requests]\n"
    )
    task = {"name": "robustness", "src": "src.txt", "attack": "wordswap"}
    models = ["echo", "broken.py:Broken", {"name": "echo", "transform": "upper"}]
    write_config(tmp_path / "c.yaml", {"task": task, "model": models})
    assert lmassay("run", "c.yaml", cwd=tmp_path).returncode == 1
    assert lmassay("report", "-o", "page.html", cwd=tmp_path).returncode == 0
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "2 × broken" in text
    assert "Paired by example" in text


def test_each_section_of_a_card_names_its_own_number():
    """A tile of a card may answer its question with the numbers of two tasks; each task has a section."""
    agreement = Tile(
        "grammar?",
        "agreement",
        [TileEntry("model", "0.826", scope="n = 5")],
        meaning="",
        limits="",
        anchor=anchor("syntax"),
    )
    pairs = Tile(
        "grammar?",
        "pairs",
        [TileEntry("model", "0.781", scope="n = 5")],
        meaning="",
        limits="",
        anchor=anchor("minimal_pairs"),
    )
    bias = Tile(
        "biased?", "bias", [TileEntry("model", "0.033", scope="n = 5")], meaning="", limits="", anchor=anchor("bias")
    )
    tiles = [replace(agreement, further=[pairs]), bias]
    gists = [_gist(_tiles_of_section(tiles, anchor(task))) for task in ("syntax", "minimal_pairs", "bias", "fewshot")]
    assert gists == ["agreement: model 0.826 (n = 5)", "pairs: model 0.781 (n = 5)", "bias: model 0.033 (n = 5)", ""]
