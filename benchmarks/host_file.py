"""The host's own file: which addresses its worker may call, which API keys it holds, which runtimes it may start.

Only a worker reads it. What it offers is shown on the host's page; a command line never leaves the host.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import msgspec
from django.conf import settings

from benchmarks.registry_models import RuntimeKind
from benchmarks.runtimes import launch

KEY_PREFIX = "HEADROOM_KEY_"
PLACEHOLDERS = ("port", "setting", "context", "context_total")
"""What a command or an environment value of a profile may name in braces; the worker fills it in."""

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}")
_PORTS = {"http": 80, "https": 443}
_LEAST_READY_S, _MOST_READY_S = 1.0, 3600.0


class HostFileError(ValueError):
    """The file cannot be used; the message names it and says what to write instead."""


class LaunchProfile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the worker starts one runtime. `settings` are the least and the most that a grid may ask for."""

    kind: str
    command: tuple[str, ...]
    endpoint: str
    settings: tuple[int, int]
    context_per_sequence: int | None = None
    ready_within_s: float = 120.0
    environment: Mapping[str, str] = {}
    previous: tuple[str, ...] = ()
    stop_previous: tuple[str, ...] = ()

    @property
    def port(self) -> int:
        """The port of the fixed address, for {port} in the command."""
        parts = urlsplit(self.endpoint)
        return parts.port or _PORTS[parts.scheme]


class BoundKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An API key with the targets that it may be sent to, written as `targets` are."""

    name: str
    targets: tuple[str, ...]


class HostFile(msgspec.Struct, frozen=True, kw_only=True):
    """What the host allows. `path` names the file, also where there is none and the defaults hold. `key_targets`: variable
    of an API key -> where it may be sent to."""

    targets: tuple[str, ...]
    api_keys: tuple[str, ...]
    key_targets: Mapping[str, tuple[str, ...]]
    profiles: Mapping[str, LaunchProfile]
    path: str


class _Written(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    targets: tuple[str, ...] | None = None
    api_keys: tuple[str | BoundKey, ...] = ()
    profiles: Mapping[str, LaunchProfile] = {}


def read() -> HostFile:
    """What the host's file allows; without a file HEADROOM_TARGET_HOSTS, by default loopback, and no profile.

    Raises HostFileError with a sentence for a person.
    """
    path: Path = settings.HOST_FILE
    content = _content(path)
    if content is None:
        listed, held = tuple(settings.TARGET_HOSTS), _held_keys()
        bound = {key_variable(name): listed for name in held}
        return HostFile(targets=listed, api_keys=held, key_targets=bound, profiles={}, path=str(path))
    written = _decoded(content, path)
    _check(written, path)
    return HostFile(
        targets=settings.LOOPBACK_HOSTS if written.targets is None else written.targets,
        api_keys=tuple(_name_of(key) for key in written.api_keys),
        key_targets={
            key_variable(_name_of(key)): key.targets if isinstance(key, BoundKey) else tuple(settings.LOOPBACK_HOSTS)
            for key in written.api_keys
        },
        profiles=written.profiles,
        path=str(path),
    )


def offers(hostfile: HostFile) -> dict[str, object]:
    """What may be told to the web, for pages and forms: names, kinds, addresses, ranges and what is doubtful, never a
    command line."""
    return {
        "path": hostfile.path,
        "targets": list(hostfile.targets),
        "api_keys": list(hostfile.api_keys),
        "profiles": {
            name: {
                "kind": profile.kind,
                "endpoint": profile.endpoint,
                "settings": list(profile.settings),
                "context_per_sequence": profile.context_per_sequence,
                "ready_within_s": profile.ready_within_s,
                "warnings": list(launch.warnings_about(profile.kind, profile.command, profile.environment)),
            }
            for name, profile in sorted(hostfile.profiles.items())
        },
    }


def allows(hostfile: HostFile, address: str) -> bool:
    """Whether an address is on the list: by its host alone, or by scheme, host and port, as the entry is written.

    The address of a launch profile is listed by being there.
    """
    return _is_among((*hostfile.targets, *(profile.endpoint for profile in hostfile.profiles.values())), address)


def allows_key(hostfile: HostFile, name: str) -> bool:
    """Whether the host lends the API key of that name; letter case and punctuation do not tell two names apart."""
    return key_variable(name) in {key_variable(listed) for listed in hostfile.api_keys}


def key_may_go(hostfile: HostFile, name: str, address: str) -> bool:
    """Whether the host lends that key for this address: one that is bound to targets for these alone, another one of the
    file for this host's own loopback, and without a file each for every target."""
    return _is_among(hostfile.key_targets.get(key_variable(name), ()), address)


def key_variable(name: str) -> str:
    """Environment variable of the worker that holds the named API key; a name can reach no other variable."""
    return f"{KEY_PREFIX}{re.sub(r'[^A-Za-z0-9]+', '_', name).upper()}" if name else ""


def filled(text: str, values: Mapping[str, object]) -> str:
    """One word of a command, or one environment value, with its placeholders filled in; other braces stay."""
    return _PLACEHOLDER.sub(lambda found: str(values[found[1]]) if found[1] in PLACEHOLDERS else found[0], text)


def _name_of(key: str | BoundKey) -> str:
    return key.name if isinstance(key, BoundKey) else key


def _is_among(entries: Sequence[str], address: str) -> bool:
    wanted = _place(address)
    if wanted is None:
        return False
    return any(_place(entry) == wanted if "://" in entry else _host(entry) == wanted[1] for entry in entries)


def _held_keys() -> tuple[str, ...]:
    """Names of the keys that the operator gave this worker, where no file lists them."""
    names = (name.removeprefix(KEY_PREFIX).lower() for name in os.environ if name.startswith(KEY_PREFIX))
    return tuple(sorted(name for name in names if name))


def _content(path: Path) -> str | None:
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise HostFileError(f"{path} is not UTF-8 text. Save it as UTF-8.") from error
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise HostFileError(f"{path} cannot be read ({why}). Give the worker's user the right to read it.") from error
    if mode & stat.S_IWOTH:
        raise HostFileError(f"{path} can be changed by every user of this host. Run: chmod o-w {path}")
    return text


def _decoded(content: str, path: Path) -> _Written:
    try:
        return msgspec.convert(tomllib.loads(content), _Written)
    except tomllib.TOMLDecodeError as error:
        raise HostFileError(f'{path} is not TOML: {error}. Write lines such as targets = ["127.0.0.1"].') from error
    except msgspec.ValidationError as error:
        raise HostFileError(f"{path}: {error}. Write what docs/host.md shows for it, or take the line out.") from error


def _check(written: _Written, path: Path) -> None:
    _check_targets(written.targets or (), "targets", path)
    for key in written.api_keys:
        name = _name_of(key)
        if not _NAME.fullmatch(name):
            raise HostFileError(f'{path}: "{name}" in api_keys is not a name. Write letters, digits, - and _ only.')
        if isinstance(key, BoundKey):
            _check_targets(key.targets, f"the targets of the key {name}", path)
    names = [key_variable(_name_of(key)) for key in written.api_keys]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise HostFileError(f"{path}: two entries of api_keys mean {twice}. Write one, with all of its targets.")
    for name, profile in written.profiles.items():
        if fault := _fault(name, profile):
            raise HostFileError(f"{path}: profile {name}: {fault}")


def _check_targets(entries: Sequence[str], where: str, path: Path) -> None:
    for entry in entries:
        if (_place(entry) is None or _path_of(entry)) if "://" in entry else not _is_host(entry):
            raise HostFileError(
                f'{path}: "{entry}" in {where} is neither a host nor an address. '
                "Write 127.0.0.1 or http://127.0.0.1:8080, without a path."
            )


def _fault(name: str, profile: LaunchProfile) -> str | None:
    """What is wrong with a profile and what to write instead; None when it can be used."""
    least, most = profile.settings
    place = _place(profile.endpoint)
    if not _NAME.fullmatch(name):
        return "this is not a name. Write letters, digits, - and _ only."
    if profile.kind not in RuntimeKind.values:
        return f'kind "{profile.kind}" is not known. Write one of {", ".join(RuntimeKind.values)}.'
    if not profile.command or not profile.command[0].strip():
        return 'the command is empty. Write a list of words, such as ["llama-server", "--port", "{port}"].'
    if place is None or place[0] != "http" or urlsplit(profile.endpoint).port is None or _path_of(profile.endpoint):
        return (
            f'endpoint "{profile.endpoint}" is no fixed address. Write http://HOST:PORT, such as http://127.0.0.1:8081.'
        )
    if not 1 <= least <= most:
        return f"settings are {least} to {most}. Write the least and the most, such as [1, 16]."
    if profile.context_per_sequence is not None and profile.context_per_sequence < 1:
        return f"context_per_sequence is {profile.context_per_sequence}. Write a number of tokens, such as 4096."
    if not _LEAST_READY_S <= profile.ready_within_s <= _MOST_READY_S:
        return f"ready_within_s is {profile.ready_within_s:g}. Write seconds from 1 to 3600."
    return _placeholder_fault(profile)


def _placeholder_fault(profile: LaunchProfile) -> str | None:
    named = {word for text in (*profile.command, *profile.environment.values()) for word in _PLACEHOLDER.findall(text)}
    if unknown := sorted(named.difference(PLACEHOLDERS)):
        return f"{{{unknown[0]}}} is not known. Write one of {', '.join(f'{{{word}}}' for word in PLACEHOLDERS)}."
    if "setting" not in named and profile.settings[0] != profile.settings[1]:
        return "the command never names {setting}. Write it where the number of sequences goes, such as -np {setting}."
    if named & {"context", "context_total"} and profile.context_per_sequence is None:
        return "the command names the context, which is not given. Add a line such as context_per_sequence = 4096."
    return None


def _place(address: str) -> tuple[str, str, int] | None:
    """Scheme, host and port of an address; None for what no worker should call, such as one that hides its host."""
    if not address.isascii() or not address.isprintable() or any(sign in address for sign in '\\@ "<>'):
        return None
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not parts.hostname:
        return None
    return parts.scheme, parts.hostname.lower(), port or _PORTS[parts.scheme]


def _host(entry: str) -> str:
    return entry.strip().strip("[]").lower()


def _is_host(entry: str) -> bool:
    host = _host(entry)
    return _place(f"http://[{host}]/" if ":" in host else f"http://{host}/") == ("http", host, _PORTS["http"])


def _path_of(address: str) -> str:
    parts: SplitResult = urlsplit(address)
    return f"{parts.path.strip('/')}{parts.query}{parts.fragment}"
