"""Small products on the unmodified kernel and engine, unlike each other in every respect."""
