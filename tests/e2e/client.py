"""Speaks to NATS through nats-py: reads one request as JSON on stdin, prints what came as JSON.

{"verb": "request", "subject", "body", "headers"?, "timeout"?}  -> {"body", "headers"}
{"verb": "gather", "subject", "timeout"}                         -> [body, ..]
{"verb": "watch", "pattern", "request": {..}}                    -> {"subjects": [..], "reply": {..}}
"""

import asyncio
import json
import sys

import nats


async def request(client, asked):
    message = await client.request(
        asked["subject"],
        json.dumps(asked["body"]).encode(),
        timeout=asked.get("timeout", 20),
        headers=asked.get("headers"),
    )
    return {"body": json.loads(message.data), "headers": dict(message.headers or {})}


async def gather(client, asked):
    inbox = client.new_inbox()
    answers = []

    async def take(message):
        answers.append(json.loads(message.data))

    await client.subscribe(inbox, cb=take)
    await client.publish(asked["subject"], b"", reply=inbox)
    await asyncio.sleep(asked["timeout"])
    return answers


async def watch(client, asked):
    subjects = []

    async def take(message):
        subjects.append(message.subject)

    await client.subscribe(asked["pattern"], cb=take)
    await client.flush()
    reply = await request(client, asked["request"])
    await client.flush()
    return {"subjects": subjects, "reply": reply}


async def main():
    asked = json.load(sys.stdin)
    client = await nats.connect(sys.argv[1])
    verbs = {"request": request, "gather": gather, "watch": watch}
    print(json.dumps(await verbs[asked["verb"]](client, asked)))
    await client.close()


asyncio.run(main())
