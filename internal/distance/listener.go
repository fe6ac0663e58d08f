package distance

import (
	"net"
	"time"
)

// A listener returns the far ends of its forwarder's connections.
type listener struct {
	*Forwarder
	far   chan net.Conn
	ended chan struct{}
}

// Listen delays connections accepted from ln through the returned listener, which closes ln too.
// It uses no further socket, which an observer could mistake for another server's.
func Listen(ln net.Listener, delay time.Duration) net.Listener {
	l := &listener{far: make(chan net.Conn), ended: make(chan struct{})}
	l.Forwarder = begin(ln, delay, l.pipe)
	return l
}

func (l *listener) pipe() (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.far <- there:
		return here, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.far:
		return c, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	close(l.ended)
	return l.Forwarder.Close()
}

func (l *listener) Addr() net.Addr { return l.ln.Addr() }
