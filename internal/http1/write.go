package http1

import (
	"fmt"
	"strconv"
)

// Field is one line of a head.
type Field struct {
	Name, Value string
}

// AppendRequest appends an HTTP/1.1 request to dst: request line, Host, the
// fields of header in their order, Content-Length, body.
//
// Host is host unless header has its own. Content-Length is added if there is a body, or
// the method is POST, PUT or PATCH, unless header has its own or a Transfer-Encoding (the
// body is then sent as given, already encoded). Nothing else is added, not even a
// User-Agent.
//
// A method or field name that is not a token, a target with blanks, control or non-ASCII
// bytes, control bytes in a value, a second Host, and Content-Length together with
// Transfer-Encoding are errors; dst is then returned unchanged.
func AppendRequest(dst []byte, method, target, host string, header []Field, body []byte) ([]byte, error) {
	own, err := checkRequest(method, target, host, header)
	if err != nil {
		return dst, fmt.Errorf("write request: %w", err)
	}
	dst = append(dst, method...)
	dst = append(dst, ' ')
	dst = append(dst, target...)
	dst = append(dst, " HTTP/1.1\r\n"...)
	if !own.host {
		dst = appendField(dst, "Host", host)
	}
	for _, f := range header {
		dst = appendField(dst, f.Name, f.Value)
	}
	expected := method == "POST" || method == "PUT" || method == "PATCH"
	if (len(body) > 0 || expected) && !own.length && !own.encoding {
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, int64(len(body)), 10)
		dst = append(dst, "\r\n"...)
	}
	dst = append(dst, "\r\n"...)
	return append(dst, body...), nil
}

// AppendChunks appends a body in the chunked coding (RFC 9112, section 7.1), in chunks of at most the
// given bytes.
func AppendChunks(dst, body []byte, most int) []byte {
	for len(body) > 0 {
		n := min(most, len(body))
		dst = append(strconv.AppendInt(dst, int64(n), 16), "\r\n"...)
		dst = append(append(dst, body[:n]...), "\r\n"...)
		body = body[n:]
	}
	return append(dst, "0\r\n\r\n"...)
}

func appendField(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}

// ownFields says which of the fields that AppendRequest would add the caller provides.
type ownFields struct {
	host, length, encoding bool
}

func checkRequest(method, target, host string, header []Field) (own ownFields, err error) {
	if !validToken(method) {
		return own, fmt.Errorf("method %q is not a token such as GET", method)
	}
	if !validTarget(target) {
		return own, fmt.Errorf("target %q is empty or has a blank, control or non-ASCII byte; percent-encode it, as in /a%%20b", target)
	}
	for _, f := range header {
		if !validToken(f.Name) {
			return own, fmt.Errorf("header name %q is not a token such as Accept", f.Name)
		}
		if !validText([]byte(f.Value)) {
			return own, fmt.Errorf("header %s: value %q has a control byte", f.Name, f.Value)
		}
		switch name := []byte(f.Name); {
		case equalFold(name, "host") && own.host:
			return own, fmt.Errorf("header Host is given twice")
		case equalFold(name, "host"):
			own.host = true
		case equalFold(name, "content-length"):
			own.length = true
		case equalFold(name, "transfer-encoding"):
			own.encoding = true
		}
	}
	if own.length && own.encoding {
		return own, fmt.Errorf("headers Content-Length and Transfer-Encoding exclude each other (RFC 9112, section 6.2)")
	}
	if !own.host && !validTarget(host) {
		return own, fmt.Errorf("host %q is empty or has a blank, control or non-ASCII byte", host)
	}
	return own, nil
}

func validToken(s string) bool {
	for i := range len(s) {
		if !isToken(s[i]) {
			return false
		}
	}
	return len(s) > 0
}

// validTarget reports whether s is one or more visible ASCII characters.
func validTarget(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return len(s) > 0
}
