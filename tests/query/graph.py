"""Serves a graph in memory as the Query API of Neo4j does: one request, or a transaction of several.

Prints the port when it listens. Requests have to come with the password or the token of the arguments.
"""

import base64
import json
import re
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import ladybug

PASSWORD, TOKEN = sys.argv[1], sys.argv[2]
LOGINS = {
    "Basic " + base64.b64encode(f"neo4j:{PASSWORD}".encode()).decode(),
    "Bearer " + TOKEN,
}
graph = ladybug.Database(":memory:")
# This engine has the function under a name of its own.
ladybug.Connection(graph).execute("CREATE MACRO split(text, mark) AS string_split(text, mark)")
open_transactions = {}
lock = threading.Lock()


class Refused(Exception):
    def __init__(self, status, code, message):
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


def shown(value):
    """Writes nodes as Neo4j does."""
    if isinstance(value, dict) and "_LABEL" in value:
        own = {k: shown(v) for k, v in value.items() if not k.startswith("_") and v is not None}
        place = value.get("_ID", {})
        return {
            "elementId": f"{place.get('table')}:{place.get('offset')}",
            "labels": [value["_LABEL"]],
            "properties": own,
        }
    if isinstance(value, dict):
        return {k: shown(v) for k, v in value.items()}
    if isinstance(value, list):
        return [shown(v) for v in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def begin(connection, body):
    reads = body.get("accessMode", "Write").upper() == "READ"
    connection.set_query_timeout(int(body.get("maxExecutionTime", 60)) * 1000)
    try:
        connection.execute("BEGIN TRANSACTION" + (" READ ONLY" if reads else ""))
    except RuntimeError as error:
        raise Refused(503, "Neo.TransientError.Transaction.LockClientStopped", str(error)) from error


def run(connection, body):
    statement = body["statement"]
    words = set(re.findall(r"\$(\w+)", statement))
    given = {k: v for k, v in body.get("parameters", {}).items() if k in words}
    try:
        result = connection.execute(statement, given)
    except (RuntimeError, TypeError, ValueError) as error:
        text = str(error)
        if "read-only transaction" in text:
            raise Refused(400, "Neo.ClientError.Statement.AccessMode", text) from error
        if "Interrupted" in text:
            raise Refused(400, "Neo.ClientError.Transaction.TransactionTimedOut", text) from error
        raise Refused(400, "Neo.ClientError.Statement.SyntaxError", text) from error
    rows = []
    while result.has_next():
        rows.append([shown(value) for value in result.get_next()])
    upper = statement.upper()
    counters = {"nodesCreated": upper.count("CREATE (:") + upper.count("CREATE (F:")}
    return {"data": {"fields": result.get_column_names(), "values": rows}, "counters": counters}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body):
        text = json.dumps(body).encode()
        try:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.send_header("neo4j-cluster-affinity", "here")
            self.end_headers()
            self.wfile.write(text)
        except ConnectionError:
            # Whoever asked has gone.
            self.close_connection = True

    def serve(self, work):
        length = int(self.headers.get("content-length") or 0)
        text = self.rfile.read(length)
        try:
            if self.headers.get("authorization") not in LOGINS:
                raise Refused(401, "Neo.ClientError.Security.Unauthorized", "Invalid credential.")
            parts = self.path.strip("/").split("/")
            if parts[:1] != ["db"] or parts[2:4] != ["query", "v2"]:
                self.answer(404, {})
                return
            if parts[1] != "neo4j":
                raise Refused(404, "Neo.ClientError.Database.DatabaseNotFound", "no such database")
            self.answer(202, work(parts[4:], json.loads(text or b"{}")))
        except Refused as refused:
            error = {"code": refused.code, "message": refused.message}
            self.answer(refused.status, {"errors": [error]})

    def do_POST(self):
        self.serve(self.post)

    def do_DELETE(self):
        self.serve(self.delete)

    def post(self, parts, body):
        if not parts:
            connection = ladybug.Connection(graph)
            begin(connection, body)
            told = run(connection, body)
            connection.execute("COMMIT")
            return told
        if parts == ["tx"]:
            connection = ladybug.Connection(graph)
            begin(connection, body)
            told = run(connection, body) if "statement" in body else {}
            name = uuid.uuid4().hex
            with lock:
                open_transactions[name] = connection
            return {**told, "transaction": {"id": name, "expires": "later"}}
        if self.headers.get("neo4j-cluster-affinity") != "here":
            raise Refused(404, "Neo.ClientError.Transaction.TransactionNotFound", "not on this member")
        connection = self.find(parts[1], keep=len(parts) == 2)
        if len(parts) == 2:
            try:
                return {**run(connection, body), "transaction": {"id": parts[1]}}
            except Refused:
                # As in Neo4j, an error ends the transaction.
                self.find(parts[1], keep=False)
                raise
        connection.execute("COMMIT")
        return {}

    def delete(self, parts, _body):
        self.find(parts[1], keep=False).execute("ROLLBACK")
        return {}

    def find(self, name, keep):
        with lock:
            found = open_transactions.get(name) if keep else open_transactions.pop(name, None)
        if found is None:
            raise Refused(404, "Neo.ClientError.Transaction.TransactionNotFound", "no such transaction")
        return found


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
