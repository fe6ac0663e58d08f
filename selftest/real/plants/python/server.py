"""Python's own threaded HTTP server, with a planted bottleneck.

server.py ADDR PLANT N PROCESSES
  cpu    N steps of an interpreted loop for each request, under the GIL
  sleep  N ms of sleep for each request, in a thread of its own
  fsync  one SQLite transaction for each request, over one connection and its
         lock; N is the pragma synchronous: 2 FULL, 0 OFF
PROCESSES share the port with SO_REUSEPORT; each has a GIL of its own.
"""
import http.server
import os
import signal
import socket
import sqlite3
import sys
import threading
import time

host, port = sys.argv[1].rsplit(":", 1)
plant, n, processes = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])


def cpu():
    x = 1
    for i in range(n):
        x = (x * 31 + i) & 0xFFFFFFFF


def sleep():
    time.sleep(n / 1000)


def make_fsync():
    db = sqlite3.connect("orders.db", check_same_thread=False, isolation_level=None)
    db.execute("pragma journal_mode = delete")
    db.execute(f"pragma synchronous = {n}")
    db.execute("create table if not exists orders (id integer primary key, what text)")
    lock = threading.Lock()

    def fsync():
        with lock:
            db.execute("insert into orders (what) values ('bread')")

    return fsync


work = make_fsync() if plant == "fsync" else {"cpu": cpu, "sleep": sleep}[plant]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    answer = b"done\n"

    def do_GET(self):
        work()
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.answer)))
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 512

    def server_bind(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        super().server_bind()


for _ in range(processes - 1):
    if os.fork() == 0:
        break
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
Server((host, int(port)), Handler).serve_forever()
