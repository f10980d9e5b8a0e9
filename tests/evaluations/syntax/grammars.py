"""A small grammar to write variants of, and the shipped ones, read once."""

from __future__ import annotations

from functools import cache

from lmassay.evaluations.syntax.grammar.grammar import load_grammar

SMALL = """
features:
  number: {sg: -1, pl: -2}
  animacy: [animate, inanimate]
  polarity: [negative, positive]
irregular:
  be: {sg: is, pl: are}
lexicon:
  Noun: {inflects: english noun, words: [cook, waiter, boss]}
  Guest: {inflects: english noun, words: [guest, critic]}
  Verb: {inflects: english verb, words: [sing, be late]}
  Like: {inflects: english verb, words: [like]}
  Det: {inflects: polarity, words: [{negative: "no", positive: the}]}
  Said: [said, knew]
constructions:
  simple: the {Noun} {Verb agrees Noun, contrast number}
"""
AGREES = "{Verb agrees Noun, contrast number}"


@cache
def shipped(name):
    return load_grammar(name)


@cache
def everything(grammar, construction):
    """All rows of a shipped grammar's construction; not to be changed."""
    return shipped(grammar).write(construction)


def goods(rows):
    return [row["sentence_good"] for row in rows]


def pairs(rows):
    return [(row["sentence_good"], row["sentence_bad"]) for row in rows]
