package proxy

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
)

// Hostile clients that are composed at random, by seed: of request lines, heads,
// framing, bodies, changes to single bytes, how the bytes are cut into writes, and
// how the connection ends. reference_test.go says what RFC 9112 makes of the bytes,
// so what reaches the backend, and what the client is answered, is held exactly.

var (
	compositions = flag.Int("compositions", 1600, "random clients that are tried")
	firstSeed    = flag.Uint64("first-seed", 0, "seed of the first")
)

// speaker composes what a client says.
type speaker struct {
	*rand.Rand
	mark string
	calm bool // little is wrong
	k    int  // paths given out
}

func (r *speaker) chance(percent int) bool { return r.IntN(100) < percent }

// wrong is a chance of something that may be refused.
func (r *speaker) wrong(percent int) bool { return !r.calm && r.chance(percent) }

func oneOf[T any](r *speaker, list ...T) T { return list[r.IntN(len(list))] }

// path is another one each time.
func (r *speaker) path() string {
	r.k++
	return fmt.Sprintf("/%s/%d", r.mark, r.k)
}

func (r *speaker) conversation() string {
	var b strings.Builder
	for range 1 + r.IntN(6) {
		text := r.message()
		if r.wrong(12) {
			text = r.altered(text)
		}
		b.WriteString(text)
	}
	text := b.String()
	if r.chance(8) {
		text = text[:r.IntN(len(text))+1]
	}
	return text
}

// altered has a byte or two changed, left out or put in.
func (r *speaker) altered(text string) string {
	b := []byte(text)
	for range 1 + r.IntN(2) {
		at := r.IntN(len(b))
		const among = "\r\n\x00 \t:;,/0-\x7f\xff.#%_"
		c := among[r.IntN(len(among))]
		switch r.IntN(3) {
		case 0:
			b[at] = c
		case 1:
			b = slices.Insert(b, at, c)
		default:
			if len(b) > 1 {
				b = slices.Delete(b, at, at+1)
			}
		}
	}
	return string(b)
}

// message is a request, valid in most cases.
func (r *speaker) message() string {
	body, framing := r.framed()
	host := oneOf(r, "Host: a\r\n", "Host: a\r\n", "host:a\r\n", "HOST:  a:80 \r\n", "Host: [::1]:8080\r\n")
	if r.chance(2) {
		host = "Host: \r\n"
	}
	version := oneOf(r, "1.1", "1.1", "1.1", "1.1", "1.1", "1.1", "1.1", "1.0")
	if version == "1.0" && strings.Contains(framing, "hunked") && r.chance(80) {
		version = "1.1"
	}
	target, line := r.target(&host)
	if r.wrong(6) {
		host = oneOf(r, "", host+host, "Host: a b\r\n", "Host: a/b\r\n", "Host: u@a\r\n", "Host: a\r\nHost: b\r\n", "Host: a,b\r\n",
			"Host: a:b\r\n", "Host : a\r\n")
	}
	if line == "" {
		line = oneOf(r, "GET", "GET", "GET", "POST", "POST", "PUT", "HEAD", "DELETE", "OPTIONS", "PATCH", "FOO", "TRACE",
			oneOf(r, "GET", "get")) + " " + target + " HTTP/" + version
	}
	if r.wrong(4) {
		line = oneOf(r, "GET  "+target+" HTTP/1.1", "GET "+target+" HTTP/1.1 ", "GET "+target, "GET\t"+target+" HTTP/1.1",
			"GET "+target+" HTTP/2.0", "GET "+target+" HTTP/1.2", "GET "+target+" http/1.1",
			"G@T "+target+" HTTP/1.1", " GET "+target+" HTTP/1.1", "GET "+target+" x HTTP/1.1", "CONNECT a:80 HTTP/1.1", "GET * HTTP/1.1",
			"PRI * HTTP/2.0", "")
	}
	parts := []string{host, framing, r.fields(), r.fields()}
	if r.chance(12) {
		parts = append(parts, oneOf(r, "Connection: close\r\n", "connection: Close\r\n", "Connection: keep-alive\r\n",
			"Connection: foo, close\r\n", "Connection: keep-alive, close\r\n",
			"Connection: X-F1\r\n", "Connection: X-F2 ,, x-f3\r\n", "Connection: Content-Length\r\n", "Connection: host\r\n", "Connection: a b\r\n",
			"Connection: Transfer_Encoding\r\n", "Connection:\r\n"))
	}
	if r.chance(10) {
		parts = append(parts, oneOf(r, "Expect: 100-continue\r\n", "Expect: 100-Continue\r\n", "Expect: foo\r\n", "Expect:\r\n",
			"TE: trailers\r\n", "Trailer: X-F1\r\n", "Upgrade: websocket\r\nConnection: upgrade\r\n",
			"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMA\r\n", "Content_Length: 50\r\n",
			"Transfer_Encoding: chunked\r\n", "X-Forwarded-For: 1.2.3.4\r\n", "Keep-Alive: 5\r\n", "Proxy-Connection: close\r\n", "Via: 1.1 x\r\n"))
	}
	if r.wrong(5) {
		parts = append(parts, oneOf(r, " folded\r\n", "\tfolded: x\r\n", "no colon\r\n", "X-F1 : v\r\n", ": v\r\n", "X-F1: a\x00b\r\n",
			"X-F1: a\rb\r\n", "X-F1: a\nX-F2: b\r\n", "X-F1: \x01\r\n", "X\xff: v\r\n",
			"X-F1: v\n", "X-F9: "+strings.Repeat("v", 20_000)+"\r\n", strings.Repeat("X-F8: v\r\n", 120)))
	}
	r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	before := ""
	if r.wrong(2) {
		before = oneOf(r, "\r\n", "\r\n\r\n", "\n", " ", "\x16\x03\x01")
	}
	return before + line + "\r\n" + strings.Join(parts, "") + "\r\n" + body
}

// target asks for a path in one of the forms; line is a whole request line where
// the form needs its own.
func (r *speaker) target(host *string) (target, line string) {
	path := r.path()
	switch r.IntN(20) {
	case 0:
		*host = oneOf(r, "Host: a\r\n", "Host: A\r\n", "Host: b\r\n", "Host:\r\n")
		return "http://a" + path, ""
	case 1:
		return path + oneOf(r, "/../../x", "/../../../x", "/%2e%2E/y", "/%2e%2e/%2e%2e/..", "/%00", "/%5c", "/\\", "/a//./b", "/%zz", "/%",
			"/\xe4", "#x", "/%25zz"), ""
	case 2:
		return path + oneOf(r, "?q=1", "?", "?a=%zz", "?http://b/", "/;p=1", "/'\"<>{}|^`", "/a:b@c", "//", "?a#b"), ""
	case 3:
		return "*", "OPTIONS * HTTP/1.1\r\nX-Id: " + path
	}
	return path, ""
}

// fields are some that the backend is to see.
func (r *speaker) fields() string {
	var b strings.Builder
	for range r.IntN(4) {
		fmt.Fprintf(&b, "X-F%d:%s%s%s\r\n", r.IntN(5), oneOf(r, "", " ", " \t "), strings.Repeat(oneOf(r, "v", "long value ", "\xff", ":", "a,b;c"), r.IntN(12)), oneOf(r, "", " ", "\t"))
	}
	return b.String()
}

// hidden is a request where none should be read, unless the framing says so.
func (r *speaker) hidden() string {
	return "GET " + r.path() + "/hidden HTTP/1.1\r\nHost: a\r\n\r\n"
}

// framed is a body and the fields that bound it, one or the other wrong at times.
func (r *speaker) framed() (body, fields string) {
	if r.chance(45) {
		return "", ""
	}
	body = strings.Repeat("b", oneOf(r, 0, 1, 10, 1000, 30_000))
	if r.chance(50) {
		body = r.hidden()
	}
	if r.wrong(2) {
		body = strings.Repeat("c", refBodyBytes+r.IntN(3)-1)
	}
	length := func(text string) string {
		return oneOf(r, "Content-Length:", "content-length:", "CONTENT-LENGTH:") + oneOf(r, "", " ", "  \t") + text + oneOf(r, "", " ", "\t ") + "\r\n"
	}
	n := len(body)
	if r.chance(40) {
		fields = length(fmt.Sprint(n))
		if r.wrong(25) {
			once := length(fmt.Sprint(n))
			fields = oneOf(r, length(fmt.Sprint(n+r.IntN(40))), length(fmt.Sprint(n/2)), length(fmt.Sprintf("%05d", n)),
				length(fmt.Sprintf("+%d", n)), length(fmt.Sprintf("-%d", n)), length(fmt.Sprintf("%d, %d", n, n)),
				length(fmt.Sprintf("%d,%d", n, n+1)), length(fmt.Sprintf("0x%x", n)), length(""), length(fmt.Sprintf("%d %d", n, n)),
				length("99999999999999999999"), once+once, once+length(fmt.Sprint(n+1)), once+"Transfer-Encoding: chunked\r\n",
				once+"Transfer-Encoding: identity\r\n", length(fmt.Sprintf("%d;", n)), length(fmt.Sprintf("%d\x0b", n)))
		}
		return body, fields
	}
	fields = oneOf(r, "Transfer-Encoding: chunked\r\n", "transfer-encoding:chunked\r\n", "TRANSFER-ENCODING:  Chunked \t\r\n")
	if r.wrong(15) {
		fields = oneOf(r, "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked, chunked\r\n", "Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: chunked, identity\r\n",
			"Transfer-Encoding: identity\r\n", "Transfer-Encoding: xchunked\r\n", "Transfer-Encoding: \"chunked\"\r\n", "Transfer-Encoding: chunked;q=1\r\n", "Transfer-Encoding:\r\n", "Transfer-Encoding: \x0bchunked\r\n",
			"Transfer-Encoding : chunked\r\n", "Transfer-Encoding: chunked,\r\n", "Transfer-Encoding:\r\n chunked\r\n", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n")
	}
	return r.chunked(body), fields
}

func (r *speaker) chunked(body string) string {
	var b strings.Builder
	wrong := r.wrong(20)
	for len(body) > 0 {
		n := min(1+r.IntN(len(body)), len(body))
		if r.chance(30) {
			n = len(body)
		}
		size := fmt.Sprintf(oneOf(r, "%x", "%X", "00%x"), n) + oneOf(r, "", "", "", ";a=b", " ;a", "\t; a=\"q ; x\"", ";", ";"+strings.Repeat("e", oneOf(r, 10, 4000, 5000)))
		end := "\r\n"
		if wrong && r.chance(50) {
			wrong = false
			switch r.IntN(4) {
			case 0:
				size = oneOf(r, "0x"+size, "+"+size, "-"+size, " "+size, size+" ", "", "g", "FFFFFFFFFFFFFFFFF", "8000000000000000", "0"+strings.Repeat("0", 20)+size, size+"\x00", size+",1")
			case 1:
				end = oneOf(r, "", "\n", "\r", "x\r\n", "\r\n\r\n")
			case 2:
				size += oneOf(r, "\n", "\r", ";\n", ";a\rb")
				b.WriteString(size + body[:n] + end)
				body = body[n:]
				continue
			default:
				size = fmt.Sprintf("%x", n+oneOf(r, -1, 1, 2))
			}
		}
		b.WriteString(size + "\r\n" + body[:n] + end)
		body = body[n:]
	}
	b.WriteString(oneOf(r, "0\r\n", "0\r\n", "000\r\n", "0;last\r\n"))
	b.WriteString(oneOf(r, "", "", "", "X-F1: t\r\n", "A: b\r\nContent-Length: 5\r\n", "Transfer-Encoding: chunked\r\n", "X-T: "+strings.Repeat("t", 3000)+"\r\n"))
	if wrong {
		b.WriteString(oneOf(r, "no colon\r\n", " folded\r\n", "A : b\r\n", "A: b\n", "A: \x00\r\n", r.hidden(), strings.Repeat("A: bcdefgh\r\n", 1500)))
	}
	b.WriteString("\r\n")
	return b.String()
}

// way is how a conversation is sent, and how it ends.
type way struct {
	pieces  int // written so many bytes at a time; 0: at once
	stallAt int // a pause before this byte; 0: none
	half    bool
	leave   leaving
	listens bool // who goes waits for an answer before
}

type leaving uint8

const (
	stays  leaving = iota // reads all that comes
	closes                // ends without reading what is still to come
	resets
)

func (r *speaker) way(n int) way {
	w := way{half: r.chance(50)}
	switch {
	case r.chance(30):
		w.pieces = oneOf(r, 1, 2, 3, 7, 100, 1000)
		if n/w.pieces > 400 {
			w.pieces = n / 400
		}
	case r.chance(20):
		w.stallAt = 1 + r.IntN(n)
	}
	return w
}

// say writes the text in its way. An error is the proxy's who has had enough.
func (w *way) say(c net.Conn, text string) error {
	switch {
	case w.pieces > 0:
		for len(text) > 0 {
			n := min(w.pieces, len(text))
			if _, err := io.WriteString(c, text[:n]); err != nil {
				return err
			}
			text = text[n:]
		}
		return nil
	case w.stallAt > 0:
		if _, err := io.WriteString(c, text[:w.stallAt]); err != nil {
			return err
		}
		time.Sleep(2 * time.Millisecond)
		text = text[w.stallAt:]
	}
	_, err := io.WriteString(c, text)
	return err
}

// final is a whole response that a client got.
type final struct {
	status int
	id     string // of the backend's; "" is the proxy's own
	body   string
	close  bool
}

// hear reads responses to the messages, which say where each ends, and what is left
// when there is no further message to answer.
func hear(r *bufio.Reader, list []message, half bool) (got []final, err error) {
	for i := 0; ; i++ {
		method := "GET"
		if i < len(list) {
			method = list[i].method
		}
		if i == len(list) && !half && (i == 0 || !list[i-1].closes) {
			return got, nil
		}
		if _, err := r.Peek(1); err != nil {
			if err == io.EOF {
				err = nil
			}
			return got, err
		}
		for {
			res, err := http.ReadResponse(r, &http.Request{Method: method})
			if err != nil {
				return got, err
			}
			body, err := io.ReadAll(res.Body)
			if err != nil {
				return got, err
			}
			if res.StatusCode >= 200 {
				got = append(got, final{res.StatusCode, res.Header.Get("X-Id"), string(body), res.Close})
				break
			}
		}
	}
}

// talked is one conversation that is over.
type talked struct {
	seed uint64
	text string
	sent string // the part of it that is
	way  way
	list []message
	got  []final
}

func (k *talked) error(format string, args ...any) error {
	var said strings.Builder
	for i, m := range k.list {
		fmt.Fprintf(&said, "\n  %d %v %s: %s %.100s, body %d, closes %v", i, m.fate, m.why, m.method, m.target, len(m.body), m.closes)
	}
	text := strings.NewReplacer(strings.Repeat("b", 500), "…", strings.Repeat("e", 500), "…", strings.Repeat("A: bcdefgh\r\n", 50), "…").Replace(k.sent)
	return fmt.Errorf("seed %d, %+v: %s\nreference:%s\nsent %.6000q", k.seed, k.way, fmt.Sprintf(format, args...), said.String(), text)
}

// compose is what the client of a seed says.
func compose(seed uint64, abandoned bool) *talked {
	r := &speaker{Rand: rand.New(rand.NewPCG(seed, 0x636c69656e74)), mark: mark(seed)}
	r.calm = r.chance(60)
	text := r.conversation()
	k := &talked{seed: seed, text: text, sent: text, way: r.way(len(text)), list: readStream(text)}
	last := k.list[len(k.list)-1]
	k.way.half = k.way.half || last.fate == cutOff || last.why == incompleteHead
	if abandoned {
		k.sent = text[:1+r.IntN(len(text))]
		k.way = r.way(len(k.sent))
		k.way.half, k.way.leave, k.way.listens = false, oneOf(r, closes, resets), r.chance(50)
	}
	return k
}

// talk has the conversation, and compares the answers with the reference.
func (k *talked) talk(addr string) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	said := make(chan struct{})
	go func() {
		defer close(said)
		if k.way.say(conn, k.sent) == nil && k.way.half {
			_ = conn.(*net.TCPConn).CloseWrite() // the proxy may have closed first
		}
	}()
	k.got, err = hear(bufio.NewReader(conn), k.list, k.way.half)
	if errors.Is(err, syscall.ECONNRESET) && k.list[len(k.list)-1].closes {
		err = nil // it ended with bytes unread
	}
	conn.Close()
	<-said
	if err != nil {
		return k.error("%v; answers %.600s", err, fmt.Sprint(k.got))
	}
	want := slices.DeleteFunc(slices.Clone(k.list), func(m message) bool { return m.fate == cutOff })
	if len(k.got) != len(want) {
		return k.error("%d answers, want %d: %.600s", len(k.got), len(want), fmt.Sprint(k.got))
	}
	for i := range want {
		if err := want[i].answeredBy(&k.got[i]); err != "" {
			return k.error("answer %d: %s", i, err)
		}
	}
	return nil
}

// abandon has a part of it, and goes.
func (k *talked) abandon(addr string) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if err := k.way.say(conn, k.sent); err == nil && k.way.listens {
		if err := conn.SetReadDeadline(time.Now().Add(5 * time.Millisecond)); err != nil {
			return err
		}
		_, _ = conn.Read(make([]byte, 100)) // nothing may come
	}
	if k.way.leave == resets {
		return conn.(*net.TCPConn).SetLinger(0)
	}
	return nil
}

// answeredBy says what is wrong with an answer; "" is nothing.
func (m *message) answeredBy(f *final) string {
	if m.fate != forwarded {
		if f.id != "" || f.status < 400 {
			return fmt.Sprintf("%d of %q, want the proxy's own error: %s", f.status, f.id, m.why)
		}
		return ""
	}
	want, id := replyTo(m.method, m.target), replyID(m.method, m.target)
	if f.id != id || f.status != want.status || f.body != want.body {
		return fmt.Sprintf("%d of %q with %.100q, want that to %s %s: %d of %q with %.100q", f.status, f.id, f.body, m.method, m.target, want.status, id, want.body)
	}
	if m.closes && !f.close {
		return "the connection ends, and the answer does not say so"
	}
	return ""
}

// arrived compares what reached the backend with what was sent, in order. Of a
// conversation that was abandoned it is the beginning.
func (k *talked) arrived(got []received) string {
	at := 0
	for i := range k.list {
		m := &k.list[i]
		there := at < len(got)
		switch {
		case m.fate == refused, m.fate == answered, m.mark != mark(k.seed):
			continue
		case m.fate == forwarded && k.way.leave == stays && (!there || !got[at].whole):
			return fmt.Sprintf("%s %s did not reach the backend whole", m.method, m.target)
		case !there:
			continue
		case m.fate != forwarded && got[at].whole:
			return fmt.Sprintf("whole at the backend: %.300q, which was %v: %s", got[at].raw, m.fate, m.why)
		}
		if err := m.differs(&got[at]); err != "" {
			return err
		}
		if got[at].whole {
			if err := Unambiguous(got[at].raw); err != nil {
				return fmt.Sprintf("forwarded %.300q: %v", got[at].raw, err)
			}
		}
		at++
	}
	if at < len(got) {
		return fmt.Sprintf("the backend has %d requests, want %d; the first of the others is %.500q", len(got), at, got[at].raw)
	}
	return ""
}

// clients has the conversations of many seeds, some side by side.
func clients(t *testing.T, n int, abandoned bool, have func(*talked) error) []*talked {
	const side = 6
	all := make([]*talked, n)
	var group sync.WaitGroup
	numbers := make(chan int)
	for range side {
		group.Go(func() {
			for i := range numbers {
				if t.Failed() {
					continue
				}
				all[i] = compose(*firstSeed+uint64(i), abandoned)
				if err := have(all[i]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range n {
		numbers <- i
	}
	close(numbers)
	group.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return all
}

// hostileConfig is a proxy with the limits that the reference knows.
func hostileConfig(b *recorder) string {
	return to("http://"+b.Address(), fmt.Sprintf("body_bytes = %d", refBodyBytes)) + "[locations.destinations.eject]\nfailures = -1\n"
}

// TestComposedClients: whatever clients send, the backend gets the requests that
// RFC 9112 reads in it, each once and in order, every client gets the answers to its
// own, and the proxy's counters are the sums of both.
func TestComposedClients(t *testing.T) {
	needs.Time(t)
	together(t)
	engines(t, func(t *testing.T, engine string) {
		b := startRecorder(t)
		r := run(t, engine, hostileConfig(b))
		all := clients(t, *compositions/2, false, func(k *talked) error { return k.talk(r.addr) })
		r.settled(b)
		counters := map[string]uint64{"requests_total": 0, "bad_requests_total": 0, "client_connections_total": uint64(len(all)),
			"retries_total": 0, "upstream_stale_total": 0, "bad_responses_total": 0, "upstream_unsolicited_total": 0, "upstream_cut_responses_total": 0,
			"header_timeouts_total": 0, "body_timeouts_total": 0, "own_errors_total": 0}
		statuses, fates := map[string]uint64{}, map[string]int{}
		whole, orphans := 0, []string{}
		for _, k := range all {
			if err := k.arrived(b.of(mark(k.seed))); err != "" {
				t.Fatal(k.error("%s", err))
			}
			for _, f := range k.got {
				statuses[fmt.Sprintf("%dxx", f.status/100)]++
				if f.status >= 500 && f.id == "" {
					counters["own_errors_total"]++
				}
			}
			for _, m := range k.list {
				fates[m.fate.String()]++
				if m.head {
					counters["requests_total"]++
				}
				if m.bad {
					counters["bad_requests_total"]++
				}
				switch {
				case m.fate == cutOff:
					statuses["4xx"]++ // 499 in the log
				case m.fate == forwarded:
					whole++
					if m.mark != mark(k.seed) {
						orphans = append(orphans, m.method+" "+m.target)
					}
				}
			}
		}
		if n := b.whole(); n != whole {
			t.Errorf("the backend has %d requests, want %d", n, whole)
		}
		if got := b.lines(""); !slices.Equal(got, slices.Sorted(slices.Values(orphans))) {
			t.Errorf("without a mark the backend has %.2000q, want %.2000q", got, orphans)
		}
		s := r.snapshot()
		for name, want := range counters {
			if s.Counters[name] != want {
				t.Errorf("%s is %d, want %d", name, s.Counters[name], want)
			}
		}
		maps.DeleteFunc(s.Statuses, func(_ string, n uint64) bool { return n == 0 })
		if !maps.Equal(s.Statuses, statuses) {
			t.Errorf("statuses %v, want %v", s.Statuses, statuses)
		}
		for _, fate := range []string{"forwarded", "answered", "refused", "spoiled", "cut off"} {
			if len(all) >= 400 && fates[fate] == 0 {
				t.Errorf("nothing was %s: %v", fate, fates)
			}
		}
		t.Logf("%d clients: %v", len(all), fates)
	})
}

// TestAbandonedClients: clients that go at any byte leave nothing behind, and the
// backend has no request that they did not send.
func TestAbandonedClients(t *testing.T) {
	needs.Time(t)
	together(t)
	engines(t, func(t *testing.T, engine string) {
		b := startRecorder(t)
		r := run(t, engine, hostileConfig(b))
		all := clients(t, *compositions/2, true, func(k *talked) error { return k.abandon(r.addr) })
		r.settled(b)
		for _, k := range all {
			if err := k.arrived(b.of(mark(k.seed))); err != "" {
				t.Fatal(k.error("%s", err))
			}
		}
		s := r.snapshot()
		logged := uint64(0)
		for _, n := range s.Statuses {
			logged += n
		}
		if n := s.Counters["requests_total"]; n < uint64(b.whole()) || logged < n {
			t.Errorf("%d requests, %d logged, %d at the backend", n, logged, b.whole())
		}
	})
}

// settled waits until nothing is left of any conversation.
func (r *running) settled(b *recorder) {
	r.t.Helper()
	until(r.t, "no client, no request", func() bool {
		s, err := r.Snapshot()
		return err == nil && s.Clients == 0 && s.Upstreams[0].Busy == 0 && s.Upstreams[0].Queued == 0 && b.idle()
	})
}
