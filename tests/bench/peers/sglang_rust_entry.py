"""Loads the Rust client out of the sglang wheel and hands it the command line. Runs inside SGLang's venv."""

import importlib.util
import sys
import sysconfig
from pathlib import Path

if __name__ == "__main__":
    folder = Path(sysconfig.get_paths()["purelib"]) / "sglang" / "srt" / "rust_extensions"
    spec = importlib.util.spec_from_file_location("_bench", next(folder.glob("_bench.*.so")))
    if spec is None or spec.loader is None:
        sys.exit("no Rust client in this wheel")
    client = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(client)
    client.run_argv(["sglang-bench", *sys.argv[1:]])
