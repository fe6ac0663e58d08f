package proxy

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
)

// marking is what every request and its response are marked with.
type marking struct {
	field string // of the request's ID; "" for none
	w3c   bool   // requests begin a trace (W3C Trace Context)
}

// mark gives a request its ID and its trace. field returns a field of the request; trusted is whether
// the client may choose the ID.
func (m *marking) mark(a *additions, field func(string) []byte, trusted bool) {
	if m.field != "" {
		if trusted {
			a.id = append(a.id, field(m.field)...)
		}
		if len(a.id) == 0 {
			a.id = randomHex(a.id, 2)
		}
		a.request = fmt.Appendf(a.request, "%s: %s\r\n", m.field, a.id)
		a.response = append(a.response, a.request...)
	}
	if m.w3c {
		parent := field(traceparent)
		if !validTrace(parent) {
			parent = append(randomHex([]byte("00-"), 2), '-')
			parent = append(randomHex(parent, 1), "-01"...)
		}
		a.traceID = append(a.traceID, parent[3:35]...)
		a.request = fmt.Appendf(a.request, "%s: %s\r\n", traceparent, parent)
	}
}

const traceparent = "traceparent"

// validTrace checks a traceparent of version 00, as the W3C's Trace Context defines it.
func validTrace(v []byte) bool {
	if len(v) != 55 || string(v[:3]) != "00-" || v[35] != '-' || v[52] != '-' {
		return false
	}
	zero := func(b []byte) bool {
		for _, c := range b {
			if c != '0' {
				return false
			}
		}
		return true
	}
	for i, c := range v {
		if i != 2 && i != 35 && i != 52 && !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return false
		}
	}
	return !zero(v[3:35]) && !zero(v[36:52])
}

// randomHex appends words of 64 random bits.
func randomHex(b []byte, words int) []byte {
	for range words {
		b = hex.AppendEncode(b, binary.BigEndian.AppendUint64(nil, rand.Uint64()))
	}
	return b
}

// fields are what requests lose because the proxy says it itself.
func (m *marking) fields() (names []string) {
	if m.field != "" {
		names = append(names, m.field)
	}
	if m.w3c {
		names = append(names, traceparent)
	}
	return names
}
