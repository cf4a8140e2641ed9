from agents import Agent, Runner

agent = Agent("Assistant", model="gpt-6-luna")
print(Runner.run_sync(agent, "Why is the sky blue?").final_output)
