import asyncio

from agentic_kernel_openai import OpenAIRuntime


async def main() -> None:
    async with OpenAIRuntime("gpt-6-luna") as runtime:
        async for piece in runtime.stream_text("Why is the sky blue?"):
            print(piece, end="", flush=True)


asyncio.run(main())
