package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// scrapersMax bounds the connections that stand at once.
	scrapersMax = 16
	// headMax bounds the head of a request, bytes.
	headMax = 8 << 10
)

// Server shows a Live to scrapers. One that connects and never reads is cut
// off after five seconds.
type Server struct {
	// Addr it listens on, with the port that was given to it.
	Addr string

	http   *http.Server
	served chan error
}

// Serve listens on an address and serves live on /metrics. An address without a
// host (":9464") is that of the loopback interface: who wants others to read it
// says so ("0.0.0.0:9464").
func Serve(addr string, live *Live) (*Server, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("serve metrics on %q: give an address such as 127.0.0.1:9464 or :9464", addr)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w; give another port, or 0 for any", err)
	}
	s := &Server{Addr: l.Addr().String(), served: make(chan error, 1), http: &http.Server{
		Handler:           live,
		ReadHeaderTimeout: 2 * time.Second,
		ReadTimeout:       2 * time.Second,
		WriteTimeout:      5 * time.Second,
		IdleTimeout:       time.Minute, // scrapers come every 15 s
		MaxHeaderBytes:    headMax,
		ErrorLog:          log.New(io.Discard, "", 0), // what scrapers do wrong is not the run's affair
	}}
	limited := &limitedListener{Listener: l, places: make(chan struct{}, scrapersMax), closed: make(chan struct{})}
	go func() { s.served <- s.http.Serve(limited) }()
	return s, nil
}

// Close stops serving. Answers under way may end until ctx is done.
func (s *Server) Close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// limitedListener accepts no further connection while scrapersMax stand.
type limitedListener struct {
	net.Listener
	places chan struct{}
	once   sync.Once
	closed chan struct{}
}

func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &limitedConn{Conn: c, leave: func() { <-l.places }}, nil
}

func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	once  sync.Once
	leave func()
}

func (c *limitedConn) Close() error {
	c.once.Do(c.leave)
	return c.Conn.Close()
}
