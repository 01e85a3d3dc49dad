"""Behaviour probes: per probe one module with `drive`, which offers its load, and `judge`, a pure function of what that
left."""
