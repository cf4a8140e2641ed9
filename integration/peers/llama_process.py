"""The program of `LlamaServer`: llama.cpp's server with the small model, until its input ends.

Where a request does not say how words are drawn, it takes the likeliest: what a drawn answer comes
to is chance, and one of twenty of this model's does not end. Run as a file; prints one line of JSON
when it answers.
"""

from __future__ import annotations

import json
import os
import sys
from urllib.parse import urlsplit

import xllamacpp

from agentic_kernel_local import find_model


def main(slots: int, context_tokens: int) -> None:
    """Serve on a free port of the loopback; the key is in the environment, not in the arguments."""
    model = find_model()
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.model_alias = {model.stem}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [os.environ["LLAMA_PEER_KEY"]]
    params.cors_origins = ""
    params.ui = False
    params.endpoint_slots = True
    params.verbosity = -1
    params.n_parallel = slots
    params.n_ctx = slots * context_tokens
    # Between two batches of a prompt it notices that nobody waits any more.
    params.n_batch = params.n_ubatch = 256
    params.cache_ram_mib = 0
    params.cache_idle_slots = False
    params.sampling.temp = 0.0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    server.handle_completions({"prompt": "a", "max_tokens": 1})
    port = urlsplit(server.listening_address).port
    sys.stdout.write(json.dumps({"port": port, "model": model.stem}) + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    # An interpreter that leaves past llama.cpp's threads aborts.
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
