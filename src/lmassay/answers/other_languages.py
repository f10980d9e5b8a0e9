"""Wordings of answers in German, French, Spanish, Italian, Portuguese, Dutch and Turkish.

They become part of the expressions in :mod:`lmassay.answers.patterns` and :mod:`lmassay.answers.hedging`. The Spanish,
Dutch and Turkish wordings for "it cannot be known" are in :mod:`lmassay.answers.patterns`, next to the English ones.

A model may answer in another language than that of the question, so the wordings of all languages are searched in every
answer. Words that also mean something in English ("sin", "also", "car", "want") are left out. No native speaker has
checked the wordings, so read some answers before you trust the numbers.
"""

from __future__ import annotations

LANGUAGES = frozenset({"de", "fr", "es", "it", "pt", "nl", "tr"})
"""The codes of the languages of this module."""

# --- it cannot be known -----------------------------------------------------------------------------------------------
_GERMAN_KNOWING = (
    r"(?:wissen|sagen|erkennen|entscheiden|entnehmen|ableiten|erschließen|ermitteln|bestimm\w+|feststell\w+|festgestellt"
    r"|beantwort\w+)"
)
CANNOT_BE_KNOWN = (
    # German. "Das kann ich nicht sagen" and "Ich kann das nicht beantworten" are about the model, so they are left out.
    r"\b(?:unbekannt|unklar|ungewiss|unbestimmt)\b",
    r"\bnicht (?:bekannt|klar|eindeutig|ersichtlich|angegeben|erwähnt|genannt)\b",
    rf"(?<!\bich )\b(?:kann|können|lässt|lassen)(?: (?!ich\b)\w+){{0,4}} nicht (?:\w+ ){{0,2}}{_GERMAN_KNOWING}\b",
    rf"\bich kann(?: \w+){{0,4}} nicht (?:\w+ ){{0,2}}(?!sagen|beantwort){_GERMAN_KNOWING}\b",
    rf"\bnicht (?:zu {_GERMAN_KNOWING}|(?:be|fest|er)?(?:stimm|stell|kenn|mittel|antwort)bar)\b",
    r"\bgeht(?: \w+){0,5} nicht hervor\b|\bsteht(?: \w+){0,2} nicht (?:im text|da|drin)\b|\bnicht im text\b",
    r"\bder text (?:sagt|nennt|verrät|erwähnt)(?: \w+){0,2} nicht\b",
    r"\b(?:zu wenige?|nicht (?:genug|genügend)|keine|keinerlei|unzureichende) (?:informationen?|angaben?|hinweise?)\b",
    # French
    r"\b(?:inconnue?|indéterminée?)\b|\bon ne (?:peut pas|sait pas)\b|\ble texte ne (?:le )?(?:dit|précise) pas\b",
    r"\bimpossible (?:de|à) (?:le )?(?:savoir|déterminer|dire)\b|\bpas assez d'informations?\b",
    r"\binformations? insuffisantes?\b|\bn'est pas (?:précisée?|mentionnée?|indiquée?|claire?)\b",
    # Italian
    r"\b(?:sconosciut[oa]|indeterminat[oa])\b|\bnon si (?:sa|può (?:sapere|determinare|dire|stabilire))\b",
    r"\bnon è (?:possibile (?:sapere|determinar|stabilir)\w*|chiaro|specificato|noto)\b|\binformazioni insufficienti\b",
    # Portuguese
    r"\b(?:desconhecid[oa]|indeterminad[oa])\b|\bnão (?:se sabe|dá para saber|é claro|foi especificado)\b",
    r"\bnão (?:é possível|se pode) (?:saber|determinar)\b|\binformaç(?:ão|ões) insuficientes?\b",
)

# --- denials ----------------------------------------------------------------------------------------------------------
_NOT = r"(?:nicht|keine?|niet|geen|pas|ni|non|não|nem)"
_ARTICLES = r"(?:de|het|le|la|les|el|los|las|il|lo|o|os|as|die|der|das|antwort|option|optie|antwoord|opción|opzione)"
_RIGHT = (
    r"(?:richtig\w*|korrekt\w*|zutreffend\w*|juist\w*|correct\w*|corrett\w*|corret\w*|vraie?|bonne|die antwort"
    r"|het antwoord|la réponse|la respuesta|la risposta|a resposta)"
)


def denied(mention: str) -> tuple[str, ...]:
    """Return patterns of wordings that deny a choice, whatever the question was. ``mention`` matches a mention."""
    return (
        rf"\b{_NOT}(?: {_ARTICLES}){{0,2}} [\"'(]?{mention}",
        rf"\b(?:{_NOT}|no (?:es|era)|değil)(?: (?:die|de|la|le|il|a|het|\w+ment))? {_RIGHT}\b|\bdoğru değil",
        rf"{mention}[\"'*)\].]{{0,4}}(?: şıkkı| seçeneği)? (?:değil|ist es nicht|war es nicht|is het niet)",
        # "OB/GYN" in an English answer is not the German "ob".
        r"\b(?:weder|falsch\w*|inkorrekt|unwahrscheinlich|ausgeschlossen|ausschlie(?:ß|ss)en|trifft nicht zu"
        r"|stimmt nicht|passt nicht|scheidet aus|anstatt|keine der|ob(?!-|/| ?gyn))\b",
        r"\b(?:ni\b.{0,60}\bni|faux(?! pas)|fausse|incorrecte|plutôt que|aucune?(?! doute))\b",
        r"\b(?:ninguno|ninguna|tampoco|fals[oa]|incorrect[oa])\b",
        r"\b(?:né|nessun[oa]?|sbagliat[oa]|errat[oa]|scorrett[oa])\b",
        r"\b(?:nem|nenhuma?|errad[oa]|incorret[oa])\b",
        r"\bnoch\b.{0,60}\bnoch\b|\b(?:onjuist|verkeerd|klopt niet|geen van)\b",
        r"\bne\b.{0,60}\bne de\b|\b(?:yanlış|hiçbiri)\b",
    )


_NEGATIVE_WORDS = (
    r"\b(?:nicht|nichts|nie|niemals|niet|niets|nooit|jamais|nunca|jamás|nada|não|değil|asla)\b"
    # "Kein Zweifel", "geen twijfel", "pas de doute" and "non c'è dubbio" assert what follows.
    r"|\b(?:kein|keine|keinen|keinem|keiner|keines|geen)\b(?! (?:zweifel|frage|twijfel|vraag))"
    r"|(?<!faux )\bpas\b(?! de doute)|\bnon\b(?!-| c'è (?:alcun )?dubbio)"
)
NEGATIVE = _NEGATIVE_WORDS
"""Words that make a sentence negative. Those for "without" are not among them: "ohne Zweifel B" asserts B."""
NEGATIVE_IN_QUESTION = _NEGATIVE_WORDS + r"|\b(?:ohne|zonder|senza)\b"
"""Words that make a question negative."""

HEDGED = (
    r"\b(?:könnten?|vielleicht|möglicherweise|eventuell|womöglich|peut-être|pourrait|quizás?|tal vez|podría|misschien"
    r"|zou kunnen|forse|potrebbe|talvez|poderia|belki|olabilir)\b"
)
"""Words that call a choice no more than possible."""

# --- sentences --------------------------------------------------------------------------------------------------------
CLAUSE = r"(?=\b(?:sondern|jedoch|daher|deshalb|folglich|sino|donc|dus|quindi|portanto)\b)"
"""A new clause begins before these words."""
EXPLANATION = (
    r"|weil\b|denn\b|parce que\b|puisque\b|porque\b|omdat\b|perché\b|çünkü\b"
    r"|(?:begründung|erklärung|explication|explicación|uitleg|spiegazione|explicação|açıklama)(?=[ *]{0,3}:)"
)
_IS = r"(?:ist|wäre|lautet|est|es|sería|is|è|é|seria)"
_ANSWER = r"(?:antwort|lösung|réponse|respuesta|antwoord|risposta|resposta|cevap|yanıt)"


def answer_follows(wrap: str, here: str) -> str:
    """Return the pattern of "the answer is", after which the answer follows.

    ``wrap`` is the pattern of quotes and brackets around an answer, ``here`` that of the position before a mention.
    """
    return rf"\b{_ANSWER}\b{wrap}(?:{_IS}\b|[:=→-]|{here})"


def answer_precedes(whole_mention: str) -> str:
    """Return the pattern of "… is the answer", before which the answer stands.

    ``whole_mention`` is the pattern of a mention and of the quotes and brackets that may directly follow it.
    """
    return rf"{whole_mention} {_IS} (?:die |la |le |a |de |het )?{_RIGHT}"


_AFTER_A_LETTER = (
    "ist oder und noch sowie als trifft stimmt passt wäre kann könnte lautet weil denn sein sind scheint "
    "est ou et ni parce semble serait es porque sería era sono perché nem seria "
    "of en omdat klopt lijkt veya ya ve değil doğru şıkkı seçeneği"
)
NO_ARTICLE_BEFORE = frozenset(_AFTER_A_LETTER.split())
"""Words of these languages after an ``A`` that is a letter, not the English article."""
