"""``python -m agentic_kernel_cli``: the same command without its script on the path."""

from .app import main

if __name__ == "__main__":
    main()
