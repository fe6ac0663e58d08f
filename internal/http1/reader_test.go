package http1

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"
)

// outcome is what a Reader makes of a stream of bytes.
type outcome struct {
	responses []response
	err       error // from Next or EOF
}

type response struct {
	status, bytes int
	closing       bool
}

func (o outcome) String() string {
	var parts []string
	for _, r := range o.responses {
		parts = append(parts, fmt.Sprintf("%d %dB closing=%v", r.status, r.bytes, r.closing))
	}
	return fmt.Sprintf("%s err=%v", strings.Join(parts, ", "), o.err)
}

// drive feeds stream to a Reader as a connection would, piece by piece with
// what a piece leaves unread staying in the buffer, and then the peer's close.
// The number of bytes reported is from the end of the response before.
func drive(t *testing.T, pieces [][]byte, noBody bool, l *Learned) (o outcome) {
	t.Helper()
	var r Reader
	bytesOf := 0
	for _, b := range pieces {
		for len(b) > 0 {
			n, done, err := r.Next(b, noBody, l)
			if n < 0 || n > len(b) {
				t.Fatalf("Next took %d of %d bytes", n, len(b))
			}
			bytesOf += n
			if err != nil {
				if n2, done2, err2 := r.Next(b, noBody, l); n2 != 0 || done2 || err2 != err {
					t.Fatalf("after error %v: %d %v %v", err, n2, done2, err2)
				}
				o.err = err
				return o
			}
			if done {
				o.responses = append(o.responses, response{r.Status(), bytesOf, r.Closing()})
				bytesOf = 0
				if !r.Idle() {
					t.Fatal("not idle after a response")
				}
				if r.Closing() {
					return o
				}
			} else if n != len(b) {
				t.Fatalf("Next took %d of %d bytes and is not done", n, len(b))
			}
			b = b[n:]
		}
	}
	done, err := r.EOF()
	if done {
		o.responses = append(o.responses, response{r.Status(), bytesOf, r.Closing()})
	}
	o.err = err
	return o
}

func whole(s string) [][]byte { return [][]byte{[]byte(s)} }

func bytewise(s string) (pieces [][]byte) {
	for i := range len(s) {
		pieces = append(pieces, []byte(s[i:i+1]))
	}
	return pieces
}

const ok = "HTTP/1.1 200 OK\r\n"

// checker compares what a Reader makes of a stream, in one piece and byte by
// byte, with and without Learned, with want.
func checker(t *testing.T) func(stream, want string) {
	return func(stream, want string) {
		t.Helper()
		for name, pieces := range map[string][][]byte{"whole": whole(stream), "bytewise": bytewise(stream)} {
			for _, l := range []*Learned{nil, new(Learned)} {
				if got := drive(t, pieces, false, l).String(); got != want {
					t.Errorf("%.300q %s (learned %v):\n got %s\nwant %s", stream, name, l != nil, got, want)
				}
			}
		}
	}
}

func TestReaderLength(t *testing.T) {
	check := checker(t)
	check(ok+"Content-Length: 5\r\n\r\nhello", "200 43B closing=false err=<nil>")
	check(ok+"content-length:5 \t\r\n\r\nhello", "200 44B closing=false err=<nil>")
	check(ok+"Content-Length: 0\r\n\r\n"+ok+"Content-Length: 1\r\n\r\nx", "200 38B closing=false, 200 39B closing=false err=<nil>")
	check(ok+"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", "200 62B closing=false err=<nil>")
	check(ok+"Content-Length: 5\r\nContent-Length: 05\r\n\r\nhello", " err=conflicting content-length")
	check(ok+"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", " err=conflicting content-length")
	for _, v := range []string{"", "+5", "-5", "0x5", "5 5", "5,", "5;", "1234567890123456789", "５"} {
		check(ok+"Content-Length: "+v+"\r\n\r\nhello", " err=invalid content-length")
	}
	check(ok+"Content-Length: 5, 6\r\n\r\nhello", " err=conflicting content-length")
	check(ok+"Content-Length: 5\r\n\r\nhell", " err=short body")
}

// TestReaderTolerates: what common clients read is read, named, and not remembered for those that follow.
func TestReaderTolerates(t *testing.T) {
	const plain = ok + "Content-Length: 5\r\n\r\nhello"
	for text, want := range map[string]string{
		ok + "Content-Length: 5, 5\r\n\r\nhello":                              "a list of equal values in Content-Length",
		ok + "A: b\r\n\tc\r\nContent-Length: 5\r\n\r\nhello":                  "a header field folded over two lines",
		ok + "Content-Length: 5,5 ,\t5\r\n\r\nhello":                          "a list of equal values in Content-Length",
		ok + "Transfer-Encoding: chunked\r\n\r\n5 \t\r\nhello\r\n0\r\n\r\n":   "a blank behind a chunk size",
		ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0 \r\n\r\n":     "a blank behind a chunk size",
		ok + "Transfer-Encoding: chunked\r\n\r\n5 ;a=b\r\nhello\r\n0\r\n\r\n": "",
		ok + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello":            "",
	} {
		var r Reader
		var l Learned
		for _, message := range []string{text, plain, text, plain} {
			n, done, err := r.Next([]byte(message), false, &l)
			if n != len(message) || !done || err != nil {
				t.Fatalf("%q: %d bytes, %v, %v", message, n, done, err)
			}
			if got := r.Tolerated(); message == text && got != want || message == plain && got != "" {
				t.Errorf("%q: tolerated %q", message, got)
			}
		}
	}
}

func TestReaderChunked(t *testing.T) {
	check := checker(t)
	const chunked = ok + "Transfer-Encoding: chunked\r\n\r\n"
	check(chunked+"5\r\nhello\r\n0\r\n\r\n", "200 62B closing=false err=<nil>")
	check(chunked+"5 \t;a=b ; c=\"d e\"\r\nhello\r\n00A\r\n0123456789\r\n0;x\r\nSum: 1\r\nOther: \r\n\r\n"+ok+"Content-Length: 0\r\n\r\n",
		"200 114B closing=false, 200 38B closing=false err=<nil>")
	for _, size := range []string{"", " 5", "+5", "-5", "0x5", "5\x00", "G", "5 x", ";x", "0000000000000005", "FFFFFFFFFFFFFFFFF",
		"5\r"} {
		check(chunked+size+"\r\nhello\r\n0\r\n\r\n", " err=malformed chunk")
	}
	check(chunked+"5\nhello\r\n0\r\n\r\n", " err=malformed chunk")
	check(chunked+"5\r\nhello0\r\n\r\n", " err=malformed chunk")
	check(chunked+"5\r\nhello\n0\r\n\r\n", " err=malformed chunk")
	check(chunked+"5;x\x01\r\nhello\r\n0\r\n\r\n", " err=malformed chunk")
	check(chunked+"0\r\nbad trailer\r\n\r\n", " err=malformed trailer")
	check(chunked+"0\r\nA: b\n\r\n", " err=malformed trailer")
	check(chunked+"0\r\n A: b\r\n\r\n", " err=malformed trailer")
	check(chunked+"5\r\nhello\r\n0\r\n", " err=short body")
	check(chunked+"5;"+strings.Repeat("x", MaxChunkLine)+"\r\nhello\r\n0\r\n\r\n", " err=malformed chunk")
	check(chunked+"0\r\n"+strings.Repeat("A: b\r\n", MaxTrailer/6+1)+"\r\n", " err=trailer too large")
	many := chunked + strings.Repeat("1;xxxxxxxx\r\nx\r\n", MaxChunkLine/12) + "1;" + strings.Repeat("x", MaxChunkLine-4) +
		"\r\nx\r\n0\r\n\r\n"
	check(many, fmt.Sprintf("200 %dB closing=false err=<nil>", len(many)))
}

func TestReaderCoding(t *testing.T) {
	check := checker(t)
	check(ok+"Transfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n", "200 52B closing=false err=<nil>")
	check(ok+"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", " err=unsupported transfer-encoding")
	check(ok+"Transfer-Encoding: identity\r\n\r\n", " err=unsupported transfer-encoding")
	check(ok+"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", " err=unsupported transfer-encoding")
	check(ok+"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", " err=content-length with transfer-encoding")
	check(ok+"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", " err=content-length with transfer-encoding")
	check("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", " err=transfer-encoding in HTTP/1.0")
}

func TestReaderEnd(t *testing.T) {
	check := checker(t)
	check(ok+"\r\nwhatever\r\n\r\n", "200 31B closing=true err=<nil>")
	check(ok+"\r\n", "200 19B closing=true err=<nil>")
	// Connection.
	check(ok+"Connection: close\r\nContent-Length: 0\r\n\r\n", "200 57B closing=true err=<nil>")
	check(ok+"Connection: foo ,\tClose\r\nContent-Length: 0\r\n\r\n", "200 63B closing=true err=<nil>")
	check(ok+"Connection: closed, close-not\r\nContent-Length: 0\r\n\r\n", "200 69B closing=false err=<nil>")
	check("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", "200 38B closing=true err=<nil>")
	check("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 0\r\n\r\n", "200 62B closing=false err=<nil>")
	check("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", "200 81B closing=true err=<nil>")
	// No body.
	check("HTTP/1.1 204 No Content\r\n\r\n"+"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
		"204 27B closing=false, 304 48B closing=false err=<nil>")
	// Interim.
	check("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"+ok+"Content-Length: 0\r\n\r\n",
		"200 103B closing=false err=<nil>")
	hints := strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: "+strings.Repeat("x", MaxHead/4)+"\r\n\r\n", 8) + ok +
		"Content-Length: 0\r\n\r\n"
	check(hints, fmt.Sprintf("200 %dB closing=false err=<nil>", len(hints)))
	check("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n\x00\x01", "101 48B closing=true err=<nil>")
	check(strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", MaxInterim+1), " err=too many 1xx responses")
	check("HTTP/1.1 100 Continue\r\n\r\n", " err=connection closed in head")
}

func TestReaderHead(t *testing.T) {
	check := checker(t)
	check("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", "200 35B closing=false err=<nil>")
	check("HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", "200 36B closing=false err=<nil>")
	check("HTTP/1.1 999 \xff\r\nContent-Length: 0\r\n\r\n", "999 37B closing=false err=<nil>")
	for _, line := range []string{"", "HTTP/1.1", "HTTP/1.1 20", "HTTP/1.1 2000", "HTTP/1.1 20x", "HTTP/1.1  200", "HTTP/2.0 200 OK",
		"HTTP/1.x 200 OK", "HTTP/1.1 099 OK", "http/1.1 200 OK", "HTTP/1.11 200 OK", "HTTP/1.1 200\tOK", "HTTP/1.1 200 O\x00K",
		" HTTP/1.1 200 OK", "SSH-2.0-OpenSSH_9.9"} {
		check(line+"\r\nContent-Length: 0\r\n\r\n", " err=malformed status line")
	}
	check("HTTP/1.1 200 OK\nContent-Length: 0\n\n", " err=malformed status line")
	// Heads.
	check(ok+"Content-Length: 0\nA: b\r\n\r\n", " err=malformed header")
	for _, line := range []string{"A", "A : b", ": b", " A: b", "\tA: b", "A\x00: b", "A: b\x00", "A: \rb", "A: \x7f", "A: 1234567\x1f",
		"(A): b", "Ä: b"} {
		check(ok+line+"\r\nContent-Length: 0\r\n\r\n", " err=malformed header")
	}
	check(ok+"A: b\r\n c\r\n\td\r\nContent-Length: 0\r\n\r\n", "200 52B closing=false err=<nil>")
	check(ok+" A: b\r\nContent-Length: 0\r\n\r\n", " err=malformed header")
	check(ok+"Content-Length:\r\n 0\r\n\r\n", " err=invalid content-length")
	check(ok+"Content-Length: 1\r\n 0\r\n\r\n", " err=malformed header")
	check(ok+"Transfer-Encoding: chunked\r\n , gzip\r\n\r\n", " err=malformed header")
	check(ok+"A: b\r\n \x00\r\n\r\n", " err=malformed header")
	check(ok+"A: tab\tand \xe4\x80\xff 123456789\r\nA:\r\nContent-Length: 0\r\n\r\n", "200 68B closing=false err=<nil>")
	check(ok+"A: "+strings.Repeat("x", MaxHead)+"\r\n\r\n", " err=header too large")
	check(ok+strings.Repeat("A: b\r\n", MaxHead/6)+"\r\n", " err=header too large")
	check(ok+"Content-Length: 5\r\n", " err=connection closed in head")
	check("H", " err=connection closed in head")
	check("", " err=<nil>")
}

func TestReaderFindsOutEarly(t *testing.T) {
	var r Reader
	if _, _, err := r.Next([]byte("SSH"), false, nil); err != ErrStatusLine {
		t.Errorf("three bytes of another protocol: %v, want %v", err, ErrStatusLine)
	}
}

func TestReaderHEAD(t *testing.T) {
	stream := "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"
	want := "200 38B closing=false, 200 47B closing=false, 200 19B closing=false err=<nil>"
	for _, pieces := range [][][]byte{whole(stream), bytewise(stream)} {
		if got := drive(t, pieces, true, new(Learned)).String(); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}

func TestReaderReset(t *testing.T) {
	var r Reader
	if _, _, err := r.Next([]byte("HTTP/1.1 200 OK\r\nConte"), false, nil); err != nil || r.Idle() {
		t.Fatalf("err %v, idle %v", err, r.Idle())
	}
	r.Reset()
	if !r.Idle() || r.body.lines.partial != nil {
		t.Error("Reset left something behind")
	}
	stream := []byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	r.Next(stream[:20], false, nil)
	if _, done, _ := r.Next(stream[20:], false, nil); !done || r.body.lines.partial != nil {
		t.Error("a completed response keeps the memory of its split head")
	}
}

func TestReaderIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(Reader{}); size > 96 {
		t.Errorf("a Reader has %d bytes; 10,000 connections have one each", size)
	}
}

// forget keeps the memory of learned heads and makes them match nothing.
func forget(heads [learnedHeads]learnedHead) [learnedHeads]learnedHead {
	for i := range heads {
		heads[i].head, heads[i].whole = 0, 0
	}
	return heads
}

const fiveHeaders = "HTTP/1.1 200 OK\r\nServer: nginx/1.26.2\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\n" +
	"Content-Type: text/plain; charset=utf-8\r\nContent-Length: 13\r\nConnection: keep-alive\r\n\r\nHello, World!"

func TestReaderDoesNotAllocate(t *testing.T) {
	chunked := []byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nA: b\r\n\r\n")
	plain := []byte(fiveHeaders)
	var r Reader
	l := new(Learned)
	for range learnedHeads { // the memory of its four places
		lesson{}.teach(l, &Reader{head: head{digits: 1, length: 13}, status: 200}, plain, len(plain)-13)
	}
	check := func(name string, f func() bool) {
		t.Helper()
		if got := testing.AllocsPerRun(100, func() {
			if !f() {
				t.Errorf("%s: response not complete", name)
			}
		}); got != 0 {
			t.Errorf("%s: %v allocations per response", name, got)
		}
	}
	next := func(b []byte, noBody bool, l *Learned) bool {
		_, done, err := r.Next(b, noBody, l)
		return done && err == nil
	}
	check("full parser", func() bool { return next(plain, false, nil) })
	check("chunked", func() bool { return next(chunked, false, nil) })
	check("chunked with Learned", func() bool { return next(chunked, false, l) })
	check("learned", func() bool { return next(plain, false, l) })
	date := strings.Index(fiveHeaders, "2006 15")
	check("learning", func() bool {
		plain[date] ^= 1 // two heads in turn, each learned anew
		l.heads = forget(l.heads)
		return next(plain, false, l)
	})
	check("split body", func() bool { return !next(plain[:len(plain)-5], false, l) && next(plain[len(plain)-5:], false, l) })
	check("run", func() bool { n, c := r.Run(plain, l, 10); return n == len(plain) && c == 1 })
}
