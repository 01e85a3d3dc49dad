"""DSSE envelopes with Ed25519, read strictly: only the one canonical byte form of an envelope is accepted.

Source: https://github.com/secure-systems-lab/dsse/blob/master/protocol.md. A reader that only checks the signature
takes changed white space, key ids and escapes, because DSSE signs the payload alone; so the envelope is built again
and compared.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Iterable
from typing import Literal

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from capacity.statement.canonical import canonical_json

PAYLOAD_TYPE: Literal["application/vnd.in-toto+json"] = "application/vnd.in-toto+json"


class EnvelopeError(ValueError):
    """The envelope is not one that this product wrote, or it was changed."""


class UnknownSignerError(EnvelopeError):
    """A well-formed envelope by a key that the keyring does not hold."""


class _Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    keyid: str
    sig: str


class _Envelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    payload: str
    signatures: tuple[_Signature]
    payload_type: Literal["application/vnd.in-toto+json"] = msgspec.field(name="payloadType")


class Opened(msgspec.Struct, frozen=True):
    """A verified envelope: its payload and the key that signed it."""

    payload: bytes
    keyid: str


def pae(payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding: the bytes that Ed25519 signs."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def keyid_of(public_key: Ed25519PublicKey) -> str:
    """SHA-256 of the raw 32-byte public key, in hexadecimal."""
    return hashlib.sha256(public_key.public_bytes_raw()).hexdigest()


def sign(payload: bytes, key: Ed25519PrivateKey) -> bytes:
    """The canonical envelope around `payload`."""
    return _build(payload, keyid_of(key.public_key()), key.sign(pae(payload)))


def open_envelope(
    data: bytes,
    key_by_id: Callable[[str], Ed25519PublicKey | None],
    every_key: Iterable[Ed25519PublicKey] = (),
) -> Opened:
    """The payload of `data` when its signature and its every byte are right.

    Raises UnknownSignerError when `key_by_id` answers None and none of `every_key` made the signature, EnvelopeError
    for anything else that is wrong. The key id is not among the signed bytes, so an unknown id above the signature of
    a known key is a changed file.
    """
    envelope = _read(data)
    payload = _strict_base64(envelope.payload)
    signature = _strict_base64(envelope.signatures[0].sig)
    keyid = envelope.signatures[0].keyid
    if _build(payload, keyid, signature) != data:
        raise EnvelopeError("The envelope is not in canonical form.")
    public_key = key_by_id(keyid)
    if public_key is None:
        if any(_fits(key, signature, payload) for key in every_key):
            raise EnvelopeError("The key id was changed: the signature is that of a key in the keyring.")
        raise UnknownSignerError(f"No key {keyid[:12]} is in the keyring.")
    if keyid_of(public_key) != keyid:
        raise EnvelopeError("The key id is not that of the key used.")
    if not _fits(public_key, signature, payload):
        raise EnvelopeError("The signature does not fit the payload.")
    return Opened(payload=payload, keyid=keyid)


def _fits(key: Ed25519PublicKey, signature: bytes, payload: bytes) -> bool:
    try:
        key.verify(signature, pae(payload))
    except InvalidSignature:
        return False
    return True


def payload_in(data: bytes) -> bytes:
    """The payload without any check of the signature, for envelopes from one's own store."""
    return _strict_base64(_read(data).payload)


def _read(data: bytes) -> _Envelope:
    try:
        return msgspec.json.decode(data, type=_Envelope)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EnvelopeError(f"This is not a DSSE envelope: {error}") from error


def _build(payload: bytes, keyid: str, signature: bytes) -> bytes:
    signed = _Signature(keyid=keyid, sig=base64.b64encode(signature).decode())
    return canonical_json(
        _Envelope(payload=base64.b64encode(payload).decode(), signatures=(signed,), payload_type=PAYLOAD_TYPE)
    )


def _strict_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise EnvelopeError("A field is not strict base64.") from error
