"""Receives events by the SDK of CloudEvents, which is not ours, and answers each with what it was given.

receiver.py http               over HTTP; prints its address
receiver.py nats URL SUBJECT   over NATS; prints a line once it listens

Each event that came is then a line of JSON: {"attributes": {..}, "data": ..}, or {"fault": ".."}.
"""

import asyncio
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cloudevents.core.bindings import http
from cloudevents.core.v1.event import CloudEvent


def say(value):
    print(json.dumps(value, default=str), flush=True)


def serve(headers, body):
    """Reads an event, tells of it, and returns the message that answers it in the same mode."""
    message = http.HTTPMessage(headers=headers, body=body)
    try:
        event = http.from_http_event(message)
    except Exception as fault:
        say({"fault": f"{type(fault).__name__}: {fault}"})
        raise
    attributes = dict(event.get_attributes())
    say({"attributes": attributes, "data": event.get_data()})
    reply = CloudEvent(
        {
            "id": "reply-" + attributes["id"],
            "source": "/größe",
            "type": attributes["type"] + ".response",
            "specversion": "1.0",
            "datacontenttype": "application/json",
            "responseid": attributes["id"],
        },
        {"given": event.get_data()},
    )
    is_binary = any(name.lower() == "ce-id" for name in headers)
    return http.to_binary_event(reply) if is_binary else http.to_structured_event(reply)


class Door(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            status, reply = 200, serve(dict(self.headers.items()), body)
        except Exception as fault:
            status, reply = 400, http.HTTPMessage(headers={}, body=str(fault).encode())
        self.send_response(status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)

    def log_message(self, *_):
        pass


async def listen(url, subject):
    import nats

    client = await nats.connect(url)

    async def take(message):
        reply = serve(dict(message.headers or {}), message.data)
        if message.reply:
            await client.publish(message.reply, reply.body, headers=reply.headers)
        else:
            await client.publish(subject + ".replies", reply.body, headers=reply.headers)

    await client.subscribe(subject, cb=take)
    await client.flush()
    say("ready")
    await asyncio.Event().wait()


if sys.argv[1] == "http":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    say(f"http://127.0.0.1:{server.server_port}")
    server.serve_forever()
else:
    asyncio.run(listen(sys.argv[2], sys.argv[3]))
