"""One place for what each serving runtime calls things: its terms, metric names, quirks, with source, version and date.

In scope: facts about runtimes, reading what an endpoint says of itself. Not in scope: judging, storing.
"""
