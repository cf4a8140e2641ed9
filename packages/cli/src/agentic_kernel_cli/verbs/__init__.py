"""The verbs of the command, one a file; each returns its exit code."""
