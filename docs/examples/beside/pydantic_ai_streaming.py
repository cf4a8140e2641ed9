from pydantic_ai import Agent

agent = Agent("openai:gpt-6-luna")
answer = agent.run_stream_sync("Why is the sky blue?")
for piece in answer.stream_text(delta=True):
    print(piece, end="", flush=True)
