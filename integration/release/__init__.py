"""The conditions of a release: `nox -s release-check`."""
