"""A build runner without a model: targets are made by commands, one Task each."""
