"""Hypercorn: HTTP/1.1 and HTTP/2 on each port, by ALPN or by how a connection begins.
Arguments: directory, and the four ports."""

import asyncio
import signal
import ssl
import sys
from pathlib import Path

from hypercorn.asyncio import serve
from hypercorn.config import Config

directory, plain, h2c, tls13, tls12 = Path(sys.argv[1]), *sys.argv[2:]
log = open(directory / "log", "a", buffering=1)  # its own has a request twice whose client has gone
answers = {"/" + f.name: f.read_bytes() for f in (directory / "site").iterdir()}


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    log.write(f"{scope['method']} {scope['path']}\n")
    body = answers.get(scope["path"])
    length = str(len(body or b"")).encode()
    await send({"type": "http.response.start", "status": 404 if body is None else 200, "headers": [(b"content-length", length)]})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body or b""})


class Old(Config):
    def create_ssl_context(self):
        context = super().create_ssl_context()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        return context


def config(kind, *ports, **more):
    c = kind()
    c.bind = ["127.0.0.1:" + p for p in ports]
    c.errorlog = "-"
    for name, value in more.items():
        setattr(c, name, value)
    return c


async def main():
    end = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end.set)
    pair = {"certfile": str(directory / "cert.pem"), "keyfile": str(directory / "key.pem")}
    await asyncio.gather(*(serve(app, c, shutdown_trigger=end.wait) for c in (
        config(Config, plain, h2c),
        config(Config, tls13, **pair),
        config(Old, tls12, **pair),
    )))


asyncio.run(main())
