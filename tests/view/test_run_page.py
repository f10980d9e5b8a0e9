"""What the page of a run shows of its examples."""

from __future__ import annotations

from lmassay.storage.store import Store
from lmassay.types import Example, NewRun, Provenance, Response, Row, Score
from lmassay.view.folder import RunState
from lmassay.view.run_page import ExampleQuery, example_table


def test_a_column_shows_the_text_with_its_name_and_not_one_whose_name_only_begins_the_same(tmp_path):
    """Of two candidates none was chosen, so there is no text "perturbed", but there is a "perturbed prompt"."""
    config = {"task": {"name": "robustness"}, "model": {"name": "tiny"}}
    unscored = Row(
        Example("1", {"src": "a cat", "adv_src": ["a cta", "a act"]}),
        "unscored",
        Score(unscored={"success": "no answer: empty"}),
    )
    with Store(tmp_path, create=True) as store:
        run = store.new_id("charswap")
        store.add_run(NewRun(run, "s", "n", "robustness", "tiny", "charswap", config, "sig", Provenance(), 1))
        for text in ("a cat", "a cta", "a act"):
            request = {"verb": "generate", "prompt": f"Translate: {text}"}
            store.add_response(text, run, "tiny", request, Response(f"translation of {text}"))
        store.add_rows(run, [(0, unscored)], {"1": ["a cat", "a cta", "a act"]})
        store.set_status(run, "done")
        (record,) = store.runs()
        table = example_table(store, RunState(record, in_progress=False), ExampleQuery())
    assert dict(zip(table.titles, table.rows[0].texts, strict=True)) == {
        "source": "a cat",
        "output on perturbed": "translation of a cta",
    }
