"""A WSGI application that waits as long as PLANT_MS says: for gunicorn and waitress."""
import os
import time

wait = int(os.environ["PLANT_MS"]) / 1000


def app(environ, start_response):
    time.sleep(wait)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "5")])
    return [b"done\n"]


if __name__ == "__main__":
    import sys

    import waitress

    waitress.serve(app, listen=sys.argv[1], threads=int(sys.argv[2]), backlog=512, connection_limit=512)
