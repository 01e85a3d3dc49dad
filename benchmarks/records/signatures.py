"""Ed25519 over canonical JSON: how the web signs what a host may be asked for, and a worker what it measured.

Keys and signatures are base64. `purpose` is part of what is signed, so that no signature holds for another kind of thing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

AUTHORIZATION = "headroom authorisation, version 1"
EVIDENCE = "headroom evidence, version 1"

Fact = str | int | float | None


def new_private_key() -> str:
    return _text(Ed25519PrivateKey.generate().private_bytes_raw())


def public_key(private_key: str) -> str:
    return _text(_private(private_key).public_key().public_bytes_raw())


def fingerprint(key: str) -> str:
    """SHA-256 of a public key, by which people and rows name it."""
    return hashlib.sha256(base64.b64decode(key)).hexdigest()


def sign(private_key: str, purpose: str, facts: Mapping[str, Fact]) -> str:
    return _text(_private(private_key).sign(canonical(purpose, facts)))


def holds(key: str, purpose: str, facts: Mapping[str, Fact], signature: str) -> bool:
    """Whether this public key signed exactly these facts; anything that cannot be read did not."""
    try:
        public = Ed25519PublicKey.from_public_bytes(base64.b64decode(key, validate=True))
        public.verify(base64.b64decode(signature, validate=True), canonical(purpose, facts))
    except (InvalidSignature, ValueError, binascii.Error):
        return False
    return True


def canonical(purpose: str, facts: Mapping[str, Fact]) -> bytes:
    """JSON with sorted keys and no spaces, UTF-8. Raises ValueError for a number that is not finite."""
    whole = {"purpose": purpose, "facts": dict(facts)}
    return json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _private(key: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(base64.b64decode(key))


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")
