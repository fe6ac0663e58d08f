//go:build linux

package server

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"time"

	"ceiling/internal/http1"
)

const (
	// maxBytes limits N of /bytes/N.
	maxBytes = 1 << 20

	// copiesBytes is the approximate memory for copies of one constant response: as many as
	// answer what arrives at once, which is 16 KiB, or 440 requests of 37 bytes, and 57 KB of the
	// shortest responses.
	copiesBytes = 64 << 10

	// maxHead exceeds the size of a head, so that its buffer is allocated once.
	maxHead = 256

	// maxPages limits the responses that a worker keeps ready: the pool's are 1,010, the rest is
	// for sizes of /bytes/N.
	maxPages = 1200
)

// A reply is the response to a request.
type reply struct {
	status      string // "200 OK"
	contentType string
	encoding    string
	connection  string // "" omits the field, which keeps an HTTP/1.1 connection open
	body        []byte
	headOnly    bool // state the length of the body but send none
	allow       bool // state that GET and HEAD are allowed

	lasting  bool // body never changes: the response may be cached
	constant bool // the same request always gets it
}

// append appends the response to b.
func (a *reply) append(b []byte, date string) []byte {
	b = append(append(b, "HTTP/1.1 "...), a.status...)
	b = append(append(b, "\r\nDate: "...), date...)
	b = append(append(b, "\r\nContent-Type: "...), a.contentType...)
	if a.encoding != "" {
		b = append(append(b, "\r\nContent-Encoding: "...), a.encoding...)
	}
	if a.allow {
		b = append(b, "\r\nAllow: GET, HEAD"...)
	}
	if a.connection != "" {
		b = append(append(b, "\r\nConnection: "...), a.connection...)
	}
	b = append(b, "\r\nContent-Length: "...)
	b = append(strconv.AppendInt(b, int64(len(a.body)), 10), "\r\n\r\n"...)
	if a.headOnly {
		return b
	}
	return append(b, a.body...)
}

// A page is a cached response, repeated for pipelining. Its bytes are immutable, since a slow
// connection may still be sending them when the second of their date is over: then new ones are
// created.
type page struct {
	bytes  []byte
	one    int   // length of one response
	second int64 // of its date
}

// pageKey identifies a body that never changes.
type pageKey struct {
	first  *byte
	length int
	route  *Route
}

// answers builds a worker's responses.
type answers struct {
	site   *site
	byPath map[string]*Route
	fixed  map[*Route]bool // routes with a constant response
	filler []byte          // content of /bytes/N; nil until requested
	pages  map[pageKey]*page
	blocks map[pageKey]*floorBlock // for HTTP/2
	second int64
	date   string
	total  func() uint64 // responses of all workers
}

func newAnswers(s *site) *answers {
	a := &answers{site: s, byPath: map[string]*Route{}, fixed: map[*Route]bool{},
		pages: map[pageKey]*page{}, blocks: map[pageKey]*floorBlock{}}
	for i := range s.routes {
		r := &s.routes[i]
		a.byPath[r.Path] = r
		if !r.computed { // the smallest seed and the largest choose the first and the last of a route's bodies
			a.fixed[r] = &r.answer(s.pool, 0)[0] == &r.answer(s.pool, 1<<64-1)[0]
		}
	}
	return a
}

// clock sets the time of the responses.
func (a *answers) clock(now time.Time) {
	if s := now.Unix(); s != a.second {
		a.second, a.date = s, now.UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT") // RFC 9110, section 5.6.7
	}
}

// to answers the request; route is set if a repeated request may get another body.
func (a *answers) to(q *http1.Request) (ans reply, route *Route) {
	path := targetPath(q.Target)
	get, head := string(q.Method) == "GET", string(q.Method) == "HEAD"
	r, known := a.byPath[string(path)]
	size, isBytes := bytesSize(path)
	switch {
	case string(path) == "/answered" && get && a.total != nil:
		ans = plain("200 OK")
		ans.body = strconv.AppendUint(nil, a.total(), 10)
	case !known && !isBytes:
		ans = plain("404 Not Found")
	case !get && !head:
		ans = plain("405 Method Not Allowed")
		ans.allow = true
	case isBytes:
		ans = reply{status: "200 OK", contentType: "application/octet-stream", body: a.fill(size), lasting: size > 0, constant: true}
	default:
		ans, route = a.of(r), r
	}
	ans.headOnly = head
	switch {
	case !q.KeepAlive:
		ans.connection = "close"
	case q.Minor == 0:
		ans.connection = "keep-alive"
	}
	return ans, route
}

// of returns a route's response.
func (a *answers) of(r *Route) reply {
	return reply{
		status: "200 OK", contentType: r.ContentType, encoding: r.ContentEncoding,
		body: r.answer(a.site.pool, rand.Uint64()), lasting: !r.computed, constant: a.fixed[r],
	}
}

func plain(status string) reply {
	return reply{status: status, contentType: typeText, body: []byte(status[len("404 "):])}
}

// page returns the bytes of a cached response, nil if it cannot be cached. route distinguishes
// responses with the same body.
func (a *answers) page(ans *reply, route *Route) *page {
	if !ans.lasting || ans.headOnly || ans.connection != "" {
		return nil
	}
	key := pageKey{&ans.body[0], len(ans.body), route}
	p := a.pages[key]
	if p == nil {
		if len(a.pages) >= maxPages {
			clear(a.pages)
		}
		p = new(page)
		a.pages[key] = p
	}
	if p.second != a.second {
		p.bytes = ans.append(make([]byte, 0, len(ans.body)+maxHead), a.date)
		p.one, p.second = len(p.bytes), a.second
		if times := copiesBytes / p.one; ans.constant && times > 1 {
			p.bytes = bytes.Repeat(p.bytes, times)
		}
	}
	return p
}

func (a *answers) fill(n int) []byte {
	if a.filler == nil {
		a.filler = bytes.Repeat([]byte("0123456789abcde\n"), maxBytes/16)
	}
	return a.filler[:n]
}

// targetPath returns the path of a request's target, which may be a full URL (RFC 9112, section
// 3.2.2).
func targetPath(target []byte) []byte {
	if i := bytes.IndexByte(target, '?'); i >= 0 {
		target = target[:i]
	}
	if len(target) > 0 && target[0] != '/' {
		if i := bytes.Index(target, []byte("://")); i >= 0 {
			rest := target[i+len("://"):]
			if j := bytes.IndexByte(rest, '/'); j >= 0 {
				return rest[j:]
			}
			return []byte("/")
		}
	}
	return target
}

// bytesSize parses /bytes/N, with N in plain digits from 0 to maxBytes.
func bytesSize(path []byte) (n int, ok bool) {
	digits, ok := bytes.CutPrefix(path, []byte("/bytes/"))
	if !ok || len(digits) == 0 || len(digits) > 7 || len(digits) > 1 && digits[0] == '0' {
		return 0, false
	}
	for _, d := range digits {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = n*10 + int(d-'0')
	}
	return n, n <= maxBytes
}
