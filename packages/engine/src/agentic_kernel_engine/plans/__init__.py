"""Plans: the data that the Loop, its tools and its seams share."""
