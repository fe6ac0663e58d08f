package http1

import (
	"fmt"
	"strings"
	"testing"
)

func requestSeeds() []string {
	return []string{
		"GET / HTTP/1.1\r\nHost: localhost:8080\r\n\r\n",
		"POST /a%20b?x=%zz HTTP/1.1\r\nHost: [::1]:80\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\n",
		"PUT http://example.com/x HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost:\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n",
		"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n",
		"GET /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
		"HEAD https://u@h HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
	}
}

func TestParseRequest(t *testing.T) {
	check := func(stream, want string) {
		t.Helper()
		q, n, err := ParseRequest([]byte(stream))
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprintf("%d: %s %s host=%s 1.%d keep=%v length=%d chunked=%v expect=%v", n, q.Method, q.Target, q.Host, q.Minor, q.KeepAlive,
				q.ContentLength, q.Chunked, q.ExpectContinue)
		}
		if got != want {
			t.Errorf("%.200q\n got %s\nwant %s", stream, got, want)
		}
		// Whole requests need every byte, and a prefix is never refused.
		if err == nil && n > 0 {
			for i := range n {
				if _, n, err := ParseRequest([]byte(stream[:i])); n != 0 || err != nil {
					t.Errorf("%.200q: %d, %v", stream[:i], n, err)
				}
			}
		}
	}
	const host = "Host: h\r\n"
	check("GET / HTTP/1.1\r\n"+host+"\r\nGET /2", "27: GET / host=h 1.1 keep=true length=0 chunked=false expect=false")
	check("POST /x HTTP/1.1\r\n"+host+"Content-Length: 12\r\nExpect: 100-Continue\r\n\r\n",
		"71: POST /x host=h 1.1 keep=true length=12 chunked=false expect=true")
	check("PUT /x HTTP/1.1\r\n"+host+"transfer-encoding: Chunked\r\nConnection: close\r\n\r\n",
		"75: PUT /x host=h 1.1 keep=false length=0 chunked=true expect=false")
	check("GET / HTTP/1.0\r\n\r\n", "18: GET / host= 1.0 keep=false length=0 chunked=false expect=false")
	check("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "42: GET / host= 1.0 keep=true length=0 chunked=false expect=false")
	check("OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n", "29: OPTIONS * host= 1.1 keep=true length=0 chunked=false expect=false")
	check("CONNECT a.b:443 HTTP/1.1\r\n"+host+"\r\n", "37: CONNECT a.b:443 host=h 1.1 keep=true length=0 chunked=false expect=false")
	check("GET HTTP://[::1]:80?q HTTP/1.1\r\n"+host+"\r\n",
		"43: GET HTTP://[::1]:80?q host=h 1.1 keep=true length=0 chunked=false expect=false")

	for _, line := range []string{"", "GET", "GET /", "GET / HTTP/2.0", "GET / HTTP/1.x", "GET  / HTTP/1.1", "GET /  HTTP/1.1",
		"GET / HTTP/1.1 ", "GET\t/ HTTP/1.1",
		" GET / HTTP/1.1", "G(T / HTTP/1.1", "GET /a b HTTP/1.1", "GET /\x00 HTTP/1.1", "GET /\x7f HTTP/1.1", "GET /é HTTP/1.1",
		"GET /# HTTP/1.1", "GET a HTTP/1.1",
		"GET * HTTP/1.1", "GET /%2 HTTP/1.1", "GET /%zz HTTP/1.1", "GET http:///x HTTP/1.1", "GET ftp://h/ HTTP/1.1", "GET http://u@h/ HTTP/1.1",
		"GET http://h:x/ HTTP/1.1",
		"CONNECT / HTTP/1.1", "CONNECT h HTTP/1.1", "GET / http/1.1", "GET / HTTP/1.1\r", "\r\nGET / HTTP/1.1"} {
		check(line+"\r\n"+host+"\r\n", "malformed request line")
	}
	check("GET / HTTP/1.1\n"+host+"\r\n", "malformed request line")
	for _, field := range []string{"A", "A : b", " A: b", ": b", "A: b\x00", "A: \rb", "A\r: b"} {
		check("GET / HTTP/1.1\r\n"+host+field+"\r\n\r\n", "malformed header")
	}
	check("GET / HTTP/1.1\r\n"+host+"A: b\r\n c\r\n\r\n", "malformed header")
	check("GET / HTTP/1.1\r\n"+host+"A: b\n\r\n", "malformed header")
	check("GET / HTTP/1.1\r\n\r\n", "missing, repeated or invalid host")
	check("GET / HTTP/1.1\r\n"+host+host+"\r\n", "missing, repeated or invalid host")
	check("GET / HTTP/1.0\r\n"+host+host+"\r\n", "missing, repeated or invalid host")
	for _, bad := range []string{"a b", "a/b", "u@h", "h:x", ":80", "[::1", "::1", "[1.2.3.4]", "[fe80::1%25eth0]", "h:123456", "é"} {
		check("GET / HTTP/1.1\r\nHost: "+bad+"\r\n\r\n", "missing, repeated or invalid host")
	}
	check("GET / HTTP/1.1\r\n"+host+"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "content-length with transfer-encoding")
	check("GET / HTTP/1.1\r\n"+host+"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", "conflicting content-length")
	check("GET / HTTP/1.1\r\n"+host+"Content-Length: -1\r\n\r\n", "invalid content-length")
	check("GET / HTTP/1.1\r\n"+host+"Transfer-Encoding: gzip, chunked\r\n\r\n", "unsupported transfer-encoding")
	check("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "transfer-encoding in HTTP/1.0")
	check("GET /"+strings.Repeat("x", MaxHead), "header too large")
	check("GET / HTTP/1.1\r\n"+strings.Repeat("A: b\r\n", MaxHead/6)+"\r\n", "header too large")
}

func TestRequestBody(t *testing.T) {
	check := func(stream string) {
		t.Helper()
		q, n, err := ParseRequest([]byte(stream))
		if err != nil {
			t.Fatal(err)
		}
		body := q.Body()
		rest := []byte(stream[n:])
		for i := range rest { // byte by byte
			if _, done, err := body.Skip(rest[i : i+1]); err != nil || done != (i == len(rest)-1) {
				t.Fatalf("%q at body byte %d: done %v, err %v", stream, i, done, err)
			}
		}
		if _, done, err := body.Skip(nil); !done || err != nil {
			t.Errorf("%q: done %v, err %v", stream, done, err)
		}
	}
	check("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	check("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")
	check("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello")
	check("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n")
}

func TestAppendRequest(t *testing.T) {
	check := func(want, method, target, host string, header []Field, body string) {
		t.Helper()
		got, err := AppendRequest(nil, method, target, host, header, []byte(body))
		if err != nil || string(got) != want {
			t.Errorf("\n got %q, %v\nwant %q", got, err, want)
		}
	}
	check("GET / HTTP/1.1\r\nHost: h:80\r\n\r\n", "GET", "/", "h:80", nil, "")
	check("POST /x HTTP/1.1\r\nHost: h\r\nA: b\r\nContent-Length: 2\r\n\r\nhi", "POST", "/x", "h", []Field{{"A", "b"}}, "hi")
	check("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", "POST", "/", "h", nil, "")
	check("DELETE / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi", "DELETE", "/", "h", nil, "hi")
	check("GET / HTTP/1.1\r\nhost: other\r\n\r\n", "GET", "/", "h", []Field{{"host", "other"}}, "")
	check("GET / HTTP/1.1\r\nHost: \r\n\r\n", "GET", "/", "", []Field{{"Host", ""}}, "")
	check("PUT / HTTP/1.1\r\nHost: h\r\ncontent-length: 9\r\n\r\nhi", "PUT", "/", "h", []Field{{"content-length", "9"}}, "hi")
	check("PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "PUT", "/", "h",
		[]Field{{"Transfer-Encoding", "chunked"}}, "0\r\n\r\n")

	refuse := func(cause, method, target, host string, header ...Field) {
		t.Helper()
		got, err := AppendRequest([]byte("before"), method, target, host, header, nil)
		if err == nil || !strings.Contains(err.Error(), cause) || string(got) != "before" {
			t.Errorf("%q, %v, want an error with %q", got, err, cause)
		}
	}
	refuse("method", "", "/", "h")
	refuse("method", "G T", "/", "h")
	refuse("method", "GET\r\n", "/", "h")
	refuse("target", "GET", "", "h")
	refuse("target", "GET", "/a b", "h")
	refuse("target", "GET", "/\x00", "h")
	refuse("target", "GET", "/ä", "h")
	refuse("host", "GET", "/", "")
	refuse("host", "GET", "/", "h\r\nA: b")
	refuse("header name", "GET", "/", "h", Field{"A b", "c"})
	refuse("header name", "GET", "/", "h", Field{"", "c"})
	refuse("header A", "GET", "/", "h", Field{"A", "b\nc"})
	refuse("header A", "GET", "/", "h", Field{"A", "b\x00"})
	refuse("twice", "GET", "/", "h", Field{"Host", "a"}, Field{"HOST", "b"})
	refuse("exclude", "GET", "/", "h", Field{"Content-Length", "1"}, Field{"Transfer-Encoding", "chunked"})
}

func TestRequestsDoNotAllocate(t *testing.T) {
	stream := []byte("POST /x HTTP/1.1\r\nHost: localhost:8080\r\nUser-Agent: x\r\nAccept: */*\r\nContent-Length: 5\r\n\r\nhello")
	if got := testing.AllocsPerRun(100, func() {
		q, n, err := ParseRequest(stream)
		body := q.Body()
		if m, done, _ := body.Skip(stream[n:]); err != nil || !done || n+m != len(stream) {
			t.Errorf("%d + %d bytes, done %v, %v", n, m, done, err)
		}
	}); got != 0 {
		t.Errorf("parse: %v allocations", got)
	}
	header, body, dst := []Field{{"Accept", "*/*"}}, []byte("x"), make([]byte, 0, 500)
	if got := testing.AllocsPerRun(100, func() {
		if _, err := AppendRequest(dst, "POST", "/x", "h", header, body); err != nil {
			t.Error(err)
		}
	}); got != 0 {
		t.Errorf("write: %v allocations", got)
	}
}
