"""The program of `GreedyModel`: llama.cpp's server, which always takes the likeliest word.

The CLI lets nobody choose how words are drawn, and what a drawn answer comes to is chance. Run as
a file; prints one line of JSON when it answers.
"""

from __future__ import annotations

import json
import os
import sys
from urllib.parse import urlsplit

import xllamacpp

from agentic_kernel_local import find_model

SLOTS = 4
CONTEXT_TOKENS = 2048


def main() -> None:
    """Serve on a free port of the loopback until the input ends."""
    model = find_model()
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.model_alias = {model.stem}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [os.environ["GREEDY_MODEL_KEY"]]
    params.cors_origins = ""
    params.ui = False
    params.verbosity = -1
    params.n_parallel = SLOTS
    params.n_ctx = SLOTS * CONTEXT_TOKENS
    params.n_batch = params.n_ubatch = 256
    params.cache_ram_mib = 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.sampling.temp = 0.0
    server = xllamacpp.Server(params)
    server.handle_completions({"prompt": "a", "max_tokens": 1})
    port = urlsplit(server.listening_address).port
    sys.stdout.write(json.dumps({"port": port, "model": model.stem}) + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    # An interpreter that leaves past llama.cpp's threads aborts.
    os._exit(0)


if __name__ == "__main__":
    main()
