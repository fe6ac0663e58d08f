//go:build linux

package load

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ceiling/internal/faultserver"
	"ceiling/internal/needs"
	"ceiling/internal/ring"
	"ceiling/internal/tlsconn"
)

// A hostile peer that is composed at random, by seed: of a status line, fields,
// framing, a body, how the bytes are cut into writes, and how the exchange ends.
// What is composed knows what it has to count as, so the engine's account is held
// exactly: on one connection the k-th request gets the k-th exchange.

// compositions is how many seeds are tried; make fuzz tries more.
var compositions = flag.Int("compositions", 1500, "random peers that TestComposedPeers tries")

// exchange is one response, right or wrong.
type exchange struct {
	bytes  string
	pieces int  // written so many bytes at a time; 0: at once
	closes bool // the connection ends behind it, by the server
	fails  bool // the request fails by it; else it completes with the status
	status int
	what   string // for messages
}

// step writes it. What fails leaves the rest to the client, which hangs up.
func (e *exchange) step(c *faultserver.Conn) error {
	write := faultserver.Write(e.bytes)
	if e.pieces > 0 {
		write = faultserver.Drip(e.bytes, e.pieces)
	}
	if err := write(c); err != nil {
		return err
	}
	switch {
	case e.closes:
		if _, secure := c.Conn.(*tls.Conn); secure {
			if err := faultserver.HalfClose()(c); err != nil { // which says that this is the end
				return err
			}
		}
		return faultserver.Close()(c)
	case e.fails:
		return faultserver.Stall()(c)
	}
	return nil
}

// composer makes exchanges.
type composer struct {
	*rand.Rand
	head bool // the requests are HEAD
}

func (r *composer) chance(percent int) bool { return r.IntN(100) < percent }

func pick[T any](r *composer, list ...T) T { return list[r.IntN(len(list))] }

// exchange is valid in three of four cases.
func (r *composer) exchange() exchange {
	e := exchange{status: pick(r, 200, 200, 200, 201, 204, 206, 301, 304, 404, 418, 500, 503)}
	if r.chance(40) {
		e.pieces = pick(r, 1, 2, 3, 7, 100, 1000)
	}
	if r.chance(25) {
		r.wrong(&e)
		return e
	}
	body, framing := r.framed(&e)
	version := "HTTP/1.1"
	if r.chance(10) && !strings.Contains(strings.ToLower(framing), "chunked") {
		version, e.closes = "HTTP/1.0", true
	}
	fields := r.fields() + framing + r.fields()
	if e.closes || r.chance(10) {
		fields += pick(r, "Connection: close\r\n", "connection:close\r\n", "CONNECTION: foo, Close \r\n")
		e.closes = true
	}
	e.bytes = r.interim() + fmt.Sprintf("%s %d %s\r\n%s\r\n%s", version, e.status, r.reason(), fields, body)
	e.what = "valid " + framing
	return e
}

// framed is a body and the fields that bound it. One without either lasts until
// the server closes.
func (r *composer) framed(e *exchange) (body, fields string) {
	bodiless := e.status == 204 || e.status == 304
	body = strings.Repeat("b", pick(r, 0, 1, 10, 1000, 5000))
	length := fmt.Sprintf("%s%s%d%s\r\n", pick(r, "Content-Length:", "content-length:", "CONTENT-LENGTH:"), pick(r, "", " ", "  \t"),
		len(body), pick(r, "", " ", "\t "))
	switch {
	case e.status == 204:
		return "", ""
	case bodiless || r.head:
		return "", pick(r, "", length, "Transfer-Encoding: chunked\r\n")
	case r.chance(40):
		return r.chunked(body), pick(r, "Transfer-Encoding: chunked\r\n", "transfer-encoding:  Chunked \r\n")
	case r.chance(15):
		e.closes = true
		return body, ""
	}
	return body, length
}

// chunked cuts a body into chunks (RFC 9112, section 7.1).
func (r *composer) chunked(body string) string {
	var b strings.Builder
	for len(body) > 0 {
		n := 1 + r.IntN(len(body))
		fmt.Fprintf(&b, pick(r, "%x", "%X", "00%x"), n)
		b.WriteString(pick(r, "", "", ";a=b", " ;a", ";a=\"q ; x\"") + "\r\n" + body[:n] + "\r\n")
		body = body[n:]
	}
	b.WriteString(pick(r, "0\r\n", "000\r\n", "0;last\r\n") + pick(r, "", "", "Sum: 1\r\n", "A: b\r\nC: d\r\n") + "\r\n")
	return b.String()
}

func (r *composer) fields() string {
	var b strings.Builder
	for range r.IntN(5) {
		fmt.Fprintf(&b, "X-%d: %s\r\n", r.IntN(100), strings.Repeat(pick(r, "v", "long value ", "\xff", ":"), r.IntN(20)))
	}
	return b.String()
}

func (r *composer) reason() string { return pick(r, "OK", "", "Not  at all", "\xe4\xf6\xfc") }

// interim are responses before the final one.
func (r *composer) interim() string {
	if r.chance(85) {
		return ""
	}
	return strings.Repeat(pick(r, "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
		"HTTP/1.1 102 \r\nContent-Length: 5\r\n\r\n"), 1+r.IntN(3))
}

// wrong composes what no request may complete by.
func (r *composer) wrong(e *exchange) {
	e.fails, e.what = true, "wrong"
	line, rest := "HTTP/1.1 200 OK\r\n", "Content-Length: 2\r\n\r\nok"
	switch r.IntN(6) {
	case 0:
		line = pick(r, "HTTP/1.1 20 OK", "HTTP/1.1 2x0 OK", "HTTP/2 200 OK", "ICY 200 OK", "200 OK", " HTTP/1.1 200 OK", "HTTP/1.1  200 OK",
			"\x16\x03\x01\x02", "HTTP/1.1 200 OK\x00") + "\r\n"
		e.what = "status line"
	case 1:
		line += r.fields() + pick(r, "no colon", "Sp ace: x", "Name : x", ": x", "A: b\rc", "A: \x00", "Connection: a\r\n , b") + "\r\n"
		e.what = "field"
	case 2:
		rest = pick(r, "Content-Length: 2\r\nContent-Length: 3", "Content-Length: +2", "Content-Length: 2,3", "Content-Length: -1",
			"Content-Length: 0x2", "Content-Length: 99999999999999999999",
			"Content-Length: 2\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked, chunked",
			"Transfer-Encoding: gzip, identity\r\nContent-Length: 2") + "\r\n\r\nok"
		if r.head {
			rest = "Content-Length: 2\r\nContent-Length: 3\r\n\r\n"
		}
		e.what = "framing"
	case 3:
		if r.head {
			r.more(e)
			return
		}
		rest = "Transfer-Encoding: chunked\r\n\r\n" + pick(r, "2\r\nok3\r\n", "g\r\n", "-2\r\nok", "2 x\r\nok\r\n", "2\nok\r\n",
			"0\r\nno trailer\r\n\r\n", "FFFFFFFFFFFFFFFFF\r\n", "2\r\nok\n0\r\n\r\n")
		e.what = "chunk"
	case 4: // the server ends it too early
		e.closes, e.what = true, "cut off"
		line += r.fields()
		rest = pick(r, "Content-", "Content-Length: 9\r\n", "Transfer-Encoding: chunked\r\n\r\n5\r\nab",
			"Transfer-Encoding: chunked\r\n\r\n0\r\n", "Content-Length: 9\r\n\r\nshort")
		if r.head {
			rest = "Content-Le"
		}
	default:
		r.more(e)
		return
	}
	e.bytes = line + rest
}

// more is a response with bytes behind it, which only one write makes certain to
// arrive with it.
func (r *composer) more(e *exchange) {
	e.pieces, e.what = 0, "bytes behind it"
	e.bytes = pick(r, faultserver.Response("204 No Content", "", "")[:len("HTTP/1.1 204 No Content\r\n")]+"\r\nbody",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\nbody", strings.Repeat(faultserver.OK(""), 2), faultserver.OK("")+"\r\n",
		faultserver.OK("")+"x")
}

// composedPeer gives the exchanges out in the order of the requests.
type composedPeer struct {
	mu   sync.Mutex
	list []exchange
	next int
}

func (p *composedPeer) serve(c *faultserver.Conn) error {
	p.mu.Lock()
	e := &p.list[min(p.next, len(p.list)-1)]
	p.next++
	p.mu.Unlock()
	return e.step(c)
}

// want is the account of the first n exchanges.
func (p *composedPeer) want(n int) (statuses map[int]uint64, failed uint64) {
	statuses = map[int]uint64{}
	for _, e := range p.list[:n] {
		if e.fails {
			failed++
		} else {
			statuses[e.status]++
		}
	}
	return statuses, failed
}

func (p *composedPeer) text() string {
	var b strings.Builder
	for i, e := range p.list {
		fmt.Fprintf(&b, "\n%d %s, in pieces of %d, closes %v, fails %v: %.300q", i, e.what, e.pieces, e.closes, e.fails, e.bytes)
	}
	return b.String()
}

// TestComposedPeers: whatever a peer is composed of, every request is counted
// once, as what it was.
func TestComposedPeers(t *testing.T) {
	needs.Engine(t)
	needs.LockedMemory(t)
	const side, exchanges = 6, 8
	dir := filepath.Dir(unixPath(t))
	server, _ := trust(t, usual(), nil)
	var group sync.WaitGroup
	seeds := make(chan uint64)
	for worker := range side {
		group.Go(func() {
			engine := []string{ring.Uring, ring.Epoll}[worker%2]
			for seed := range seeds {
				if !t.Failed() {
					composed(t, engine, filepath.Join(dir, strconv.FormatUint(seed, 10)), server, seed, exchanges)
				}
			}
		})
	}
	for seed := range uint64(*compositions) {
		seeds <- seed
	}
	close(seeds)
	group.Wait()
}

// composed is one of them, on a unix socket: on a port another program may meet
// it that looks for a server of its own.
func composed(t *testing.T, engine, path string, server *tls.Config, seed uint64, n int) {
	r := &composer{Rand: rand.New(rand.NewPCG(seed, 0x636f6d706f7365))}
	r.head = r.chance(15)
	peer := &composedPeer{}
	for range n {
		peer.list = append(peer.list, r.exchange())
	}
	steps := faultserver.Script{faultserver.Loop(faultserver.Request(1), peer.serve)}
	var secure *tlsconn.Config
	if r.chance(20) { // over TLS of either version
		over := server.Clone()
		over.MaxVersion = pick[uint16](r, tls.VersionTLS12, tls.VersionTLS13)
		steps = append(faultserver.Script{faultserver.TLS(over)}, steps...)
		secure = &tlsconn.Config{Insecure: true}
	}
	s, err := faultserver.Listen("unix", path, faultserver.Every(steps...))
	if err != nil {
		t.Error(err)
		return
	}
	defer s.Close()
	c := config(t, s, engine, uint64(n))
	c.Connections, c.Threads, c.Timeout, c.TLS = 1, 1, time.Minute, secure
	if r.head {
		c.Mix = []Request{{Bytes: []byte("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n"), NoBody: true, Weight: 1}}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	w := &watcher{t: t, sum: newTally(1)}
	result, err := Run(ctx, c, w)
	if err != nil {
		t.Errorf("seed %d: %v", seed, err)
		return
	}
	balanced(t, &c, result, w)
	statuses, failed := peer.want(n)
	got := map[int]uint64{}
	for status, k := range result.Total.Statuses {
		if k > 0 {
			got[status] = k
		}
	}
	if result.Interrupted || !maps.Equal(got, statuses) || result.Total.Failed != failed || s.Requests() != uint64(n) {
		t.Errorf("seed %d, %s, HEAD %v: statuses %v, failed %d; the server counted %d requests on %d connections; resent %d, reconnects %d, interrupted %v; want %v and %d; faults %v%s",
			seed, engine, r.head, got, result.Total.Failed, s.Requests(), s.Accepted(), result.Total.Resent, result.Total.Reconnects,
			result.Interrupted, statuses, failed, result.Total.Faults, peer.text())
	}
}
