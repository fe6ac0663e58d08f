package planted

import (
	"context"
	"net"
	"net/http"
	"strconv"
)

// serveHalves writes every response in two parts, head and body, without TCP_NODELAY. The kernel
// holds the second until the first is acknowledged (Nagle, RFC 896), which the client delays by
// 40 ms, since it waits for the rest and has nothing to send (RFC 1122, 4.2.3.2).
func serveHalves(ctx context.Context, p *Params, ready func(string)) error {
	ln, err := listen(ctx, p.Addr, nil)
	if err != nil {
		return err
	}
	return serveOn(ctx, delaying{ln}, func() { ready(ln.Addr().String()) }, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		_ = http.NewResponseController(w).Flush() // the head; a client that has disconnected needs no response
		ok(w)
	})
}

// delaying turns TCP_NODELAY off, which Go turns on.
type delaying struct{ net.Listener }

func (l delaying) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetNoDelay(false)
	}
	return c, err
}
