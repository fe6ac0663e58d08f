"""Python's own threaded HTTP server, with a planted bottleneck.

server.py ADDR PLANT N PROCESSES
  cpu    N steps of an interpreted loop for each request, under the GIL
  sleep  N ms of sleep for each request, in a thread of its own
  lock   one of N locks, kept for 3 ms
  gc     a full collection of a heap of 400,000 lists every N requests; 0: none
  shared an SQLite transaction, kept for N ms, in one file for all PROCESSES
  apart  the same in a file of its own for each process
  fsync  one SQLite transaction for each request, over one connection and its
         lock; N is the pragma synchronous: 2 FULL, 0 OFF
PROCESSES share the port with SO_REUSEPORT; each has a GIL of its own.
"""
import gc
import itertools
import os
import signal
import socket
import sqlite3
import sys
import threading
import time

import threaded

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


def make_lock():
    locks = [threading.Lock() for _ in range(n)]
    number = itertools.count()

    def lock():
        with locks[next(number) % n]:
            time.sleep(0.003)

    return lock


def make_gc():
    stays = [[] for _ in range(400_000)]
    number = itertools.count(1)

    def collect():
        if n and next(number) % n == 0:
            gc.collect()
        return stays

    gc.disable()  # only the collections that are planted
    return collect


def make_write():
    """Each process has one connection, opened when its first request comes: not before the fork."""
    turn = threading.Lock()
    opened = []

    def write():
        with turn:
            if not opened:
                name = "orders.db" if plant == "shared" else f"orders{os.getpid()}.db"
                db = sqlite3.connect(name, timeout=30, check_same_thread=False, isolation_level=None)
                db.execute("pragma synchronous = 0")
                db.execute("create table if not exists orders (id integer primary key, what text)")
                opened.append(db)
            db = opened[0]
            db.execute("begin immediate")
            db.execute("insert into orders (what) values ('bread')")
            time.sleep(n / 1000)
            db.execute("commit")

    return write


plants = {
    "cpu": lambda: cpu, "sleep": lambda: sleep, "lock": make_lock, "gc": make_gc,
    "fsync": make_fsync, "shared": make_write, "apart": make_write,
}
work = plants[plant]()


class Server(threaded.Server):
    def server_bind(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        super().server_bind()


for _ in range(processes - 1):
    if os.fork() == 0:
        break
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
Server((host, int(port)), threaded.handler(work)).serve_forever()
