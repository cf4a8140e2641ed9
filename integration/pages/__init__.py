"""Scripts that write the made parts of the pages in `docs`: diagrams, tables, plots, reports."""
