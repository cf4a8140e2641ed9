from agents import Agent, OpenAIChatCompletionsModel, Runner
from openai import AsyncOpenAI

client = AsyncOpenAI(base_url="http://127.0.0.1:8080/v1", api_key="none")
model = OpenAIChatCompletionsModel("my-model", client)
print(Runner.run_sync(Agent("Assistant", model=model), "Why is the sky blue?").final_output)
