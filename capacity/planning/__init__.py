"""Forecasts, replicas, batch windows, energy. Empty until the planner is built."""
