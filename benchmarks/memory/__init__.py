"""KV-cache and VRAM accounting from the bytes of a config.json or a GGUF header. Nothing of such a file is executed.

`reading` makes a `geometry` of the bytes, by `config_json` with `families`, or by `gguf_header` with `gguf_model`;
`accounting` says what sequences of it need, `launch` what a launch line reserves, `sequences` how many fit a budget.
What is not known is answered with the reason, never with a guess. Not in scope: loading or running a model.
"""
