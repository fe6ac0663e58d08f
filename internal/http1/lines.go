package http1

import "bytes"

// Known names the fields that a proxy must not simply forward: those that frame a message, that
// describe one connection, or that tell the next hop about the previous ones.
type Known uint8

// The fields, and Shadow: a name that becomes one of them when its punctuation is read as hyphens,
// as CGI and its successors do. Relayed are those by which one proxy tells the next hop of the
// client and its request, apart from the four that are named, and Proxy is what CGI turns into
// HTTP_PROXY, which programs take for their own setting.
const (
	Other Known = iota
	Shadow
	Host
	ContentLength
	TransferEncoding
	Connection
	KeepAlive
	ProxyConnection
	TE
	Trailer
	Upgrade
	HTTP2Settings
	Expect
	Forwarded
	ForwardedFor
	ForwardedProto
	ForwardedHost
	Relayed
	Proxy
	Via
	Date
	MaxForwards
)

// Line is one field line of a head. The numbers are offsets in the bytes that the head was parsed
// from.
type Line struct {
	At, End   int32 // the line with its CRLF
	NameEnd   int32
	From, To  int32 // the value, without white space around it
	Is        Known
	inOptions bool
}

// Name of the field, as sent.
func (l *Line) Name(b []byte) []byte { return b[l.At:l.NameEnd] }

// Value of the field.
func (l *Line) Value(b []byte) []byte { return b[l.From:l.To] }

// Hop reports whether a Connection field named the line.
func (l *Line) Hop() bool { return l.inOptions }

// Lines parses heads for a proxy. The zero value is ready; it reuses its memory from head to head.
type Lines struct {
	List []Line
	// Max is how many lines a head may have; 0: no limit but MaxHead.
	Max int

	lenient bool // the head is a destination's
}

// ParseRequest is the function of that name, and also lists the lines of the head. It rejects what
// a proxy cannot forward safely and a server may overlook: Connection options that name a framing
// or routing field (ErrConnection), and more lines than Max (ErrHeaderTooLarge).
func (l *Lines) ParseRequest(b []byte) (q Request, n int, err error) {
	var h head
	l.lenient = false
	at, e := firstLine(b)
	if at == 0 {
		return Request{}, 0, asError(e)
	}
	if e = q.requestLine(b[:at-2], &h); e != 0 {
		return Request{}, 0, e
	}
	hosts := 0
	n, e = l.fields(b, at, func(line *Line) FramingError {
		value := line.Value(b)
		switch line.Is {
		case Host:
			hosts++
			q.Host = value
			return 0
		case Expect:
			q.ExpectContinue = equalFold(value, "100-continue")
			return 0
		}
		return h.known(line.Is, value)
	})
	if n == 0 {
		return Request{}, 0, asError(e)
	}
	if e = q.endHead(&h, hosts); e == 0 {
		e = l.options(b)
	}
	if e != 0 {
		return Request{}, 0, e
	}
	return q, n, nil
}

// Response is the head of one response.
type Response struct {
	Status        int
	Reason        []byte
	Minor         int
	KeepAlive     bool  // the connection may carry another response after this one
	ContentLength int64 // of the field, whatever the body is; 0 without one
	HasLength     bool
	Chunked       bool
	UntilClose    bool // the body lasts until the peer closes

	body Body
}

// Body returns what follows the head.
func (r *Response) Body() Body { return r.body }

// ParseResponse reads the head of the response at the start of b, interim ones
// like final ones, and lists its lines. noBody says that it answers HEAD. n = 0
// without an error: the head is not complete.
//
// It takes what nginx, HAProxy and Go all take of a destination and a proxy can reframe without
// a doubt: Content-Length beside Transfer-Encoding, Transfer-Encoding in HTTP/1.0, Connection options
// without a meaning, more spaces before the status, more zeros before a length, control bytes in a
// value, which become spaces in b; in the body blanks behind a chunk size, more zeros in front of it, and LF for
// CRLF. See WithCRLF for the head.
func (l *Lines) ParseResponse(b []byte, noBody bool) (r Response, n int, err error) {
	if !startsLikeResponse(nil, b) {
		return Response{}, 0, ErrStatusLine
	}
	at, e := firstLine(b)
	if at == 0 {
		if e == ErrRequestLine {
			e = ErrStatusLine
		}
		return Response{}, 0, asError(e)
	}
	var reader Reader
	line := b[:at-2]
	if i := len("HTTP/1.1 "); len(line) > i && line[i] == ' ' {
		line = append(line[:i:i], bytes.TrimLeft(line[i:], " ")...)
	}
	if !reader.statusLine(line) {
		return Response{}, 0, ErrStatusLine
	}
	r.Status, r.Minor = int(reader.status), int(line[7]-'0')
	r.Reason = line[min(len(line), 13):]
	h := reader.head
	h.flags |= isLenient
	l.lenient = true
	n, e = l.fields(b, at, func(line *Line) FramingError { return h.known(line.Is, line.Value(b)) })
	if n == 0 {
		return Response{}, 0, asError(e)
	}
	if e = h.check(); e != 0 {
		return Response{}, 0, e
	}
	_ = l.options(b) // an option that names what is reframed or reset changes nothing
	r.KeepAlive, r.Chunked = h.keepAlive(), h.flags&isChunked != 0
	r.ContentLength, r.HasLength = h.length, h.digits != 0
	r.body = bodyOf(&h, bodyClose)
	r.body.lenient = true
	if noBody || r.Status < 200 || r.Status == 204 || r.Status == 304 {
		r.body = Body{}
	}
	r.UntilClose = r.body.at == bodyClose
	return r, n, nil
}

// WithCRLF returns a copy of a response's head, at the start of b, whose bare LFs are CRLFs, and the
// head's length in b; 0 if it is not complete. known is false if there is no bare LF.
func WithCRLF(b []byte) (head []byte, n int, known bool) {
	for n < len(b) {
		i := bytes.IndexByte(b[n:], '\n')
		if i < 0 {
			break
		}
		line := b[n : n+i]
		n += i + 1
		if cut, ok := bytes.CutSuffix(line, []byte{'\r'}); ok {
			line = cut
		} else {
			known = true
		}
		if head = append(append(head, line...), "\r\n"...); len(line) == 0 {
			return head, n, known
		}
	}
	return nil, 0, known
}

// asError keeps a FramingError of 0 from becoming an error that is not nil.
func asError(e FramingError) error {
	if e == 0 {
		return nil
	}
	return e
}

// firstLine is the length of the first line, with its CRLF; 0 when it is not
// complete, or with an error.
func firstLine(b []byte) (n int, e FramingError) {
	i := bytes.IndexByte(b, '\n')
	switch {
	case i+1 > MaxHead || i < 0 && len(b) > MaxHead:
		return 0, ErrHeaderTooLarge
	case i < 0:
		return 0, 0
	case i < 1 || b[i-1] != '\r':
		return 0, ErrRequestLine
	}
	return i + 1, 0
}

// fields lists the lines from at on and returns where the head ends; 0 if it is incomplete, or with
// an error.
func (l *Lines) fields(b []byte, at int, note func(*Line) FramingError) (n int, e FramingError) {
	l.List = l.List[:0]
	for {
		i := bytes.IndexByte(b[at:], '\n')
		if at+i+1 > MaxHead || i < 0 && len(b) > MaxHead {
			return 0, ErrHeaderTooLarge
		}
		if i < 0 {
			return 0, 0
		}
		end := at + i + 1
		if i < 1 || b[end-2] != '\r' {
			return 0, ErrHeader
		}
		if i == 1 {
			return end, 0
		}
		if l.Max > 0 && len(l.List) == l.Max {
			return 0, ErrHeaderTooLarge
		}
		name, value, ok := splitLenient(b[at:end-2:end-2], l.lenient)
		if !ok {
			return 0, ErrHeader
		}
		from := end - 2 - cap(value) // both end where the line does
		l.List = append(l.List, Line{
			At: int32(at), End: int32(end), NameEnd: int32(at + len(name)),
			From: int32(from), To: int32(from + len(value)), Is: Classify(name),
		})
		line := &l.List[len(l.List)-1]
		if line.Is > Shadow {
			if e := note(line); e != 0 {
				return 0, e
			}
		}
		at = end
	}
}

// known is note for a classified field.
func (h *head) known(is Known, value []byte) FramingError {
	switch is {
	case Connection:
		h.connection(value)
	case ContentLength:
		return h.contentLength(value)
	case TransferEncoding:
		return h.transferEncoding(value)
	}
	return 0
}

// relayed are the names by length; all of x-forwarded-* and x-accel-* are too. It is read-only. The x-sendfile
// ones tell a server which file to send, as nginx and Rack take them from the proxy in front of them.
var relayed = byLength("x-forwarded", "x-real-ip", "x-client-ip", "client-ip", "true-client-ip", "x-cluster-client-ip",
	"cf-connecting-ip", "fastly-client-ip", "wl-proxy-client-ip", "proxy-client-ip", "x-proxyuser-ip", "x-remote-ip", "x-remote-addr",
	"x-envoy-external-address", "forwarded-for", "forwarded-proto", "x-original-forwarded-for", "x-original-host", "x-original-proto",
	"x-original-url", "x-original-uri", "x-original-method", "x-rewrite-url", "x-host", "x-scheme", "x-url-scheme", "front-end-https",
	"x-sendfile", "x-sendfile-type", "x-lighttpd-send-file", "x-litespeed-location") // read-only

func byLength(names ...string) (list [25][]string) {
	for _, n := range names {
		list[len(n)] = append(list[len(n)], n)
	}
	return list
}

var relayedPrefixes = [...]string{"x-forwarded-", "x-accel-"} // read-only

func isRelayed(name []byte) Known {
	if name[0]|0x20 == 'x' {
		for _, prefix := range relayedPrefixes {
			if n := len(prefix); len(name) > n {
				if is := oneOf(name[:n], prefix, Relayed); is != Other {
					return is
				}
			}
		}
	}
	if len(name) < len(relayed) {
		for _, lower := range relayed[len(name)] {
			if is := oneOf(name, lower, Relayed); is != Other {
				return is
			}
		}
	}
	return Other
}

// Classify looks up a name.
func Classify(name []byte) Known {
	is := Other
	switch len(name) {
	case 2:
		is = oneOf(name, "te", TE)
	case 3:
		is = oneOf(name, "via", Via)
	case 4:
		if is = oneOf(name, "host", Host); is == Other {
			is = oneOf(name, "date", Date)
		}
	case 5:
		is = oneOf(name, "proxy", Proxy)
	case 6:
		is = oneOf(name, "expect", Expect)
	case 7:
		if is = oneOf(name, "upgrade", Upgrade); is == Other {
			is = oneOf(name, "trailer", Trailer)
		}
	case 9:
		is = oneOf(name, "forwarded", Forwarded)
	case 10:
		if is = oneOf(name, "connection", Connection); is == Other {
			is = oneOf(name, "keep-alive", KeepAlive)
		}
	case 12:
		is = oneOf(name, "max-forwards", MaxForwards)
	case 14:
		if is = oneOf(name, "content-length", ContentLength); is == Other {
			is = oneOf(name, "http2-settings", HTTP2Settings)
		}
	case 15:
		is = oneOf(name, "x-forwarded-for", ForwardedFor)
	case 16:
		if is = oneOf(name, "proxy-connection", ProxyConnection); is == Other {
			is = oneOf(name, "x-forwarded-host", ForwardedHost)
		}
	case 17:
		if is = oneOf(name, "transfer-encoding", TransferEncoding); is == Other {
			is = oneOf(name, "x-forwarded-proto", ForwardedProto)
		}
	case 18: // the fields of authentication end at the next proxy (RFC 9110, section 11.7)
		is = oneOf(name, "proxy-authenticate", ProxyConnection)
	case 19:
		is = oneOf(name, "proxy-authorization", ProxyConnection)
	case 25:
		is = oneOf(name, "proxy-authentication-info", ProxyConnection)
	}
	if is == Other {
		is = isRelayed(name)
	}
	return is
}

// oneOf compares a token with a name in lower case; other punctuation counts as a hyphen.
func oneOf(name []byte, lower string, is Known) Known {
	if name[0]|0x20 != lower[0] {
		return Other
	}
	for i, c := range name {
		switch want := lower[i]; {
		case c == want, c|0x20 == want && want >= 'a':
		case want == '-' && !alphanumeric(c):
			is = Shadow
		default:
			return Other
		}
	}
	return is
}

func alphanumeric(c byte) bool { return c-'0' < 10 || c|0x20-'a' < 26 }

// options marks the lines that Connection fields name, and rejects options that name a field every
// hop needs: removing it would change where the message ends or where it goes.
func (l *Lines) options(b []byte) (wrong FramingError) {
	for i := range l.List {
		if l.List[i].Is == Connection {
			wrong = max(wrong, l.optionsOf(b, l.List[i].Value(b)))
		}
	}
	return wrong
}

func (l *Lines) optionsOf(b, value []byte) (wrong FramingError) {
	for len(value) > 0 {
		end := bytes.IndexByte(value, ',')
		if end < 0 {
			end = len(value)
		}
		option := trim(value[:end])
		value = value[min(end+1, len(value)):]
		switch {
		case len(option) == 0, equalFold(option, "close"), equalFold(option, "keep-alive"):
			continue
		case !tokenOnly(option):
			wrong = ErrConnection
			continue
		}
		switch Classify(option) {
		case Other, KeepAlive, ProxyConnection, TE, Trailer, Upgrade, HTTP2Settings:
		default:
			wrong = ErrConnection
			continue
		}
		for i := range l.List {
			if line := &l.List[i]; bytes.EqualFold(line.Name(b), option) {
				line.inOptions = true
			}
		}
	}
	return wrong
}

func tokenOnly(b []byte) bool {
	for _, c := range b {
		if !isToken(c) {
			return false
		}
	}
	return len(b) > 0
}

// HasToken reports whether a list of tokens (RFC 9110, section 5.6.1) contains one, given in lower
// case.
func HasToken(value []byte, lower string) bool {
	for len(value) > 0 {
		end := bytes.IndexByte(value, ',')
		if end < 0 {
			end = len(value)
		}
		if equalFold(trim(value[:end]), lower) {
			return true
		}
		value = value[min(end+1, len(value)):]
	}
	return false
}
