package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
)

// netHTTP is the standard library's server with its own router and settings. It has no timeouts, as is its default: a
// generator may leave connections idle for as long as its plan says.
type netHTTP struct {
	server http.Server
}

func mountNetHTTP(s *site) engine {
	mux := http.NewServeMux()
	lengths := lengthHeaders(s.pool)
	for i := range s.routes {
		r := &s.routes[i]
		method := "GET " // matches HEAD as well
		if r.Writes {
			method = "POST "
		}
		mux.HandleFunc(method+r.Path, netHTTPHandler(s, r, lengths))
	}
	return &netHTTP{server: http.Server{Handler: mux}}
}

// netHTTPHandler answers one route. The values of the headers are made here, once: Header.Set would allocate each
// time.
func netHTTPHandler(s *site, r *Route, lengths map[int][]string) http.HandlerFunc {
	contentType := []string{r.ContentType}
	var encoding []string
	if r.ContentEncoding != "" {
		encoding = []string{r.ContentEncoding}
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		m := s.borrow(r)
		body, status := s.respond(r, m)
		h := w.Header()
		h["Content-Type"] = contentType
		if encoding != nil {
			h["Content-Encoding"] = encoding
		}
		if length, ok := lengths[len(body)]; ok {
			h["Content-Length"] = length
		} else if r.own() {
			h["Content-Length"] = []string{strconv.Itoa(len(body))}
		}
		if status != http.StatusOK {
			w.WriteHeader(status)
		}
		_, _ = w.Write(body) // it fails when the client has gone, and nobody is left to tell
		s.giveBack(m)
	}
}

// lengthHeaders returns the Content-Length of every body that is made beforehand, by its length. Without it net/http
// sends a body of 2,048 bytes or more in chunks. It is only read from, which needs no lock.
func lengthHeaders(p *pool) map[int][]string {
	lengths := map[int][]string{}
	add := func(body []byte) { lengths[len(body)] = []string{strconv.Itoa(len(body))} }
	add(p.hello)
	add(p.ok)
	for _, x := range p.products {
		add(x.json)
		add(x.gzip)
	}
	for _, l := range p.lists {
		add(l)
	}
	return lengths
}

func (n *netHTTP) serve(ln net.Listener) error {
	if err := n.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (n *netHTTP) stop(ctx context.Context) {
	// Shutdown fails when a connection is still busy as ctx ends, or was opened less than 5 s ago and has said nothing.
	// Close ends those; what it can fail at is closing sockets, and they are gone either way.
	if n.server.Shutdown(ctx) != nil {
		_ = n.server.Close()
	}
}
