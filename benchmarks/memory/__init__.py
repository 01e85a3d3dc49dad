"""KV-cache and VRAM accounting from the bytes of a config.json or a GGUF header.

Not in scope: loading or executing a model. Empty until the accounting is built.
"""
