package http1

import "testing"

// TestCollect: the lines of trailers are collected once, whatever pieces they come in, and not
// by a copy that looks ahead.
func TestCollect(t *testing.T) {
	const text = "3\r\nabc\r\n0\r\nX-Sum: 1\r\nx: y\r\n\r\n"
	for size := 1; size <= len(text); size++ {
		var l Lines
		q, _, err := l.ParseRequest([]byte("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"))
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		body := q.Body()
		body.Collect(&got)
		ahead := body
		ahead.Collect(nil)
		if _, done, err := ahead.Skip([]byte(text)); !done || err != nil || len(got) > 0 {
			t.Fatalf("%v %v %q", done, err, got)
		}
		for rest := text; len(rest) > 0; {
			_, n, done, err := body.Next([]byte(rest[:min(size, len(rest))]))
			if rest = rest[n:]; err != nil || done != (rest == "") {
				t.Fatalf("pieces of %d: %v %v %q", size, done, err, rest)
			}
		}
		if string(got) != "X-Sum: 1\r\nx: y\r\n" {
			t.Errorf("pieces of %d: %q", size, got)
		}
	}
}

// TestOpenBody takes all, and has no end of its own.
func TestOpenBody(t *testing.T) {
	body := OpenBody()
	if data, n, done, err := body.Next([]byte("0\r\n\r\n")); string(data) != "0\r\n\r\n" || n != 5 || done || err != nil || !body.UntilClose() {
		t.Errorf("%q %d %v %v", data, n, done, err)
	}
}
