"""Readers of public request traces and of other tools' result files.

In scope: bytes of a foreign file in, typed rows out. Not in scope: storing, judging.
"""
