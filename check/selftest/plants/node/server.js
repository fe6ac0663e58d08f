// Node's own HTTP server, with a planted bottleneck.
//
// server.js ADDR PLANT N MS
//   cpu    N rounds of PBKDF2 for each request, on the one thread
//   uv     N rounds of PBKDF2 for each request, on the pool of libuv
//   delay  a timer of MS for each request
//   pool   N places, each taken for MS; who finds none waits in line
const http = require('http');
const crypto = require('crypto');

const [addr, plant, n, ms] = process.argv.slice(2);
const [host, port] = addr.split(':');
let free = Number(n);
const line = [];

function take(then) {
  if (free > 0) {
    free--;
    then();
  } else {
    line.push(then);
  }
}

function give() {
  const next = line.shift();
  if (next) next();
  else free++;
}

const plants = {
  cpu: (done) => {
    crypto.pbkdf2Sync('secret', 'salt', Number(n), 32, 'sha256');
    done();
  },
  uv: (done) => crypto.pbkdf2('secret', 'salt', Number(n), 32, 'sha256', done),
  delay: (done) => setTimeout(done, Number(ms)),
  pool: (done) => take(() => setTimeout(() => { give(); done(); }, Number(ms))),
};

http.createServer((request, response) => {
  plants[plant](() => {
    response.setHeader('Content-Length', 5);
    response.end('done\n');
  });
}).listen({ host, port: Number(port), backlog: 512 });
