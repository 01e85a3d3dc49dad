"""Makes .venv with the pinned packages, or says in one line why it cannot and what to do.

Run by whatever `python3` is found, so it uses only the standard library and syntax that Python 3.6 still reads.
It does nothing when the requirements have not changed since the last time.
"""

import contextlib
import errno
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Iterator  # noqa: UP035  (Python 3.6 must read this file)

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOG = ROOT / "var" / "install.log"
OLDEST, NEWEST = (3, 11), (3, 14)
SETS = {
    "run": ["requirements.txt"],
    "dev": ["requirements.txt", "requirements-tokenizer.txt", "requirements-dev.txt"],
    "real": ["requirements-real.txt"],
}
NO_REGISTRY = re.compile(
    r"NewConnectionError|ConnectTimeout|Max retries|name resolution|Connection (refused|reset|broken)|ProxyError|"
    r"Could not find a version|No matching distribution|Read timed out|SSLError|Network is unreachable",
    re.IGNORECASE,
)


def stop(message: str) -> None:
    sys.exit("headroom: " + message)


def version_text(version: "tuple[int, int]") -> str:
    return f"{version[0]}.{version[1]}"


def use_a_fitting_python() -> None:
    """Goes on under another Python of the path when this one is too old or too new."""
    if OLDEST <= sys.version_info[:2] <= NEWEST:
        return
    for minor in range(NEWEST[1], OLDEST[1] - 1, -1):
        found = shutil.which(f"python3.{minor}")
        if found:
            os.execv(found, [found, *sys.argv])
    here = version_text(sys.version_info[:2])
    word = "old" if sys.version_info[:2] < OLDEST else "new"
    stop(
        f"Python {here} is too {word}: install one of {version_text(OLDEST)} to {version_text(NEWEST)}, "
        "or name one: make run PYTHON=/path/to/python3.12"
    )


def check_venv_module() -> None:
    """Debian splits ensurepip off; without it `python -m venv` fails half-way, so look before the first step."""
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        name = f"python{version_text(sys.version_info[:2])}-venv"
        stop(
            f"this Python has no venv module: install it (Debian, Ubuntu: apt install {name}), "
            "then run the same command again"
        )


def check_folder() -> None:
    """A file is really written: permission bits say nothing about a read-only mount, nor to root."""
    try:
        (ROOT / "var").mkdir(exist_ok=True)
        for folder in (ROOT, ROOT / "var"):
            with tempfile.TemporaryFile(dir=str(folder)):
                pass
    except OSError as error:
        if error.errno == errno.ENOSPC:
            stop(f"no space left in {ROOT}: about 700 MB are needed for .venv")
        stop(f"cannot write in {ROOT} ({error.strerror}): clone Headroom into a folder of your own and run it there")


@contextlib.contextmanager
def one_at_a_time() -> "Iterator[None]":
    """`make run` and `make test` at once must not install into one .venv at once."""
    import fcntl

    with (ROOT / "var" / "install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def works(command: "list[str]") -> bool:
    try:
        return subprocess.call(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=str(ROOT)) == 0
    except OSError:
        return False


def make_venv() -> None:
    """Builds .venv beside and renames it; one left half built by an earlier try, or without its Python, is rebuilt."""
    check = f"import sys, pip; sys.exit(not ({OLDEST} <= sys.version_info[:2] <= {NEWEST}))"
    if VENV.exists():
        if works([str(PYTHON), "-c", check]):
            return
        print("The .venv here is half built or its Python is gone: building it anew.", flush=True)
        shutil.rmtree(str(VENV))
    check_venv_module()
    beside = ROOT / ".venv-new"
    shutil.rmtree(str(beside), ignore_errors=True)
    if not works([sys.executable, "-m", "venv", "--without-pip", str(beside)]):
        stop(f"`{sys.executable} -m venv` failed: run it by hand to see why")
    beside.rename(VENV)
    # The second call rewrites the activate scripts, which name the folder.
    works([sys.executable, "-m", "venv", "--without-pip", "--upgrade", str(VENV)])
    if not works([str(PYTHON), "-m", "ensurepip", "--default-pip"]):
        shutil.rmtree(str(VENV), ignore_errors=True)
        stop(f"pip could not be put into .venv: run `{sys.executable} -m ensurepip --version` to see why")


def digest(name: str) -> str:
    """What the set asks for, so that an unchanged set is not installed again."""
    sha = hashlib.sha256()
    for file in [*SETS[name], "constraints.txt"]:
        sha.update((ROOT / file).read_bytes())
    return sha.hexdigest()


def stamp(name: str) -> Path:
    return VENV / f"headroom-{name}.sha256"


def installed(name: str) -> bool:
    return stamp(name).exists() and stamp(name).read_text() == digest(name) and PYTHON.exists()


def show(line: str, shown_at: float) -> float:
    """What pip does now, in one line of a terminal, and every ten seconds in a log."""
    if not re.match(r"\s*(Collecting|Downloading|Using cached|Installing)", line):
        return shown_at
    word = re.sub(r"https?://\S*/", "", line.strip())[:74]
    if sys.stdout.isatty():
        print(f"\r  {word:<76}", end="", flush=True)
        return shown_at
    if time.monotonic() - shown_at > 10:
        print("  " + word, flush=True)
        return time.monotonic()
    return shown_at


def pip_install(files: "list[str]") -> None:
    """Streams pip's lines into var/install.log; its failure becomes one line."""
    command = [str(PYTHON), "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--retries", "2"]
    command += ["--progress-bar", "off", "--root-user-action", "ignore"]
    for file in files:
        command += ["-r", file]
    shown_at = 0.0
    lines = []
    process = subprocess.Popen(
        command, cwd=str(ROOT), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True
    )
    assert process.stdout is not None
    with LOG.open("w") as log:
        for line in process.stdout:
            log.write(line)
            lines.append(line)
            shown_at = show(line, shown_at)
    process.wait()
    if sys.stdout.isatty():
        print("\r" + " " * 79 + "\r", end="")
    if process.returncode:
        explain("".join(lines))


def explain(output: str) -> None:
    if "No space left" in output:
        stop("no space left on the disk while installing: about 700 MB are needed")
    if NO_REGISTRY.search(output):
        stop(
            "pip reached no package registry that has these packages: check the network, or name a mirror "
            "(PIP_INDEX_URL=https://… make run); pip's own words are in var/install.log"
        )
    last = [line for line in output.strip().splitlines() if line.strip()][-1:] or ["no output"]
    stop(f"pip could not install the packages ({last[0].strip()}); the whole log is var/install.log")


def main() -> None:
    wanted = sys.argv[1:] or ["run"]
    use_a_fitting_python()
    check_folder()
    with one_at_a_time():
        make_venv()
        missing = [name for name in wanted if not installed(name)]
        if not missing:
            return
        print(f"Installing the packages of {' and '.join(missing)} into .venv, once:", flush=True)
        started = time.monotonic()
        pip_install([SETS[name][-1] for name in missing])
        for name in missing:
            stamp(name).write_text(digest(name))
        if "dev" in missing:
            stamp("run").write_text(digest("run"))
        print(f"  done in {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        stop("interrupted; run the same command again, it goes on where it was")
