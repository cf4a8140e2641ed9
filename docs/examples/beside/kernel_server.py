from agentic_kernel_openai import OpenAIRuntime

runtime = OpenAIRuntime("my-model", api="chat", base_url="http://127.0.0.1:8080/v1", api_key="none")
print(runtime.run_sync("Why is the sky blue?").unwrap())
