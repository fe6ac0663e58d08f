package proxy

import (
	"context"
)

// additions are what a configuration adds to one request beyond its location's edits; most have none.
type additions struct {
	request  []byte // field lines for the destination
	response []byte // field lines for the client
	cookie   []byte // the line that keeps the client at its destination
	inquiry  *inquiry
	body     []byte // see collect
	id       []byte // of the request, for the log
	traceID  []byte
	user     []byte // whose password it had

	collecting bool // the body, for a destination that cannot take chunks
}

// lines returns the field lines for the client.
func (a *additions) lines(b []byte) []byte {
	return append(append(b[:len(b):len(b)], a.response...), a.cookie...)
}

// An inquiry is a question about a request that a goroutine answers, while its loop goes on with
// others.
type inquiry struct{ cancel context.CancelFunc }

// stop ends the inquiry, whose answer has no use.
func (a *additions) stop() {
	if a != nil && a.inquiry != nil {
		a.inquiry.cancel()
		a.inquiry = nil
	}
}
