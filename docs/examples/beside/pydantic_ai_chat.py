from pydantic_ai import Agent

agent = Agent("openai:gpt-6-luna")
print(agent.run_sync("Why is the sky blue?").output)
