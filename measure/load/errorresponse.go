package load

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// errorsKept bounds the statuses of which a response is kept: a server that answers with every
	// status code must not fill memory.
	errorsKept = 16
	// errorLineMax bounds the line kept of each, in bytes: the width of two terminals.
	errorLineMax = 200
)

// ErrorResponse is the first response of one unexpected status.
type ErrorResponse struct {
	Status int
	// Line is the first line of its body that has any text, at most 200 bytes, printable characters
	// only; "" if there is none, or the body is not text.
	Line string
}

// errorStatuses returns the statuses that count as errors by default.
func errorStatuses() *[1000]bool {
	var list [1000]bool
	for status := 400; status < len(list); status++ {
		list[status] = true
	}
	return &list
}

// keepError keeps the first response of an unexpected status. b begins at the response or within
// it; only bytes that hold the whole head are of use.
func (w *worker) keepError(status int, b []byte) {
	if !w.lacksError(status) {
		return
	}
	head, body, whole := bytes.Cut(b, []byte("\r\n\r\n"))
	if !whole || !bytes.HasPrefix(head, []byte("HTTP/1.")) {
		return
	}
	if bytes.Contains(bytes.ToLower(head), []byte("transfer-encoding")) {
		_, body, _ = bytes.Cut(body, []byte("\r\n")) // the size of the first chunk
	}
	w.errors = append(w.errors, ErrorResponse{Status: status, Line: firstLine(body)})
}

// keepErrorLine does the same with the body, or its beginning.
func (w *worker) keepErrorLine(status int, body []byte) {
	if w.lacksError(status) {
		w.errors = append(w.errors, ErrorResponse{Status: status, Line: firstLine(body)})
	}
}

// lacksError reports whether no response of this status was kept, and one more may be.
func (w *worker) lacksError(status int) bool {
	if len(w.errors) >= errorsKept {
		return false
	}
	for i := range w.errors {
		if w.errors[i].Status == status {
			return false
		}
	}
	return true
}

// firstLine returns the first line of text, printable and bounded; "" if the body is not text.
func firstLine(body []byte) string {
	body = body[:min(len(body), 4*errorLineMax)]
	for line := range bytes.Lines(body) {
		text := strings.Map(func(r rune) rune {
			if r == '\t' {
				return ' '
			}
			if r == utf8.RuneError || !unicode.IsPrint(r) {
				return -1
			}
			return r
		}, string(line))
		lost := len(bytes.TrimSpace(line)) - len(text)
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		if lost > len(line)/4 { // compressed, or another binary form
			return ""
		}
		for len(text) > errorLineMax {
			_, size := utf8.DecodeLastRuneInString(text)
			text = text[:len(text)-size]
		}
		return text
	}
	return ""
}

// joinErrors adds another part's first responses: one per status, preferably with text, ascending.
func joinErrors(list, more []ErrorResponse) []ErrorResponse {
	for _, e := range more {
		i := slices.IndexFunc(list, func(have ErrorResponse) bool { return have.Status == e.Status })
		switch {
		case i < 0 && len(list) < errorsKept:
			list = append(list, e)
		case i >= 0 && list[i].Line == "":
			list[i].Line = e.Line
		}
	}
	slices.SortFunc(list, func(a, b ErrorResponse) int { return cmp.Compare(a.Status, b.Status) })
	return list
}
