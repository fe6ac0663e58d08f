package http1

import (
	"bytes"
	"net/netip"
	"strings"
)

// Request is the head of one request. The slices are views of the bytes it was
// parsed from.
type Request struct {
	Method []byte
	Target []byte // as sent: a path, an http(s) URL, host:port for CONNECT, or *
	Host   []byte // value of the Host field; nil if an HTTP/1.0 request has none
	Minor  int    // 1 for HTTP/1.1

	KeepAlive      bool  // the connection may carry another request after this one
	ContentLength  int64 // bytes of the body; 0 without one and when Chunked
	HasLength      bool  // there is a Content-Length
	Chunked        bool  // the body is in chunked coding
	ExpectContinue bool  // the client waits for a 100 before it sends the body

	body Body
}

// Body returns what follows the head: skip it to reach the next request.
func (q *Request) Body() Body { return q.body }

// SetLength makes the body one of n bytes, which the caller has taken out of its chunks and need not be
// asked for any more.
func (q *Request) SetLength(n int64) {
	q.Chunked, q.HasLength, q.ContentLength, q.ExpectContinue, q.body = false, true, n, false, Body{}
	if n > 0 {
		q.body = Body{rest: n, at: bodyBytes}
	}
}

// ParseRequest parses the head of the request at the start of b and returns its length; the body
// follows it there. n = 0 without an error: the head is incomplete, call again with more bytes
// (heads are at most MaxHead, so parsing from the start again is bounded). An error is a
// FramingError: answer 400 and close. Fields that framing does not need are checked and skipped.
//
// It rejects an empty line before the request line, although RFC 9112, section 2.2, would have a
// server tolerate one.
func ParseRequest(b []byte) (q Request, n int, err error) {
	var h head
	hosts := 0
	for at := 0; ; {
		i := bytes.IndexByte(b[at:], '\n')
		if at+i+1 > MaxHead || i < 0 && len(b) > MaxHead {
			return Request{}, 0, ErrHeaderTooLarge
		}
		if i < 0 {
			return Request{}, 0, nil
		}
		line := b[at : at+i+1]
		var e FramingError
		switch {
		case len(line) < 2 || line[len(line)-2] != '\r':
			e = ErrHeader
			if at == 0 {
				e = ErrRequestLine
			}
		case at == 0:
			e = q.requestLine(line[:len(line)-2], &h)
		case len(line) > 2:
			e = q.field(line[:len(line)-2], &h, &hosts)
		default:
			e = q.endHead(&h, hosts)
			n = at + len(line)
		}
		if e != 0 {
			return Request{}, 0, e
		}
		if n != 0 {
			return q, n, nil
		}
		at += len(line)
	}
}

// requestLine parses METHOD SP TARGET SP HTTP/1.x: RFC 9112, section 3, without the leniency
// towards other white space.
func (q *Request) requestLine(line []byte, h *head) FramingError {
	i := 0
	for i < len(line) && isToken(line[i]) {
		i++
	}
	const version = " HTTP/1.1"
	j := len(line) - len(version)
	if i == 0 || j <= i || line[i] != ' ' || string(line[j:len(line)-1]) != version[:len(version)-1] {
		return ErrRequestLine
	}
	minor := line[len(line)-1] - '0'
	q.Method, q.Target, q.Minor = line[:i], line[i+1:j], int(minor)
	if minor > 9 || !q.validTarget() {
		return ErrRequestLine
	}
	if minor == 0 {
		h.flags = isOld
	}
	return 0
}

func (q *Request) field(line []byte, h *head, hosts *int) FramingError {
	name, value, ok := splitField(line)
	if !ok {
		return ErrHeader
	}
	switch {
	case equalFold(name, "host"):
		*hosts++
		q.Host = value
	case equalFold(name, "expect"):
		q.ExpectContinue = equalFold(value, "100-continue")
	}
	return h.note(name, value)
}

func (q *Request) endHead(h *head, hosts int) FramingError {
	if e := h.check(); e != 0 {
		return e
	}
	// RFC 9112, section 3.2. An empty Host is legal: the target has no authority.
	if hosts > 1 || hosts == 0 && q.Minor > 0 || len(q.Host) > 0 && !validAuthority(q.Host) {
		return ErrHost
	}
	q.KeepAlive = h.keepAlive()
	q.Chunked = h.flags&isChunked != 0
	q.ContentLength, q.HasLength = h.length, h.digits != 0
	q.body = bodyOf(h, bodyEnd)
	return 0
}

// validTarget accepts the four forms of RFC 9112, section 3.2, in visible ASCII
// without a fragment.
func (q *Request) validTarget() bool {
	for _, c := range q.Target {
		if c <= ' ' || c >= 0x7f || c == '#' {
			return false
		}
	}
	switch target := q.Target; {
	case len(target) == 0:
		return false
	case string(q.Method) == "CONNECT":
		return validAuthority(target) && bytes.LastIndexByte(target, ':') > 0
	case target[0] == '/':
		return validPath(target)
	case len(target) == 1 && target[0] == '*':
		return string(q.Method) == "OPTIONS"
	default:
		return validURL(target)
	}
}

// validURL accepts http://authority and https://authority with a path or query.
func validURL(target []byte) bool {
	for _, scheme := range [...]string{"http://", "https://"} {
		if len(target) <= len(scheme) || !equalFold(target[:len(scheme)], scheme) {
			continue
		}
		rest := target[len(scheme):]
		end := bytes.IndexAny(rest, "/?")
		if end < 0 {
			end = len(rest)
		}
		return validAuthority(rest[:end]) && validPath(rest[end:])
	}
	return false
}

// validPath checks the percent-encoding of the path, which every router decodes; the query is the
// application's business.
func validPath(path []byte) bool {
	for i, c := range path {
		if c == '?' {
			return true
		}
		if c == '%' && (i+2 >= len(path) || !isHex(path[i+1]) || !isHex(path[i+2])) {
			return false
		}
	}
	return true
}

func isHex(c byte) bool {
	return c-'0' <= 9 || c|0x20-'a' <= 5
}

// validAuthority accepts uri-host [":" port] of RFC 3986, section 3.2, without percent-encoding in
// the host and without userinfo.
func validAuthority(v []byte) bool {
	host, port := v, []byte(nil)
	if i := bytes.LastIndexByte(v, ':'); i >= 0 && bytes.IndexByte(v[i:], ']') < 0 {
		host, port = v[:i], v[i+1:]
	}
	for _, c := range port {
		if c-'0' > 9 {
			return false
		}
	}
	if len(host) == 0 || len(port) > 5 {
		return false
	}
	if host[0] == '[' {
		a, err := netip.ParseAddr(string(bytes.TrimSuffix(host[1:], []byte("]"))))
		return err == nil && a.Is6() && a.Zone() == "" && host[len(host)-1] == ']'
	}
	for _, c := range host {
		alnum := c-'0' <= 9 || c|0x20-'a' <= 25
		if !alnum && strings.IndexByte("-._~!$&'()*+,;=", c) < 0 {
			return false
		}
	}
	return true
}
