"""The Tasks on the embedded server, by the command; the server runs as long as this program."""

import subprocess
import sys

from agentic_kernel_postgres import embedded

url = embedded(".agentic-kernel/postgres")
print(url, flush=True)
words = sys.argv[1:] or ["list"]
subprocess.run([sys.executable, "-m", "agentic_kernel_cli", "--state", url, *words], check=True)
