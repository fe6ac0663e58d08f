package proxy_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/internal/tlsconn"
)

// TestVersions: a loop serves clients with both versions, whatever the pieces that the ClientHello
// comes in.
func TestVersions(t *testing.T) {
	to := serve(t, func(w http.ResponseWriter, q *http.Request) { fmt.Fprint(w, q.Header.Get("X-Forwarded-For")) })
	versions(t, func(t *testing.T, engine string, version uint16) {
		r := runOn(t, engine, begin("", certify(t, t.TempDir(), "a.example"))+location(to, ""))
		for _, protocols := range [][]string{nil, {"http/1.1"}, {"h2", "http/1.1"}} {
			for _, piece := range []int{1, 100, 1 << 20} {
				raw, err := net.Dial("tcp", r.addr)
				if err != nil {
					t.Fatal(err)
				}
				conn := tls.Client(&pieces{raw, piece},
					&tls.Config{ServerName: "a.example", InsecureSkipVerify: true, MaxVersion: version, NextProtos: protocols})
				if err := conn.Handshake(); err != nil {
					t.Fatalf("%s in pieces of %d: %v", protocols, piece, err)
				}
				until(t, "it is counted", func() bool { return r.counted(t).Clients == 1 })
				if len(protocols) < 2 {
					_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n")
					if all, err := io.ReadAll(conn); err != nil || !strings.HasSuffix(string(all), "\r\n\r\n127.0.0.1") {
						t.Errorf("%s in pieces of %d: %q %v", protocols, piece, all, err)
					}
				}
				conn.Close()
				until(t, "it is gone", func() bool { return r.counted(t).Clients == 0 })
			}
		}
	})
}

// TestSuites12: a client with TLS 1.2 is served by each suite that is offered.
func TestSuites12(t *testing.T) {
	to := serve(t, func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(body)
	})
	dir := t.TempDir()
	r := run(t, begin("", certify(t, dir, "a.example"), certifyRSA(t, dir, "b.example"))+location(to, ""))
	body := strings.Repeat("0123456789abcdef", 10_000)
	for suite, name := range map[uint16]string{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256: "a.example", tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384: "a.example",
		tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256: "a.example", tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256: "b.example",
		tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384: "b.example", tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256: "b.example",
	} {
		c := &tls.Config{ServerName: name, InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite},
			ClientSessionCache: tls.NewLRUClientSessionCache(1)}
		for round := range 2 {
			conn, err := tls.Dial("tcp", r.addr, c)
			if err != nil {
				t.Fatal(tls.CipherSuiteName(suite), err)
			}
			if s := conn.ConnectionState(); s.CipherSuite != suite || s.DidResume != (round > 0) {
				t.Errorf("%s, resumed %v: not %s", tls.CipherSuiteName(s.CipherSuite), s.DidResume, tls.CipherSuiteName(suite))
			}
			go fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", name, len(body), body)
			in := bufio.NewReader(conn)
			res, err := http.ReadResponse(in, nil)
			if got := read(t, res, err); got != "HTTP/1.1 200 "+body {
				t.Errorf("%s: %d bytes", tls.CipherSuiteName(suite), len(got))
			}
			if rest, err := io.ReadAll(in); len(rest) > 0 || err != nil { // close_notify
				t.Errorf("%s: %d bytes behind the end, %v", tls.CipherSuiteName(suite), len(rest), err)
			}
			conn.Close()
		}
	}
}

// pieces writes in pieces.
type pieces struct {
	net.Conn
	size int
}

func (p *pieces) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		m, err = p.Conn.Write(b[n:min(n+p.size, len(b))])
		n += m
	}
	return n, err
}

// strict is a client that knows how the connection ended.
type strict struct {
	t    *testing.T
	raw  net.Conn
	conn tlsconn.Conn
}

func (r *running) strict(t *testing.T, protocols ...string) *strict {
	t.Helper()
	raw, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	c := &strict{t: t, raw: raw}
	t.Cleanup(func() { c.conn.End(); raw.Close() })
	if err := raw.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	c.conn.Begin(tlsconn.NewClient(tlsconn.Config{ServerName: "a.example", Insecure: true,
		Protocols: protocols, Offered: tlsconn.Offer{Max: r.tls}}))
	c.send(nil)
	c.read(func(string) bool { return c.conn.Established() })
	return c
}

func (c *strict) send(b []byte) {
	if b = append(c.conn.Pending(), b...); len(b) > 0 {
		_, _ = c.raw.Write(b) // an end is what the next read says
	}
}

func (c *strict) say(text string) { c.send(c.conn.Seal(nil, []byte(text))) }

// read reads until there is enough, or the end, which it tells: nil is close_notify.
func (c *strict) read(enough func(all string) bool) (all string, end error) {
	b := make([]byte, 16<<10)
	for !enough(all) {
		n, err := c.raw.Read(b)
		for rest := b[:n]; len(rest) > 0; {
			plain, took, err := c.conn.Next(rest)
			all, rest = all+string(plain), rest[took:]
			c.send(nil)
			if err == io.EOF {
				return all, nil
			}
			if err != nil {
				return all, err
			}
		}
		if err != nil {
			return all, c.conn.EOF()
		}
	}
	return all, nil
}

func (c *strict) all() (string, error) { return c.read(func(string) bool { return false }) }

// TestEnds: an orderly end says so by close_notify, a cut one does not; a client's
// close_notify ends its direction alone, and in a tunnel nothing else does.
func TestEnds(t *testing.T) {
	needs.Time(t)
	var tunnel sync.WaitGroup
	heard := make(chan string, 1)
	to := serve(t, func(w http.ResponseWriter, q *http.Request) {
		switch q.URL.Path {
		case "/cut":
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "/tunnel":
			tunnel.Add(1)
			defer tunnel.Done()
			conn, rw, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, _ = conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n"))
			text, err := io.ReadAll(rw)
			time.Sleep(50 * time.Millisecond) // the client's FIN follows its close_notify
			_, _ = fmt.Fprintf(conn, "heard %s", text)
			heard <- fmt.Sprintf("%s %v", text, err)
		default:
			body, err := io.ReadAll(q.Body)
			fmt.Fprintf(w, "%d %v", len(body), err)
		}
	})
	versions(t, func(t *testing.T, engine string, version uint16) {
		r := runOn(t, engine, begin("", certify(t, t.TempDir(), "a.example"))+location(to, ""))
		r.tls = version
		c := r.strict(t)
		c.say("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		if all, err := c.all(); !strings.HasSuffix(all, "\r\n\r\n0 <nil>") || err != nil {
			t.Errorf("the last answer: %q, %v", all, err)
		}
		c = r.strict(t)
		c.say("GET /cut HTTP/1.1\r\nHost: a\r\n\r\n")
		if all, err := c.all(); !strings.HasSuffix(all, "half") || err != tlsconn.ErrTruncated {
			t.Errorf("a cut answer: %q, %v", all, err)
		}
		c = r.strict(t)
		c.send(c.conn.CloseNotify(c.conn.Seal(nil, []byte("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"))))
		if all, err := c.all(); !strings.HasSuffix(all, "\r\n\r\n3 <nil>") || err != nil {
			t.Errorf("an answer behind close_notify: %q, %v", all, err)
		}
		c = r.strict(t)
		c.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
		_ = c.raw.(*net.TCPConn).CloseWrite() // within a request
		if all, _ := c.all(); strings.Contains(all, "200") {
			t.Errorf("half a request is answered: %q", all)
		}
		const ask = "GET /tunnel HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n"
		begun := func(all string) bool { return strings.HasSuffix(all, "\r\n\r\n") }
		c = r.strict(t)
		c.say(ask)
		if all, err := c.read(begun); err != nil {
			t.Errorf("%q, %v", all, err)
		}
		c.send(c.conn.CloseNotify(c.conn.Seal(nil, []byte("words"))))
		_ = c.raw.(*net.TCPConn).CloseWrite()
		if all, err := c.all(); all != "heard words" || err != nil {
			t.Errorf("a tunnel whose client has said its last: %q, %v", all, err)
		}
		if got := <-heard; got != "words <nil>" {
			t.Error(got)
		}
		c = r.strict(t)
		c.say(ask)
		if all, err := c.read(begun); err != nil {
			t.Errorf("%q, %v", all, err)
		}
		c.say("words")
		_ = c.raw.(*net.TCPConn).CloseWrite()
		if all, err := c.all(); strings.Contains(all, "heard") || err == nil {
			t.Errorf("a tunnel that was cut: %q, %v", all, err)
		}
		<-heard
		tunnel.Wait()
		until(t, "all are gone", func() bool { return r.counted(t).Clients == 0 })
	})
}

// TestBadRecords: a client whose records are none is told, counted and ended; another of
// the same loop is answered.
func TestBadRecords(t *testing.T) {
	to := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	versions(t, func(t *testing.T, engine string, version uint16) {
		r := runOn(t, engine, begin("", certify(t, t.TempDir(), "a.example"))+location(to, ""))
		r.tls = version
		good := r.strict(t)
		for i, spoil := range []func(b []byte){
			func(b []byte) { b[len(b)-1] ^= 1 },
			func(b []byte) { b[0] = 22 },
			func(b []byte) { b[3] = 0xff },
		} {
			c := r.strict(t)
			b := c.conn.Seal(nil, []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
			spoil(b)
			c.send(b)
			all, err := c.all()
			if all != "" || err == nil || !strings.Contains(err.Error(), "tls: ") { // an alert
				t.Errorf("%d: %q, %v", i, all, err)
			}
			until(t, "it is counted", func() bool {
				s, err := r.Snapshot()
				return err == nil && s.Counters["tls_bad_records_total"] == uint64(i+1) && s.Secure.Clients == 1
			})
		}
		good.say("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		if all, err := good.all(); !strings.HasSuffix(all, "ok") || err != nil {
			t.Errorf("%q, %v", all, err)
		}
	})
}

// TestFilesInRecords: large files, whole, compressed and in ranges, to clients that read late; one
// that is cut on the disk meanwhile ends its own client alone.
func TestFilesInRecords(t *testing.T) {
	needs.Time(t)
	versions(t, func(t *testing.T, engine string, version uint16) {
		dir := t.TempDir()
		want := make([]byte, 8<<20)
		for i := range want {
			want[i] = byte(i>>8) ^ byte(i*7)
		}
		for _, name := range []string{"large.bin", "cut.bin"} {
			if err := os.WriteFile(filepath.Join(dir, name), want, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r := runOn(t, engine, begin("", certify(t, t.TempDir(), "a.example"))+location("files://"+dir, "compress = true"))
		r.tls = version
		noise := make([]byte, 125_000)
		_, _ = rand.Read(noise)
		text := hex.AppendEncode(nil, noise) // compresses to no less than the noise
		if err := os.WriteFile(filepath.Join(dir, "text.txt"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		conn := r.handshake(t, "a.example")
		in := bufio.NewReader(conn)
		ask := func(path, ranges string) (*http.Response, []byte, error) {
			_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: a.example\r\n%s\r\n", path, ranges)
			time.Sleep(50 * time.Millisecond) // it has no room by now
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			return res, body, err
		}
		for range 2 {
			if _, body, err := ask("/large.bin", ""); err != nil || !bytes.Equal(body, want) {
				t.Fatalf("%d bytes, %v", len(body), err)
			}
		}
		res, body, err := ask("/text.txt", "Accept-Encoding: gzip\r\n")
		if err != nil || len(body) < len(noise) { // seven parcels
			t.Fatal(res.Header, len(body), err)
		}
		unpacked, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(unpacked); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%d bytes, compressed %d, %v", len(got), len(body), err)
		}
		res, body, err = ask("/large.bin", "Range: bytes=0-4999999,6000000-6000009,7000000-\r\n")
		if err != nil || res.StatusCode != 206 {
			t.Fatal(res.Status, err)
		}
		_, how, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
		if err != nil {
			t.Fatal(err)
		}
		parts := multipart.NewReader(bytes.NewReader(body), how["boundary"])
		for _, span := range [][2]int{{0, 5_000_000}, {6_000_000, 6_000_010}, {7_000_000, len(want)}} {
			part, err := parts.NextPart()
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(part); err != nil || !bytes.Equal(got, want[span[0]:span[1]]) {
				t.Errorf("bytes %v: %d, %v", span, len(got), err)
			}
		}
		reader := r.strict(t)
		reader.say("GET /cut.bin HTTP/1.1\r\nHost: a.example\r\n\r\n")
		if _, err := reader.read(func(all string) bool { return len(all) > 1<<16 }); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filepath.Join(dir, "cut.bin"), 100); err != nil {
			t.Fatal(err)
		}
		if all, err := reader.all(); len(all) >= len(want) || err == nil {
			t.Errorf("%d bytes of a file that was cut, %v", len(all), err)
		}
		if _, body, err := ask("/large.bin", ""); err != nil || !bytes.Equal(body, want) {
			t.Errorf("%d bytes, %v", len(body), err)
		}
	})
}

// TestManyHandshakes: more at a time than a loop makes in a turn, and clients that go
// within theirs; all others are answered, and nobody is left.
func TestManyHandshakes(t *testing.T) {
	to := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	engines(t, func(t *testing.T, engine string) {
		r := runOn(t, engine, begin("", certify(t, t.TempDir(), "a.example"))+location(to, ""))
		var all sync.WaitGroup
		for i := range 60 {
			all.Go(func() {
				if i%3 == 0 {
					raw, err := net.Dial("tcp", r.addr)
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = raw.Write([]byte{22, 3, 1, 0, 200, 1}[:i%7])
					raw.Close()
					return
				}
				conn, err := tls.Dial("tcp", r.addr, &tls.Config{ServerName: "a.example", InsecureSkipVerify: true})
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
				if all, err := io.ReadAll(conn); err != nil || !strings.HasSuffix(string(all), "ok") {
					t.Errorf("%q %v", all, err)
				}
			})
		}
		all.Wait()
		until(t, "all are counted", func() bool {
			s := r.counted(t)
			return s.Clients == 0 && s.Handshakes["1.3 full"] == 40 && s.Failures["client gone"] == 20
		})
	})
}

// TestBigBodies: pipelined, in records of any size.
func TestBigBodies(t *testing.T) {
	to := serve(t, func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body) // all of it: a client is not kept whose answer began before its end
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(body)
	})
	versions(t, func(t *testing.T, engine string, version uint16) {
		r := runOn(t, engine, begin("", certify(t, t.TempDir(), "a.example"))+location(to, ""))
		r.tls = version
		want := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
		conn := r.handshake(t, "a.example")
		go func() {
			for _, n := range []int{100_000, 0, 1 << 20, 1} {
				_, _ = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", n)
				_, _ = conn.Write(want[:n])
			}
		}()
		in := bufio.NewReader(conn)
		for _, n := range []int{100_000, 0, 1 << 20, 1} {
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(res.Body); err != nil || !bytes.Equal(body, want[:n]) {
				t.Fatalf("%d bytes of %d, %v", len(body), n, err)
			}
		}
	})
}

// plainBackend answers every request with 5,000 bytes, and allocates for none.
func plainBackend(t *testing.T) (uri string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				b, answer := make([]byte, 4096), []byte("HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n"+strings.Repeat("~", 5000))
				for {
					if _, err := conn.Read(b); err != nil {
						return
					}
					if _, err := conn.Write(answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	return "http://" + ln.Addr().String()
}

// countAllocations holds that ask, which makes requests of each time, allocates nothing.
func countAllocations(t *testing.T, ask func(), each int) {
	t.Helper()
	for range 200 {
		ask()
	}
	const times = 2000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		ask()
	}
	runtime.ReadMemStats(&after)
	// What runs once a second, or once in a while, is not of a request.
	if n := after.Mallocs - before.Mallocs; n > uint64(times*each/10) {
		t.Errorf("%d allocations in %d requests", n, times*each)
	}
}

// TestNoAllocation: a request over TLS costs none, with all that the proxy does for it.
func TestNoAllocation(t *testing.T) {
	needs.Time(t)
	to := plainBackend(t)
	engines(t, func(t *testing.T, engine string) {
		r := runOn(t, engine, begin("", certify(t, t.TempDir(), "a.example"))+location(to, ""))
		c := r.strict(t)
		request, b, sealed := []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), make([]byte, 16<<10), make([]byte, 0, 4096)
		countAllocations(t, func() {
			if _, err := c.raw.Write(c.conn.Seal(sealed, request)); err != nil {
				t.Fatal(err)
			}
			for got := 0; got < 5000; {
				n, err := c.raw.Read(b)
				if err != nil {
					t.Fatal(err)
				}
				for rest := b[:n]; len(rest) > 0; {
					plain, took, err := c.conn.Next(rest)
					if err != nil {
						t.Fatal(err)
					}
					got, rest = got+len(plain), rest[took:]
				}
			}
		}, 1)
	})
}
