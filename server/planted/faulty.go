package planted

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
)

// Faults that every n-th request meets.
const (
	FaultUnavailable = "503"
	FaultReset       = "reset"   // the connection is reset instead of a response
	FaultSilence     = "silence" // no response
)

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

// reset closes the connection with a TCP reset: with a linger time of 0 the kernel discards the
// connection (tcp(7), SO_LINGER).
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // closes it, less abruptly
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails only on a closed connection
	}
	_ = conn.Close()
}
