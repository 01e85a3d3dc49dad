"""A queueing model of a continuous-batching server, served OpenAI-shaped on loopback.

In scope: the model, its faults, its HTTP face. It and the engine may not import each other: the exam does not know the
pupil. Everything measured on it is labelled simulated.
"""
