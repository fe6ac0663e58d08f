"""An asyncio HTTP server of one event loop, with a planted bottleneck.

loop.py ADDR PLANT N MS
  block  each request sleeps for MS on the loop: nothing else goes on
  await  each request awaits MS
  pool   a semaphore of N, kept for MS
"""
import asyncio
import sys
import time

host, port = sys.argv[1].rsplit(":", 1)
plant, n, wait = sys.argv[2], int(sys.argv[3]), int(sys.argv[4]) / 1000
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ndone\n"


async def pooled():
    async with places:
        await asyncio.sleep(wait)


async def blocking():
    time.sleep(wait)


async def awaiting():
    await asyncio.sleep(wait)


work = {"block": blocking, "await": awaiting, "pool": pooled}[plant]


async def serve(reader, writer):
    try:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            await work()
            writer.write(ANSWER)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main():
    global places
    places = asyncio.Semaphore(max(1, n))
    server = await asyncio.start_server(serve, host, int(port), backlog=512)
    await server.serve_forever()


asyncio.run(main())
