"""The faulty implementations, each as an adapter under its contract."""
