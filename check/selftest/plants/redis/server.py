"""A threaded HTTP server before Redis, which is kept busy or asleep for each request.

server.py ADDR REDIS PLANT N
  script  a script of N steps, on the one thread of Redis
  sleep   DEBUG SLEEP of N microseconds, in which it serves nobody
Each thread of the server has a connection of its own to Redis.
"""
import socket
import sys
import threading

import threaded

host, port = sys.argv[1].rsplit(":", 1)
redis_host, redis_port = sys.argv[2].rsplit(":", 1)
plant, n = sys.argv[3], int(sys.argv[4])
script = f"local x = 1 for i = 1, {n} do x = (x * 31 + i) % 65536 end return x"
# A command of the Redis protocol: an array of strings, each with its length before it.
words = {"script": ["EVAL", script, "0"], "sleep": ["DEBUG", "SLEEP", str(n / 1e6)]}[plant]
command = (f"*{len(words)}\r\n" + "".join(f"${len(w)}\r\n{w}\r\n" for w in words)).encode()
own = threading.local()


def ask():
    if not hasattr(own, "s"):
        own.s = socket.create_connection((redis_host, int(redis_port)))
        own.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        own.r = own.s.makefile("rb")
    own.s.sendall(command)
    answer = own.r.readline()
    if not answer.startswith((b":", b"+")):
        raise RuntimeError(answer)


threaded.Server((host, int(port)), threaded.handler(ask)).serve_forever()
