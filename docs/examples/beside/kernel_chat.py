from agentic_kernel_openai import OpenAIRuntime

runtime = OpenAIRuntime("gpt-6-luna")
print(runtime.run_sync("Why is the sky blue?").unwrap())
