package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
)

const (
	// scrapersMax limits simultaneous connections.
	scrapersMax = 16
	// headMax limits a request head, in bytes.
	headMax = 8 << 10
)

// Server serves a Live to scrapers. It disconnects a client that does not read within five
// seconds.
type Server struct {
	// Addr is the listening address, with the port actually assigned.
	Addr string

	http   *http.Server
	served chan error
}

// Serve listens on an address and serves live on /metrics. An address without a host (":9464")
// means loopback; give "0.0.0.0:9464" to let other hosts read it.
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
		ErrorLog:          log.New(io.Discard, "", 0), // client errors do not concern the run
	}}
	go func() { s.served <- s.http.Serve(netutil.LimitListener(l, scrapersMax)) }()
	return s, nil
}

// Close stops serving. Responses in flight may finish until ctx is done.
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
