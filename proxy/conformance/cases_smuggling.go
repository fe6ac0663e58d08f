package conformance

import (
	"fmt"
	"slices"
	"strings"
)

// The ways to hide a framing field that desync research has found, by family: James Kettle's
// "HTTP Desync Attacks" (2019) and later work, the payloads of smuggler.py, and the line ends of
// chunk extensions (2025). Each is tried with a body whose end depends on which of the two fields
// a reader uses.

// gadget is a disguised framing field. A colon separates name and value, and a space unless
// something else does.
type gadget struct{ name, field string }

// odd returns bytes that are neither part of a name nor of "chunked": controls, white space, and
// the bytes above ASCII that some reader takes for a space.
func odd() []byte {
	var list []byte
	for b := range byte(' ' + 1) {
		list = append(list, b)
	}
	return append(list, 0x7f, 0x80, 0x85, 0xa0, 0xff)
}

// placed puts b at each of the four places around a field's name and value, or at each pair of
// them.
func placed(field, value string, b byte, twice bool) []gadget {
	place := []string{"before the name", "behind the name", "before the value", "behind the value"}
	var list []gadget
	for i := range place {
		for j := i; j < len(place); j++ {
			if (i != j) != twice {
				continue
			}
			at := [4]string{"", "", " ", ""}
			at[i], at[j] = string([]byte{b}), string([]byte{b})
			name := place[i]
			if i != j {
				name += " and " + place[j]
			}
			list = append(list, gadget{fmt.Sprintf("%02x %s", b, name), at[0] + field + at[1] + ":" + at[2] + value + at[3]})
		}
	}
	return list
}

func smuggling() []Case {
	var list []Case
	for b := range 256 {
		if b > ' ' && b < 0x7f {
			continue
		}
		for _, g := range placed("Transfer-Encoding", "chunked", byte(b), false) {
			list = append(list, clash(g)...)
		}
		for _, g := range placed("Content-Length", "35", byte(b), false) {
			list = append(list, hiddenLength(g, byte(b)))
		}
	}
	for _, b := range odd() {
		for _, g := range slices.Concat(placed("Transfer-Encoding", "chunked", b, true), beside(b)) {
			list = append(list, clash(g)...)
		}
		for _, g := range placed("Content-Length", "35", b, true) {
			list = append(list, hiddenLength(g, b))
		}
	}
	for _, g := range spellings() {
		list = append(list, clash(g)...)
	}
	return slices.Concat(list, notFraming(), seams(), chunkEnds())
}

// clash tries a disguised Transfer-Encoding together with a Content-Length: a body that ends
// early for a reader of chunks, and one that ends early for a reader of the length. The proxy
// must reject both: if it sees the field, there are two framing fields; if not, the line is
// malformed.
func clash(g gadget) []Case {
	with := func(name, length, body string) Case {
		return Case{Group: "smuggling, " + name, Name: g.name, Want: Reject,
			Request: "POST / HTTP/1.1\r\n" + g.field + "\r\n" + h + "Content-Length: " + length + "\r\n\r\n" + body}
	}
	return []Case{with("CL.TE", "4", "1\r\nZ\r\n0\r\n\r\n"), with("TE.CL", "6", "0\r\n\r\nX")}
}

// hiddenLength tries only a disguised Content-Length, before a body that is a request to a reader
// that misses the length.
func hiddenLength(g gadget, b byte) Case {
	const body = "GET /x HTTP/1.1\r\nHost: evil.com\r\n\r\n"
	c := Case{Group: "smuggling, CL.0", Name: g.name, Want: Reject, Request: "POST / HTTP/1.1\r\n" + g.field + "\r\n" + h + "\r\n" + body}
	if around := strings.HasSuffix(g.name, "the value") && !strings.Contains(g.name, "name"); around && (b == ' ' || b == '\t') {
		c.Want = Forward // white space around a value is not part of it
		c.Check = func(s *Seen) error {
			if len(s.Requests) != 1 || !strings.HasSuffix(string(s.Requests[0]), "\r\n\r\n"+body) {
				return fmt.Errorf("the body did not stay one: %q", s.Requests)
			}
			return nil
		}
	}
	return c
}

// beside hides the field after or before another one, where b or a lone half of CRLF may count as
// the end of a line.
func beside(b byte) []gadget {
	const te = "Transfer-Encoding: chunked"
	s := string([]byte{b})
	list := []gadget{
		{fmt.Sprintf("before another field and %02x", b), te + s + "X: X"},
		{fmt.Sprintf("behind CR %02x", b), "X: X\r" + s + te},
		{fmt.Sprintf("behind %02x LF", b), "X: X" + s + "\n" + te},
		{fmt.Sprintf("before CR %02x", b), te + "\r" + s + "X: X"},
		{fmt.Sprintf("before %02x LF", b), te + s + "\nX: X"},
	}
	if b < ' ' && b != '\t' || b == 0x7f { // other bytes are valid in the value of X
		list = append(list, gadget{fmt.Sprintf("behind another field and %02x", b), "X: X" + s + te})
	}
	return list
}

// spellings of the field that only one of two readers may accept.
func spellings() []gadget {
	list := []gadget{
		{"plain", "Transfer-Encoding: chunked"},
		{"in capitals", "TRANSFER-ENCODING: CHUNKED"},
		{"in mixed letters", "tRaNsFeR-eNcOdInG: cHuNkEd"},
		{"without a space", "Transfer-Encoding:chunked"},
		{"with two spaces", "Transfer-Encoding:  chunked"},
		{"space instead of the hyphen", "Transfer Encoding: chunked"},
		{"the same without a space", "Transfer Encoding:chunked"},
		{"folded by LF and space", "Transfer-Encoding:\n chunked"},
		{"folded by CRLF and space", "Transfer-Encoding:\r\n chunked"},
		{"folded by CRLF and tab", "Transfer-Encoding:\r\n\tchunked"},
		{"folded behind the value", "Transfer-Encoding: chunked\r\n x"},
		{"folded into the field before it", "X: y\r\n Transfer-Encoding: chunked"},
		{"CR within the name", "Transfer\r-Encoding: chunked"},
		{"LF within the name", "Transfer\n-Encoding: chunked"},
		{"CRLF within the name", "Transfer-\r\nEncoding: chunked"},
		{"NUL within the name", "Transfer\x00-Encoding: chunked"},
		{"accent within the name", "Transf\xc3\xa9r-Encoding: chunked"},
		{"accent within the value", "Transfer-Encoding: ch\xc3\xbanked"},
		{"fullwidth hyphen", "Transfer\xef\xbc\x8dEncoding: chunked"},
		{"two colons", "Transfer-Encoding:: chunked"},
		{"no colon", "Transfer-Encoding chunked"},
		{"equals sign", "Transfer-Encoding= chunked"},
		{"two fields, the other first", "Transfer-Encoding: cow\r\nTransfer-Encoding: chunked"},
		{"two fields, the other last", "Transfer-Encoding: chunked\r\nTransfer-Encoding: cow"},
		{"two fields, one empty", "Transfer-Encoding:\r\nTransfer-Encoding: chunked"},
		{"two fields, one in small letters", "Transfer-Encoding: identity\r\ntransfer-encoding: chunked"},
		{"named hop by hop", "Connection: close, Transfer-Encoding\r\nTransfer-Encoding: chunked"},
		{"its length named hop by hop", "Connection: Content-Length\r\nTransfer-Encoding: chunked"},
		{"another length before it", "Content-Length: 0\r\nTransfer-Encoding: chunked"},
	}
	for _, v := range []string{"cow, chunked", "chunked, cow", "cow chunked bar", "chunk", "chunked.", "'chunked'", "\"chunked\"", "[chunked]",
		"(chunked)", "chunked;", "chunked; a=b", "chunked ,identity", "identity, chunked, identity", "c hunked", "%63hunked"} {
		list = append(list, gadget{fmt.Sprintf("value %q", v), "Transfer-Encoding: " + v})
	}
	return list
}

// notFraming are fields that look like framing but are not: only the length counts.
func notFraming() []Case {
	var list []Case
	for _, field := range []string{"Content-Encoding: chunked", "X-Transfer-Encoding: chunked", "Transfer-Encodingx: chunked",
		"X: X Transfer-Encoding: chunked", "X: X\xa0Transfer-Encoding: chunked", "Transfer_Encoding: chunked", "Content-Length-X: 3"} {
		const body = "1\r\nZ\r\n0\r\n\r\n"
		list = append(list, Case{Group: "smuggling, no framing", Name: field, Want: Forward,
			Request: "POST / HTTP/1.1\r\n" + field + "\r\n" + h + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)) + body,
			Check: func(s *Seen) error {
				if !strings.HasSuffix(string(s.Requests[0]), "\r\n\r\n"+body) || strings.Contains(s.Head(), "\r\ntransfer") &&
					strings.Contains(s.Head(), "coding: ") {
					return fmt.Errorf("forwarded %q", s.Requests)
				}
				return nil
			}})
	}
	return list
}

// seams are where one request ends and the next begins.
func seams() []Case {
	get := "GET / HTTP/1.1\r\n" + h + "\r\n"
	// alone: the first request is answered, and nothing after it is forwarded.
	alone := func(name, request string) Case {
		return Case{Group: "smuggling, seam", Name: name, Request: request, Want: Safe, Count: 2, Check: func(s *Seen) error {
			switch {
			case len(s.Requests) != 1 || !s.Whole[0]:
				return fmt.Errorf("forwarded %q", s.Requests)
			case !s.Ended && strings.Count(string(s.Client), "HTTP/1.1 ") < 2:
				return fmt.Errorf("what stands behind it was neither refused nor the connection closed")
			}
			return nil
		}}
	}
	expect := func(value string) string {
		return "GET / HTTP/1.1\r\n" + h + "Expect:" + value + "\r\nContent-Length: 5\r\n\r\nhello"
	}
	return slices.Concat([]Case{
		alone("fields behind the head's end", "GET / HTTP/1.1\r\n"+h+"X: y\r\n\r\nTransfer-Encoding: chunked\r\n\r\n"),
		alone("body of a request that has none", "POST / HTTP/1.1\r\n"+h+"\r\nhello\r\n\r\n"),
		alone("a byte behind the length that begins no method", "POST / HTTP/1.1\r\n"+h+"Content-Length: 5\r\n\r\nhello@"+get),
		alone("one byte behind the last chunk", "POST / HTTP/1.1\r\n"+h+"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nX "+get),
		alone("white space before the next request", get+" "+get),
		alone("LF before the next request", get+"\n"+get),
		alone("CR before the next request", get+"\r"+get),
		alone("NUL before the next request", get+"\x00"+get),
		alone("a response instead of the next request", get+"HTTP/1.1 200 OK\r\n\r\n"),
		{Group: "smuggling, seam", Name: "an empty line before the next request", Request: get + "\r\n" + get, Want: Safe, Count: 2},
		{Group: "smuggling, seam", Name: "a body that is a request, of OPTIONS", Want: Forward,
			Request: "OPTIONS / HTTP/1.1\r\n" + h + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(get)) + get},
		{Group: "smuggling, seam", Name: "a chunked body that is a request, of OPTIONS", Want: Forward,
			Request: "OPTIONS / HTTP/1.1\r\n" + h + fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", len(get)) + get + "\r\n0\r\n\r\n"},
		{Group: "smuggling, seam", Name: "a body that is a request, of HEAD", Want: Forward,
			Request:  "HEAD / HTTP/1.1\r\n" + h + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(get)) + get,
			Response: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"},
	}, group("smuggling, seam", Reject,
		"LF LF before the request line", "\n\n"+get,
		"an Expect that only a search finds", expect(" y 100-continue"),
		"an Expect of two", expect(" 100-continue, 100-continue"),
		"an Expect behind LF", expect("\n100-continue"),
		"an Expect behind NUL", expect(" \x00100-continue"),
		"an Expect with vertical tab", expect("\v100-continue"),
	))
}

// chunkEnds are what only one of two readers takes for the end of a chunk's line, of its data, or
// of the body.
func chunkEnds() []Case {
	with := func(body string) string {
		return "POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: chunked\r\n\r\n" + body
	}
	const inner = "GET /x HTTP/1.1\r\nHost: evil.com\r\n\r\n"
	list := group("smuggling, chunk", Reject,
		"LF within the extension, a size behind it", with("2;\nxx\r\n27\r\n0\r\n\r\n"+inner),
		"LF behind the semicolon", with("5;\nhello\r\n0\r\n\r\n"),
		"CR behind the semicolon", with("5;\rhello\r\n0\r\n\r\n"),
		"CR CR LF behind the size", with("5\r\r\nhello\r\n0\r\n\r\n"),
		"LF CR behind the size", with("5\n\rhello\r\n0\r\n\r\n"),
		"CR X behind the size", with("5\rXhello\r\n0\r\n\r\n"),
		"vertical tab behind the size", with("5\v\r\nhello\r\n0\r\n\r\n"),
		"form feed before the size", with("\f5\r\nhello\r\n0\r\n\r\n"),
		"space and an extension behind LF", with("5 ;a=b\nhello\r\n0\r\n\r\n"),
		"LF in a quoted extension", with("5;a=\"\n\"\r\nhello\r\n0\r\n\r\n"),
		"CRLF in a quoted extension", with("5;a=\"\r\n\"\r\nhello\r\n0\r\n\r\n"),
		"LF in the last chunk's extension", with("5\r\nhello\r\n0;a\n\r\n"+inner),
		"bytes between the data and its end", with("5\r\nhelloX\r\n0\r\n\r\n"),
		"LF LF behind the data", with("5\r\nhello\n\n0\r\n\r\n"),
		"CR CR behind the data", with("5\r\nhello\r\r0\r\n\r\n"),
		"LF CR behind the data", with("5\r\nhello\n\r0\r\n\r\n"),
		"an empty line between chunks", with("5\r\nhello\r\n\r\n0\r\n\r\n"),
		"LF LF at the end", with("5\r\nhello\r\n0\n\n"+inner),
		"CR CR at the end", with("5\r\nhello\r\n0\r\r"+inner),
		"bytes instead of the end", with("5\r\nhello\r\n0\r\nXX"+inner),
		"a last chunk with a sign", with("5\r\nhello\r\n-0\r\n\r\n"),
		"a last chunk 0x0", with("5\r\nhello\r\n0x0\r\n\r\n"),
		"a size that is 5 modulo 2^32 with a sign", with("+100000005\r\nhello\r\n0\r\n\r\n"),
		"a size of 17 digits", with("f0000000000000005\r\nhello\r\n0\r\n\r\n"),
		"two sizes", with("5 5\r\nhello\r\n0\r\n\r\n"),
		"a bare LF ends a trailer", with("5\r\nhello\r\n0\r\nX: y\n\r\n"),
		"a bare CR within a trailer", with("5\r\nhello\r\n0\r\nX: y\rZ: a\r\n\r\n"),
		"an extension of NUL", with("5;\x00\r\nhello\r\n0\r\n\r\n"),
	)
	for i := range list { // a reader that continues would find this
		list[i].Request += inner
	}
	return list
}
