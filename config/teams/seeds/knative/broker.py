"""Stands in for a cluster: a broker, three functions behind it, and a request-reply proxy before it.

python3 broker.py [PORT] [REPLIES]

An event that is posted here goes to the function of its type, which answers with an event of its own; the attribute
responseid of that names the first one. Without REPLIES it is the response to the request that brought the first event, as a
request-reply proxy does it. With REPLIES, an address, it is posted there until it is taken, as a broker does it.
"""

import json
import sys
import threading
import time
import uuid
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import URLError
from urllib.request import Request, urlopen

WAIT_S = 30
MONTHS = [
    ("August", 21.33, 8200),
    ("September", 27.56, 8117),
    ("October", 33.17, 9217),
    ("November", 34.51, 10117),
]
PRICES = {"cpu": {"cores": 12.99}, "memory": {"mib": 0.016, "gib": 16.384}}


def average_resource_consumption(_):
    return [
        {"cpu": {"value": cpu, "unit": "Cores"}, "memory": {"value": memory, "unit": "MiB"}, "month": month}
        for month, cpu, memory in MONTHS
    ]


def resource_cost_calculator(data):
    units = PRICES.get(data["resourceKind"].lower())
    if units is None:
        raise ValueError("Unable to calculate the cost: invalid resource kind")
    price = units.get(data["unit"].lower())
    if price is None:
        raise ValueError("Unable to calculate the cost: invalid resource unit")
    return {"cost": round(data["usage"] * price, 4)}


def current_time(_):
    return {"now": datetime.now(timezone.utc).isoformat(timespec="seconds")}


FUNCTIONS = {
    "average.resource.consumption": average_resource_consumption,
    "resource.cost.calculator": resource_cost_calculator,
    "current.time": current_time,
}


def reply_to(event, data):
    """Returns headers and body of the event that answers another one."""
    try:
        media_type, body = "application/json", json.dumps(FUNCTIONS[event["type"]](data))
    except (AttributeError, KeyError, TypeError, ValueError) as fault:
        media_type, body = "text/plain", str(fault)
    headers = {
        "ce-specversion": "1.0",
        "ce-id": str(uuid.uuid4()),
        "ce-source": "/" + event["type"].replace(".", "-"),
        "ce-type": event["type"] + ".response",
        "ce-responseid": event["id"],
        "Content-Type": media_type,
    }
    return headers, body.encode()


def deliver(address, headers, body):
    """Posts an event until it is taken."""
    end, pause = time.monotonic() + WAIT_S, 0.1
    while time.monotonic() < end:
        try:
            with urlopen(Request(address, body, headers, method="POST"), timeout=5):
                return
        except (URLError, OSError):
            time.sleep(pause)
            pause = min(pause * 2, 2)


class Door(BaseHTTPRequestHandler):
    replies = None

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get_content_type() == "application/cloudevents+json":
            event = json.loads(body)
            data = event.get("data")
        else:
            event = {name[3:].lower(): value for name, value in self.headers.items() if name.lower().startswith("ce-")}
            data = json.loads(body or b"null")
        if event.get("specversion") != "1.0" or not all(event.get(name) for name in ("id", "source", "type")):
            self.answer(400, {"Content-Type": "text/plain"}, b"this is no event")
        elif event["type"] not in FUNCTIONS:
            # No trigger is for it, so nobody answers.
            if self.replies is None:
                time.sleep(WAIT_S)
                self.answer(408, {}, b"")
            else:
                self.answer(202, {}, b"")
        elif self.replies is None:
            self.answer(200, *reply_to(event, data))
        else:
            threading.Thread(target=deliver, args=(self.replies, *reply_to(event, data)), daemon=True).start()
            self.answer(202, {}, b"")

    def answer(self, status, headers, body):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8089
    Door.replies = sys.argv[2] if len(sys.argv) > 2 else None
    server = ThreadingHTTPServer(("127.0.0.1", port), Door)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
