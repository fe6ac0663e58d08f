package proxy

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"ceiling/proxy/route"
)

// Responses of the proxy itself. An error page is self-contained.

// answer responds with an error page.
func (x *exchange) answer(status int, why string) { x.answerLater(status, why, 0) }

// answerLater adds after how many nanoseconds the client should retry.
func (x *exchange) answerLater(status int, why string, after int64) {
	l := x.client.conn.loop
	if x.client.conn.fd < 0 {
		return
	}
	x.why = why
	pages := l.site.pages
	if x.location != nil {
		pages = x.location.pages
	}
	page, kind := pages.page(status, why)
	lines := fmt.Appendf(nil, "Content-Type: %s\r\nCache-Control: no-store\r\n", kind)
	if after > 0 {
		lines = fmt.Appendf(lines, "Retry-After: %d\r\n", (after+1e9-1)/1e9)
	}
	if status == 405 {
		lines = append(lines, "Allow: GET, HEAD\r\n"...)
	}
	if status >= 500 {
		l.counts.ownErrors++
	}
	reply(x, status, pageHead, lines, page)
}

// reply sends a response of the proxy's own.
func reply(x *exchange, status int, k headKind, lines, body []byte) {
	c := x.client
	x.status, x.state = uint16(status), answerOwn
	if x.bodyState != bodyWhole {
		c.closing = true
	}
	out := c.conn.buffer()
	b := appendStatus(out.b, status)
	at := len(b)
	b = append(b, lines...)
	if status != 204 && status != 304 {
		b = append(b, "Content-Length: "...)
		b = append(strconv.AppendInt(b, int64(len(body)), 10), "\r\n"...)
	}
	b = endHead(x, c.conn.loop.appendDate(b), at, k)
	if string(x.request.Method) != "HEAD" {
		b = append(b, body...)
		x.sentBytes = int64(len(body))
	}
	out.b = b
	c.finish()
}

// stick has the client come back to the destination of this seed, for as long as its browser runs. key
// is that of its cookie.
func (loc *location) stick(x *exchange, seed, key uint64) {
	if seed == key {
		if x.added != nil {
			x.added.cookie = nil
		}
		return
	}
	secure := ""
	if x.scheme() == "https" {
		secure = "; Secure"
	}
	additionsOf(&x.inbound).cookie = fmt.Appendf(nil, "Set-Cookie: %s=%s; Path=/; HttpOnly; SameSite=Lax%s\r\n", loc.balanceKey.name,
		strconv.FormatUint(seed, 36), secure)
}

// redirect responds with the location's redirection.
func (x *exchange) redirect() {
	r := x.location.redirect
	if len(x.request.Host) == 0 && strings.Contains(r.To, "{host}") {
		x.answer(400, "the redirect needs a Host field")
		return
	}
	reply(x, r.Status, redirectHead, appendField(nil, "Location", x.redirected(r.To)), nil)
}

// redirected fills the request's parts into a redirection target.
func (x *inbound) redirected(to string) string {
	_, path, query := route.SplitTarget(x.request.Target)
	for len(path) > 1 && path[0] == '/' && path[1] == '/' { // after a leading "{path}" it would name another host
		path = path[1:]
	}
	bare := string(withoutPort(x.request.Host))
	host := string(x.request.Host)
	if scheme, _, found := strings.Cut(to, "://"); found && !strings.EqualFold(scheme, x.scheme()) {
		host = bare // the port is that of the other scheme
	}
	asked := func(mark string) string {
		if len(query) == 0 {
			return ""
		}
		return mark + string(query)
	}
	return strings.NewReplacer("{host}:", bare+":", "{host}", host, "{path}", string(path),
		"?{query}", asked("?"), "&{query}", asked("&"), "{query}", asked("")).Replace(to)
}

// scheme returns the client's scheme, as seen by a trusted proxy if there is one.
func (x *inbound) scheme() string {
	c := x.client
	if head := x.head(); c.trusted && head != nil {
		if proto := x.fieldOf(head, "x-forwarded-proto"); len(proto) > 0 {
			return string(proto)
		}
	}
	return c.scheme
}

func withoutPort(host []byte) []byte {
	if i := bytes.LastIndexByte(host, ':'); i >= 0 && host[len(host)-1] != ']' {
		return host[:i]
	}
	return host
}

// mustBeSecure reports whether the request came in plain while the configuration redirects such
// clients to https. A request that a trusted proxy decrypted did not.
func (x *exchange) mustBeSecure() bool {
	c := x.client
	if c.secure() || x.location.open || len(x.request.Host) == 0 {
		return false
	}
	return !c.trusted || !bytes.EqualFold(x.fieldOf(x.head(), "x-forwarded-proto"), []byte("https"))
}

// toSecure redirects to the same URL with https.
func (x *exchange) toSecure() {
	to := append([]byte("Location: https://"), withoutPort(x.request.Host)...)
	if port := x.client.conn.loop.site.securePort; port != "443" {
		to = append(append(to, ':'), port...)
	}
	_, path, query := route.SplitTarget(x.request.Target)
	if to = append(to, path...); query != nil {
		to = append(append(to, '?'), query...)
	}
	reply(x, 308, redirectHead, append(to, "\r\n"...), nil)
}

// appendStatus appends the status line of our own response.
func appendStatus(b []byte, status int) []byte {
	return appendStatusLine(b, status, http.StatusText(status))
}
