"""Tools: functions that a model may call, from a function's signature to the bounded call."""
