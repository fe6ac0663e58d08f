package proxy

import (
	"bufio"
	"bytes"
	"cmp"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"ceiling/proxy/config"
	"ceiling/proxy/route"
)

// bench is an exchange without a socket, for what is done to heads.
func bench(trusted bool) *exchange {
	l := &loop{site: &site{via: []byte("Via: 1.1 me\r\n")}}
	c := &client{scheme: "http", name: "9.9.9.9", trusted: trusted, remote: netip.MustParseAddrPort("9.9.9.9:1")}
	c.conn.loop = l
	c.x = &exchange{location: &location{}}
	c.x.client, c.x.destination = c, &destination{upstream: &upstream{target: config.Target{Host: "up"}}}
	return c.x
}

// read puts a request into the exchange; false when it is none.
func (x *exchange) read(b []byte) bool {
	c := x.client
	q, n, err := c.conn.loop.lines.ParseRequest(b)
	if err != nil || n == 0 {
		return false
	}
	c.in = &buffer{b}
	x.request, x.headAt, x.headEnd, c.conn.loop.linesOf = q, 0, n, &x.inbound
	x.unread()
	x.upgrade = x.asksUpgrade()
	return true
}

func TestAppendRequest(t *testing.T) {
	for _, k := range []struct {
		name, request, want string
		trusted             bool
		edit                func(*exchange)
	}{
		{"plain", "GET /a?b HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n",
			"GET /a?b HTTP/1.1\r\nHost: h\r\nA: b\r\nX-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: h\r\nVia: 1.1 me\r\n\r\n", false, nil},
		{"hop by hop", "GET / HTTP/1.1\r\nConnection: A, keep-alive\r\nHost: h\r\nA: b\r\nKeep-Alive: 1\r\nTE: x\r\nB: c\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: h\r\nB: c\r\nX-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: h\r\nVia: 1.1 me\r\n\r\n",
			false, nil},
		{"trusted", "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 2.2.2.2\r\nForwarded: for=x\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: h\r\nForwarded: for=x\r\nX-Forwarded-For: 1.1.1.1, 2.2.2.2, 9.9.9.9\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: h\r\nVia: 1.1 me\r\n\r\n", true, nil},
		{"length", "POST / HTTP/1.1\r\nContent-Length: 007\r\nHost: h\r\n\r\n",
			"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 7\r\nX-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: h\r\nVia: 1.1 me\r\n\r\n", false, nil},
		{"old", "GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\r\nHost: up\r\nX-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Proto: http\r\nVia: 1.1 me\r\n\r\n", false, nil},
		{"websocket", "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: upgrade\r\nX-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: h\r\nVia: 1.1 me\r\n\r\n", false, nil},
		{"path", "GET /api/x?y HTTP/1.1\r\nHost: h\r\n\r\n",
			"GET /base/v2/x?y HTTP/1.1\r\nHost: other\r\nX-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: h\r\nVia: 1.1 me\r\nX-E: 1\r\n\r\n", false,
			func(x *exchange) {
				x.destination.base, x.destination.host = "/base", "other"
				x.destination.replace = []replacement{{old: "/api", new: "/v2"}}
				x.location.request = edits{lines: []byte("X-E: 1\r\n")}
			}},
		{"prefix once", "GET /api/x/api/y?/api HTTP/1.1\r\nHost: h\r\n\r\n",
			"GET /x/api/y?/api HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: h\r\nVia: 1.1 me\r\n\r\n", false,
			func(x *exchange) { x.destination.replace = []replacement{{old: "/api", new: ""}} }},
		{"what anyone says", "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-Port: 1\r\nx-forwarded-ssl: on\r\nX.Forwarded.Prefix: /a\r\n" +
			"X_Forwarded_Uri: /b\r\nX-Forwarded-Anything: c\r\nX-Forwarded: d\r\nX-Real-IP: e\r\nX_Real.IP: e\r\nTrue-Client-IP: f\r\nX-Client-IP: g\r\n" +
			"X-Original-URL: /h\r\nX-Rewrite-URL: /i\r\nContent.Length: 5\r\nTransfer~Encoding: chunked\r\nProxy: http://evil\r\nX-HTTP-Method-Override: PUT\r\n" +
			"X-Forward: j\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: h\r\nX-HTTP-Method-Override: PUT\r\nX-Forward: j\r\n" +
				"X-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: h\r\nVia: 1.1 me\r\n\r\n", false, nil},
		{"what a trusted proxy says", "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-Port: 1\r\nX_Forwarded_Port: 2\r\nX-Real-IP: e\r\nProxy: http://evil\r\n" +
			"X-Original-URL: /h\r\n\r\n", "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-Port: 1\r\nX-Real-IP: e\r\nX-Original-URL: /h\r\n" +
			"X-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: h\r\nVia: 1.1 me\r\n\r\n", true, nil},
		{"aliases of what is set or removed", "GET / HTTP/1.1\r\nHost: h\r\nX-User: a\r\nX_User: b\r\nx.user: c\r\nX!USER: d\r\nXUser: e\r\nX-Users: f\r\n" +
			"X-Gone: g\r\nX_Gone: h\r\n\r\n", "GET / HTTP/1.1\r\nHost: h\r\nXUser: e\r\nX-Users: f\r\n" +
			"X-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Host: h\r\nVia: 1.1 me\r\nX-Forwarded-Proto: https\r\nX-User: us\r\n\r\n", false,
			func(x *exchange) {
				x.location.request = requestEditsOf(&config.Headers{Remove: []string{"x-gone"},
					Set: map[string]string{"X-User": "us", "X-Forwarded-Proto": "https"}}, nil)
			}},
		{"an edit that would split the line", "GET /a HTTP/1.1\r\nHost: h\r\n\r\n",
			"GET /a HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: h\r\nVia: 1.1 me\r\n\r\n", false,
			func(x *exchange) { x.destination.replace = []replacement{{old: "/a", new: "/ HTTP/1.1\r\nX: y"}} }},
	} {
		x := bench(k.trusted)
		if !x.read([]byte(k.request)) {
			t.Fatal(k.name)
		}
		if k.edit != nil {
			k.edit(x)
		}
		if got := string(x.appendRequest(nil)); got != k.want {
			t.Errorf("%s:\n got %q\nwant %q", k.name, got, k.want)
		}
	}
}

// TestHeadsDoNotAllocate: what every request goes through.
func TestHeadsDoNotAllocate(t *testing.T) {
	x := bench(false)
	request := []byte("GET /a HTTP/1.1\r\nHost: h\r\nUser-Agent: x\r\nAccept: */*\r\n\r\n")
	response := []byte("HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\n")
	b := make([]byte, 0, 4096)
	x.read(request)
	in := x.client.in
	if n := testing.AllocsPerRun(100, func() {
		l := x.client.conn.loop
		q, _, err := l.lines.ParseRequest(request)
		if err != nil {
			t.Fatal(err)
		}
		x.client.in = in
		x.request = q
		b = x.appendRequest(b[:0])
		r, _, err := l.lines.ParseResponse(response, false)
		if err != nil {
			t.Fatal(err)
		}
		b = x.appendResponse(b[:0], &r, response)
		l.linesOf = &x.inbound
		if _, _, err := l.lines.ParseRequest(request); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzHead: whatever head is taken, what is passed on can be read in one way only,
// and net/http reads the same request in it.
func FuzzHead(f *testing.F) {
	for _, c := range Cases(f) {
		if len(c.Request) < 4096 {
			f.Add([]byte(c.Request), false)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, trusted bool) {
		x := bench(trusted)
		if !x.read(b) || x.request.Minor > 1 || string(x.request.Method) == "CONNECT" {
			return
		}
		out := x.appendRequest(nil)
		body := ""
		if x.request.Chunked {
			body = "0\r\n\r\n"
		}
		if err := Unambiguous(append(out[:len(out):len(out)], body...)); err != nil {
			t.Fatalf("%q from %q: %v", out, b, err)
		}
		q, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(out)))
		if err != nil {
			if strings.Contains(err.Error(), "parse ") {
				return // net/url knows fewer targets
			}
			t.Fatalf("%q: %v", out, err)
		}
		length := x.request.ContentLength
		if x.request.Chunked {
			length = -1
		}
		authority, _, _ := route.SplitTarget(x.request.Target)
		host := cmp.Or(string(authority), string(x.request.Host))
		if q.Method != string(x.request.Method) || q.ContentLength != length || q.Host != host && host != "" {
			t.Fatalf("%q: %s %d %q", out, q.Method, q.ContentLength, q.Host)
		}
	})
}

// FuzzPreface: it takes what it says it takes, wherever the bytes are cut.
func FuzzPreface(f *testing.F) {
	f.Add([]byte("PROXY TCP4 1.2.3.4 127.0.0.1 1000 80\r\nGET"))
	f.Add(append(append([]byte{}, signature2...), 0x21, 0x11, 0, 12, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 0, 2))
	f.Fuzz(func(t *testing.T, b []byte) {
		client, n, err := parsePreface(b)
		if n > len(b) || n > 0 && err == nil && n < 8 {
			t.Fatal(n)
		}
		if err != nil || n == 0 {
			return
		}
		for cut := range n {
			if c, m, err := parsePreface(b[:cut]); m != 0 || err != nil {
				t.Fatalf("%q: %v %d %v", b[:cut], c, m, err)
			}
		}
		if c, m, err := parsePreface(append(b[:n:n], "GET / HTTP/1.1"...)); c != client || m != n || err != nil {
			t.Fatalf("%v %d %v", c, m, err)
		}
	})
}

// TestLinesAreOwned: a head that is read in part, or is none, between a request's
// parsing and its going out does not leave its lines to that request.
func TestLinesAreOwned(t *testing.T) {
	for _, part := range []string{"GET / HTTP/1.1\r\nX-Other: y\r\nX-B: wrong\r\nX-C", "PO",
		"GET / HTTP/1.1\r\nLonger-Than-The-Other: y\r\nX-B: wrong\r\n"} {
		x := bench(false)
		if !x.read([]byte("GET / HTTP/1.1\r\nHost: h\r\nTE: x\r\nX-A: a\r\n\r\n")) {
			t.Fatal("not read")
		}
		l := x.client.conn.loop
		l.site.config = &config.Config{Limits: config.Limits{HeaderBytes: 16 << 10, HeaderLines: 100}}
		other := &client{conn: conn{loop: l}, state: atHead, in: &buffer{[]byte(part)}}
		if other.head() {
			t.Fatal("a part was taken for a whole")
		}
		want := "GET / HTTP/1.1\r\nHost: h\r\nX-A: a\r\nX-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: h\r\nVia: 1.1 me\r\n\r\n"
		if got := string(x.appendRequest(nil)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestTargetReplacesHost: RFC 9112, section 3.2.2.
func TestTargetReplacesHost(t *testing.T) {
	o := serveHTTP(t, func(w http.ResponseWriter, q *http.Request) { io.WriteString(w, q.Host) })
	r := run(t, "epoll", to("http://"+o.addr))
	for _, host := range []string{"", "a", "A"} {
		l := dial(t, r.addr)
		l.say("GET http://a/x HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
		if _, body := l.answer("GET"); body != "a" {
			t.Errorf("Host %q: the destination got %q", host, body)
		}
	}
}

// TestMalformedHead: what answers HEAD has no body (RFC 9110, section 9.3.2), even
// when the rest of the request is wrong.
func TestMalformedHead(t *testing.T) {
	o := serveHTTP(t, func(http.ResponseWriter, *http.Request) {})
	r := run(t, "epoll", to("http://"+o.addr))
	l := dial(t, r.addr)
	l.say("HEAD / HTTP/1.1\r\nHost: a b\r\n\r\n")
	if res, _ := l.answer("HEAD"); res.StatusCode != 400 {
		t.Error(res.Status)
	}
	l.over()
}
