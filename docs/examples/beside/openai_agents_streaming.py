import asyncio

from agents import Agent, Runner


async def main() -> None:
    answer = Runner.run_streamed(Agent("Assistant", model="gpt-6-luna"), "Why is the sky blue?")
    async for event in answer.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            print(event.data.delta, end="", flush=True)


asyncio.run(main())
