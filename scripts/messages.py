"""Texts for translators: `python -m scripts.messages` collects them from templates and Python into locale/ and compiles.

    python -m scripts.messages             collect (needs GNU gettext: apt install gettext) and compile
    python -m scripts.messages --compile   compile only, after a translation changed; needs no gettext

The compiled files are kept in the repository, so that a clone runs without gettext. Texts that no page has any more are
kept as obsolete, so that no translator's work is lost.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import polib

ROOT = Path(__file__).resolve().parents[1]
LOCALE = ROOT / "locale"
LANGUAGES = ("ur",)
IGNORED = (".venv", "var", "tests", "scripts", "tools", "node_modules")


def collect() -> None:
    """Django's makemessages, with xgettext; no line numbers, so that a file changes only where a text does."""
    command = [sys.executable, "manage.py", "makemessages", "--no-location", "--no-wrap"]
    command += [part for code in LANGUAGES for part in ("--locale", code)]
    command += [part for folder in IGNORED for part in ("--ignore", folder)]
    subprocess.run(command, cwd=ROOT, check=True)
    for code in LANGUAGES:
        path = LOCALE / code / "LC_MESSAGES" / "django.po"
        file = polib.pofile(str(path), wrapwidth=0)
        for entry in file:
            if entry.fuzzy:  # a guess from a text that looks alike is no translation
                entry.flags.remove("fuzzy")
                entry.msgstr, entry.msgstr_plural = "", dict.fromkeys(entry.msgstr_plural, "")
                entry.previous_msgid = None
        file.save()


def compile_all() -> list[Path]:
    """One .mo beside each .po; texts without a translation are left out and read in English."""
    made = []
    for path in sorted(LOCALE.rglob("*.po")):
        polib.pofile(str(path)).save_as_mofile(str(path.with_suffix(".mo")))
        made.append(path.with_suffix(".mo"))
    return made


def main() -> int:
    if "--compile" not in sys.argv:
        if shutil.which("xgettext") is None:
            print("headroom: no xgettext here: apt install gettext, or pass --compile", file=sys.stderr)
            return 1
        collect()
    for path in compile_all():
        file = polib.mofile(str(path))
        print(f"{path.relative_to(ROOT)}: {len(file)} texts")
    return 0


if __name__ == "__main__":
    sys.exit(main())
