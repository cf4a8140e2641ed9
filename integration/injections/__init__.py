"""AgentDojo's injections against the guard, and a model that follows each of them.

`suite` says what a suite is, `planner` is the model, `run` runs one case under one setting, and
`dojo` reads AgentDojo's suites. Only `dojo` needs AgentDojo: `python -m integration.injections`
runs in an environment of its own.
"""
