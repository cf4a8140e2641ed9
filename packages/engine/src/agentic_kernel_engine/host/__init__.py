"""Host: how one stored Task is run, in one process among several."""
