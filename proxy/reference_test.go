package proxy

import (
	"bytes"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A reference reading of what a client sent: RFC 9112, and the choices that this
// proxy documents where the RFC leaves one. It shares no code with the proxy.

// fate is what becomes of one message of a client.
type fate uint8

const (
	forwarded fate = iota // a valid request: the backend answers it
	answered              // a valid request that the proxy answers itself
	refused               // no valid head: the proxy answers with an error and closes
	spoiled               // the head is valid, the body is not: the same, and the backend may have seen a part
	cutOff                // the client ended its side within the body: no answer
)

func (f fate) String() string {
	return []string{"forwarded", "answered", "refused", "spoiled", "cut off"}[f]
}

// message is one, as the reference reads it.
type message struct {
	fate fate
	why  string // of what is not forwarded
	must bool   // RFC 9112 demands the refusal; false: it allows to accept

	method, target, host string // as they are to be forwarded
	old                  bool   // HTTP/1.0
	fields               []string
	body                 []byte
	closes               bool // the connection ends behind the answer
	head                 bool // a whole head was read: counts as a request
	mark                 string
	bad                  bool // counts as a bad request
}

const incompleteHead = "incomplete head"

// Limits of the proxy that the clients meet.
const (
	refHeadBytes = 16 << 10
	refHeadLines = 100
	refBodyBytes = 60_000 // the location's limit
	refChunkLine = 4 << 10
	refTrailer   = 16 << 10
	refControls  = "\x00-\x08\x0a-\x1f\x7f" // control characters, of which a tab is none
)

var (
	refLine    = regexp.MustCompile("^([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([!-~]+) HTTP/1\\.([0-9])$")
	refField   = regexp.MustCompile("^([!#$%&'*+.^_`|~0-9A-Za-z-]+):([^" + refControls + "]*)$")
	refToken   = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
	refChunk   = regexp.MustCompile("^([0-9A-Fa-f]{1,15})([ \t]*;[^" + refControls + "]*)?$")
	refLength  = regexp.MustCompile(`^[0-9]{1,18}$`)
	refURL     = regexp.MustCompile(`(?i)^https?://([^/?]+)([/?].*)?$`)
	refHost    = regexp.MustCompile(`^(\[[0-9A-Fa-f:.]+\]|[-._~!$&'()*+,;=0-9A-Za-z]+)(:[0-9]{0,5})?$`)
	refPercent = regexp.MustCompile(`%([0-9A-Fa-f]{2})?`)
)

// readStream reads all that a client sent before it ended its side, up to the
// message behind which nothing is read.
func readStream(stream string) []message {
	var list []message
	for at := 0; at < len(stream); {
		m, n := readMessage(stream[at:])
		if m.old && m.fate == forwarded && replyTo(m.method, m.target).open {
			m.closes = true // HTTP/1.0 knows no other end of such an answer
		}
		list = append(list, m)
		if m.closes {
			break
		}
		at += n
	}
	return list
}

// readMessage reads the first one.
func readMessage(s string) (message, int) {
	m, lines, n := message{method: "GET"}, []string(nil), 0
	if strings.HasPrefix(s, "HEAD ") {
		m.method = "HEAD"
	}
	for {
		i := strings.IndexByte(s[n:], '\n')
		if i < 0 {
			switch {
			case len(s) > refHeadBytes:
				return m.refuse("head too large", false), 0
			case s[0] == 0x16:
				return m.refuse("TLS", true), 0
			}
			if len(lines) > 1 { // what one field says wrong is seen at once
				if _, why, must := m.framing(lines[1:]); slices.Contains([]string{"Content-Length", "two Content-Lengths", "Transfer-Encoding", "Transfer-Encoding in HTTP/1.0"}, why) {
					return m.refuse(why, must), 0
				}
			}
			m = m.refuse(incompleteHead, true)
			m.bad = false
			return m, 0
		}
		line := s[n : n+i+1]
		n += i + 1
		if !strings.HasSuffix(line, "\r\n") {
			return m.refuse("bare LF", false), 0
		}
		line = line[:len(line)-2]
		if why, must := m.line(len(lines), line); why != "" {
			return m.refuse(why, must), 0
		}
		if line == "" {
			break
		}
		if lines = append(lines, line); len(lines) > refHeadLines+1 {
			return m.refuse("too many lines", false), 0
		}
	}
	f, why, must := m.framing(lines[1:])
	switch {
	case why != "":
		return m.refuse(why, must), 0
	case n > refHeadBytes:
		return m.refuse("head too large", false), 0
	}
	m.head, m.mark = true, markOf([]byte(s[:n]))
	if m.decide(lines[0], &f); m.fate == refused {
		return m, 0
	}
	m.closes = f.close || m.old && !f.keep || m.fate == answered && f.body()
	if m.fate == answered || !f.body() {
		return m, n
	}
	return m.read(s, n, &f)
}

// refuse makes a refusal of it.
func (m message) refuse(why string, must bool) message {
	m.fate, m.why, m.must, m.closes, m.bad = refused, why, must, true, !m.head
	return m
}

// line checks the k-th line of a head by itself.
func (m *message) line(k int, line string) (why string, must bool) {
	if k > 0 {
		switch {
		case line == "" || refField.MatchString(line):
			return "", false
		case line[0] == ' ' || line[0] == '\t':
			return "folded line", false
		case strings.ContainsAny(line, "\x00\r"):
			return "NUL or CR in a field", true
		case strings.IndexFunc(line, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) >= 0:
			return "control byte in a field", false
		}
		return "malformed field", true
	}
	parts := refLine.FindStringSubmatch(line)
	if parts == nil {
		return "request line", line != ""
	}
	m.method, m.target, m.old = parts[1], parts[2], parts[3] == "0"
	if !validTarget(m.method, m.target) {
		return "target", true
	}
	return "", false
}

func validTarget(method, target string) bool {
	path := target
	switch url := refURL.FindStringSubmatch(target); {
	case strings.Contains(target, "#"):
		return false
	case method == "CONNECT":
		return validHost(target) && strings.LastIndexByte(target, ':') > strings.LastIndexByte(target, ']')
	case target == "*":
		return method == "OPTIONS"
	case target[0] == '/':
	case url == nil || !validHost(url[1]):
		return false
	default:
		path = url[2]
	}
	path, _, _ = strings.Cut(path, "?")
	return !slices.Contains(refPercent.FindAllString(path, -1), "%")
}

func validHost(host string) bool {
	parts := refHost.FindStringSubmatch(host)
	if parts == nil || parts[1][0] != '[' {
		return parts != nil
	}
	a, err := netip.ParseAddr(strings.Trim(parts[1], "[]"))
	return err == nil && a.Is6()
}

// framed is what the fields say together.
type framed struct {
	close, keep bool
	length      int // -1: none
	chunked     bool
	expect      string
	hosts       int
	drop        []string
}

func (f *framed) body() bool { return f.chunked || f.length > 0 }

// framing reads the fields that frame and route.
func (m *message) framing(lines []string) (f framed, why string, must bool) {
	f.length = -1
	lengthText := ""
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ":")
		name, value = strings.ToLower(name), strings.Trim(value, " \t")
		switch name {
		case "host":
			f.hosts++
			m.host = value
		case "expect":
			f.expect = strings.ToLower(value)
		case "content-length":
			switch {
			case !refLength.MatchString(value):
				one := strings.Trim(strings.SplitN(value, ",", 2)[0], " \t")
				return f, "Content-Length", !strings.Contains(value, ",") && len(value) < 19 || strings.Trim(value, one+", \t") != ""
			case lengthText != "" && lengthText != value:
				return f, "two Content-Lengths", true
			}
			lengthText = value
			f.length, _ = strconv.Atoi(value) // 18 digits fit
		case "transfer-encoding":
			switch {
			case m.old:
				return f, "Transfer-Encoding in HTTP/1.0", false
			case f.chunked || !strings.EqualFold(value, "chunked"):
				last := value[strings.LastIndexByte(value, ',')+1:]
				return f, "Transfer-Encoding", !strings.EqualFold(strings.Trim(last, " \t"), "chunked")
			}
			f.chunked = true
		case "connection":
			for option := range strings.SplitSeq(value, ",") {
				switch option = strings.ToLower(strings.Trim(option, " \t")); option {
				case "close":
					f.close = true
				case "keep-alive":
					f.keep = true
				default:
					f.drop = append(f.drop, option)
				}
			}
		}
	}
	switch {
	case f.length >= 0 && f.chunked:
		return f, "Content-Length and Transfer-Encoding", false
	case f.hosts > 1 || f.hosts == 0 && !m.old || m.host != "" && !validHost(m.host):
		return f, "Host", true
	}
	for _, option := range f.drop {
		if option != "" && (!refToken.MatchString(option) || framesOrRoutes(option)) {
			return f, "Connection option", false
		}
	}
	for _, line := range lines {
		if name, value, _ := strings.Cut(line, ":"); strings.HasPrefix(name, "X-F") && !slices.Contains(f.drop, strings.ToLower(name)) {
			m.fields = append(m.fields, name+":"+strings.Trim(value, " \t"))
		}
	}
	return f, "", false
}

// framesOrRoutes tells a field that no Connection option may take away.
func framesOrRoutes(option string) bool {
	plain := strings.ReplaceAll(option, "_", "-")
	hop := slices.Contains([]string{"keep-alive", "proxy-connection", "te", "trailer", "upgrade", "http2-settings"}, plain)
	if hop {
		return plain != option
	}
	return slices.Contains([]string{"host", "content-length", "transfer-encoding", "connection", "expect", "forwarded", "x-forwarded-for",
		"x-forwarded-proto", "x-forwarded-host", "x-real-ip", "via", "date", "max-forwards"}, plain)
}

// decide says what becomes of a request with a valid head, before its body.
func (m *message) decide(line string, f *framed) {
	authority := ""
	if url := refURL.FindStringSubmatch(m.target); url != nil && m.target[0] != '/' {
		authority, m.target = url[1], url[2]
		if m.target == "" || m.target[0] == '?' {
			m.target = "/" + m.target
		}
	}
	path, _, _ := strings.Cut(m.target, "?")
	answer := func(why string) { m.fate, m.why = answered, why }
	switch {
	case line[len(line)-1] > '1':
		*m = m.refuse("HTTP/1.2", false)
	case m.method == "CONNECT":
		*m = m.refuse("CONNECT", false)
	case m.method == "TRACE":
		answer("TRACE")
	case authority != "" && m.host != "" && !strings.EqualFold(authority, m.host):
		*m = m.refuse("Host of another target", false)
	case !staysBelowRoot(path):
		answer("path")
	case f.expect != "" && f.expect != "100-continue":
		answer("Expect")
	case f.length > refBodyBytes:
		answer("body too large")
	}
	if authority != "" {
		m.host = authority
	}
}

// staysBelowRoot tells whether everybody reads a path as one below its root.
func staysBelowRoot(path string) bool {
	plain := refPercent.ReplaceAllStringFunc(path, func(s string) string {
		c, _ := strconv.ParseUint(s[1:], 16, 8) // it matched
		return string([]byte{byte(c)})
	})
	depth := 0
	for segment := range strings.SplitSeq(plain, "/") {
		switch segment {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return false
			}
		default:
			depth++
		}
	}
	return !strings.ContainsAny(plain, "\x00\\")
}

// read reads the body.
func (m message) read(s string, n int, f *framed) (message, int) {
	if !f.chunked {
		m.body = []byte(s[n:min(n+f.length, len(s))])
		if len(m.body) < f.length {
			m.fate, m.why, m.closes = cutOff, "within the body", true
		}
		return m, n + f.length
	}
	spoil := func(why string) (message, int) {
		m.fate, m.why, m.must, m.bad, m.closes = spoiled, why, true, why != "body too large", true
		return m, 0
	}
	cut := func() (message, int) {
		m.fate, m.why, m.closes = cutOff, "within the chunks", true
		return m, 0
	}
	line := func(limit int) (text, why string, ended bool) {
		i := strings.IndexByte(s[n:], '\n')
		switch {
		case i < 0 && len(s)-n > limit || i+1 > limit:
			return "", "long line", false
		case i < 0:
			return "", "", false
		case i == 0 || s[n+i-1] != '\r':
			return "", "bare LF", false
		}
		text = s[n : n+i-1]
		n += i + 1
		return text, "", true
	}
	for {
		text, why, ended := line(refChunkLine)
		parts := refChunk.FindStringSubmatch(text)
		switch {
		case why != "":
			return spoil("chunk: " + why)
		case !ended:
			return cut()
		case parts == nil:
			return spoil("chunk size")
		}
		size, err := strconv.ParseInt(parts[1], 16, 64)
		if err != nil {
			panic(fmt.Sprintf("15 digits do not fit: %q", parts[1]))
		}
		if size == 0 {
			break
		}
		piece := s[n:min(n+int(min(size, 1<<30)), len(s))]
		n += len(piece)
		if m.body = append(m.body, piece...); len(m.body) > refBodyBytes {
			return spoil("body too large")
		}
		if len(piece) < int(size) {
			return cut()
		}
		text, why, ended = line(refChunkLine)
		switch {
		case why != "" || ended && text != "":
			return spoil("chunk end")
		case !ended:
			return cut()
		}
	}
	for left := refTrailer; ; {
		before := n
		text, why, ended := line(left)
		left -= n - before
		switch {
		case why != "" || ended && text != "" && !refField.MatchString(text):
			return spoil("trailer")
		case !ended:
			return cut()
		case text == "":
			return m, n
		}
	}
}

// received is a request as the backend got it, read with as little as possible.
type received struct {
	raw   []byte
	whole bool
}

// differs says in what a request that reached the backend is not what the client
// sent; "" for none. Of one that is not whole only what is there is compared.
func (m *message) differs(got *received) string {
	head, body, ended := bytes.Cut(got.raw, []byte("\r\n\r\n"))
	if !ended {
		return ""
	}
	lines := strings.Split(string(head), "\r\n")
	if want := m.method + " " + m.target + " HTTP/1.1"; lines[0] != want {
		return fmt.Sprintf("the request line is %.300q, want %.300q", lines[0], want)
	}
	var fields []string
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		switch {
		case strings.HasPrefix(name, "X-F") && !strings.HasPrefix(name, "X-Forwarded"):
			fields = append(fields, name+":"+value)
		case strings.EqualFold(name, "host") && value != m.host && (m.host != "" || !m.old):
			return fmt.Sprintf("Host is %q, want %q", value, m.host)
		case strings.EqualFold(name, "transfer-encoding"):
			body = unchunk(body)
		}
	}
	sent := slices.DeleteFunc(slices.Clone(m.fields), func(s string) bool { return strings.HasPrefix(s, "X-Forwarded") })
	switch {
	case !slices.Equal(fields, sent):
		return fmt.Sprintf("the fields are %.500q, want %.500q", fields, sent)
	case got.whole && !bytes.Equal(body, m.body):
		return fmt.Sprintf("the body is %.200q, want %.200q", body, m.body)
	case !got.whole && !bytes.HasPrefix(m.body, body):
		return fmt.Sprintf("the part of the body is %.200q, want a part of %.200q", body, m.body)
	}
	return ""
}

// unchunk reads plain chunks, the last of which may be cut.
func unchunk(b []byte) (body []byte) {
	for {
		line, rest, found := bytes.Cut(b, []byte("\r\n"))
		n, err := strconv.ParseInt(string(line), 16, 32)
		if !found || err != nil || n == 0 {
			return body
		}
		body = append(body, rest[:min(int(n), len(rest))]...)
		b = rest[min(int(n)+2, len(rest)):]
	}
}
