"""Headroom's judging side, and the Django project.

Here: objectives, comparison, choices and their approval, controls, signed statements, and the wiring (settings, urls).
Files in this folder may use Django; the folders inside it are pure Python (except management, migrations).
Not here: running, starting or altering a measurement. It may read evidence and ask for a measurement through
`benchmarks.drafts`, and never imports `benchmarks.runs` or `benchmarks.tasks`.
"""
