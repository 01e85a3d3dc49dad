"""The load engine: plans, prompts, the wire, outcomes, the framed log, and the summary as a pure function of it.

Also a program of its own, `python -m benchmarks.engine PLAN LOG`: a worker runs each cell as a child process that loads
no Django and ends within seconds of its parent's death. Not in scope: Parquet, databases, judging whether a result is
good.
"""
