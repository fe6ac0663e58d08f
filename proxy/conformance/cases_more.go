package conformance

import (
	"fmt"
	"slices"
	"strings"
)

func hosts() []Case {
	line := "GET / HTTP/1.1\r\n"
	list := slices.Concat(group("Host", Reject,
		"none", line+"\r\n",
		"two", line+h+"Host: other.com\r\n\r\n",
		"two that are the same", line+h+h+"\r\n",
		"two, one in other letters", line+h+"hOsT: other.com\r\n\r\n",
		"with a space", line+"Host: exam ple.com\r\n\r\n",
		"with a slash", line+"Host: example.com/x\r\n\r\n",
		"with a user", line+"Host: user@example.com\r\n\r\n",
		"with a bad port", line+"Host: example.com:80x\r\n\r\n",
		"with two ports", line+"Host: example.com:80:90\r\n\r\n",
		"with a question mark", line+"Host: example.com?x\r\n\r\n",
		"with a hash", line+"Host: example.com#x\r\n\r\n",
		"with a comma list", line+"Host: a.com, b.com\r\n\r\n",
		"with a bad IPv6", line+"Host: [::1\r\n\r\n",
		"with a backslash", line+"Host: a\\b\r\n\r\n",
		"with a quote", line+"Host: \"a\"\r\n\r\n",
		"with a byte above ASCII", line+"Host: \xc3\xa9.com\r\n\r\n",
		"another than the target's", "GET http://evil.com/ HTTP/1.1\r\n"+h+"\r\n",
		"target with a user", "GET http://user@example.com/ HTTP/1.1\r\n"+h+"\r\n",
		"target of another scheme", "GET ftp://example.com/ HTTP/1.1\r\n"+h+"\r\n",
	), group("Host", Forward,
		"with a port", line+"Host: example.com:8080\r\n\r\n",
		"IPv6", line+"Host: [::1]:80\r\n\r\n",
		"the target's", "GET http://example.com/x HTTP/1.1\r\n"+h+"\r\n",
		"none in HTTP/1.0", "GET / HTTP/1.0\r\n\r\n",
	))
	for i := range list {
		if list[i].Name == "the target's" {
			list[i].Check = func(s *Seen) error {
				if !strings.HasPrefix(s.Head(), "get /x http/1.1\r\n") {
					return fmt.Errorf("not in origin form: %q", s.Head())
				}
				return nil
			}
		}
	}
	return list
}

// keeps and drops check the forwarded head, in lower case.
func keeps(text string) func(*Seen) error {
	return func(s *Seen) error {
		if !strings.Contains(s.Head(), "\r\n"+text+"\r\n") {
			return fmt.Errorf("%q is not in %q", text, s.Head())
		}
		return nil
	}
}

func drops(name string) func(*Seen) error {
	return func(s *Seen) error {
		if strings.Contains(s.Head(), "\r\n"+name+":") {
			return fmt.Errorf("%q is in %q", name, s.Head())
		}
		return nil
	}
}

func connections() []Case {
	with := func(fields string) string { return "GET / HTTP/1.1\r\n" + h + fields + "\r\n" }
	c := func(name, fields string, want Want, check func(*Seen) error) Case {
		return Case{Group: "Connection", Name: name, Request: with(fields), Want: want, Check: check}
	}
	return []Case{
		c("names Host", "Connection: host\r\n", Reject, nil),
		c("names Content-Length", "Connection: Content-Length\r\nContent-Length: 0\r\n", Reject, nil),
		c("names Transfer-Encoding", "Connection: transfer-encoding\r\n", Reject, nil),
		c("names X-Forwarded-For", "Connection: close, X-Forwarded-For\r\n", Reject, nil),
		c("names X-Forwarded-Proto", "Connection: x-forwarded-proto\r\n", Reject, nil),
		c("names Forwarded", "Connection: forwarded\r\n", Reject, nil),
		c("names Via", "Connection: via\r\n", Reject, nil),
		c("names Expect", "Connection: expect\r\n", Reject, nil),
		c("names no token", "Connection: a b\r\n", Reject, nil),
		c("named field is not passed on", "Connection: X-Hop\r\nX-Hop: 1\r\nX-Stay: 2\r\n", Forward, drops("x-hop")),
		c("others stay", "Connection: X-Hop\r\nX-Hop: 1\r\nX-Stay: 2\r\n", Forward, keeps("x-stay: 2")),
		c("Keep-Alive is not passed on", "Keep-Alive: timeout=5\r\n", Forward, drops("keep-alive")),
		c("Proxy-Connection is not passed on", "Proxy-Connection: keep-alive\r\n", Forward, drops("proxy-connection")),
		c("TE is not passed on", "TE: trailers\r\nConnection: TE\r\n", Forward, drops("te")),
		c("Trailer is not passed on", "Trailer: X\r\n", Forward, drops("trailer")),
		c("Upgrade without Connection is not passed on", "Upgrade: websocket\r\n", Forward, drops("upgrade")),
		c("h2c is not passed on", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n", Forward,
			drops("upgrade")),
		c("Expect of something else", "Expect: 200-ok\r\n", Reject, nil),
		c("upgrade that is refused", "Connection: upgrade\r\nUpgrade: websocket\r\n", Forward, keeps("upgrade: websocket")),
		{Group: "Connection", Name: "upgrade by POST, as kubectl exec asks", Want: Forward, Check: keeps("upgrade: spdy/3.1"),
			Request: "POST /exec HTTP/1.1\r\n" + h + "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\n"},
	}
}

func forwarded() []Case {
	with := func(fields string) string { return "GET / HTTP/1.1\r\n" + h + fields + "\r\n" }
	c := func(name, fields string, check func(*Seen) error) Case {
		return Case{Group: "forwarding", Name: name, Request: with(fields), Want: Forward, Check: check}
	}
	list := []Case{
		c("the client's address is added", "", keeps("x-forwarded-for: 127.0.0.1")),
		c("what anybody says of it is not believed", "X-Forwarded-For: 6.6.6.6\r\n", keeps("x-forwarded-for: 127.0.0.1")),
		c("nor twice", "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: 7.7.7.7\r\n", keeps("x-forwarded-for: 127.0.0.1")),
		c("nor what anybody says of the scheme", "X-Forwarded-Proto: https\r\n", keeps("x-forwarded-proto: http")),
		c("nor of the host", "X-Forwarded-Host: evil.com\r\n", keeps("x-forwarded-host: example.com")),
		c("nor in the standard's form", "Forwarded: for=6.6.6.6\r\n", drops("forwarded")),
		c("Host stays", "", keeps("host: example.com")),
		c("a cookie stays", "Cookie: a=b\r\n", keeps("cookie: a=b")),
		c("an unknown field stays", "X-Anything: at all\r\n", keeps("x-anything: at all")),
		// WSGI, CGI and PHP read both spellings as one field, and Proxy as HTTP_PROXY (httpoxy).
		c("nor with an underscore", "X_Forwarded_For: 6.6.6.6\r\n", drops("x_forwarded_for")),
		c("nor with a dot", "X.Forwarded.For: 6.6.6.6\r\n", drops("x.forwarded.for")),
		c("Proxy is not passed on", "Proxy: http://evil.com\r\n", drops("proxy")),
	}
	for _, name := range []string{"X-Forwarded-Port", "X-Forwarded-Prefix", "X-Forwarded-Server", "X-Forwarded-Uri", "X-Forwarded-Method",
		"X-Forwarded-Ssl", "X-Real-IP"} {
		list = append(list, c("nor "+name+" of anybody", name+": 6.6.6.6\r\n", drops(strings.ToLower(name))))
	}
	return list
}

func pipelines() []Case {
	get := "GET / HTTP/1.1\r\n" + h + "\r\n"
	post := "POST / HTTP/1.1\r\n" + h + "Content-Length: 5\r\n\r\nhello"
	chunked := "POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: chunked\r\n\r\n5\r\nGET /\r\n0\r\n\r\n"
	return []Case{
		{Group: "pipeline", Name: "three", Request: get + post + get, Want: Forward, Count: 3},
		{Group: "pipeline", Name: "a chunked body that looks like a request", Request: chunked + get, Want: Forward, Count: 2},
		{Group: "pipeline", Name: "a hundred", Request: strings.Repeat(get, 100), Want: Forward, Count: 100},
		{Group: "pipeline", Name: "a request behind a malformed one", Request: "GET / HTTP/1.1\r\n" + h + "Content-Length: x\r\n\r\n" + get,
			Want: Reject},
		{Group: "pipeline", Name: "a request behind a malformed chunk", Request: "POST / HTTP/1.1\r\n" + h +
			"Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n" + get, Want: Reject},
		{Group: "pipeline", Name: "a request behind Connection: close", Request: "GET / HTTP/1.1\r\n" + h + "Connection: close\r\n\r\n" + get,
			Want: Forward, Check: func(s *Seen) error {
				if len(s.Requests) != 1 {
					return fmt.Errorf("%d requests were forwarded", len(s.Requests))
				}
				return nil
			}},
	}
}

func responses() []Case {
	const ok = "HTTP/1.1 200 OK\r\n"
	get := "GET / HTTP/1.1\r\n" + h + "\r\n"
	var list []Case
	bad := func(pairs ...string) {
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, Case{Group: "response", Name: pairs[i], Request: get, Response: pairs[i+1], Want: BadGateway, Close: true})
		}
	}
	bad("another protocol", "SSH-2.0-OpenSSH_9.9\r\n",
		"nothing", "",
		"HTTP/2.0", "HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/9.9", "HTTP/9.9 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"no status", "HTTP/1.1 OK\r\nContent-Length: 2\r\n\r\nok",
		"status of two digits", "HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\nok",
		"status of four digits", "HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nok",
		"status below 100", "HTTP/1.1 099 OK\r\nContent-Length: 2\r\n\r\nok",
		"NUL in the reason", "HTTP/1.1 200 O\x00K\r\nContent-Length: 2\r\n\r\nok",
		"two lengths that differ", ok+"Content-Length: 2\r\nContent-Length: 3\r\n\r\nok!",
		"length that is a list", ok+"Content-Length: 2, 2\r\n\r\nok",
		"length with a sign", ok+"Content-Length: +2\r\n\r\nok",
		"length that is negative", ok+"Content-Length: -2\r\n\r\nok",
		"unknown Transfer-Encoding", ok+"Transfer-Encoding: gzip\r\n\r\nok",
		"two Transfer-Encodings", ok+"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"folded line", ok+"X: a\r\n b\r\nContent-Length: 2\r\n\r\nok",
		"space before the colon", ok+"Content-Length : 2\r\n\r\nok",
		"length that overflows", ok+"Content-Length: 18446744073709551618\r\n\r\nok",
		"tab before the status", "HTTP/1.1\t200 OK\r\nContent-Length: 2\r\n\r\nok",
		"NUL in a value", ok+"X: a\x00b\r\nContent-Length: 2\r\n\r\nok",
		"bare CR in a value", ok+"X: a\rSet-Cookie: b\r\nContent-Length: 2\r\n\r\nok",
		"line without colon", ok+"X\r\nContent-Length: 2\r\n\r\nok",
		"closed within the head", ok+"Content-Le",
		"head of 100,000 bytes", ok+"X: "+strings.Repeat("a", 100000)+"\r\nContent-Length: 2\r\n\r\nok",
		"an unrequested switch of protocols", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
		"many interim responses", strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 40)+ok+"Content-Length: 2\r\n\r\nok",
	)
	list[1].Response = "\x00"
	return list
}

// lenientResponses are what destinations send and every proxy takes: it reframes them, so that
// no client can read them in another way.
func lenientResponses() []Case {
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
	var list []Case
	for name, response := range map[string]string{
		"space behind a chunk size":          chunked + "\r\n5 \r\nhello\r\n0\r\n\r\n",
		"blanks behind each chunk size":      chunked + "\r\n5  \t\r\nhello\r\n0 \r\n\r\n",
		"empty extension":                    chunked + "\r\n5;\r\nhello\r\n0;\r\n\r\n",
		"control byte in an extension":       chunked + "\r\n5;a=\x01\r\nhello\r\n0\r\n\r\n",
		"many zeros before a chunk size":     chunked + "\r\n00000000000000000005\r\nhello\r\n0000000000000000000\r\n\r\n",
		"capital digits":                     strings.Replace(chunked+"\r\n000A\r\nhello", "hello", "hellohello", 1) + "\r\n0\r\n\r\n",
		"LF behind a chunk size":             chunked + "\r\n5\nhello\r\n0\r\n\r\n",
		"LF behind a chunk":                  chunked + "\r\n5\r\nhello\n0\r\n\r\n",
		"LF at the end":                      chunked + "\r\n5\r\nhello\r\n0\r\n\n",
		"LF everywhere":                      strings.ReplaceAll(chunked+"\r\n5\r\nhello\r\n0\r\nT: u\r\n\r\n", "\r\n", "\n"),
		"bare LF behind the status":          "HTTP/1.1 200 OK\nContent-Length: 5\r\n\r\nhello",
		"bare LF between lines":              "HTTP/1.1 200 OK\r\nX: a\nContent-Length: 5\r\n\r\nhello",
		"bare LF behind the head":            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\nhello",
		"length with Transfer-Encoding":      chunked + "Content-Length: 2\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"Transfer-Encoding in HTTP/1.0":      "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"Connection options of no meaning":   "HTTP/1.1 200 OK\r\nConnection: a b, via\r\nContent-Length: 5\r\n\r\nhello",
		"no reason":                          "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello",
		"the same length twice":              "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
		"length with zeros":                  "HTTP/1.1 200 OK\r\nContent-Length: 005\r\n\r\nhello",
		"length of 20 digits, zeros first":   "HTTP/1.1 200 OK\r\nContent-Length: 00000000000000000005\r\n\r\nhello",
		"two spaces before the status":       "HTTP/1.1  200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"two spaces before the reason":       "HTTP/1.1 200  OK\r\nContent-Length: 5\r\n\r\nhello",
		"control bytes in a value":           "HTTP/1.1 200 OK\r\nX: \x02a\x01\x0b\x1f\x7fb\x03\r\nContent-Length: 5\r\n\r\nhello",
		"Transfer-Encoding in other letters": "HTTP/1.1 200 OK\r\ntransfer-encoding: CHUNKED\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	} {
		list = append(list, Case{Group: "lenient response", Name: name, Request: "GET / HTTP/1.1\r\n" + h + "\r\n", Response: response,
			Want: Answer, Close: true, Check: func(s *Seen) error {
				if text := string(s.Body); text != "hello" && text != "hellohello" {
					return fmt.Errorf("body %q", text)
				}
				return nil
			}})
	}
	slices.SortFunc(list, func(a, b Case) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func responseBodies() []Case {
	const ok = "HTTP/1.1 200 OK\r\n"
	get := "GET / HTTP/1.1\r\n" + h + "\r\n"
	is := func(want string) func(*Seen) error {
		return func(s *Seen) error {
			if string(s.Body) != want {
				return fmt.Errorf("body %.100q, want %.100q", s.Body, want)
			}
			return nil
		}
	}
	a := func(name, request, response string, closes bool, check func(*Seen) error) Case {
		return Case{Group: "response body", Name: name, Request: request, Response: response, Want: Answer, Close: closes, Check: check}
	}
	cut := func(name, response string) Case {
		return Case{Group: "response body", Name: name, Request: get, Response: response, Want: BadGateway, Close: true}
	}
	one := func(s *Seen) error {
		if n := strings.Count(string(s.Client), "HTTP/1."); n != 1 {
			return fmt.Errorf("%d responses: %q", n, s.Client)
		}
		return nil
	}
	head := "HEAD / HTTP/1.1\r\n" + h + "\r\n"
	return []Case{
		a("of a length", get, ok+"Content-Length: 5\r\n\r\nhello", false, is("hello")),
		a("chunked", get, ok+"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nT: u\r\n\r\n", false, is("hello world")),
		a("until the connection closes", get, ok+"\r\nhello", true, is("hello")),
		a("until the connection closes, HTTP/1.0", get, "HTTP/1.0 200 OK\r\n\r\nhello", true, is("hello")),
		a("chunked for HTTP/1.0", "GET / HTTP/1.0\r\n"+h+"\r\n", ok+"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", false,
			func(s *Seen) error {
				if strings.Contains(strings.ToLower(string(s.Client)), "transfer-encoding") || !strings.HasSuffix(string(s.Client), "\r\n\r\nhello") {
					return fmt.Errorf("HTTP/1.0 knows no chunks: %q", s.Client)
				}
				return nil
			}),
		a("none with HEAD", head, ok+"Content-Length: 5\r\n\r\n", false, is("")),
		a("none with 204", get, "HTTP/1.1 204 No Content\r\n\r\n", false, is("")),
		a("none with 304", get, "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", false, is("")),
		a("behind an interim response", get, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"+ok+"Content-Length: 5\r\n\r\nhello", false,
			is("hello")),
		a("an unsolicited second response", get, ok+"Content-Length: 2\r\n\r\nok"+ok+"Content-Length: 4\r\n\r\nevil", false, one),
		a("bytes behind the length", get, ok+"Content-Length: 2\r\n\r\nokmore", false, one),
		a("bytes behind a 204", get, "HTTP/1.1 204 No Content\r\n\r\nmore", false, one),
		a("a body that HEAD must not have", head, ok+"Content-Length: 5\r\n\r\nhello", false, one),
		a("a trailer does not become a field", get, ok+"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nSet-Cookie: a=b\r\n\r\n", false,
			func(s *Seen) error {
				if s.Final.Header.Get("Set-Cookie") != "" {
					return fmt.Errorf("the trailer is in the head: %q", s.Client)
				}
				return nil
			}),
		a("fields of the connection are not passed on", get,
			ok+"Connection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nContent-Length: 2\r\n\r\nok", false, func(s *Seen) error {
				if s.Final.Header.Get("X-Hop") != "" || s.Final.Header.Get("Keep-Alive") != "" {
					return fmt.Errorf("passed on: %q", s.Client)
				}
				return nil
			}),
		a("of 300,000 bytes", get, ok+"Content-Length: 300000\r\n\r\n"+strings.Repeat("y", 300000), false, is(strings.Repeat("y", 300000))),
		cut("shorter than its length", ok+"Content-Length: 10\r\n\r\nhello"),
		cut("chunks that do not end", ok+"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
		cut("a chunk that is cut", ok+"Transfer-Encoding: chunked\r\n\r\n9\r\nhello"),
		cut("chunk size with 0x", ok+"Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n"),
		cut("chunk size with a sign", ok+"Transfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n"),
		cut("data longer than its chunk", ok+"Transfer-Encoding: chunked\r\n\r\n4\r\nhello\r\n0\r\n\r\n"),
		cut("chunk size that overflows", ok+"Transfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n"),
	}
}
