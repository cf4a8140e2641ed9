"""A build runner without a model: commands make targets, one Task for each attempt."""
