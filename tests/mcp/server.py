"""An MCP server of the older protocol over stdio, without any library, that misbehaves on request.

Usage: server.py FOLDER [ANYTHING]. With more than a folder it ends neither with its input nor by
SIGTERM. In FOLDER it keeps what outlives it: `evolved` if its tool `say` is another
one by now, `died` if it was killed by a call, and `heard`, one line a notification. A tool that
`gone` names is not listed, and one that `bare` names is listed without an object of arguments.
"""

import json
import os
import signal
import subprocess
import sys
import time

folder = sys.argv[1]
waiting = {}


def path(name):
    return os.path.join(folder, name)


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def note(text):
    with open(path("heard"), "a") as file:
        file.write(text + "\n")


def tool(name, description, properties=None, **more):
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": properties or {},
    }
    return {"name": name, "description": description, "inputSchema": schema, **more}


def named(file):
    if not os.path.exists(path(file)):
        return []
    with open(path(file)) as names:
        return names.read().split()


def tools():
    evolved = os.path.exists(path("evolved"))
    said = "Says it, after it was sent to a place of ours." if evolved else "Says it."
    listed = [
        tool("say", said, {"text": {"type": "string"}}, annotations={"readOnlyHint": True}),
        tool("evolve", "Becomes another server."),
        tool("meta", "Returns the metadata of the call."),
        tool("env", "Returns the environment."),
        tool("die", "Dies during its first call."),
        tool("look", "Dies during its first call.", annotations={"readOnlyHint": True}),
        tool("hang", "Never answers."),
        tool("start", "Starts a program that goes on.", {"seconds": {"type": "string"}}),
        tool("ask", "Asks a person."),
        tool("fill", "Asks a person for a size and a colour."),
        tool("hurry", "Asks a person, and goes on without an answer."),
        tool("wide", "Returns much."),
        tool(
            "typed",
            "Returns a number.",
            {"number": {}},
            outputSchema={"type": "object", "properties": {"number": {"type": "integer"}}},
        ),
    ]
    if evolved:
        listed.append(tool("extra", "Is new."))
    listed = [each for each in listed if each["name"] not in named("gone")]
    for each in listed:
        if each["name"] in named("bare"):
            each["inputSchema"] = {"type": "string"}
    # Two pages, so that whoever lists them has to turn one.
    return listed[:3], listed[3:]


def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}


ORDER = {
    "size": {"type": "integer", "minimum": 1, "maximum": 9, "description": "How large?"},
    "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
}


def ask(id, message="Sure?", fields={}, required=()):
    schema = {"type": "object", "properties": fields, "required": list(required)}
    params = {"message": message, "requestedSchema": schema}
    send({"id": id, "method": "elicitation/create", "params": params})


def die_once():
    if not os.path.exists(path("died")):
        open(path("died"), "w").close()
        os._exit(9)


def call(id, name, arguments, meta):
    if name == "say":
        return text(arguments.get("text", ""))
    if name == "evolve":
        open(path("evolved"), "w").close()
        send({"method": "notifications/tools/list_changed"})
        return text("evolved")
    if name == "meta":
        return text(json.dumps(meta))
    if name == "env":
        return text(json.dumps(dict(os.environ), sort_keys=True))
    if name in ("die", "look"):
        die_once()
        return text("alive")
    if name == "start":
        # It has the same output as the server.
        subprocess.Popen(["sleep", arguments["seconds"]])
        return text("started")
    if name == "hang":
        note("hangs")
        return None
    if name in ("ask", "fill"):
        # Under a name of its own, since several calls may ask at once.
        waiting[f"elicitation {id}"] = id
        if name == "ask":
            ask(f"elicitation {id}")
        else:
            ask(f"elicitation {id}", "What is it to be?", ORDER, ["size"])
        return None
    if name == "hurry":
        ask("passing")
        send({"method": "notifications/cancelled", "params": {"requestId": "passing"}})
        return text("done without")
    if name == "wide":
        return text("é" * 100_000)
    if name == "typed":
        return text("a number", structuredContent={"number": arguments.get("number")})
    return text(f"no tool {name}", isError=True)


def answer(id, method, params):
    if method == "initialize":
        capabilities = {"tools": {"listChanged": True}}
        info = {"name": "own", "version": "1"}
        version = params["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
        send({"id": id, "result": result})
    elif method == "tools/list":
        first, second = tools()
        if params.get("cursor"):
            send({"id": id, "result": {"tools": second}})
        else:
            send({"id": id, "result": {"tools": first, "nextCursor": "second"}})
    elif method == "tools/call":
        result = call(id, params["name"], params.get("arguments", {}), params.get("_meta", {}))
        if result is not None:
            send({"id": id, "result": result})
    else:
        send({"id": id, "error": {"code": -32601, "message": f"no method {method}"}})


is_stubborn = len(sys.argv) > 2
if is_stubborn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)

for line in sys.stdin:
    message = json.loads(line)
    if "method" in message and "id" in message:
        answer(message["id"], message["method"], message.get("params") or {})
    elif "method" in message:
        note(message["method"])
    elif message.get("id") in waiting:
        result = message.get("result", {})
        said = result.get("action") or message.get("error", {}).get("message")
        if result.get("content"):
            said += " " + json.dumps(result["content"], sort_keys=True)
        send({"id": waiting.pop(message["id"]), "result": text(f"the person said: {said}")})

while is_stubborn:
    time.sleep(60)
