// Package page is the live view in a browser: a small web server inside this
// process that shows a live.Board. The page loads nothing from elsewhere; what
// happens comes as server-sent events. Whoever looks late gets the run from its
// beginning, and whoever does not read is dropped: nobody can hold a run up.
package page

import (
	"bytes"
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/net/netutil"

	"ceiling/internal/rebind"
	"ceiling/show/live"
)

//go:embed assets
var assets embed.FS

const (
	// connectionsMost bounds the open sockets: readers and what asks for files.
	connectionsMost = 128
	// readersMost bounds the pages that are open at once. 64 of them take about
	// 1 % of a core.
	readersMost = 64
	// writeWithin is how long a reader may take to make room for what is sent to
	// it. A page that has gone to sleep for longer connects again.
	writeWithin = 5 * time.Second
	// sendBuffer is what the kernel keeps for one reader that does not read.
	sendBuffer = 64 << 10
	// headWithin bounds the time in which a request has to arrive.
	headWithin = 5 * time.Second
)

// Server shows one Board.
type Server struct {
	board *live.Board
	hub   *hub
	http  http.Server
	ln    net.Listener
	local bool // on the loopback alone
	ended chan struct{}
	fail  error
	stop  context.CancelFunc
	pulse chan struct{}
}

// Start serves the board on a TCP address such as 127.0.0.1:0 until Close.
func Start(addr string, board *live.Board) (*Server, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("live page: %w; give another address, or port 0 to have one chosen", err)
	}
	at, err := netip.ParseAddrPort(ln.Addr().String())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("live page: %w", err), ln.Close())
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{board: board, hub: newHub(board, rand.Text()[:8]), ln: ln, local: at.Addr().IsLoopback(),
		ended: make(chan struct{}), pulse: make(chan struct{}), stop: stop}
	handler, err := s.handler()
	if err != nil {
		stop()
		return nil, errors.Join(err, ln.Close())
	}
	s.http = http.Server{
		Handler: handler, ReadHeaderTimeout: headWithin, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    quiet(),
	}
	go func() {
		defer close(s.ended)
		if err := s.http.Serve(netutil.LimitListener(small{ln}, connectionsMost)); !errors.Is(err, http.ErrServerClosed) {
			s.fail = err
		}
	}()
	go func() {
		defer close(s.pulse)
		s.hub.run(ctx)
	}()
	return s, nil
}

// small makes connections that keep little of what is not read.
type small struct{ net.Listener }

// Accept implements net.Listener.
func (l small) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if t, ok := c.(*net.TCPConn); ok {
		// Best effort: a kernel that refuses keeps more, but within its own limit.
		_ = t.SetWriteBuffer(sendBuffer)
	}
	return c, err
}

// URL of the page.
func (s *Server) URL() string {
	at, err := netip.ParseAddrPort(s.ln.Addr().String())
	if err == nil && at.Addr().IsUnspecified() {
		return fmt.Sprintf("http://localhost:%d/", at.Port())
	}
	return "http://" + s.ln.Addr().String() + "/"
}

// Local tells whether other machines are kept out.
func (s *Server) Local() bool { return s.local }

// Close ends the server. Readers have until grace is over to get the last that
// there is to be seen.
func (s *Server) Close(grace time.Duration) error {
	s.hub.drain(grace)
	s.stop()
	<-s.pulse
	err := s.http.Close()
	<-s.ended
	return errors.Join(err, s.fail)
}

// HasReport tells that there is a report of what has ended, and how it is written: a
// page of its own that the live page links to.
func (s *Server) HasReport(write func(io.Writer) error) { s.hub.hasReport(write) }

// report answers with the report, whose own policy lets nothing be loaded.
func (s *Server) report(w http.ResponseWriter, r *http.Request) {
	write := s.hub.reportWriter()
	if write == nil {
		http.NotFound(w, r)
		return
	}
	var b bytes.Buffer
	if err := write(&b); err != nil {
		http.Error(w, "the report could not be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Security-Policy", "frame-ancestors 'none'")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes()) // a reader that has gone is told by nobody
}

func (s *Server) handler() (http.Handler, error) {
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		return nil, fmt.Errorf("live page: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /events", http.HandlerFunc(s.events))
	mux.Handle("GET /report", http.HandlerFunc(s.report))
	mux.Handle("GET /", http.FileServerFS(files))
	return s.guard(mux), nil
}

// guard lets through what a browser on this machine asks for itself. A page of
// another site can make a browser send requests here: Sec-Fetch-Site says where
// they come from, and package rebind has the rest.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A reader of a file that does not read it is dropped like any other.
		if http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeWithin)) != nil {
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "+
			"base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		switch {
		case !rebind.Safe(r.Host, s.local):
			http.Error(w, "this page answers to its address only, not to a name", http.StatusMisdirectedRequest)
		case r.Method != http.MethodGet:
			h.Set("Allow", "GET")
			http.Error(w, "GET only", http.StatusMethodNotAllowed)
		case r.ContentLength != 0:
			http.Error(w, "no body, please", http.StatusRequestEntityTooLarge)
		case !sameSite(r.Header.Get("Sec-Fetch-Site")):
			http.Error(w, "not for other sites", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// sameSite judges Sec-Fetch-Site: "none" is a person who typed the address, and
// a program that is no browser sends nothing.
func sameSite(site string) bool { return site == "" || site == "same-origin" || site == "none" }
