package http1

import (
	"fmt"
	"strings"
	"testing"
)

// teach runs stream through a Reader with l and fails unless it is whole responses.
func teach(t testing.TB, l *Learned, stream string) {
	t.Helper()
	var r Reader
	for b := []byte(stream); len(b) > 0; {
		n, done, err := r.Next(b, false, l)
		if !done || err != nil {
			t.Fatalf("teach %q: %v %v", stream, done, err)
		}
		b = b[n:]
	}
}

func TestMatch(t *testing.T) {
	l := new(Learned)
	check := func(stream string, n int, rest int64, status int) {
		t.Helper()
		if n2, rest2, status2 := l.Match([]byte(stream)); n2 != n || rest2 != rest || status2 != status {
			t.Errorf("Match(%q) = %d, %d, %d, want %d, %d, %d", stream, n2, rest2, status2, n, rest, status)
		}
	}
	const head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nA: b\r\n\r\n"
	check(head+"hello", 0, 0, 0)
	teach(t, l, head+"hello")
	check(head+"hello", len(head)+5, 0, 200)
	check(head+"hello and more", len(head)+5, 0, 200)
	check(head+"other", len(head)+5, 0, 200)
	check(head+"hel", len(head)+3, 2, 200)
	check(head, len(head), 5, 200)
	check(head[:len(head)-1], 0, 0, 0)
	for _, length := range []string{"0", "12", "100", "999999999999999999"} {
		other := strings.Replace(head, "5", length, 1)
		var want int64
		fmt.Sscan(length, &want)
		check(other, len(other), want, 200)
	}
	for _, length := range []string{"", "05", "00", "5 ", "+5", "x", "1000000000000000000", "99999999999999999999"} {
		check(strings.Replace(head, "5", length, 1)+"hello", 0, 0, 0)
	}
	check(strings.Replace(head, "b", "c", 1)+"hello", 0, 0, 0)
	check("", 0, 0, 0)
	// The fifth head takes the place of the first.
	for i := range 4 {
		teach(t, l, fmt.Sprintf("HTTP/1.1 40%d No\r\nContent-Length: 1\r\n\r\nx", i))
	}
	check(head+"hello", 0, 0, 0)
	for i := range 4 {
		check(fmt.Sprintf("HTTP/1.1 40%d No\r\nContent-Length: 2\r\n\r\nxy", i), 40, 0, 400+i)
	}
}

func TestNeverLearned(t *testing.T) {
	for _, stream := range []string{
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx",
		"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx",
		"HTTP/1.1 204 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 304 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 101 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 100 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nContent-Length: 01\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nA: " + strings.Repeat("a", maxLearnHead) + "\r\n\r\nx",
	} {
		l := new(Learned)
		teach(t, l, stream)
		if l.heads[0].head != 0 {
			t.Errorf("learned from %.100q", stream)
		}
	}
	l := new(Learned)
	var r Reader
	if _, done, _ := r.Next([]byte("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n"), true, l); !done || l.heads[0].head != 0 {
		t.Errorf("the answer to HEAD: done %v, learned %v", done, l.heads[0].head != 0)
	}
	stream := []byte("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")
	r.Next(stream[:10], false, l)
	if _, done, _ := r.Next(stream[10:], false, l); !done || l.heads[0].head != 0 {
		t.Errorf("a split head: done %v, learned %v", done, l.heads[0].head != 0)
	}
}

func TestLearnsHeadOfLongBody(t *testing.T) {
	l := new(Learned)
	var r Reader
	head := "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"
	if n, done, err := r.Next([]byte(head+"x"), false, l); n != len(head)+1 || done || err != nil {
		t.Fatal(n, done, err)
	}
	if n, rest, status := l.Match([]byte(head)); n != len(head) || rest != 100000 || status != 200 {
		t.Errorf("Match = %d, %d, %d", n, rest, status)
	}
}

func TestRun(t *testing.T) {
	const a = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
	const c = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
	const e = "HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno"
	l := new(Learned)
	var r Reader
	check := func(stream string, max, n, responses, status int) {
		t.Helper()
		n2, responses2 := r.Run([]byte(stream), l, max)
		if n2 != n || responses2 != responses || responses > 0 && r.Status() != status || !r.Idle() || r.Closing() {
			t.Errorf("Run(%q, %d) = %d, %d, status %d, want %d, %d, %d", stream, max, n2, responses2, r.Status(), n, responses, status)
		}
	}
	check(a+a, 9, 0, 0, 0)
	teach(t, l, a)
	check("", 9, 0, 0, 0)
	check(a+a+a, 9, 3*len(a), 3, 200)
	check(a+a+a, 2, 2*len(a), 2, 200)
	check(a+a+a, 0, 0, 0, 200)
	check(a+c+a+a+c, 9, 3*len(a)+2*len(c), 5, 200)
	check(a+c+a[:30], 9, len(a)+len(c), 2, 200)
	check(a+a[:len(a)-1], 9, len(a), 1, 200)
	check(a+e, 9, len(a), 1, 200)
	teach(t, l, e)
	check(a+a+e+e, 9, 2*len(a), 2, 200)
	check(e+e+a, 9, 2*len(e), 2, 500)
	// A reader inside a response takes nothing.
	if _, done, _ := r.Next([]byte(a[:20]), false, l); done {
		t.Fatal("done")
	}
	if n, responses := r.Run([]byte(a[20:]), l, 9); n != 0 || responses != 0 {
		t.Errorf("Run inside a response took %d bytes", n)
	}
}

func TestMatchedResponseIsNotClosing(t *testing.T) {
	const keep = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
	const last = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
	l := new(Learned)
	teach(t, l, keep)
	var r Reader
	for _, next := range []func() bool{
		func() bool { _, done, _ := r.Next([]byte(keep), false, l); return done },
		func() bool { n, _ := r.Run([]byte(keep), l, 1); return n == len(keep) },
	} {
		if _, done, err := r.Next([]byte(last), false, l); !done || err != nil || !r.Closing() {
			t.Fatalf("done %v, err %v, closing %v", done, err, r.Closing())
		}
		if !next() || r.Closing() {
			t.Errorf("closing %v is left from the response before", r.Closing())
		}
	}
}

func TestChangingBodyIsNotCompared(t *testing.T) {
	l := new(Learned)
	stream := []byte("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
	teach(t, l, string(stream))
	for i := range maxBodyMisses {
		if l.heads[0].whole == 0 {
			t.Fatalf("the body stopped being compared after %d of %d misses", i, maxBodyMisses)
		}
		stream[len(stream)-1]++
		if n, _, _ := l.Match(stream); n != len(stream) {
			t.Fatalf("another body does not match: %d", n)
		}
	}
	if l.heads[0].whole != 0 {
		t.Error("a body that always changes is still compared")
	}
}
