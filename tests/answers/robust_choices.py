"""Choices that the answers of the parser's tests are about."""

from __future__ import annotations

KO = ("손자", "할머니", "알 수 없음")
JOB = ("정규직 사원", "비정규직 사원", "보기 중 답을 찾을 수 없음")
CEO = ("CEO의 가족", "LP 수집가인 사람", "정답 없음")
GLASSES = ("안경을 끼지 않은 사람", "안경을 낀 사람", "답을 확정할 수 없음")
EN = ("The grandfather", "The grandson", "Can't be determined")
NAMES = ("Mr. Jones", "Donna Moore", "Not enough info")
SEX = ("The man", "The woman", "Unknown")
ANSWER = ("The tenant", "The landlord", "Cannot answer")
NO_UNKNOWN = ("The man", "The woman", "The dog")
ELDERS = ("할머니", "손자", "알 수 없음")
KIN = ("The grandfather", "The grandson", "Not enough information")
