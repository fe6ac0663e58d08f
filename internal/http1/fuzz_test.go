package http1

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// responseSeeds are streams that reach every branch of the parser.
func responseSeeds() []string {
	const ok = "HTTP/1.1 200 OK\r\n"
	return []string{
		fiveHeaders,
		fiveHeaders + fiveHeaders + ok + "Content-Length: 3\r\n\r\nabc",
		ok + "Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\nA\r\n0123456789\r\n0\r\nSum: 1\r\n\r\n" + fiveHeaders,
		ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		ok + "\r\nuntil close",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + fiveHeaders,
		"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n\x00\x01\x02",
		"HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n" + fiveHeaders,
		"HTTP/1.0 200 OK\r\nConnection: keep-alive, x\r\nContent-Length: 1\r\n\r\nxHTTP/1.0 404 No\r\n\r\nx",
		ok + "Connection: x, close\r\nContent-Length: 0\r\n\r\n",
		ok + "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx",
		ok + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		ok + "A: b\r\n folded\r\n\r\n",
		"HTTP/1.1 200\r\n\r\n",
		"SSH-2.0-OpenSSH_9.9\r\n",
	}
}

// cut splits stream at lengths taken in turn from widths.
func cut(stream, widths []byte) (pieces [][]byte) {
	for i := 0; len(stream) > 0; i++ {
		width := 1
		if len(widths) > 0 {
			width = 1 + int(widths[i%len(widths)])
		}
		width = min(width, len(stream))
		// A copy of its own, so that reading past a piece is a fault and keeping
		// a view of one shows.
		piece := bytes.Clone(stream[:width])
		pieces = append(pieces, slices.Clip(piece))
		stream = stream[width:]
	}
	return pieces
}

// FuzzReader: the result does not depend on how the bytes arrive nor on what was
// learned, and everything accepted is accepted by net/http with the same status,
// end and persistence.
func FuzzReader(f *testing.F) {
	for i, s := range responseSeeds() {
		f.Add([]byte(s), []byte{byte(i), 3, 0, 200}, i%5 == 0)
	}
	f.Fuzz(func(t *testing.T, stream, widths []byte, noBody bool) {
		want := drive(t, [][]byte{stream}, noBody, nil)
		check := func(how string, got outcome) {
			if got.String() != want.String() {
				t.Fatalf("%s:\n got %v\nwant %v", how, got, want)
			}
		}
		check("split", drive(t, cut(stream, widths), noBody, nil))
		check("bytewise", drive(t, cut(stream, nil), noBody, nil))
		check("learned", drive(t, [][]byte{stream}, noBody, new(Learned)))
		check("split and learned", drive(t, cut(stream, widths), noBody, new(Learned)))
		compareResponses(t, stream, noBody, want)
	})
}

// compareResponses reads stream with net/http and compares what the Reader found.
func compareResponses(t *testing.T, stream []byte, noBody bool, ours outcome) {
	source := bytes.NewReader(stream)
	br := bufio.NewReaderSize(source, 2*MaxTrailer) // trailers must fit
	request := &http.Request{Method: "GET"}
	if noBody {
		request.Method = "HEAD"
	}
	end := 0
	for i, r := range ours.responses {
		var response *http.Response
		for interim := true; interim; {
			var err error
			response, err = http.ReadResponse(br, request)
			if err != nil {
				if deliberate(err) {
					return
				}
				t.Fatalf("response %d: net/http refuses %q: %v", i, stream[end:], err)
			}
			interim = response.StatusCode/100 == 1 && response.StatusCode != 101
		}
		if r.status != 101 { // net/http hands the other protocol over as a body
			_, err := io.Copy(io.Discard, response.Body)
			if err != nil && deliberate(err) {
				return
			}
			if err != nil {
				t.Fatalf("response %d: net/http refuses the body in %q: %v", i, stream[end:], err)
			}
		}
		end += r.bytes
		if theirs := len(stream) - source.Len() - br.Buffered(); response.StatusCode != r.status || r.status != 101 && theirs != end {
			t.Fatalf("response %d: net/http finds status %d, end %d; we %d, %d", i, response.StatusCode, theirs, r.status, end)
		}
		if r.status != 101 && response.Close != r.closing {
			t.Fatalf("response %d: net/http says close %v, we %v", i, response.Close, r.closing)
		}
	}
}

// deliberate names what net/http refuses and we accept: it rations chunk
// extensions over a whole body (we bound each line), and reads the Trailer field
// (we have no use for it).
func deliberate(err error) bool {
	return strings.Contains(err.Error(), "chunked encoding contains too much non-data") ||
		strings.Contains(err.Error(), "bad trailer key") ||
		strings.Contains(err.Error(), "bad Content-Length") && strings.Contains(err.Error(), ",") // see Reader.Tolerated
}

// FuzzLearned: with heads learned from one stream, another that differs from it
// in one place gives the same by Match, Run and the full parser.
func FuzzLearned(f *testing.F) {
	for _, s := range responseSeeds() {
		f.Add([]byte(s), uint16(10), uint8(0), []byte("1"), uint8(3))
		f.Add([]byte(s), uint16(strings.Index(s, "Length: ")+8), uint8(1), []byte("20"), uint8(0))
	}
	f.Fuzz(func(t *testing.T, lesson []byte, at uint16, drop uint8, insert []byte, limit uint8) {
		from := min(int(at), len(lesson))
		to := min(from+int(drop), len(lesson))
		stream := slices.Concat(lesson, lesson[:from], insert, lesson[to:], lesson)
		l := new(Learned)
		drive(t, [][]byte{lesson}, false, l)
		want := drive(t, [][]byte{stream}, false, nil)
		if got := drive(t, [][]byte{stream}, false, l); got.String() != want.String() {
			t.Fatalf("learned from %q, read %q:\n got %v\nwant %v", lesson, stream, got, want)
		}
		compareRun(t, stream, l, int(limit), want.responses)
	})
}

// compareRun takes stream with Run as far as it goes, Next where it stops.
func compareRun(t *testing.T, stream []byte, l *Learned, limit int, want []response) {
	var r Reader
	bytesOf := func(n int) (total int) {
		for _, w := range want[:n] {
			total += w.bytes
		}
		return total
	}
	for b := stream; len(b) > 0 && len(want) > 0; {
		n, responses := r.Run(b, l, limit)
		if responses > limit || responses > len(want) || n != bytesOf(responses) {
			t.Fatalf("Run took %d bytes as %d of at most %d responses; the parser finds %v", n, responses, limit, want)
		}
		for _, w := range want[:responses] {
			if w.status != r.Status() || w.closing {
				t.Fatalf("Run reports status %d for %v", r.Status(), w)
			}
		}
		b, want = b[n:], want[responses:]
		if len(want) == 0 || len(b) == 0 {
			return
		}
		n, done, err := r.Next(b, false, l)
		if err != nil || !done {
			// Only a body that lasts until the close is complete at the end.
			if len(want) != 1 || !want[0].closing || err != nil {
				t.Fatalf("Next after Run: done %v, err %v; the parser finds %v", done, err, want)
			}
			return
		}
		if n != want[0].bytes || r.Status() != want[0].status || r.Closing() != want[0].closing {
			t.Fatalf("Next after Run took %d bytes, status %d; the parser finds %v", n, r.Status(), want[0])
		}
		if b, want = b[n:], want[1:]; r.Closing() {
			return
		}
	}
}

// FuzzParseRequest: a request is accepted only as a whole and the same from any
// prefix on, and only if net/http accepts it with the same meaning.
func FuzzParseRequest(f *testing.F) {
	for _, s := range requestSeeds() {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		q, n, err := ParseRequest(stream)
		if err != nil || n == 0 {
			if n != 0 {
				t.Fatalf("n = %d with error %v", n, err)
			}
			return
		}
		if _, m, err := ParseRequest(stream[:n-1]); m != 0 || err != nil {
			t.Fatalf("one byte less: %d, %v", m, err)
		}
		if _, m, err := ParseRequest(stream[:n]); m != n || err != nil {
			t.Fatalf("the head alone: %d, %v", m, err)
		}
		body := q.Body()
		m, done, err := body.Skip(stream[n:])
		if m > len(stream)-n {
			t.Fatalf("Skip took %d of %d bytes", m, len(stream)-n)
		}
		compareRequest(t, stream, q, n+m, done, err)
	})
}

func compareRequest(t *testing.T, stream []byte, q Request, end int, done bool, bodyErr error) {
	source := bytes.NewReader(stream)
	br := bufio.NewReaderSize(source, 2*MaxTrailer)
	theirs, err := http.ReadRequest(br)
	if err != nil {
		if deliberate(err) {
			return
		}
		t.Fatalf("net/http refuses %q: %v", stream, err)
	}
	if theirs.Method != string(q.Method) || theirs.RequestURI != string(q.Target) || theirs.ProtoMinor != q.Minor {
		t.Fatalf("net/http reads %s %s 1.%d, we %s %s 1.%d", theirs.Method, theirs.RequestURI, theirs.ProtoMinor, q.Method, q.Target, q.Minor)
	}
	if theirs.Close == q.KeepAlive || (theirs.ContentLength == -1) != q.Chunked || !q.Chunked && theirs.ContentLength != q.ContentLength {
		t.Fatalf("net/http: close %v, length %d; we keep %v, length %d, chunked %v", theirs.Close, theirs.ContentLength, q.KeepAlive,
			q.ContentLength, q.Chunked)
	}
	if bodyErr != nil || !done {
		return
	}
	if _, err := io.Copy(io.Discard, theirs.Body); err != nil {
		if deliberate(err) {
			return
		}
		t.Fatalf("net/http refuses the body of %q: %v", stream, err)
	}
	if at := len(stream) - source.Len() - br.Buffered(); at != end {
		t.Fatalf("net/http ends at %d, we at %d", at, end)
	}
}

// FuzzAppendRequest: what is written reads back as what was asked, by our parser
// (if it is as strict) and by net/http.
func FuzzAppendRequest(f *testing.F) {
	f.Add("GET", "/", "localhost:8080", "Accept", "*/*", []byte(nil))
	f.Add("POST", "/a?b=c", "[::1]", "Content-Type", "a/b", []byte("body"))
	f.Add("PUT", "/", "h", "Host", "other", []byte{})
	f.Add("GET", "/ HTTP/1.1\r\nX: y", "h", "A", "b\r\nC: d", []byte("x"))
	f.Fuzz(func(t *testing.T, method, target, host, name, value string, body []byte) {
		before := []byte("before")
		out, err := AppendRequest(before, method, target, host, []Field{{name, value}}, body)
		if err != nil {
			if string(out) != "before" {
				t.Fatalf("dst changed with error %v: %q", err, out)
			}
			return
		}
		out = out[len(before):]
		q, n, err := ParseRequest(out)
		if err != nil {
			// A user may send a wrong Host, framing field or path on purpose.
			if !slices.Contains([]error{ErrHost, ErrRequestLine, ErrContentLength, ErrTransferEncoding}, err) {
				t.Fatalf("%q does not read back: %v", out, err)
			}
			return
		}
		if n == 0 || string(q.Method) != method || string(q.Target) != target {
			t.Fatalf("%q reads back as %s %s, %d bytes of head", out, q.Method, q.Target, n)
		}
		if !strings.EqualFold(name, "host") && string(q.Host) != host {
			t.Fatalf("host %q reads back as %q", host, q.Host)
		}
		if !strings.EqualFold(name, "content-length") && !q.Chunked && (q.ContentLength != int64(len(body)) || !bytes.Equal(out[n:], body)) {
			t.Fatalf("body %q reads back as %q, length %d", body, out[n:], q.ContentLength)
		}
		if _, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(out))); err != nil && !deliberate(err) {
			t.Fatalf("net/http refuses %q: %v", out, err)
		}
	})
}
