package load

import (
	"bytes"
	"maps"

	"ceiling/internal/condition"
	"ceiling/internal/ring"
)

// checker holds a worker's responses to the conditions of the run, on its thread. Many are the same
// as one before: a body that is equal to the last good one is compared, and not examined.
type checker struct {
	list    []condition.Condition
	head    bool // a condition asks for a header field
	partial map[pageOf][]byte
	good    []byte // the last body that was as it has to be; nil: none, or heads are asked for too
}

func newChecker(list []condition.Condition) *checker {
	if len(list) == 0 {
		return nil
	}
	k := &checker{list: list, partial: map[pageOf][]byte{}}
	for i := range list {
		k.head = k.head || list[i].NeedsHead()
	}
	return k
}

// take keeps a part of a response, and returns the whole with the last.
func (k *checker) take(of pageOf, part []byte, last bool) (whole []byte) {
	before, begun := k.partial[of]
	if last {
		if !begun {
			return part
		}
		delete(k.partial, of)
		return append(before, part...)
	}
	k.partial[of] = append(before, part...)
	return nil
}

// takeHead begins a response of HTTP/2 with its header, if conditions ask for it.
func (k *checker) takeHead(of pageOf, fields []byte) {
	if k != nil && k.head {
		k.take(of, append(fields, "\r\n"...), false)
	}
}

// forgetStream drops what was received of one response.
func (k *checker) forgetStream(of pageOf) {
	if k != nil {
		delete(k.partial, of)
	}
}

// forget drops what a connection has received of responses.
func (k *checker) forget(t ring.Tag, speaks Protocol) {
	switch {
	case k == nil:
	case speaks == HTTP2:
		maps.DeleteFunc(k.partial, func(of pageOf, _ []byte) bool { return of.tag == t })
	default:
		delete(k.partial, pageOf{tag: t})
	}
}

// examine takes a part of a response; last: it ends with it. It returns the condition that the response does
// not satisfy, "" if there is none, and what the response has instead.
func (k *checker) examine(of pageOf, part []byte, last bool) (against, found string) {
	whole := k.take(of, part, last)
	if !last {
		return "", ""
	}
	r := condition.Response{Body: whole}
	if of.stream == 0 || k.head {
		r.Head, r.Body = parts(whole)
	}
	if !k.head && k.good != nil && bytes.Equal(k.good, r.Body) {
		return "", ""
	}
	for i := range k.list {
		if holds, found := k.list[i].Holds(&r); !holds {
			return k.list[i].String(), found
		}
	}
	if !k.head {
		k.good = append(k.good[:0], r.Body...)
	}
	return "", ""
}

// examine examines a part of a response. One of an unexpected status is an error already.
func (w *worker) examine(of pageOf, status int, part []byte, last bool) {
	if against, found := w.seen.checks.examine(of, part, last); against != "" && !w.shared.Expect.Unexpected[status] {
		w.tally.Bad++
		if !w.tally.Warmup { // in which nothing counts
			w.tally.Faults[Fault{PhaseCheck, against}]++
		}
		if w.seen.lacksError(status, against) {
			w.seen.first.Errors = append(w.seen.first.Errors, ErrorResponse{Status: status, Check: against, Line: pageText([]byte(found))})
		}
	}
}
