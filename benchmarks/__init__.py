"""Headroom's measuring side.

Here: the registry of hardware, runtimes and workloads, authorisations, grids, cells and the evidence they leave.
Files in this folder may use Django; the folders inside it are pure Python (except management, migrations, templatetags).
Not here: comparing settings, recommending, grading, signing. Nothing below this line knows that `capacity` exists.
"""
