"""Brings one folder of data up to date: tables, hashed static files, demonstration accounts and keys. One process.

    HEADROOM_VAR=var python -m scripts.prepare

What is there already is kept, and unchanged static files are not compressed again.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import django
from django.conf import settings
from django.core.management import call_command

from scripts.stack import ROOT

MANIFEST = "staticfiles.json"


def static_state() -> str:
    """Changes whenever a static file or what compresses it does."""
    sha = hashlib.sha256(django.__version__.encode())
    for folder in settings.STATICFILES_DIRS:
        for path in sorted(Path(folder).rglob("*")):
            if path.is_file():
                facts = path.stat()
                sha.update(f"{path}{facts.st_size}{facts.st_mtime_ns}".encode())
    return sha.hexdigest()


def collect_static() -> None:
    """Compressing takes twelve seconds of a core, so every folder of data of this clone shares one compressed copy."""
    stamp = settings.VAR / "static.sha256"
    state = static_state()
    if stamp.exists() and stamp.read_text() == state and Path(settings.STATIC_ROOT).is_dir():
        return
    kept = ROOT / "var" / "static-kept" / state[:16]
    if not copied(kept, Path(settings.STATIC_ROOT)):
        call_command("collectstatic", interactive=False, verbosity=0, clear=True)
        keep(kept)
    stamp.write_text(state)


def copied(kept: Path, to: Path) -> bool:
    """Whether the whole copy is there now: another process may clear it away meanwhile, for files that have changed."""
    try:
        shutil.copytree(kept, to, dirs_exist_ok=True)
    except OSError:  # shutil.Error is one
        return False
    return (to / MANIFEST).is_file() and (kept / MANIFEST).is_file()


def keep(kept: Path) -> None:
    """Copies beside and renames, so that nobody meets half a copy; copies of earlier states go. It is for the next ones only:
    where another process does the same at this moment, one of the two gives way."""
    with contextlib.suppress(OSError):
        shutil.rmtree(kept.parent, ignore_errors=True)
        kept.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(dir=kept.parent))
        shutil.copytree(settings.STATIC_ROOT, beside, dirs_exist_ok=True)
        beside.rename(kept)


def main() -> int:
    django.setup()
    # Brotli leaves the interpreter free while it compresses, so tables and accounts are made meanwhile.
    with ThreadPoolExecutor(1) as pool:
        collected = pool.submit(collect_static)
        call_command("migrate", interactive=False, verbosity=0)
        call_command("demo_accounts", stdout=sys.stdout)
        if not (settings.KEYS_DIR / "demonstration").exists():
            call_command("make_keys", demonstration=True, stdout=io.StringIO())
        collected.result()
    return 0


if __name__ == "__main__":
    sys.exit(main())
