"""A threaded HTTP server before PostgreSQL, with a planted bottleneck.

server.py ADDR PLANT POOL N DATABASE
  query   pg_sleep of N ms
  cpu     a count of N generated rows
  row     an update of one row of the first N, kept for 3 ms
  commit  ten inserts, each committed; N is 1 for synchronous_commit on, 0 for off
POOL connections to the database, opened beforehand; a request waits for a free one.
"""
import itertools
import queue
import sys

import psycopg2

import threaded

host, port = sys.argv[1].rsplit(":", 1)
plant, size, n, database = sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
pool = queue.LifoQueue()
for _ in range(size):
    c = psycopg2.connect(database)
    c.autocommit = True
    with c.cursor() as q:
        q.execute("set synchronous_commit = " + ("on" if plant != "commit" or n else "off"))
    pool.put(c)
number = itertools.count()


def query(q):
    q.execute("select pg_sleep(%s)", (n / 1000,))


def cpu(q):
    q.execute("select count(i * i + 7) from generate_series(1::bigint, %s) i", (n,))


def row(q):
    q.execute("begin")
    q.execute("update stock set n = n + 1 where id = %s", (next(number) % n,))
    q.execute("select pg_sleep(0.003)")
    q.execute("commit")


def commit(q):
    q.execute("do $$ begin for i in 1..10 loop insert into orders (what) values ('bread'); commit; end loop; end $$")


work = {"query": query, "cpu": cpu, "row": row, "commit": commit}[plant]


def pooled():
    c = pool.get()
    try:
        with c.cursor() as q:
            work(q)
    finally:
        pool.put(c)


threaded.Server((host, int(port)), threaded.handler(pooled)).serve_forever()
