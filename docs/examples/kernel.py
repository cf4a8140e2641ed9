"""A Task's life with the kernel alone: no runtime, no store, no clock but yours."""

from datetime import UTC, datetime

from agentic_kernel import Complete, Dispatch, IllegalTransition, Pause, Resume, Task, apply

# --8<-- [start:life]
now = datetime.now(UTC)
task = Task.new(summary="Greet", instructions="Say hello.", runtime_kind="acme/echo")

for mutation in (Dispatch(), Pause(), Resume("In French."), Complete({"text": "Bonjour."})):
    task = apply(task, mutation, now)

print(task.status, task.supplements, task.result)
# --8<-- [end:life]

assert apply(task, Pause(), now) is task  # a no-op gives back the same object
try:
    apply(task, Dispatch(), now)
except IllegalTransition as error:
    print(error)
