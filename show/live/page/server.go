// Package page is the live view in a browser: a small web server in this process that shows a
// live.Board. The page loads nothing from elsewhere and receives updates as server-sent events.
// Late viewers get the run from its start; viewers that do not read are disconnected, so that no
// viewer can block a run.
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
	"ceiling/show/page"
)

//go:embed assets
var assets embed.FS

const (
	// connectionsMost limits the open sockets: readers and file requests.
	connectionsMost = 128
	// readersMost limits the pages open at once. 64 of them take about 1 % of a core.
	readersMost = 64
	// writeWithin is how long a write to a reader may block. A page that sleeps longer
	// reconnects.
	writeWithin = 5 * time.Second
	// sendBuffer is the kernel's send buffer for a reader that does not read.
	sendBuffer = 64 << 10
	// headWithin limits the time for a request to arrive.
	headWithin = 5 * time.Second
)

// Server serves one Board.
type Server struct {
	board *live.Board
	hub   *hub
	http  http.Server
	ln    net.Listener
	local bool // loopback only
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

// small makes connections with a small send buffer.
type small struct{ net.Listener }

// Accept implements net.Listener.
func (l small) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if t, ok := c.(*net.TCPConn); ok {
		// Best effort: if it fails, the kernel's own limit applies.
		_ = t.SetWriteBuffer(sendBuffer)
	}
	return c, err
}

// URL returns the page's URL.
func (s *Server) URL() string {
	at, err := netip.ParseAddrPort(s.ln.Addr().String())
	if err == nil && at.Addr().IsUnspecified() {
		return fmt.Sprintf("http://localhost:%d/", at.Port())
	}
	return "http://" + s.ln.Addr().String() + "/"
}

// Local reports whether the server listens on the loopback only.
func (s *Server) Local() bool { return s.local }

// Close stops the server. Readers have grace to receive the last events.
func (s *Server) Close(grace time.Duration) error {
	s.hub.drain(grace)
	s.stop()
	<-s.pulse
	err := s.http.Close()
	<-s.ended
	return errors.Join(err, s.fail)
}

// HasReport offers a report of the finished run, and the function that writes it: a separate page
// that the live page links to.
func (s *Server) HasReport(write func(io.Writer) error) { s.hub.hasReport(write) }

// report serves the report, whose own policy blocks all loading.
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
	_, _ = w.Write(b.Bytes()) // a reader that has disconnected
}

// handler serves the page: its frame, its own files, and the style and the script of a report.
func (s *Server) handler() (http.Handler, error) {
	whole, err := index()
	if err != nil {
		return nil, fmt.Errorf("live page: %w", err)
	}
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		return nil, fmt.Errorf("live page: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /events", http.HandlerFunc(s.events))
	mux.Handle("GET /report", http.HandlerFunc(s.report))
	mux.Handle("GET /{$}", text("html", string(whole)))
	mux.Handle("GET /page.css", text("css", page.Style()))
	mux.Handle("GET /page.js", text("javascript", page.Script()))
	mux.Handle("GET /", http.FileServerFS(files))
	return s.guard(mux), nil
}

// text serves a text of a kind.
func text(kind, content string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/"+kind+"; charset=utf-8")
		_, _ = io.WriteString(w, content) // a reader that has disconnected
	})
}

// guard accepts only requests that a browser on this machine makes on the user's behalf. A page
// of another site can make a browser send requests here: Sec-Fetch-Site shows their origin, and
// package rebind checks the rest.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A reader that does not read a file is disconnected like any other.
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

// sameSite checks Sec-Fetch-Site: "none" means that a person typed the address, and programs
// other than browsers send nothing.
func sameSite(site string) bool { return site == "" || site == "same-origin" || site == "none" }
