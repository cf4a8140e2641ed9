"""The program of `LiteLLMProxy`: LiteLLM's proxy on a free port, until its input ends.

Run as a file, with ``-P``, by the interpreter of an environment that has LiteLLM; its argument is
the configuration. uvicorn prints where it listens.
"""

from __future__ import annotations

import os
import runpy
import sys
import threading
from typing import Final

KEPT: Final = frozenset({"HOME", "LANG", "LITELLM_MASTER_KEY", "LLAMA_PEER_KEY", "PATH", "TMPDIR"})
"""What it sees of the environment: it would migrate a database that it finds there."""
SETTINGS: Final = {
    # Otherwise it reads every .env above the folder that it is started in.
    "LITELLM_MODE": "PRODUCTION",
    # Otherwise it asks the network for them.
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_LOCAL_AUTOROUTER_PRESETS": "True",
    "LITELLM_LOCAL_BLOG_POSTS": "True",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_POLICY_TEMPLATES": "True",
}


def main(configuration: str) -> None:
    """Serve on the loopback."""
    for name in os.environ.keys() - KEPT:
        del os.environ[name]
    os.environ.update(SETTINGS)
    threading.Thread(target=_end_with_input, daemon=True).start()
    sys.argv = ["litellm", "--host", "127.0.0.1", "--port", "0", "--config", configuration]
    runpy.run_module("litellm.proxy.proxy_cli", run_name="__main__")


def _end_with_input() -> None:
    sys.stdin.read()
    # Asked to stop, it waits for answers that nobody waits for any more.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
