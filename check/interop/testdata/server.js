// Node's own servers: HTTP/1.1 on the ports plain, tls13 and tls12, HTTP/2 on h2c
// and, by ALPN, on the two with TLS. A line for each request goes to the log.
// Arguments: directory, and the four ports.
const fs = require("fs"), http = require("http"), http2 = require("http2"), path = require("path");
const [dir, plain, h2c, tls13, tls12] = process.argv.slice(2);
const log = fs.openSync(path.join(dir, "log"), "a");
const small = fs.readFileSync(path.join(dir, "site", "small")), large = fs.readFileSync(path.join(dir, "site", "large"));
const answers = { "/small": small, "/large": large };

function answer(request, response) {
  request.resume();
  request.on("end", () => {
    fs.writeSync(log, `${request.method} ${request.url}\n`);
    const body = answers[request.url];
    response.writeHead(body ? 200 : 404, { "content-length": body ? body.length : 0 });
    response.end(request.method === "HEAD" ? undefined : body);
  });
}

const pair = { key: fs.readFileSync(path.join(dir, "key.pem")), cert: fs.readFileSync(path.join(dir, "cert.pem")), allowHTTP1: true };
http.createServer(answer).listen(plain, "127.0.0.1");
http2.createServer(answer).listen(h2c, "127.0.0.1");
http2.createSecureServer({ ...pair, minVersion: "TLSv1.3" }, answer).listen(tls13, "127.0.0.1");
http2.createSecureServer({ ...pair, maxVersion: "TLSv1.2" }, answer).listen(tls12, "127.0.0.1");
