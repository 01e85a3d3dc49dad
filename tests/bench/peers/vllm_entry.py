"""`vllm bench serve` without the command line in front of it. Runs inside vLLM's venv."""

import argparse

from vllm.benchmarks import serve  # type: ignore[import-not-found]

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    serve.add_cli_args(parser)
    serve.main(parser.parse_args())
