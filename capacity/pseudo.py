"""A language that does not exist, made of every text that passes through gettext: ⟦Ôvérvîéw··⟧.

What stands outside the brackets on a page was never offered to a translator; what does not fit any more would not fit
in a longer language either. Only where DEBUG is on, and in tests.
"""

from __future__ import annotations

import re

from django.utils.translation import trans_real

CODE = "en-xa"
OPENING, CLOSING = "⟦", "⟧"
LONGER_BY = 0.3
KEPT = re.compile(r"%\(\w+\)\d*\.?\d*[sdf]|%[sdf%]|\{\w*\}|<[^>]*>|&#?\w+;")
"""Placeholders, tags and entities stay as they are."""
ACCENTS = str.maketrans(
    "aceginorsuyzACEGINORSUYZ", "âçéĝîñôřšûýžÂÇÉĜÎÑÔŘŠÛÝŽ"
)  # fmt: skip


def pseudo(text: str) -> str:
    """The text with accents, in brackets, about a third longer. Nothing stays nothing."""
    if not text.strip():
        return text
    parts, at = [], 0
    for kept in KEPT.finditer(text):
        parts += [text[at : kept.start()].translate(ACCENTS), kept.group()]
        at = kept.end()
    parts.append(text[at:].translate(ACCENTS))
    return f"{OPENING}{''.join(parts)}{'·' * round(len(text) * LONGER_BY)}{CLOSING}"


class Pseudo(trans_real.DjangoTranslation):
    """Answers every question itself, so no list of texts can be behind the pages."""

    def gettext(self, message: str) -> str:
        text = message.rpartition(trans_real.CONTEXT_SEPARATOR)[2]
        return pseudo(text)

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return pseudo((msgid1 if n == 1 else msgid2).rpartition(trans_real.CONTEXT_SEPARATOR)[2])


def install() -> None:
    """Puts it where Django keeps the languages that it has read."""
    vars(trans_real)["_translations"][CODE] = Pseudo(CODE)
