package proxy

import (
	"errors"
	"io"
	"sync/atomic"
	"syscall"
)

// trouble is what keeps something from working, so that its start, another cause and its end are
// reported, and not each request that meets it.
type trouble struct{ why atomic.Pointer[string] }

// begins notes a cause, and reports whether it is news.
func (t *trouble) begins(why string) bool {
	last := t.why.Load()
	return (last == nil || *last != why) && t.why.CompareAndSwap(last, &why)
}

// ends notes that it works, and reports whether that is news.
func (t *trouble) ends() bool {
	last := t.why.Load()
	return last != nil && t.why.CompareAndSwap(last, nil)
}

// rootCause returns an error without what differs from request to request: a local port, and by
// which of three calls the end of a connection was noticed.
func rootCause(err error) string {
	var no syscall.Errno
	switch {
	case errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "it closed the connection"
	case errors.As(err, &no):
		return no.Error()
	}
	return err.Error()
}
