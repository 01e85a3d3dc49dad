"""The capacity statement: document, canonical bytes, DSSE and PAdES signatures, PDF, verification.

In scope: a document in, signed bytes out; bytes in, a verdict out. Not in scope: who may sign, where keys
or statements are stored.
"""
