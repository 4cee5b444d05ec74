"""A NATS service by nats-py that is there until its input ends.

Usage: service.py URL NAME [ENDPOINT ..]. Each endpoint is asked on NAME.ENDPOINT and answers with
what it was sent, and with the headers that came with it.
"""

import asyncio
import json
import sys

import nats
from nats.micro import add_service

SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "integer", "description": "the number"}},
    "required": ["id"],
}


async def answer(request):
    body = json.loads(request.data)
    if body["id"] == 404:
        await request.respond_error("404", "no such order")
        return
    told = {"asked": request.subject, "body": body, "headers": sorted(request.headers or {})}
    await request.respond(json.dumps(told).encode())


async def main():
    url, name, *endpoints = sys.argv[1:]
    client = await nats.connect(url)
    service = await add_service(client, name=name, version="1.0.0", description="A desk.")
    for endpoint in endpoints:
        await service.add_endpoint(
            name=endpoint,
            subject=f"{name}.{endpoint}",
            handler=answer,
            metadata={"schema": json.dumps(SCHEMA), "description": f"Does {endpoint}."},
        )
    await service.add_endpoint(name="plain", subject=f"{name}.plain", handler=answer)
    broken = {"schema": "{"}
    await service.add_endpoint(
        name="broken", subject=f"{name}.broken", handler=answer, metadata=broken
    )
    await client.flush()
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await service.stop()
    await client.close()


asyncio.run(main())
