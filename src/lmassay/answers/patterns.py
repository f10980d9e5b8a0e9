"""Wordings of answers, as regular expressions for lower-case text with masked mentions.

This module has the Korean and English wordings, and the Spanish, Dutch and Turkish ones for "it cannot be known". All
others are in :mod:`lmassay.answers.other_languages`.

A mention of a choice is masked: each of its characters is replaced by :data:`TEXT` if it names the choice by its text,
and by :data:`LETTER` if it names it by its letter.
"""

from __future__ import annotations

import re

from lmassay.answers import other_languages

# Private-use characters, which do not occur in answers (``plain_text`` removes them).
TEXT = "\ue000"
LETTER = "\ue001"
_MENTION = f"[{TEXT}{LETTER}]"
# Punctuation and mark-up around an answer.
DECORATION = " \t\"'*_()[]{}<>#~|$\\-=>→•·,:;.!?/"


def either(*alternatives: str) -> re.Pattern[str]:
    """Return a pattern that matches any of these alternatives."""
    return re.compile("|".join(alternatives))


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


# --- statements that it cannot be known ------------------------------------------------------------------------------
# These say that the text does not tell the answer. "I don't know" and "I cannot answer" are about the model, as in a
# refusal: they stand for the unknown choice only if that choice is worded in this way.
# The Korean pieces are verbs such as "know", "determine" and "judge", which precede "수 없다" (cannot). "없는" (that
# cannot) counts only before words such as 상황 (situation).
_KNOWING = "(?:알|찾을|확정할|판단할|결정할|특정할|확인할|파악할|추론할|유추할|단정할|정할|구분할|판별할|짐작할|확신할)"
_NOT_THERE = "없(?:는 (?:상황|문제|질문|내용|것|부분|경우)|(?!는|이|던|애))"
_CANNOT = "(?:can ?not|can't|could not|couldn't)"
CANNOT_BE_KNOWN = either(
    f"{_KNOWING} ?수(?:는|가|도)? ?{_NOT_THERE}",
    "(?:정답|답)(?:은|이|을|를)? ?없(?:음|습|다|어|네)",
    r"불분명|불명확|미상(?=\W|$)",
    "정보(?:가|는)? ?(?:부족|불충분|충분(?:하지|치) ?않)",
    r"\b(?:unknown|undetermined|indeterminate|undeterminable|indeterminable|unclear|unspecified)\b",
    rf"\b{_CANNOT} be (?:\w+ly )?(?:determined|known|inferred|ascertained|decided|told|concluded)\b",
    rf"\b(?:{_CANNOT}|impossible to|not possible to|unable to|no way to) (?:determine|know|infer|tell|conclude)\b",
    r"\bnot (?:be )?(?:known|determinable|specified|clear|determined)\b",
    r"(?:\bnot|n't)(?: [a-z]+){0,2} enough (?:info(?:rmation)?|context|details?|evidence|data)\b",
    r"\b(?:insufficient|too little|inadequate) (?:info(?:rmation)?|context|details?|evidence|data)\b",
    # Spanish, Dutch and Turkish; not reviewed by native speakers.
    r"\b(?:desconocid[oa]|indeterminad[oa])\b",
    r"\bno (?:se )?(?:puede|podemos|es posible) (?:determinar|saber|inferir)(?:se)?\b",
    r"\bno se (?:sabe|especifica|menciona)\b|\b(?:información|datos) insuficientes?\b|\bfalta información\b",
    r"\bno hay (?:suficiente información|información suficiente|suficientes datos)\b",
    r"\b(?:onbekend|onduidelijk|niet (?:te (?:bepalen|zeggen|achterhalen)|bekend|duidelijk|vast te stellen))\b",
    r"\b(?:onvoldoende|niet genoeg|te weinig) (?:informatie|context|gegevens)\b|\bkan niet (?:\w+ )?bepaald worden\b",
    r"\b(?:bilinmiyor|belirsiz|belli değil|bilinemez|belirlenemez|tespit edilemez|anlaşılamaz)\b",
    r"\b(?:yetersiz|yeterli olmayan) bilgi\b|\byeterli bilgi (?:yok|verilmemiş)\b|\bbelirtilmemiş\b",
    *other_languages.CANNOT_BE_KNOWN,
)
IS_NOT_KNOWN_TO_ME = either(
    "모르겠|모릅니|모름|모른다|몰라",
    r"\bdo(?: not|n't) know\b|\bnot sure\b|\bno idea\b",
    r"\bno lo sé\b|\bno sé\b|\bweet (?:ik )?(?:het )?niet\b|\bgeen idee\b|\bbilmiyorum\b",
)
CANNOT_BE_ANSWERED = either(
    "답(?:변)?(?:을|를)? ?(?:할|드릴|내릴|고를) ?수(?:는|가)? ?없|대답할 ?수(?:는|가)? ?없",
    r"\b(?:can ?not|can't|unable to) (?:be )?(?:answer(?:ed)?|say)\b|\bnot answerable\b|\bunanswerable\b",
    r"\bno se puede responder\b|\bniet te beantwoorden\b|\bkan niet beantwoord worden\b|\bcevaplanamaz\b",
)
UNKNOWN_HINT = re.compile("없|않|불|미상|부족|모[르릅름른]|몰라|[a-z]{2}")
"""Each of the wordings above contains one of these pieces, so most lines need no further search."""

# --- what is asserted and what is not ---------------------------------------------------------------------------------
_NOT = "(?:아니|아닌|아닙|아님|아녔)"
DENIED = either(
    rf"{_MENTION}[\"'*)\].]{{0,4}}(?:번|이|가|은|는|도)? ?{_NOT}|(?:답|것)(?:이|은|도)? ?{_NOT}",
    "(?:맞|옳|적절하|알맞|올바르)지(?:는|도)? ?않|라고[^,]{0,20}(?:않|없)|틀[리린렸]|틀림(?!없)|오답|제외",
    "(?:언급|근거|정보|단서|내용|증거)(?:이|가|은|는|도)? ?없|[다라]면(?=[ ,])",
    rf"(?:\bnot|n't|\bcannot)(?: be)? (?:(?:the|a|an|option|choice|answer) )?[\"'(]?{_MENTION}",
    r"(?:\bnot|n't)(?: be)? (?:the )?(?:correct|right|answer|best)\b|[인는은을던]지(?= |\Z)",
    r"\bno (?:mention|evidence|indication|information|sign)\b|\b(?:rather than|instead of)\b",
    r"\b(?:nor|neither|incorrect|wrong|except|unlikely|unlike|if|whether|none)\b",
    r"\b(?:rul(?:e|ed|ing) out|eliminat(?:e|ed|ing))\b",
    *other_languages.denied(_MENTION),
)
"""Wordings that deny a choice, doubt it or set it aside."""
NEGATIVE = either(
    # "The one who does not eat meat is …" and "육식을 하지 않는 사람은 …" do not deny what follows.
    r"(?P<aside>\b(?:who|that|which|person|one)\b(?: [a-z]+){0,1} (?:not|never|no|cannot|[a-z]{1,7}n't)\b)",
    "않(?!는|은|던|았던|았을|을)|(?<!잘)못(?!한 |하는|했던|할 )|아니|아닙|아님",
    "(?<!틀림)(?<!여지 )(?<!여지가 )(?<!견 )(?<!관념 )없(?!는|던)",
    r"\b(?:not|never|cannot)\b|n't\b|\bno\b(?! doubt)",
    # "Without a doubt B" and "without more information: C" assert what follows.
    r"\bwithout\b(?! (?:a |any )?doubt\b)"
    r"(?! (?:any |more |further |additional |enough |other ){0,2}(?:information|context)\b)",
    other_languages.NEGATIVE,
)
"""Words of a negative sentence: after a negative question such a sentence is an answer, after others a denial.
Matches of the group "aside" do not count."""
NEGATIVE_QUESTION = either(
    "않|(?<!잘)못|없|아니|아닌|아닙|아님",
    r"\b(?:not|never|no|cannot|without)\b|n't\b",
    other_languages.NEGATIVE_IN_QUESTION,
)
# Korean words that say that something is a suitable or the right answer.
_FOR_AN_ANSWER = "(?:적절|적합|정답|답[이입으]|맞|옳|타당|알맞|선택|가까|가깝|합리)"
# Borders between clauses.
CLAUSE = either(
    # A new clause begins after these …
    "(?:아니라|아니고|아니며|아닌|므로|으니|니까|지만|는데|인데|며|때문에|[해어아]서|[인는은을던]지)(?=[ ,])",
    "(?<!그리)(?<![라다냐자])고(?=[ ,])",
    # … or before these.
    r"(?=\b(?<!anything )(?<!anyone )(?<!all )but\b)",
    r"(?=\b(?:rather than|instead of|and not|so|therefore|thus|however|while|whereas|although|though|whether)\b)",
    other_languages.CLAUSE,
    rf"(?<={_MENTION})(?=,? not (?:(?:the|a|an|option|choice) )?[\"'(]?{_MENTION})",
    # "A보다 B가 적절합니다" (B is more suitable than A) prefers an answer; "할머니보다 손자가 젊다" (the grandson is
    # younger than the grandmother) compares people.
    rf"{_MENTION}[\"'*)]{{0,3}}(?:보다는?| 대신에?)(?= [^.]{{0,30}}{_FOR_AN_ANSWER})",
    rf"{LETTER}[\"'*)]{{0,3}} 대신에?(?= )",
    # A comma in a list of choices is not a border.
    rf";|(?<!{_MENTION}),|,(?! ?[\"'(]{{0,2}}{_MENTION})|\((?! ?{LETTER} ?\))",
)
# After these words, a line gives reasons.
EXPLANATION = re.compile(
    r"(?:^|(?<=[\s.,;(*\"']))(?:왜냐하면|왜냐면|이유는|(?:이유|해설|설명|근거|풀이)(?=[ *]{0,3}:)"
    r"|because\b|since\b|(?:explanation|reason|reasoning|rationale|justification)(?=[ *]{0,3}:)|the reason\b"
    rf"{other_languages.EXPLANATION})"
)
# Words at the beginning of a sentence that draws a conclusion.
CONCLUSION = re.compile(
    r"[\W_]{0,6}(?:따라서|그러므로|그래서|그렇기 때문에|결론적으로|결국|종합하면|고로"
    r"|therefore|thus|hence|so|in conclusion|in summary|overall|consequently)\b"
)

# --- where the answer is stated --------------------------------------------------------------------------------------
# Quotes and brackets around an answer.
_WRAP = r"[\"'*_)\]>} ]{0,6}"
# The position just before a mention.
_HERE = rf"(?=[(\[]?{_MENTION})"
_THE_RIGHT_ONE = "(?:알맞은|맞는|옳은|적절한|올바른|해당하는) (?:것|답|보기|선택지|사람)"
# "The answer is" and the like; the answer follows.
ANSWER_FOLLOWS = either(
    rf"(?:정답|해답|답안|답변|응답|답|결론|선택|{_THE_RIGHT_ONE}){_WRAP}"
    rf"(?:(?:은|는|이)(?=[ \"'*(\[:{TEXT}{LETTER}])|[:=→-]|{_HERE})",
    r"\b(?:answer|solution|conclusion|(?:correct|right|best|final|my|chosen) (?:choice|option|response|one))\b"
    rf"{_WRAP}(?:(?:to (?:the|this|that|your) question )?(?:is|was|would be|should be|must be|will be|seems to be)\b"
    rf"|[:=→-]|{_HERE})",
    r"\bi(?:'d| would| will|'ll)? (?:choose|chose|pick|picked|select|selected|say|go with|answer|think|believe)\b",
    other_languages.answer_follows(_WRAP, _HERE),
)
# A mention with the quotes and brackets that close it.
_WHOLE_MENTION = rf"{_MENTION}[\"'*)\].]{{0,4}}"
# "… is the answer" and the like; the answer precedes.
ANSWER_PRECEDES = either(
    f"{_WHOLE_MENTION}(?:번|이|가|은|는|을|를|으로|로)? ?(?:가장 )?(?:정답|답(?=[이입으인])|맞|옳|적절|알맞|타당|올바)",
    f"{_WHOLE_MENTION}(?:번|이|가|은|는|을|를|으로|로)? ?(?:선택|고르|골라|골랐)",
    f"{_WHOLE_MENTION}(?:번|이)?라고 ?(?:생각|봅|본|판단|답|할 ?수 ?있)",
    f"{_WHOLE_MENTION}(?:으로|로) ?(?:보|생각|판단|추론|추정)",
    rf"{_WHOLE_MENTION} (?:is|was|would be|must be|seems|seems to be|appears to be) (?:the )?(?:most )?"
    r"(?:correct|right|best|answer|likely|appropriate|accurate)\b",
    other_languages.answer_precedes(_WHOLE_MENTION),
)

# --- around a mention ------------------------------------------------------------------------------------------------
# The first syllables of particles and endings that Korean attaches to a choice's text and to a letter.
BEHIND_A_TEXT = frozenset("입이예인임일가은는을를의에와과도만로라요께으랑나부까보처뿐조마네죠지므였한들님다")
BEHIND_A_LETTER = frozenset("입이예인임일가은는을를의에와과도만로라번요야다란보랑나였며면")
RUN_ON = ("답은", "답이", "변은", "것은", "정답")
"""Korean words that people write without the space that belongs after them."""
_NO_ARTICLE_BEFORE = _set("""
is was are were isn't wasn't because since as and or but nor not would could should must might may can will seems seem
appears looks makes fits for so which in on at based given due over rather instead if that than from here there the a
an this these my his her their it he she they has had does did to by with who
""")
NO_ARTICLE_BEFORE = _NO_ARTICLE_BEFORE | other_languages.NO_ARTICLE_BEFORE
"""An ``A`` before one of these is the letter, not the article."""
OF_A_NAME_BEFORE = _set("""
plan vitamin vitamins grade grades hepatitis influenza type class appendix exhibit figure part section series route room
team group gate terminal size cup block building platform schedule point side channel track straight got gets earned
비타민 플랜 등급 학점 그룹 팀 유형 타입 코스 간염 인플루엔자 계획
""")
OF_A_NAME_BEHIND = re.compile(
    " (?:(?:movies?|side|sections?|flat|major|minor|sharp|cells?|cup|plus|minus|grades?|plan|team|class)(?![a-z])"
    "|(?:플랜|등급|학점|그룹|팀|유형|타입|코스|언어)|(?:형|급|반|씨|군|양)(?=[은는이가을를의도와과입에께]|[^가-힣]|$))"
)
"""A letter next to one of these is part of a name: Plan B, 비타민 C, a B movie, B 등급."""
ASKS_FOR_A_LETTER = ("answer", "answer is", "option", "choice", "letter", "답", "답은", "답이", "보기", "선택지")
"""Words after which a lower-case letter means a choice."""

FILLERS = _set("""
입니다 이다 입니다만 이에요 예요 이요 요 임 번 번입니다 번이다 번이요 이 가 은 는 을 를 와 과 또는 혹은 그리고 및
이나 나 다 일 것 것입니다 정답 답 답변 보기 선택지 항목 option choice answer the a an it it's its is was and or both
letter that would be must final correct he she they person one
""")
"""Words that may accompany a mention in an answer that is otherwise nothing but the mention."""
WORD = re.compile(r"[a-z']*[a-z]|[가-힣]+|\d+|[^\W_]")
# The beginning of an entry in a list of choices.
ENTRY = re.compile(rf"(?:(?:option|choice|answer|보기|선택지) ?)?{LETTER}")
# A letter with a colon, dash or dot behind it: what follows explains that choice.
LABEL = re.compile(rf"[^{TEXT}{LETTER}]{{0,60}}{LETTER}[\"'*_)\] ]{{0,6}}[-:.] ")
# Bold type in Markdown.
EMPHASIS = re.compile(r"\*\*([^*]{1,300})\*\*|__([^_]{1,300})__")
SENTENCE_END = re.compile(r"[.!?]{1,9}(?=[\s\"'*)\]}]|$)")
# In "n/a" (not applicable) and "A/S" (after-sales service), the A is not the letter of a choice.
NOT_APPLICABLE = re.compile(r"(?<![a-z])(?:n ?/ ?a|a/s)(?![a-z])")
