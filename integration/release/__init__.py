"""What must hold before a release: `nox -s release-check`."""
