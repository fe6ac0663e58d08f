package planted

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
)

// Faults that every n-th request of a faulty server meets.
const (
	FaultUnavailable = "503"
	FaultReset       = "reset"   // the connection is reset in place of an answer
	FaultSilence     = "silence" // no answer at all
)

func faults() []string { return []string{FaultUnavailable, FaultReset, FaultSilence} }

// serveFaulty counts the requests, so that the share is exact.
func serveFaulty(ctx context.Context, p *Params, ready func(string)) error {
	var count atomic.Int64
	return serveHTTP(ctx, p, ready, func(w http.ResponseWriter, r *http.Request) {
		if count.Add(1)%int64(p.Every) != 0 {
			burn(p.CPU)
			ok(w)
			return
		}
		switch p.Fault {
		case FaultUnavailable:
			http.Error(w, "planted", http.StatusServiceUnavailable)
		case FaultReset:
			reset(w)
		case FaultSilence:
			select {
			case <-r.Context().Done():
			case <-ctx.Done():
			}
		}
	})
}

// reset closes the connection so that the peer gets a reset: with nothing
// lingering the kernel throws the connection away (tcp(7), SO_LINGER).
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // closes it, if less rudely
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails only on a closed connection
	}
	_ = conn.Close()
}
