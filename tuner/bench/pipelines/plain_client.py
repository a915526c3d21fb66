"""Plain open-loop client: plain_client.py HOST PORT PATH RATE SECONDS PERCENTILE SEED.

Prints the latency at the percentile in ms, from the intended send, with failures as infinite.
"""
import asyncio
import random
import sys
import time

host, port, path, rate, seconds, percentile, seed = sys.argv[1:]
request = (
    f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    "Content-Length: 2\r\n\r\n{}"
).encode()
idle = []


async def answer(reader):
    status = await reader.readline()
    length, chunked = 0, False
    while (line := (await reader.readline()).strip().lower()) != b"":
        if line.startswith(b"content-length:"):
            length = int(line.split(b":")[1])
        chunked |= line == b"transfer-encoding: chunked"
    if not chunked:
        await reader.readexactly(length)
    while chunked:
        size = int(await reader.readline(), 16)
        await reader.readexactly(size + 2)
        chunked = size > 0
    return b" 200 " in status


async def send(due, latencies):
    await asyncio.sleep(due - time.perf_counter())
    try:
        reader, writer = idle.pop() if idle else await asyncio.open_connection(host, int(port))
        writer.write(request)
        good = await answer(reader)
        latencies.append(1000 * (time.perf_counter() - due) if good else float("inf"))
        idle.append((reader, writer))
    except (OSError, asyncio.IncompleteReadError):
        latencies.append(float("inf"))


async def main():
    draw = random.Random(int(seed))
    start, at, latencies, sends = time.perf_counter() + 0.1, 0.0, [], []
    while (at := at + draw.expovariate(float(rate))) < float(seconds):
        sends.append(asyncio.create_task(send(start + at, latencies)))
    await asyncio.wait_for(asyncio.gather(*sends), float(seconds) + 30)
    latencies.sort()
    print(latencies[min(len(latencies) - 1, int(float(percentile) * len(latencies)))])


asyncio.run(main())
