package proxy_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"ceiling/proxy"
)

// recorder is a destination that keeps every byte, and answers each request that it
// has whole.
type recorder struct {
	*proxy.Listener
	mu  sync.Mutex
	got []byte
}

func record(t *testing.T) *recorder {
	t.Helper()
	r := new(recorder)
	var err error
	if r.Listener, err = proxy.Listen(r.serve); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func (r *recorder) serve(c net.Conn) {
	in := bufio.NewReader(io.TeeReader(c, r))
	for {
		q, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, q.Body); err != nil {
			return
		}
		if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"); err != nil {
			return
		}
	}
}

func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, b...)
	return len(b), nil
}

func (r *recorder) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := string(r.got)
	r.got = nil
	return got
}

// exchange sends one stream's fields and body as they are, and returns the status
// of the answer, "" where the stream or the connection was ended instead.
func exchange(t *testing.T, conn *tls.Conn, fields [][2]string, body string) string {
	t.Helper()
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, f := range fields {
		if err := enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	fr := http2.NewFramer(conn, conn)
	fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := errors.Join(fr.WriteSettings(),
		fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true,
			EndStream: body == ""})); err != nil {
		t.Fatal(err)
	}
	if body != "" {
		_ = fr.WriteData(1, true, []byte(body)) // the head may have ended the connection
	}
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				t.Fatal("neither answered nor closed")
			}
			return ""
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			return f.PseudoValue("status")
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return ""
		}
	}
}

// TestSmugglingByVersion: what HTTP/2 can carry and HTTP/1.1 cannot must not become
// lines, framing or a second request on the way to a destination (RFC 9113, 8.2.1,
// 8.2.2, 8.3.1; the H2.CL, H2.TE and H2.0 of desync research).
func TestSmugglingByVersion(t *testing.T) {
	to := record(t)
	r := run(t, begin("", certify(t, t.TempDir(), "a.example"))+location("http://"+to.Address(), ""))
	const inner = "GET /x HTTP/1.1\r\nHost: evil.com\r\n\r\n"
	type fields = [][2]string
	request := func(method, path string, more ...[2]string) fields {
		return append(fields{{":method", method}, {":scheme", "https"}, {":authority", "a.example"}, {":path", path}}, more...)
	}
	one := func(name, value string) fields { return request("POST", "/", [2]string{name, value}) }
	cases := map[string]struct {
		fields fields
		body   string
		good   bool // one request, whole, and answered
	}{
		"plain":                       {request("GET", "/"), "", true},
		"a body that is a request":    {request("POST", "/"), inner, true},
		"a length that is the body's": {one("content-length", "5"), "hello", true},
		"length 0 before a body":      {one("content-length", "0"), inner, false},
		"length below the body's":     {one("content-length", "3"), "hello", false},
		"length above the body's":     {one("content-length", "30"), "hello", false},
		"two lengths": {request("POST", "/", [2]string{"content-length", "5"}, [2]string{"content-length", "6"}),
			"hello", false},
		"a length with a sign":                  {one("content-length", "+5"), "hello", false},
		"Transfer-Encoding":                     {one("transfer-encoding", "chunked"), "0\r\n\r\n" + inner, false},
		"Transfer-Encoding with a space behind": {one("transfer-encoding ", "chunked"), "0\r\n\r\n" + inner, false},
		"Transfer-Encoding in a value":          {one("x", "y\r\ntransfer-encoding: chunked"), "0\r\n\r\n" + inner, false},
		"Transfer-Encoding in a name":           {one("x: y\r\ntransfer-encoding", "chunked"), "0\r\n\r\n" + inner, false},
		"Transfer-Encoding behind LF":           {one("x", "y\ntransfer-encoding: chunked"), "0\r\n\r\n" + inner, false},
		"Transfer-Encoding behind CR":           {one("x", "y\rtransfer-encoding: chunked"), "0\r\n\r\n" + inner, false},
		"Transfer-Encoding with a colon":        {one("transfer-encoding:", "chunked"), "0\r\n\r\n" + inner, false},
		"a request in a value":                  {one("x", "y\r\n\r\n"+inner), "", false},
		"a request in a name":                   {one("x\r\n\r\n"+inner+"y", "z"), "", false},
		"NUL in a value":                        {one("x", "y\x00z"), "", false},
		"a name in capitals":                    {one("X-A", "y"), "", false},
		"an empty name":                         {one("", "y"), "", false},
		"Connection":                            {one("connection", "close"), "", false},
		"Upgrade":                               {one("upgrade", "websocket"), "", false},
		"a request in the path":                 {request("GET", "/ HTTP/1.1\r\nHost: evil.com\r\n\r\n"+inner), "", false},
		"a space in the path":                   {request("GET", "/a b"), "", false},
		"a path without slash":                  {request("GET", "a"), "", false},
		"an empty path":                         {request("GET", ""), "", false},
		"a whole address as path":               {request("GET", "http://evil.com/"), "", false},
		"a request in the method":               {request("GET / HTTP/1.1\r\nHost: evil.com\r\n\r\nGET", "/"), "", false},
		"a space in the method":                 {request("GET /x", "/"), "", false},
		"a request in the authority": {fields{{":method", "GET"}, {":scheme", "https"}, {":authority", "a.example\r\n\r\n" + inner},
			{":path", "/"}}, "", false},
		"a path in the authority": {fields{{":method", "GET"}, {":scheme", "https"}, {":authority", "a.example/x"}, {":path", "/"}},
			"", false},
		"a user in the authority": {fields{{":method", "GET"}, {":scheme", "https"}, {":authority", "u@a.example"}, {":path", "/"}},
			"", false},
		"a space in the authority": {fields{{":method", "GET"}, {":scheme", "https"}, {":authority", "a.example b"}, {":path", "/"}},
			"", false},
		"a Host that differs":              {one("host", "evil.com"), "", false},
		"a Host that is the authority":     {one("host", "a.example"), "", true},
		"a byte above ASCII in the path":   {request("GET", "/\xc3\xa9"), "", false},
		"a fragment in the path":           {request("GET", "/a#b"), "", false},
		"a path that Go would encode anew": {request("GET", "/a|b^%7e\"?c|d=^"), "", true},
		"a path of two slashes":            {request("GET", "//evil/x"), "", true},
		"a star":                           {request("OPTIONS", "*"), "", true},
		"no authority":                     {fields{{":method", "GET"}, {":scheme", "https"}, {":path", "/"}}, "", false},
		"a request in the scheme": {fields{{":method", "GET"}, {":scheme", "https://evil.com/ HTTP/1.1\r\n\r\n"},
			{":authority", "a.example"}, {":path", "/"}}, "", false},
		"two paths": {request("GET", "/", [2]string{":path", "/x"}), "", false},
		"a pseudo-field behind a field": {fields{{":method", "GET"}, {":scheme", "https"}, {":authority", "a.example"}, {"x", "y"},
			{":path", "/"}}, "", false},
		"CONNECT": {fields{{":method", "CONNECT"}, {":authority", "a.example:80"}}, "", false},
	}
	// The good ones first: of one that is refused, the destination may get a part after the answer.
	names := slices.SortedFunc(maps.Keys(cases), func(a, b string) int {
		if cases[a].good != cases[b].good {
			return map[bool]int{true: -1, false: 1}[cases[a].good]
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		c := cases[name]
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			t.Run(fmt.Sprint(name, " ", tls.VersionName(version)), func(t *testing.T) {
				r.tls = version
				status := exchange(t, r.handshake(t, "a.example", "h2"), c.fields, c.body)
				got := to.take()
				if c.good {
					if status != "200" || strings.Count(strings.ToLower(got), "\r\nhost: a.example\r\n") != 1 {
						t.Fatalf("answered %q, forwarded %q", status, got)
					}
					if err := proxy.Unambiguous([]byte(got)); err != nil {
						t.Fatal(err)
					}
					for _, f := range c.fields {
						if f[0] == ":path" && !strings.Contains(got, " "+f[1]+" HTTP/1.1\r\n") {
							t.Errorf("the path is not %q in %q", f[1], got)
						}
					}
					return
				}
				// Without a body it may be answered before the body comes that it must not have.
				early := name == "length 0 before a body"
				if strings.HasPrefix(status, "2") && !early || strings.Contains(got, "evil.com") {
					t.Errorf("answered %q, forwarded %q", status, got)
				}
			})
		}
	}
}
