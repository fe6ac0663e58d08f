package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"

	"ceiling/server/backend"
)

// netHTTP is the standard library's server with its own router and default settings. It has no
// timeouts, as by default: a generator may leave connections idle as long as its plan says.
type netHTTP struct {
	server http.Server
}

func mountNetHTTP(s *site) engine {
	mux := http.NewServeMux()
	lengths := lengthHeaders(s.pool)
	for i := range s.routes {
		r := &s.routes[i]
		method := "GET " // includes HEAD
		if r.Writes {
			method = "POST "
		}
		mux.HandleFunc(method+r.Path, netHTTPHandler(s, r, lengths))
	}
	if s.keys != nil {
		mux.HandleFunc(kvPath, netHTTPKeyValue(s))
		mux.HandleFunc(kvPath+"/{key}", netHTTPKeyValue(s))
	}
	mux.HandleFunc("GET "+webSocketPath, echoNetHTTP(s.streams))
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true) // by prior knowledge
	return &netHTTP{server: http.Server{Handler: mux, Protocols: protocols, ErrorLog: s.log}}
}

// netHTTPHandler answers one route. It builds the header values once: Header.Set would allocate
// each time.
func netHTTPHandler(s *site, r *Route, lengths map[int][]string) http.HandlerFunc {
	contentType := []string{r.ContentType}
	var encoding []string
	if r.ContentEncoding != "" {
		encoding = []string{r.ContentEncoding}
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		body, status := s.respond(r)
		h := w.Header()
		h["Content-Type"] = contentType
		if encoding != nil {
			h["Content-Encoding"] = encoding
		}
		if length, ok := lengths[len(body)]; ok {
			h["Content-Length"] = length
		} else if r.query != nil {
			h["Content-Length"] = []string{strconv.Itoa(len(body))}
		}
		if status != http.StatusOK {
			w.WriteHeader(status)
		}
		_, _ = w.Write(body) // fails if the client has disconnected
	}
}

// netHTTPKeyValue serves the paths of the bucket.
func netHTTPKeyValue(s *site) http.HandlerFunc {
	contentType := []string{typeJSON}
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, backend.MaxValue+1)) // more is rejected
		if err != nil {
			return // the client has disconnected
		}
		a := s.keys.Answer(&backend.KeyRequest{
			Method: r.Method, Key: r.PathValue("key"), Read: r.URL.Query().Get("read"), Match: r.Header.Get("If-Match"),
			NoMatch: r.Header.Get("If-None-Match"), Body: body,
		})
		h := w.Header()
		h["Content-Type"] = contentType
		h["Content-Length"] = []string{strconv.Itoa(len(a.Body))}
		if a.Allow != "" {
			h["Allow"] = []string{a.Allow}
		}
		w.WriteHeader(a.Status)
		_, _ = w.Write(a.Body) // fails if the client has disconnected
	}
}

// lengthHeaders returns the Content-Length of every prepared body, by its length. Without it
// net/http sends a body of 2,048 bytes or more in chunks. It is read-only, so it needs no lock.
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
	// Shutdown fails if a connection is still busy when ctx ends, or was opened less than 5 s ago
	// and has sent nothing. Close closes those; its errors do not matter, since the sockets are
	// gone either way.
	if n.server.Shutdown(ctx) != nil {
		_ = n.server.Close()
	}
}
