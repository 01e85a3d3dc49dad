"""The judge: objectives, gates, the safe set, the recommendation and its reasons.

In scope: evidence and an objective in, a verdict with reasons out. Not in scope: I/O, clocks, dice, storing, signing.
"""
