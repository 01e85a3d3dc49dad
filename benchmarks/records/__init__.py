"""Evidence at rest: the engine's log turned into Parquet columns and back, with its SHA-256 digest.

In scope: schema versions, bytes, digests. Not in scope: where the bytes are kept, what they mean.
"""
