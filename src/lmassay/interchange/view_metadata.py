"""What Datasette tells of a store: what its tables hold, what to filter by, and queries that are worth having."""

from __future__ import annotations

from typing import Any

DATABASE = "lmassay"

_RESULTS = """
select runs.id as run, runs.task, runs.label, runs.model,
  json_extract(result.value, '$.metric') as metric, json_extract(result.value, '$.group') as "group",
  json_extract(result.value, '$.value') as value,
  json_extract(result.value, '$.low') as low, json_extract(result.value, '$.high') as high,
  json_extract(result.value, '$.n') as n, json_extract(result.value, '$.n_error') as errors,
  json_extract(result.value, '$.n_unscored') as unscored
from runs, json_each(runs.results) as result
where (:metric = '' or metric = :metric) and (:model = '' or runs.model = :model)
order by runs.created desc, runs.id, result.key
"""

_SCORES = """
select rows.run, rows.id, rows.state, score.key as metric, score.value as value, rows.groups, rows.inputs, rows.details
from rows, json_each(rows.scores) as score
where rows.run = :run and (:metric = '' or score.key = :metric)
order by rows.position
"""

_ERRORS = """
select rows.run, runs.model, rows.error, count(*) as examples, min(rows.id) as "for example"
from rows join runs on runs.id = rows.run
where rows.state = 'error'
group by rows.run, rows.error
order by examples desc
"""

_UNSCORED = """
select rows.run, reason.key as metric, reason.value as reason, count(*) as examples, min(rows.id) as "for example"
from rows, json_each(rows.unscored) as reason
group by rows.run, reason.key, reason.value
order by examples desc
"""

_CHANGED = """
select a.id, a.value as before, b.value as after, a.inputs
from (select rows.id, rows.inputs, score.value from rows, json_each(rows.scores) as score
      where rows.run = :base and score.key = :metric) as a
join (select rows.id, score.value from rows, json_each(rows.scores) as score
      where rows.run = :new and score.key = :metric) as b on a.id = b.id
where a.value != b.value
order by b.value - a.value
"""

_TABLES: dict[str, Any] = {
    "runs": {
        "description": "One row a run: what was evaluated, with which results, and where they come from.",
        "columns": {
            "id": "names the run on the command line; a unique part of it will do",
            "sweep": "runs of one command share it",
            "label": "the task's name for what was asked",
            "status": "done, incomplete (examples in error), stopped, cancelled, failed, running, waiting",
            "config": "the configuration, as JSON",
            "signature": "what the numbers depend on",
            "provenance": "versions, machine, command and notes, as JSON",
            "results": "metric, group, value, interval and counts, as JSON; the query `results` spreads them out",
        },
        "facets": ["task", "model", "status"],
        "sort_desc": "created",
        "label_column": "id",
    },
    "rows": {
        "description": "One row an example of a run: what it was and how it was judged.",
        "columns": {
            "run": "the run it belongs to",
            "id": "the same in every run on the same data, so that runs can be paired",
            "state": "scored, unscored or error; errors are never counted as wrong answers",
            "scores": "metric to number, as JSON",
            "unscored": "metric to the reason why it has no number, as JSON",
            "details": "what the verdict rests on, as JSON",
        },
        "facets": ["state", "run"],
        "sort": "position",
    },
    "responses": {
        "description": "Every answer of a model that may be used again, by the digest of who was asked what.",
        "columns": {
            "key": "digest of the model's identity, the request and the seed",
            "request": "what was asked, as JSON",
            "response": "what came back, as JSON",
            "run": "the run that asked first",
        },
        "facets": ["model"],
        "sort_desc": "created",
    },
    "asked": {
        "description": "Under which keys of `responses` the answers about an example are kept.",
        "columns": {"keys": "a list of keys, as JSON"},
        "hidden": True,
    },
    "spending": {
        "description": "What a run asked of models behind an API.",
        "columns": {"usd": "empty where a price is unknown"},
    },
}

METADATA: dict[str, Any] = {
    "title": "lmassay results",
    "description": "Runs of lmassay, read-only.",
    "databases": {
        DATABASE: {
            "description": "Tables as the store keeps them, and queries that spread out what they hold as JSON.",
            "tables": _TABLES,
            "queries": {
                "results": {
                    "title": "Results of all runs",
                    "description": "One row a metric and group, with interval and counts.",
                    "sql": _RESULTS.strip(),
                    "hide_sql": True,
                    "params": ["metric", "model"],
                },
                "scores": {
                    "title": "Examples of a run with their scores",
                    "description": "One row an example and metric; leave metric empty for all.",
                    "sql": _SCORES.strip(),
                    "hide_sql": True,
                    "params": ["run", "metric"],
                },
                "changed": {
                    "title": "Examples that two runs judge differently",
                    "sql": _CHANGED.strip(),
                    "hide_sql": True,
                    "params": ["base", "new", "metric"],
                },
                "errors": {"title": "Errors, by run and message", "sql": _ERRORS.strip(), "hide_sql": True},
                "unscored": {"title": "Why examples have no score", "sql": _UNSCORED.strip(), "hide_sql": True},
            },
        }
    },
}
