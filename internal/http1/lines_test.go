package http1

import (
	"bufio"
	"bytes"
	"net/http"
	"strings"
	"testing"
)

func TestLines(t *testing.T) {
	b := []byte("GET /x HTTP/1.1\r\nHost: a\r\nX-One:  1 \r\nConnection: X-One, close\r\nContent_Length: 5\r\nX-Forwarded-For: b\r\nEmpty:\r\n\r\nrest")
	var l Lines
	q, n, err := l.ParseRequest(b)
	if err != nil || string(b[n:]) != "rest" || string(q.Host) != "a" || q.KeepAlive || q.HasLength {
		t.Fatalf("%+v %d %v", q, n, err)
	}
	want := []struct {
		name, value string
		is          Known
		hop         bool
	}{
		{"Host", "a", Host, false}, {"X-One", "1", Other, true}, {"Connection", "X-One, close", Connection, false},
		{"Content_Length", "5", Shadow, false}, {"X-Forwarded-For", "b", ForwardedFor, false}, {"Empty", "", Other, false},
	}
	if len(l.List) != len(want) {
		t.Fatalf("%+v", l.List)
	}
	for i, w := range want {
		g := &l.List[i]
		if string(g.Name(b)) != w.name || string(g.Value(b)) != w.value || g.Is != w.is || g.Hop() != w.hop ||
			!bytes.HasSuffix(b[g.At:g.End], []byte("\r\n")) {
			t.Errorf("%d: %q %q %d %v, want %+v", i, g.Name(b), g.Value(b), g.Is, g.Hop(), w)
		}
	}
	l.Max = 5
	if _, _, err := l.ParseRequest(b); err != ErrHeaderTooLarge {
		t.Errorf("six lines: %v", err)
	}
}

func TestClassify(t *testing.T) {
	names := []string{"te", "via", "host", "date", "expect", "upgrade", "trailer", "forwarded", "x-real-ip", "proxy", "connection", "keep-alive",
		"max-forwards", "content-length",
		"http2-settings", "x-forwarded-for", "proxy-connection", "x-forwarded-host", "transfer-encoding", "x-forwarded-proto"}
	seen := map[Known]bool{}
	for _, n := range names {
		is := Classify([]byte(strings.ToUpper(n)))
		if is <= Shadow || seen[is] {
			t.Errorf("%s: %d", n, is)
		}
		seen[is] = true
		if under := strings.ReplaceAll(n, "-", "_"); under != n && Classify([]byte(under)) != Shadow {
			t.Errorf("%s is not a shadow", under)
		}
		if other := Classify([]byte(n + "x")); other != Other && other != Relayed {
			t.Errorf("%sx: %d", n, other)
		}
	}
}

// FuzzLines: what it takes, ParseRequest takes with the same result, net/http takes
// with the same fields, and the lines cover the head without a gap.
func FuzzLines(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\nHost: a\r\nA: b\r\nConnection: A\r\n\r\n"))
	f.Add([]byte("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"))
	f.Add([]byte("POST /x HTTP/1.0\r\nX_Forwarded_For: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var l Lines
		q, n, err := l.ParseRequest(b)
		q2, n2, err2 := ParseRequest(b)
		if err2 != nil && err == nil || err == nil &&
			(n != n2 || q.KeepAlive != q2.KeepAlive || q.ContentLength != q2.ContentLength || q.Chunked != q2.Chunked ||
				string(q.Host) != string(q2.Host)) {
			t.Fatalf("%+v %d %v; ParseRequest: %+v %d %v", q, n, err, q2, n2, err2)
		}
		if err != nil && err != ErrConnection && err2 == nil {
			t.Fatalf("%v; ParseRequest takes it", err)
		}
		if err != nil || n == 0 {
			return
		}
		at := int32(bytes.IndexByte(b, '\n') + 1)
		fields := http.Header{}
		for i := range l.List {
			line := &l.List[i]
			if line.At != at {
				t.Fatalf("line %d begins at %d, the one before ends at %d", i, line.At, at)
			}
			at = line.End
			fields.Add(string(line.Name(b)), string(line.Value(b)))
		}
		if int(at)+2 != n {
			t.Fatalf("the last line ends at %d of %d", at, n)
		}
		their, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
		if err != nil {
			if strings.Contains(err.Error(), "malformed MIME header") || q.Minor > 1 || strings.Contains(err.Error(), "invalid URI") ||
				strings.Contains(err.Error(), "parse ") {
				return
			}
			t.Fatalf("net/http refuses: %v", err)
		}
		for name, values := range their.Header {
			if strings.Join(values, "\x00") != strings.Join(fields[name], "\x00") {
				t.Fatalf("%s: %q, net/http %q", name, fields[name], values)
			}
		}
	})
}

// FuzzNext: the payload is what net/http reads, however the bytes arrive, and Skip
// finds the same end.
func FuzzNext(f *testing.F) {
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n0\r\nT: u\r\n\r\nrest"), []byte{3, 1})
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhellorest"), []byte{2})
	f.Fuzz(func(t *testing.T, b, widths []byte) {
		q, n, err := ParseRequest(b)
		if err != nil || n == 0 {
			return
		}
		whole, skip := q.Body(), q.Body()
		end, done, err := skip.Skip(b[n:])
		var payload []byte
		used := 0
		failed := false
		for _, piece := range cut(b[n:], widths) {
			for len(piece) > 0 && !failed && !whole.Ended() {
				data, m, _, err := whole.Next(piece)
				payload = append(payload, data...)
				used += m
				piece = piece[m:]
				failed = err != nil
			}
		}
		if failed != (err != nil) || !failed && (whole.Ended() != done || used != end) {
			t.Fatalf("%d %v %v; Skip: %d %v %v", used, whole.Ended(), failed, end, done, err)
		}
		if !done {
			return
		}
		their, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
		if err != nil {
			return // FuzzLines looks at heads
		}
		var got bytes.Buffer
		if _, err := got.ReadFrom(their.Body); err != nil || !bytes.Equal(got.Bytes(), payload) {
			t.Fatalf("%q, net/http %q %v", payload, got.Bytes(), err)
		}
	})
}

// FuzzLinesResponse: the Reader takes the same responses, with the same status.
func FuzzLinesResponse(f *testing.F) {
	for _, s := range responseSeeds() {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var l Lines
		r, n, err := l.ParseResponse(bytes.Clone(b), false)
		var reader Reader
		_, _, readerErr := reader.Next(b, false, nil)
		if err == nil && n > 0 && r.Status >= 200 && int(reader.status) != r.Status && readerErr == nil {
			t.Fatalf("%d, Reader %d", r.Status, reader.status)
		}
		if err != nil && err != ErrConnection && readerErr == nil && n > 0 {
			t.Fatalf("%v; the Reader takes it", err)
		}
	})
}
