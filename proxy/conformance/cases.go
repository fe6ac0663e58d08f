package conformance

import (
	"fmt"
	"slices"
	"strings"
)

// Cases returns all of them.
func Cases() []Case {
	return slices.Concat(requestLines(), fieldLines(), contentLengths(), transferEncodings(), chunks(), hosts(), connections(), forwarded(),
		pipelines(), responses(), responseBodies(), lenientResponses(), basics(), smuggling())
}

const h = "Host: example.com\r\n"

// group builds cases from pairs of names and requests.
func group(name string, want Want, pairs ...string) []Case {
	var list []Case
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, Case{Group: name, Name: pairs[i], Request: pairs[i+1], Want: want})
	}
	return list
}

func requestLines() []Case {
	end := " HTTP/1.1\r\n" + h + "\r\n"
	line := func(first string) string { return first + "\r\n" + h + "\r\n" }
	return slices.Concat(group("request line", Reject,
		"HTTP/9.9", line("GET / HTTP/9.9"),
		"HTTP/2.0", line("GET / HTTP/2.0"),
		"HTTP/1.2", line("GET / HTTP/1.2"),
		"HTTP/0.9", "GET /\r\n\r\n",
		"HTTP/1.10", line("GET / HTTP/1.10"),
		"HTTP/01.1", line("GET / HTTP/01.1"),
		"lower case http", line("GET / http/1.1"),
		"no version", line("GET /"),
		"two spaces before the target", line("GET  / HTTP/1.1"),
		"two spaces before the version", line("GET /  HTTP/1.1"),
		"space behind the version", line("GET / HTTP/1.1 "),
		"tab as separator", line("GET\t/\tHTTP/1.1"),
		"leading space", " GET /"+end,
		"bare LF behind the line", "GET / HTTP/1.1\n"+h+"\r\n",
		"bare CR in the target", "GET /a\rb"+end,
		"NUL in the target", "GET /a\x00b"+end,
		"control byte in the target", "GET /a\x01b"+end,
		"DEL in the target", "GET /a\x7fb"+end,
		"byte above ASCII in the target", "GET /\xc3\xa9"+end,
		"space in the target", "GET /a b"+end,
		"fragment in the target", "GET /a#b"+end,
		"target without slash", "GET a"+end,
		"method with a colon", "GE:T /"+end,
		"method with a slash", "GE/T /"+end,
		"no method", "/"+end,
		"bad percent-encoding", "GET /%zz"+end,
		"cut percent-encoding", "GET /a%2"+end,
		"path above the root", "GET /../etc/passwd"+end,
		"encoded path above the root", "GET /%2e%2e/etc/passwd"+end,
		"encoded NUL in the path", "GET /a%00b"+end,
		"encoded backslash in the path", "GET /a%5c..%5cb"+end,
		"parameters of a .. segment", "GET /a/..;/b"+end,
		"encoded parameters of a .. segment", "GET /a/..%3bx/b"+end,
		"garbage", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
		"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"CONNECT", "CONNECT example.com:80"+end,
		"star with GET", "GET *"+end,
	), group("request line", Forward,
		"plain", "GET /"+end,
		"query", "GET /a?b=c&d=%20"+end,
		"dots within", "GET /a/../b"+end,
		"unknown method", "BREW /"+end,
		"OPTIONS star", "OPTIONS *"+end,
		"HTTP/1.0", "GET / HTTP/1.0\r\n"+h+"\r\n",
	), group("request line", Reject,
		"a line of 70,000 bytes", "GET /"+strings.Repeat("a", 70000)+end,
	))
}

func fieldLines() []Case {
	with := func(fields string) string { return "GET / HTTP/1.1\r\n" + h + fields + "\r\n" }
	list := slices.Concat(group("field line", Reject,
		"space before the colon", with("X-A : b\r\n"),
		"tab before the colon", with("X-A\t: b\r\n"),
		"space in the name", with("X A: b\r\n"),
		"leading space in the first line", "GET / HTTP/1.1\r\n "+h+"\r\n",
		"obs-fold with a space", with("X-A: b\r\n c\r\n"),
		"obs-fold with a tab", with("X-A: b\r\n\tc\r\n"),
		"obs-fold of Host", "GET / HTTP/1.1\r\nHost:\r\n example.com\r\n\r\n",
		"no colon", with("X-A\r\n"),
		"no name", with(": b\r\n"),
		"bare LF at the end of a line", with("X-A: b\nX-B: c\r\n"),
		"bare LF at the end of the head", "GET / HTTP/1.1\r\n"+h+"\n",
		"bare CR within a value", with("X-A: b\rc\r\n"),
		"bare CR that hides a field", with("X-A: b\rContent-Length: 5\r\n"),
		"CR CR LF", with("X-A: b\r\r\n"),
		"NUL in a value", with("X-A: b\x00c\r\n"),
		"NUL in a name", with("X\x00A: b\r\n"),
		"BEL in a value", with("X-A: \x07\r\n"),
		"DEL in a value", with("X-A: \x7f\r\n"),
		"ESC in a value", with("X-A: \x1b[1m\r\n"),
		"vertical tab in a value", with("X-A: b\x0bc\r\n"),
		"name above ASCII", with("X-\xc3\xa9: b\r\n"),
		"quote in a name", with("X\"A: b\r\n"),
		"slash in a name", with("X/A: b\r\n"),
		"bracket in a name", with("X[A: b\r\n"),
		"at in a name", with("X@A: b\r\n"),
		"head of 70,000 bytes", with("X-A: "+strings.Repeat("b", 70000)+"\r\n"),
		"5,000 lines", with(strings.Repeat("A: b\r\n", 5000)),
	), group("field line", Forward,
		"no space behind the colon", with("X-A:b\r\n"),
		"much space around the value", with("X-A:  \t b \t\r\n"),
		"empty value", with("X-A:\r\n"),
		"bytes above ASCII in a value", with("X-A: \xc3\xa9\r\n"),
		"every character of a token", with("!#$%&'*+-.^_`|~09azAZ: b\r\n"),
	))
	drops := func(name, field, gone string) Case {
		return Case{Group: "field line", Name: name, Request: with(field), Want: Safe, Check: func(s *Seen) error {
			if strings.Contains(s.Head(), "\r\n"+gone) {
				return fmt.Errorf("%s reached the backend", gone)
			}
			return nil
		}}
	}
	return append(list,
		drops("Content_Length is not passed on", "Content_Length: 5\r\n", "content_length"),
		drops("Transfer_Encoding is not passed on", "Transfer_Encoding: chunked\r\n", "transfer_encoding"),
		drops("X_Forwarded_For is not passed on", "X_Forwarded_For: 1.2.3.4\r\n", "x_forwarded_for"),
		drops("X_Forwarded-Proto is not passed on", "X_Forwarded-Proto: https\r\n", "x_forwarded-proto"),
	)
}

func contentLengths() []Case {
	with := func(fields, body string) string { return "POST / HTTP/1.1\r\n" + h + fields + "\r\n" + body }
	var list []Case
	for _, v := range []string{"+5", "-5", "-0", "0x5", "5 ", "5.0", "5e0", "five", "", "5;", "5,5", "5, 5", "5, 6", "5 5", "٥", "99999999999999999999", "18446744073709551616", "9223372036854775808", "\"5\"", "5\t6"} {
		want := Reject
		if v == "5 " {
			want = Forward // white space around a value is not part of it
		}
		list = append(list, Case{Group: "Content-Length", Name: fmt.Sprintf("%q", v), Request: with("Content-Length: "+v+"\r\n", "hello"), Want: want})
	}
	body := func(s *Seen) error {
		if len(s.Requests) > 0 && !strings.HasSuffix(string(s.Requests[0]), "\r\n\r\nhello") {
			return fmt.Errorf("the body is not what was sent: %q", s.Requests[0])
		}
		return nil
	}
	list = append(list, slices.Concat(group("Content-Length", Reject,
		"two that differ", with("Content-Length: 5\r\nContent-Length: 6\r\n", "hello!"),
		"two that differ in zeros", with("Content-Length: 5\r\nContent-Length: 05\r\n", "hello"),
		"with Transfer-Encoding", with("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"),
		"behind Transfer-Encoding", with("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "5\r\nhello\r\n0\r\n\r\n"),
		"of zero with Transfer-Encoding", with("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"),
		"space before the colon", with("Content-Length : 5\r\n", "hello"),
		"with GET and Transfer-Encoding", "GET / HTTP/1.1\r\n"+h+"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	), group("Content-Length", Safe,
		"two that are the same", with("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"),
		"leading zeros", with("Content-Length: 0005\r\n", "hello"),
	), group("Content-Length", Forward,
		"plain", with("Content-Length: 5\r\n", "hello"),
		"zero", with("Content-Length: 0\r\n", ""),
		"in other letters", with("cOnTeNt-LeNgTh: 5\r\n", "hello"),
		"with GET", "GET / HTTP/1.1\r\n"+h+"Content-Length: 5\r\n\r\nhello",
		"of 100,000 bytes", with("Content-Length: 100000\r\n", strings.Repeat("x", 100000)),
		"none with POST", with("", ""),
	))...)
	for i := range list {
		if strings.HasSuffix(list[i].Request, "\r\n\r\nhello") {
			list[i].Check = body
		}
	}
	return list
}

func transferEncodings() []Case {
	with := func(fields string) string {
		return "POST / HTTP/1.1\r\n" + h + fields + "\r\n5\r\nhello\r\n0\r\n\r\n"
	}
	var list []Case
	for _, v := range []string{
		"identity", "gzip", "gzip, chunked", "chunked, gzip", "chunked, chunked", "chunked, identity", "identity, chunked", "xchunked", "chunkedx", "\"chunked\"",
		"chunked;q=1", "chunked ;a", ",chunked", "chunked,", "chunk", "", "\x0bchunked", "chunked\x0b", "chu\tnked", "\xa0chunked", "0", "x",
	} {
		list = append(list, Case{Group: "Transfer-Encoding", Name: fmt.Sprintf("%q", v), Request: with("Transfer-Encoding: " + v + "\r\n"), Want: Reject})
	}
	return append(list, slices.Concat(group("Transfer-Encoding", Reject,
		"twice", with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
		"twice, one of them identity", with("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n"),
		"twice, one of them unknown", with("Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n"),
		"in HTTP/1.0", "POST / HTTP/1.0\r\n"+h+"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"in HTTP/1.0, keep-alive", "POST / HTTP/1.0\r\n"+h+"Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"space before the colon", with("Transfer-Encoding : chunked\r\n"),
		"folded", with("Transfer-Encoding:\r\n chunked\r\n"),
		"behind a bare CR", with("X: y\rTransfer-Encoding: chunked\r\n"),
		"behind a bare LF", with("X: y\nTransfer-Encoding: chunked\r\n"),
		"NUL behind the name", with("Transfer-Encoding\x00: chunked\r\n"),
	), group("Transfer-Encoding", Forward,
		"chunked", with("Transfer-Encoding: chunked\r\n"),
		"in other letters", with("tRANSFER-eNCODING: ChUnKeD\r\n"),
		"with GET", "GET / HTTP/1.1\r\n"+h+"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"empty body", "POST / HTTP/1.1\r\n"+h+"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	))...)
}

func chunks() []Case {
	with := func(body string) string {
		return "POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: chunked\r\n\r\n" + body
	}
	list := slices.Concat(group("chunk", Reject,
		"0x before the size", with("0x5\r\nhello\r\n0\r\n\r\n"),
		"plus before the size", with("+5\r\nhello\r\n0\r\n\r\n"),
		"minus before the size", with("-5\r\nhello\r\n0\r\n\r\n"),
		"space before the size", with(" 5\r\nhello\r\n0\r\n\r\n"),
		"space behind the size", with("5 \r\nhello\r\n0\r\n\r\n"),
		"tab behind the size", with("5\t\r\nhello\r\n0\r\n\r\n"),
		"underscore in the size", with("1_0\r\n0123456789abcdef\r\n0\r\n\r\n"),
		"no size", with("\r\nhello\r\n0\r\n\r\n"),
		"no hexadecimal size", with("g\r\nhello\r\n0\r\n\r\n"),
		"size that overflows 64 bits", with("10000000000000005\r\nhello\r\n0\r\n\r\n"),
		"size of 63 bits", with("7fffffffffffffff\r\nhello\r\n0\r\n\r\n"),
		"LF behind the size", with("5\nhello\r\n0\r\n\r\n"),
		"CR behind the size", with("5\rhello\r\n0\r\n\r\n"),
		"LF in an extension", with("5;a\nb\r\nhello\r\n0\r\n\r\n"),
		"bare LF ends an extension", with("5;a\nhello\r\n0\r\n\r\n"),
		"CR in an extension", with("5;a\rb\r\nhello\r\n0\r\n\r\n"),
		"NUL in an extension", with("5;a=\x00\r\nhello\r\n0\r\n\r\n"),
		"extension of 70,000 bytes", with("5;"+strings.Repeat("a", 70000)+"\r\nhello\r\n0\r\n\r\n"),
		"data longer than the size", with("4\r\nhello\r\n0\r\n\r\n"),
		"data shorter than the size", with("6\r\nhello\r\n0\r\n\r\n"),
		"LF behind the data", with("5\r\nhello\n0\r\n\r\n"),
		"nothing behind the data", with("5\r\nhello0\r\n\r\n"),
		"two bytes after the data that are not CRLF", with("5\r\nhelloXX0\r\n\r\n"),
		"LF behind the last chunk", with("5\r\nhello\r\n0\n\r\n"),
		"LF at the end", with("5\r\nhello\r\n0\r\n\n"),
		"trailer without colon", with("5\r\nhello\r\n0\r\nX\r\n\r\n"),
		"trailer with space before the colon", with("5\r\nhello\r\n0\r\nX : y\r\n\r\n"),
		"folded trailer", with("5\r\nhello\r\n0\r\nX: y\r\n z\r\n\r\n"),
		"NUL in a trailer", with("5\r\nhello\r\n0\r\nX: \x00\r\n\r\n"),
		"trailers of 70,000 bytes", with("5\r\nhello\r\n0\r\nX: "+strings.Repeat("a", 70000)+"\r\n\r\n"),
		"fullwidth digit", with("\xef\xbc\x95\r\nhello\r\n0\r\n\r\n"),
		"comma behind the size", with("5,5\r\nhello\r\n0\r\n\r\n"),
		"quote around the size", with("\"5\"\r\nhello\r\n0\r\n\r\n"),
	), group("chunk", Forward,
		"extension", with("5;a=b\r\nhello\r\n0\r\n\r\n"),
		"quoted extension", with("5;a=\"b;c\"\r\nhello\r\n0\r\n\r\n"),
		"leading zeros", with("005\r\nhello\r\n000\r\n\r\n"),
		"capital and small digits", with("A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n"),
		"many small chunks", with(strings.Repeat("1\r\nx\r\n", 2000)+"0\r\n\r\n"),
	))
	trailer := Case{Group: "chunk", Name: "a trailer does not become a field", Request: with("5\r\nhello\r\n0\r\nX-Admin: yes\r\nContent-Length: 50\r\n\r\n"), Want: Safe, Check: func(s *Seen) error {
		for _, r := range s.Requests {
			if head, _, _ := strings.Cut(strings.ToLower(string(r)), "\r\n\r\n"); strings.Contains(head, "x-admin") || strings.Contains(head, "content-length") {
				return fmt.Errorf("the trailer is in the head: %q", r)
			}
		}
		return nil
	}}
	return append(list, trailer)
}
