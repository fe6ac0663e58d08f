package proxy

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"ceiling/internal/hpack"
	"ceiling/internal/http1"
)

// rewritten is the head of a block of fields: name, value, name, value.
func rewritten(w *rewriter, whole bool, fields ...string) (head []byte, err error) {
	var block []byte
	for i := 0; i < len(fields); i += 2 {
		block = hpack.AppendField(block, fields[i], fields[i+1], false)
	}
	var d hpack.Decoder
	return w.request(nil, &d, block, 16<<10, whole)
}

// TestRewriter: what stands in the head of HTTP/1.1, and what is malformed.
func TestRewriter(t *testing.T) {
	start := []string{":method", "GET", ":scheme", "https", ":authority", "a", ":path", "/x?y"}
	for name, c := range map[string]struct {
		whole  bool
		fields []string
		want   string // "": malformed; a number: the answer
	}{
		"plain":             {true, nil, "GET /x?y HTTP/1.1\r\nhost: a\r\n\r\n"},
		"with a body":       {false, nil, "GET /x?y HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"},
		"of known length":   {false, []string{"content-length", "5"}, "GET /x?y HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\n"},
		"length without":    {true, []string{"content-length", "5"}, ""},
		"length 0 without":  {true, []string{"content-length", "0"}, "GET /x?y HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n"},
		"two lengths":       {false, []string{"content-length", "5", "content-length", "5"}, ""},
		"a list of lengths": {false, []string{"content-length", "5, 5"}, ""},
		"a huge length":     {false, []string{"content-length", strings.Repeat("9", 30)}, ""},
		"cookies": {true, []string{"cookie", "a=1", "x", "y", "cookie", "b=2"},
			"GET /x?y HTTP/1.1\r\nhost: a\r\nx: y\r\ncookie: a=1; b=2\r\n\r\n"},
		"te":               {true, []string{"te", "trailers"}, "GET /x?y HTTP/1.1\r\nhost: a\r\nte: trailers\r\n\r\n"},
		"te of codings":    {true, []string{"te", "gzip"}, ""},
		"blank before":     {true, []string{"x", " y"}, ""},
		"blank behind":     {true, []string{"x", "y\t"}, ""},
		"blank within":     {true, []string{"x", "a b\tc"}, "GET /x?y HTTP/1.1\r\nhost: a\r\nx: a b\tc\r\n\r\n"},
		"CR":               {true, []string{"x", "y\rz"}, ""},
		"LF":               {true, []string{"x", "y\nz"}, ""},
		"NUL":              {true, []string{"x", "y\x00z"}, ""},
		"DEL":              {true, []string{"x", "y\x7fz"}, ""},
		"a capital":        {true, []string{"xY", "y"}, ""},
		"a blank in one":   {true, []string{"x y", "y"}, ""},
		"a colon":          {true, []string{"x:", "y"}, ""},
		"no name":          {true, []string{"", "y"}, ""},
		"a bare colon":     {true, []string{":", "y"}, ""},
		"an unknown one":   {true, []string{":protocol", "websocket"}, ""},
		"the path twice":   {true, []string{":path", "/"}, ""},
		"the path late":    {true, []string{"x", "y", ":path", "/"}, ""},
		"connection":       {true, []string{"connection", "x"}, ""},
		"keep-alive":       {true, []string{"keep-alive", "x"}, ""},
		"proxy-connection": {true, []string{"proxy-connection", "x"}, ""},
		"upgrade":          {true, []string{"upgrade", "x"}, ""},
		"chunked":          {false, []string{"transfer-encoding", "chunked"}, ""},
		"the same host":    {true, []string{"host", "A"}, "GET /x?y HTTP/1.1\r\nhost: a\r\n\r\n"},
		"with its port":    {true, []string{"host", "A:443"}, "GET /x?y HTTP/1.1\r\nhost: a\r\n\r\n"},
		"another port":     {true, []string{"host", "a:80"}, "400"},
		"another host":     {true, []string{"host", "b"}, "400"},
		"two hosts":        {true, []string{"host", "a", "host", "a"}, "400"},
		"large":            {true, []string{"x", strings.Repeat("y", 17<<10)}, "431"},
	} {
		var w rewriter
		head, err := rewritten(&w, c.whole, append(start[:len(start):len(start)], c.fields...)...)
		got := string(head)
		switch {
		case errors.Is(err, errMalformed):
			got = ""
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case w.status != 0:
			got = strings.Fields(string(appendStatus(nil, w.status)))[1]
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// FuzzRewriter: whatever a block says, its head is one request without a byte behind it,
// whose method, target, host, length and lines are those of the block.
func FuzzRewriter(f *testing.F) {
	f.Add("GET", "/", "a.example", "x", "y", "content-length", "5", false)
	f.Add("GET /x", "/ HTTP/1.1\r\nHost: evil\r\n\r\n", "a\r\nb: c", "x\r\ny", "z\r\n\r\nGET / HTTP/1.1", "host", "b", true)
	f.Add("OPTIONS", "*", "", "host", "a", "cookie", "a=1", true)
	f.Add("POST", "//a", "[::1]:80", "transfer-encoding", "chunked", "transfer_encoding", "chunked", false)
	f.Fuzz(func(t *testing.T, method, path, authority, name1, value1, name2, value2 string, whole bool) {
		var w rewriter
		fields := []string{":method", method, ":scheme", "https", ":authority", authority, ":path", path, name1, value1, name2, value2}
		head, err := rewritten(&w, whole, fields...)
		if err != nil || w.status != 0 {
			return
		}
		lines := 0
		for i := 8; i < len(fields); i += 2 {
			if fields[i] != "te" && fields[i] != "cookie" && fields[i] != "host" {
				lines++
			}
		}
		if bytes.Count(head, []byte("cookie: ")) > 0 && (name1 == "cookie" || name2 == "cookie") {
			lines++
		}
		if authority != "" || name1 == "host" || name2 == "host" {
			lines++
		}
		chunked := !whole && w.length == unknownLength
		if chunked {
			lines++
		}
		if n := bytes.Count(head, []byte("\n")); n > lines+2 || bytes.Count(head, []byte("\r")) != n || bytes.IndexByte(head, 0) >= 0 {
			t.Fatalf("%d lines of %d fields: %q", n, lines, head)
		}
		var l http1.Lines
		q, n, err := l.ParseRequest(head)
		if err != nil { // it is refused as such a request of HTTP/1.1 is
			return
		}
		if n != len(head) || string(q.Method) != method || string(q.Target) != path || q.Chunked != chunked || q.HasLength != (w.length >= 0) {
			t.Fatalf("%d bytes of %d, %+v: %q", n, len(head), q, head)
		}
		if authority != "" && string(q.Host) != authority || whole && q.ContentLength > 0 {
			t.Fatalf("%+v: %q", q, head)
		}
	})
}

// TestHeads: the block of a head of HTTP/1.1, whatever was asked for before.
func TestHeads(t *testing.T) {
	var h heads
	for range 2 {
		for text, want := range map[string]string{
			"HTTP/1.1 200 OK\r\nX-A:  b \r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\nbody": ":status 200 x-a b ",
			"HTTP/1.1 204 No Content\r\n\r\n":                ":status 204 ",
			"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n": ":status 103 link </a> ",
		} {
			block, status, n := h.of([]byte(text))
			if end := strings.Index(text, "\r\n\r\n") + 4; n != end || status != int(text[9]-'0')*100+int(text[10]-'0')*10+int(text[11]-'0') {
				t.Errorf("%q: %d bytes, status %d", text, n, status)
			}
			got := ""
			var d hpack.Decoder
			d.Begin(block)
			for {
				f, more, err := d.Next()
				if err != nil {
					t.Fatal(err)
				}
				if !more {
					break
				}
				got += string(f.Name) + " " + string(f.Value) + " "
			}
			if got != want {
				t.Errorf("%q: %q", text, got)
			}
		}
	}
	if _, _, n := h.of([]byte("HTTP/1.1 200 OK\r\n")); n != 0 {
		t.Error("half a head passes for one")
	}
}

// TestRewriterWebSocket: extended CONNECT (RFC 8441) is an upgrade in HTTP/1.1, with a key of
// ours, and what would make two readers see two requests of it is malformed.
func TestRewriterWebSocket(t *testing.T) {
	start := []string{":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":authority", "a", ":path", "/x?y"}
	const open = "GET /x?y HTTP/1.1\r\nhost: a\r\n"
	const end = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: KEY\r\n\r\n"
	for name, c := range map[string]struct{ fields, want string }{
		"plain":              {"", open + end},
		"a field":            {"sec-websocket-version 13", open + "sec-websocket-version: 13\r\n" + end},
		"keys of the client": {"sec-websocket-key k sec-websocket-accept a", open + end},
		"a length":           {"content-length 0", ""},
		"an upgrade":         {"upgrade websocket", ""},
		"a coding":           {"transfer-encoding chunked", ""},
		"the protocol twice": {":protocol websocket", ""},
	} {
		keys := map[string]bool{}
		for range 2 {
			var w rewriter
			head, err := rewritten(&w, false, append(start[:len(start):len(start)], strings.Fields(c.fields)...)...)
			if got := strings.ReplaceAll(string(head), w.key, "KEY"); err == nil && got != c.want || (err != nil) != (c.want == "") {
				t.Errorf("%s: %q %v, want %q", name, got, err, c.want)
			}
			keys[w.key] = true
		}
		if c.want != "" && len(keys) != 2 {
			t.Errorf("%s: the same key twice", name)
		}
	}
	for i := 2; i < len(start); i += 2 { // section 4 asks for all of them
		if start[i] == ":authority" {
			continue
		}
		var w rewriter
		fields := append(append([]string{}, start[:i]...), start[i+2:]...)
		if _, err := rewritten(&w, false, fields...); err == nil && w.status != 405 {
			t.Errorf("taken without %s: %d", start[i], w.status)
		}
	}
}
