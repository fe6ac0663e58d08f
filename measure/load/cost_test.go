//go:build linux

package load

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"ceiling/internal/authority"
	"ceiling/internal/faultserver"
	"ceiling/internal/needs"
	"ceiling/internal/ring"
	"ceiling/internal/sys"
	"ceiling/internal/tlsconn"
)

// TestNoAllocationPerRequest: what a run allocates does not depend on how many
// requests it makes. The server is in this process and allocates nothing either.
func TestNoAllocationPerRequest(t *testing.T) {
	needs.Engine(t)
	for name, change := range map[string]func(*Config){
		"closed":         func(c *Config) { c.Connections, c.Requests = 64, 120_000 },
		"pipelined":      func(c *Config) { c.Connections, c.Pipelining, c.Requests = 16, 100, 500_000 },
		"open":           func(c *Config) { c.Connections, c.Rate, c.Requests = 64, perS(100_000), 100_000 },
		"mix, pipelined": func(c *Config) { c.Connections, c.Pipelining, c.Requests, c.Mix = 16, 32, 200_000, mixOfTwo() },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, engine string) {
				s := serve(t, faultserver.Every(faultserver.Answer(faultserver.OK("hello"))))
				c := config(t, s, engine, 0)
				c.Threads, c.Warmup = 1, 50*time.Millisecond // what is made once is made there
				change(&c)
				// The Go runtime allocates now and then for itself: the best of three.
				least, most := uint64(math.MaxUint64), uint64(16<<10)
				if engine == ring.Portable {
					most = 512 << 10 // goroutines, of which the runtime keeps some
				}
				for range 3 {
					r := runs(t, c)
					if r.Total.Completed < 100_000 {
						t.Fatalf("completed %d", r.Total.Completed)
					}
					if least = min(least, r.AllocatedBytes); least <= most {
						return
					}
				}
				t.Errorf("%d bytes for over 100,000 requests", least)
			})
		})
	}
}

// TestNoAllocationPerTLSRequest: nor does one over TLS. Its server is another
// process, for crypto/tls allocates.
func TestNoAllocationPerTLSRequest(t *testing.T) {
	needs.Engine(t)
	each(t, func(t *testing.T, engine string) {
		c := Config{
			To: addressOf(t, child(t, childTLS)), Mix: get(), Connections: 32, Threads: 1, Pipelining: 4, Requests: 50_000,
			Warmup: 100 * time.Millisecond, Timeout: 10 * time.Second, Engine: engine, Sockets: Sockets{TLS: &tlsconn.Config{Insecure: true}},
		}
		least := uint64(math.MaxUint64)
		for range 3 {
			r := runs(t, c)
			clean(t, r, c.Requests)
			if least = min(least, r.AllocatedBytes); least <= 16<<10 {
				return
			}
		}
		t.Errorf("%d bytes for 50,000 requests", least)
	})
}

// TestNoAllocationPerH2Request: nor does one over HTTP/2, with one stream and with a
// hundred. Its server is another process too: Go's.
func TestNoAllocationPerH2Request(t *testing.T) {
	needs.Engine(t)
	each(t, func(t *testing.T, engine string) {
		address := addressOf(t, child(t, childH2))
		for _, depth := range []int{1, 100} {
			c := Config{
				To: address, Mix: get(), Connections: 4, Threads: 1, Pipelining: depth, Requests: 10_000,
				Warmup: 100 * time.Millisecond, Timeout: 10 * time.Second, Engine: engine,
				Sockets: Sockets{TLS: &tlsconn.Config{Insecure: true, Protocols: []string{alpnH2}}},
			}
			least := uint64(math.MaxUint64)
			for range 3 {
				r := runs(t, c)
				clean(t, r, c.Requests)
				if least = min(least, r.AllocatedBytes); least <= 32<<10 {
					break
				}
			}
			if least > 32<<10 {
				t.Errorf("%d streams: %d bytes for 10,000 requests", depth, least)
			}
		}
	})
}

func mixOfTwo() []Request {
	return []Request{{Bytes: []byte(getBytes), Weight: 2}, {Bytes: []byte("GET /other HTTP/1.1\r\nHost: x\r\n\r\n"), Weight: 1}}
}

// serveAsChild answers until its standard input ends.
func serveAsChild() {
	if _, _, err := sys.RaiseOpenFiles(20000); err != nil {
		panic(err)
	}
	steps := faultserver.Script{faultserver.Answer(faultserver.OK("x"))}
	switch os.Getenv(childEnv) {
	case childH2:
		serveH2AsChild()
		return
	case childTLS:
		_, pair, err := authority.Site("of a test", usual())
		if err != nil {
			panic(err)
		}
		steps = append(faultserver.Script{faultserver.TLS(&tls.Config{Certificates: []tls.Certificate{pair}})}, steps...)
	}
	s, err := faultserver.Listen("tcp4", "127.0.0.1:0", faultserver.Every(steps...))
	if err != nil {
		panic(err)
	}
	fmt.Println(s.Address())
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		panic(err)
	}
	s.Close()
}

// serveH2AsChild does so with Go's HTTP/2 over TLS.
func serveH2AsChild() {
	_, pair, err := authority.Site("of a test", usual())
	if err != nil {
		panic(err)
	}
	on, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := &http.Server{
		Handler: http.HandlerFunc(hello), ReadHeaderTimeout: time.Minute, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}},
	}
	go func() { _ = server.ServeTLS(on, "", "") }()
	fmt.Println(on.Addr())
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		panic(err)
	}
	server.Close()
}

// What a child answers over.
const (
	childPlain = "plain"
	childTLS   = "tls"
	childH2    = "h2"
)

// child starts this binary as a server and gives its address.
func child(t *testing.T, over string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+over)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server: %v", err)
		}
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(address)
}

// memory is what this process holds, in bytes: resident, with what was freed
// given back, and on the Go heap. The first sees the kernel's mappings too, the
// second is exact.
func memory(t *testing.T) (resident, heap int64) {
	t.Helper()
	debug.FreeOSMemory() // collects first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize()), int64(m.HeapAlloc)
}

// TestManyConnections: 10,000 connections are established and held, and each
// costs 8 KB of memory at most, by the difference to 1,000.
func TestManyConnections(t *testing.T) {
	needs.Engine(t)
	const many, few = 10_000, 1_000
	if soft, hard, err := sys.RaiseOpenFiles(many + 500); err != nil || soft < many+500 {
		t.Fatalf("%d open files are allowed, %d by root, %v; raise the limit: ulimit -n 20000", soft, hard, err)
	}
	each(t, func(t *testing.T, engine string) {
		address := child(t, childPlain)
		hold := func(connections int) (rss, heap int64) {
			c := Config{
				To: addressOf(t, address), Mix: get(), Connections: connections, Threads: 1, Pipelining: 1,
				Rate: perS(uint64(2 * connections)), Duration: 500 * time.Millisecond, Timeout: time.Minute, Engine: engine,
				Drain: time.Minute, // a busy machine falls behind the schedule
			}
			w := &watcher{}
			w.onRow = func(k *Tally) {
				if k.Connected != connections {
					t.Errorf("%d of %d connections stand", k.Connected, connections)
				}
				if rss == 0 && k.EndNs > int64(c.Duration)*3/4 { // each has been used
					rss, heap = memory(t)
				}
			}
			r := start(context.Background(), t, c, w)
			clean(t, r, uint64(connections))
			if r.Established != connections || r.Opened != connections {
				t.Errorf("established %d, opened %d, want %d", r.Established, r.Opened, connections)
			}
			return rss, heap
		}
		rss, heap := hold(few)
		moreRSS, moreHeap := hold(many)
		each := max(moreRSS-rss, moreHeap-heap) / (many - few)
		most := int64(8 << 10)
		if engine == ring.Portable {
			most = 16 << 10 // a goroutine and its buffer
			if needs.Raced() {
				most *= 4
			}
		}
		if each > most {
			t.Errorf("%d bytes for each connection, %d are allowed", each, most)
		}
		t.Logf("%d bytes for each connection", each)
	})
}
