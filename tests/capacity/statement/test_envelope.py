"""The signed bytes: one canonical form, and no changed byte is ever accepted."""

from __future__ import annotations

import base64
import hashlib
import json

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from capacity.statement import dsse
from capacity.statement.canonical import (
    NotCanonicalError,
    canonical_json,
    digest_of,
    normal,
    payload_bytes,
    read_payload,
)
from tests.capacity.statement.documents import document

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))


def lookup(keyid: str) -> Ed25519PublicKey | None:
    return {dsse.keyid_of(KEY.public_key()): KEY.public_key()}.get(keyid)


def accepted(data: bytes) -> bool:
    try:
        dsse.open_envelope(data, lookup)
    except dsse.EnvelopeError:
        return False
    return True


def test_the_payload_is_an_in_toto_statement_about_the_evidence() -> None:
    payload = json.loads(payload_bytes(document()))
    assert sorted(payload) == ["_type", "predicate", "predicateType", "subject"]
    assert payload["_type"] == "https://in-toto.io/Statement/v1"
    assert payload["predicateType"] == "urn:headroom:capacity-statement:v1"
    assert payload["subject"] == [{"digest": {"sha256": document().evidence_digest}, "name": "evidence-manifest.json"}]


def test_a_document_comes_back_as_it_was_signed() -> None:
    assert read_payload(payload_bytes(document())) == normal(document())


def test_what_was_signed_before_a_statement_could_say_that_no_setting_is_safe_has_the_same_bytes() -> None:
    assert digest_of(payload_bytes(document())) == "c3da07dee4f036cc48b39cfe4e6a5d076ccf24bc3e95aaa1d022df79926911e1"
    assert b"no_safe_setting" not in payload_bytes(document())
    none = document(chosen=None)
    assert read_payload(payload_bytes(none)) == normal(none)


@pytest.mark.parametrize("form", ["null", "[]", "{}", '{"reasons":[],"remedies":[]}', '{"reasons":["Slow."]}'])
@pytest.mark.parametrize("chosen", [4, None])
def test_that_no_setting_is_safe_has_one_form_and_stands_nowhere_else(form: str, chosen: int | None) -> None:
    plain = json.loads(payload_bytes(document(chosen=chosen)))
    plain["predicate"]["no_safe_setting"] = json.loads(form)
    with pytest.raises(NotCanonicalError):
        read_payload(canonical_json(plain))


def test_an_int_given_for_a_float_is_signed_as_the_float_it_reads_as() -> None:
    limits = tuple(msgspec.structs.replace(one, limit_s=int(one.limit_s)) for one in document().limits)
    whole = msgspec.structs.replace(document(), limits=limits)
    assert payload_bytes(whole) == payload_bytes(document())


@pytest.mark.parametrize("spoil", [b" ", b"\n"])
def test_a_payload_with_other_white_space_is_refused(spoil: bytes) -> None:
    with pytest.raises(NotCanonicalError):
        read_payload(payload_bytes(document()) + spoil)


def test_a_payload_whose_subject_is_other_evidence_is_refused() -> None:
    payload = json.loads(payload_bytes(document()))
    payload["subject"][0]["digest"]["sha256"] = "0" * 64
    with pytest.raises(NotCanonicalError, match="not the evidence"):
        read_payload(canonical_json(payload))


def test_not_a_number_has_no_canonical_form() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_json([float("nan")])


def test_pre_authentication_encoding_is_that_of_the_specification() -> None:
    assert dsse.pae(b"hello world") == b"DSSEv1 28 application/vnd.in-toto+json 11 hello world"


def test_the_envelope_opens_to_its_payload_and_key() -> None:
    payload = payload_bytes(document())
    opened = dsse.open_envelope(dsse.sign(payload, KEY), lookup)
    assert (opened.payload, opened.keyid) == (payload, hashlib.sha256(KEY.public_key().public_bytes_raw()).hexdigest())
    assert digest_of(opened.payload) == hashlib.sha256(payload).hexdigest()


def test_no_single_changed_byte_is_accepted_at_any_position() -> None:
    envelope = dsse.sign(b'{"small":"payload, so that every position and every bit is tried"}', KEY)
    changes = [
        envelope[:place] + bytes([envelope[place] ^ flip]) + envelope[place + 1 :]
        for place in range(len(envelope))
        for flip in (*(1 << bit for bit in range(8)), 0xFF)
    ]
    assert [data for data in changes if accepted(data)] == []


def test_no_changed_byte_of_a_whole_statement_is_accepted() -> None:
    envelope = dsse.sign(payload_bytes(document()), KEY)
    changes = (
        envelope[:place] + bytes([envelope[place] ^ (1 << place % 8)]) + envelope[place + 1 :]
        for place in range(len(envelope))
    )
    assert sum(accepted(data) for data in changes) == 0


def test_no_inserted_or_removed_byte_is_accepted() -> None:
    envelope = dsse.sign(b"payload", KEY)
    inserted = [
        envelope[:place] + extra + envelope[place:]
        for place in range(len(envelope) + 1)
        for extra in (b" ", b"A", b"\n")
    ]
    removed = [envelope[:place] + envelope[place + 1 :] for place in range(len(envelope))]
    assert [data for data in inserted + removed if accepted(data)] == []


def rewritten(**changes: object) -> bytes:
    return json.dumps(json.loads(dsse.sign(b"payload", KEY)) | changes, sort_keys=True, separators=(",", ":")).encode()


SIGNATURE = json.loads(dsse.sign(b"payload", KEY))["signatures"][0]
OTHER_FORMS = {
    "an unknown field": rewritten(note="x"),
    "a second signature": rewritten(signatures=[SIGNATURE, SIGNATURE]),
    "no signature": rewritten(signatures=[]),
    "another payload type": rewritten(payloadType="application/json"),
    "an unknown field in the signature": rewritten(signatures=[SIGNATURE | {"cert": ""}]),
    "url-safe base64 without padding": rewritten(payload=base64.urlsafe_b64encode(b"payload").decode().rstrip("=")),
    "base64 with stray bits": rewritten(payload=base64.b64encode(b"payload").decode()[:-3] + "B=="),
    "a doubled key": dsse.sign(b"payload", KEY)[:-1] + b',"payloadType":"application/vnd.in-toto+json"}',
    "an escaped letter": dsse.sign(b"payload", KEY).replace(b'"payload"', b'"p\\u0061yload"'),
    "deep nesting": b"[" * 100_000,
    "nothing": b"",
    "bytes that are not text": b"\xff\xfe",
}


@pytest.mark.parametrize("name", OTHER_FORMS)
def test_another_form_of_the_same_envelope_is_refused(name: str) -> None:
    with pytest.raises(dsse.EnvelopeError):
        dsse.open_envelope(OTHER_FORMS[name], lookup)


def test_an_unknown_key_is_told_from_a_changed_file() -> None:
    with pytest.raises(dsse.UnknownSignerError):
        dsse.open_envelope(dsse.sign(b"payload", OTHER), lookup)


def test_a_key_under_another_id_is_refused() -> None:
    with pytest.raises(dsse.EnvelopeError, match="key id is not that"):
        dsse.open_envelope(dsse.sign(b"payload", KEY), lambda keyid: OTHER.public_key())
