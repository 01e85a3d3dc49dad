"""What surrounds a measurement on its host: where the power comes from, how warm the room is, whether the clock is steady.

In scope: reading it (a UPS by `nut`, the kernel's own files by `sensors`, one snapshot of both by `snapshot`), and saying
whether two snapshots are alike (`alike`) and whether a clock stepped (`clocks`). Not in scope: storing, stopping a grid.
"""
