// Package distance delays the traffic of a server, as a long link does.
package distance

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"ceiling/internal/sys"
)

// A Forwarder sits in front of a server's port and delays the traffic in each direction. It has a
// long link's effect on the round trip only: TCP at both ends sees a nearby peer, so windows and
// retransmissions are not those of the distance. tc-netem(8) would have that effect, but many
// kernels lack it.
type Forwarder struct {
	delay time.Duration
	dial  func() (net.Conn, error)
	ln    net.Listener

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	over  bool
	all   sync.WaitGroup
}

// Forward listens on from, "host:port", until Close, and connects to the other address.
func Forward(from, to string, delay time.Duration) (*Forwarder, error) {
	ln, err := net.Listen("tcp", from)
	if err != nil {
		return nil, err
	}
	return begin(ln, delay, func() (net.Conn, error) { return net.Dial("tcp", to) }), nil
}

func begin(ln net.Listener, delay time.Duration, dial func() (net.Conn, error)) *Forwarder {
	f := &Forwarder{delay: delay, dial: dial, ln: ln, conns: map[net.Conn]struct{}{}}
	f.all.Go(f.accept)
	return f
}

func (f *Forwarder) accept() {
	for {
		near, err := f.ln.Accept()
		if err != nil {
			return // closed
		}
		far, err := f.dial()
		if err != nil {
			_ = near.Close() // the server is not up yet; the client retries
			continue
		}
		if !f.keep(near, far) {
			return
		}
		f.all.Go(func() { f.pass(near, far) })
		f.all.Go(func() { f.pass(far, near) })
	}
}

func (f *Forwarder) keep(conns ...net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range conns {
		if f.over {
			_ = c.Close()
		}
		f.conns[c] = struct{}{}
	}
	return !f.over
}

// A piece is the data of one read, and when it is due.
type piece struct {
	due  time.Time
	text []byte
}

const (
	pieceBytes = 64 << 10
	piecesMost = 1024
)

// pass forwards one direction, and closes both connections at its end.
func (f *Forwarder) pass(from, to net.Conn) {
	queue := make(chan piece, piecesMost)
	f.all.Go(func() {
		defer f.end(from, to)
		alarm, err := sys.NewAlarm()
		for p := range queue {
			if err == nil {
				err = alarm.Wait(time.Until(p.due))
			}
			if err == nil {
				_, err = to.Write(p.text)
			}
			if err != nil {
				_ = from.Close() // stops the reader, which stops this
			}
		}
		alarm.Close()
	})
	defer close(queue)
	buffer := make([]byte, pieceBytes)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			queue <- piece{time.Now().Add(f.delay), append([]byte(nil), buffer[:n]...)}
		}
		if err != nil {
			return
		}
	}
}

func (f *Forwarder) end(conns ...net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range conns {
		_ = c.Close() // the other direction may have closed it
		delete(f.conns, c)
	}
}

// Close closes all connections and waits for them.
func (f *Forwarder) Close() error {
	err := f.ln.Close()
	f.mu.Lock()
	f.over = true
	for c := range f.conns {
		_ = c.Close()
	}
	f.mu.Unlock()
	f.all.Wait()
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
