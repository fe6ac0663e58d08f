package load

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"

	"ceiling/internal/condition"
	"ceiling/internal/ring"
)

const (
	// errorsKept bounds the statuses of which a response is kept: a server that answers with every
	// status code must not fill memory.
	errorsKept = 16
	// errorLineMax bounds the text kept of each, in bytes: the width of two terminals.
	errorLineMax = 200
)

// ErrorResponse is the first response of one unexpected status, or against one condition.
type ErrorResponse struct {
	Status int
	// Check is the condition; "" for an unexpected status.
	Check string
	// Line is what its body says to a reader (pageText), at most 200 bytes, printable characters
	// only; "" if there is none, or the body is not text. With a Check it is what was found. Status 0:
	// bytes that are no response.
	Line string
}

// FirstResponses are kept of a run, by status: of each unexpected one, and of each redirect.
type FirstResponses struct {
	Errors    []ErrorResponse
	Redirects []Redirect
}

// join adds a part's.
func (f *FirstResponses) join(part *FirstResponses) {
	f.Errors, f.Redirects = joinErrors(f.Errors, part.Errors), joinRedirects(f.Redirects, part.Redirects)
}

// errorStatuses returns the statuses that count as errors by default.
func errorStatuses() *[1000]bool {
	var list [1000]bool
	for status := 400; status < len(list); status++ {
		list[status] = true
	}
	return &list
}

// inspector keeps what a worker's responses say that are errors, or redirects.
type inspector struct {
	first  FirstResponses // the first of each unexpected status, against each condition, and of each redirect
	page   page           // the one that is being read
	checks *checker       // nil: no conditions
}

// page is an unexpected response while its parts arrive.
type page struct {
	of      pageOf
	reading bool
	status  int
	b       []byte
}

// pageOf tells responses apart: those of HTTP/1.1, which begin with their heads, have stream 0.
type pageOf struct {
	tag    ring.Tag
	stream uint32
}

// pageMost bounds what is kept of a page to find its text.
const pageMost = 8 << 10

// readPage takes a part of an unexpected response; last: it ends with it. The first response of each
// status is kept, if its beginning is seen.
func (in *inspector) readPage(of pageOf, status int, part []byte, last bool) {
	p := &in.page
	begins := of.stream > 0 || bytes.HasPrefix(part, []byte("HTTP/1."))
	if p.reading && p.of == of && of.stream == 0 && begins {
		in.keepPage() // its rest was discarded, and the next response begins
	}
	switch {
	case p.reading && p.of == of:
		p.b = append(p.b, part[:min(len(part), pageMost-len(p.b))]...)
		if last || len(p.b) == pageMost {
			in.keepPage()
		}
	case !begins || !in.lacksError(status, ""):
	case last:
		in.keep(of, status, part[:min(len(part), pageMost)])
	case !p.reading:
		*p = page{of: of, reading: true, status: status, b: append(p.b[:0], part[:min(len(part), pageMost)]...)}
	}
}

// keepPage keeps the page as far as it has come.
func (in *inspector) keepPage() {
	if p := &in.page; p.reading {
		p.reading = false
		in.keep(p.of, p.status, p.b)
	}
}

func (in *inspector) keep(of pageOf, status int, b []byte) {
	if !in.lacksError(status, "") {
		return
	}
	if of.stream == 0 {
		_, b = parts(b)
	}
	in.first.Errors = append(in.first.Errors, ErrorResponse{Status: status, Line: pageText(b)})
}

// parts returns the header of an HTTP/1.1 response, and its body as far as it is there, without its
// chunks' sizes.
func parts(b []byte) (head, body []byte) {
	head, body, _ = bytes.Cut(b, []byte("\r\n\r\n"))
	for bytes.HasPrefix(head, []byte("HTTP/1.1 1")) { // interim
		head, body, _ = bytes.Cut(body, []byte("\r\n\r\n"))
	}
	for length := range condition.Fields(head, "content-length") {
		if n, err := strconv.Atoi(length); err == nil && n >= 0 {
			return head, body[:min(n, len(body))]
		}
	}
	chunked := false
	for coding := range condition.Fields(head, "transfer-encoding") {
		chunked = chunked || strings.Contains(strings.ToLower(coding), "chunked")
	}
	if !chunked {
		return head, body
	}
	var whole []byte
	for {
		size, rest, found := bytes.Cut(body, []byte("\r\n"))
		hex, _, _ := bytes.Cut(size, []byte(";"))
		n, err := strconv.ParseUint(strings.TrimSpace(string(hex)), 16, 31)
		if !found || err != nil || n == 0 {
			return head, whole
		}
		end := min(int(n), len(rest))
		whole = append(whole, rest[:end]...)
		body = rest[min(end+2, len(rest)):]
	}
}

// keepStranger keeps the first bytes of a connection that are no HTTP/1.1 response, as one of status
// 0: the server speaks another protocol.
func (in *inspector) keepStranger(c *conn, b []byte) {
	if c.served == 0 && in.lacksError(0, "") && !bytes.HasPrefix(b, []byte("HTTP/")) {
		in.first.Errors = append(in.first.Errors, ErrorResponse{Line: strangerText(b)})
	}
}

// What a server says that speaks TLS or HTTP/2 to one that does not (RFC 8446 section 5.1, RFC 9113
// section 6.5).
const (
	SaysTLS   = "TLS alert"
	SaysHTTP2 = "HTTP/2 SETTINGS"
)

func strangerText(b []byte) string {
	switch {
	case len(b) >= 3 && (b[0] == 0x15 || b[0] == 0x16) && b[1] == 3:
		return SaysTLS
	case len(b) >= 9 && b[0] == 0 && b[3] == 4 && b[2]%6 == 0 && bytes.Equal(b[5:9], make([]byte, 4)):
		return SaysHTTP2
	}
	return pageText(b[:min(len(b), pageMost)])
}

// kept returns what was kept, when no more comes.
func (in *inspector) kept() FirstResponses {
	in.keepPage()
	return in.first
}

// lacksError reports whether no response of this status, or against this condition, was kept, and one
// more may be.
func (in *inspector) lacksError(status int, check string) bool {
	if len(in.first.Errors) >= errorsKept {
		return false
	}
	for i := range in.first.Errors {
		if in.first.Errors[i].same(status, check) {
			return false
		}
	}
	return true
}

// same reports whether it is the one of a condition or, without one, of a status.
func (e *ErrorResponse) same(status int, check string) bool {
	return e.Check == check && (check != "" || e.Status == status)
}

// joinErrors adds another part's first responses: one per condition and status, preferably with text,
// ascending.
func joinErrors(list, more []ErrorResponse) []ErrorResponse {
	for _, e := range more {
		i := slices.IndexFunc(list, func(have ErrorResponse) bool { return have.same(e.Status, e.Check) })
		switch {
		case i < 0 && len(list) < errorsKept:
			list = append(list, e)
		case i >= 0 && list[i].Line == "":
			list[i].Line = e.Line
		}
	}
	slices.SortFunc(list, func(a, b ErrorResponse) int {
		return cmp.Or(cmp.Compare(a.Status, b.Status), strings.Compare(a.Check, b.Check))
	})
	return list
}
