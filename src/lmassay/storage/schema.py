"""The tables of the store."""

from __future__ import annotations

SCHEMA = 3
APPLICATION_ID = 0x6C6D6173  # "lmas"
# Tables with texts keep their row numbers: without them, SQLite gives every row beyond a kilobyte a page of its own.
TABLES = """
CREATE TABLE runs (
  id TEXT PRIMARY KEY, sweep TEXT NOT NULL, name TEXT NOT NULL, task TEXT NOT NULL, model TEXT NOT NULL,
  label TEXT NOT NULL, status TEXT NOT NULL, config TEXT NOT NULL, signature TEXT NOT NULL,
  provenance TEXT NOT NULL, results TEXT NOT NULL DEFAULT '[]', note TEXT NOT NULL DEFAULT '',
  planned INTEGER, created TEXT NOT NULL, finished TEXT
);
CREATE TABLE responses (
  key TEXT PRIMARY KEY, model TEXT NOT NULL, request TEXT NOT NULL, response TEXT NOT NULL, run TEXT NOT NULL,
  created TEXT NOT NULL
);
CREATE TABLE rows (
  run TEXT NOT NULL, id TEXT NOT NULL, position INTEGER NOT NULL, state TEXT NOT NULL, inputs TEXT NOT NULL,
  reference TEXT NOT NULL, groups TEXT NOT NULL, scores TEXT NOT NULL, unscored TEXT NOT NULL, details TEXT NOT NULL,
  error TEXT, PRIMARY KEY (run, id)
);
CREATE INDEX rows_in_order ON rows (run, position);
"""
# Since schema 2. A sum over many answers, one of whose prices is unknown, is unknown: that is what NULL does.
SPENDING = """
CREATE TABLE IF NOT EXISTS spending (
  run TEXT PRIMARY KEY, answers INTEGER NOT NULL, tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL, usd REAL
) WITHOUT ROWID
"""
# Since schema 3: under which keys the answers to an example's questions are kept.
ASKED = "CREATE TABLE IF NOT EXISTS asked (run TEXT, id TEXT, keys TEXT NOT NULL, PRIMARY KEY (run, id)) WITHOUT ROWID"
