"""Our substrates as `SubstrateContract` tries them: each one's factory, and its work."""
