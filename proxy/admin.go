package proxy

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"ceiling/internal/rebind"
)

// Operator is what the admin address controls: this process's proxy, or the parent of several.
type Operator struct {
	Snapshot func() (*Snapshot, error)
	Reload   func() error
	// Traces returns the last requests, newest first; it may be nil.
	Traces func() ([]Trace, error)
	// Credential returns the Bearer token that changes require; "" requires none. It is called
	// per request, so that a reload changes it.
	Credential func() string
	// Beyond: the address is reachable beyond the loopback, by names. On the loopback, a Host
	// field with a name means that another site's page sends the request, see package rebind.
	Beyond bool
}

// adminTimeout bounds the time a client of the admin address may take.
const adminTimeout = 10 * time.Second

// Server returns the server of the admin address: GET / (a page), GET /metrics (Prometheus) and /status (JSON),
// GET /healthz, POST /reload, GET /traces, and what more adds.
func (o *Operator) Server(more ...func(*http.ServeMux)) *http.Server {
	mux := http.NewServeMux()
	for _, add := range more {
		add(mux)
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	show := func(path, kind string, write func(*Snapshot, http.ResponseWriter) error) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			s, err := o.Snapshot()
			if err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			w.Header().Set("Content-Type", kind)
			_ = write(s, w) // it fails if the client has left
		})
	}
	show("/metrics", "text/plain; version=0.0.4; charset=utf-8", func(s *Snapshot, w http.ResponseWriter) error {
		return s.WritePrometheus(w)
	})
	show("/status", "application/json", func(s *Snapshot, w http.ResponseWriter) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(s)
	})
	show("/{$}", "text/html; charset=utf-8", func(s *Snapshot, w http.ResponseWriter) error {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		return s.WritePage(w)
	})
	if o.Traces != nil { // what clients have requested is private
		mux.Handle("GET /traces", o.Guard(o.serveTraces))
	}
	mux.Handle("POST /reload", o.Guard(func(w http.ResponseWriter, _ *http.Request) {
		if err := o.Reload(); err != nil {
			http.Error(w, "the old configuration stays:\n"+err.Error(), http.StatusUnprocessableEntity)
			return
		}
		_, _ = w.Write([]byte("reloaded\n"))
	}))
	return &http.Server{Handler: o.own(mux), ReadHeaderTimeout: adminTimeout, ReadTimeout: adminTimeout, IdleTimeout: time.Minute}
}

// own refuses requests under another site's name.
func (o *Operator) own(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !o.Beyond && !rebind.Safe(r.Host, true) {
			http.Error(w, "use the admin address itself, such as 127.0.0.1, not a name", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// serveTraces responds with one line of JSON per request.
func (o *Operator) serveTraces(w http.ResponseWriter, _ *http.Request) {
	list, err := o.Traces()
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	for _, t := range list {
		_, _ = w.Write(append(t.Line, '\n')) // it fails if the client has left
	}
}

// Guard protects handlers that change something: requests need the credential, and must not come
// from a page in a browser.
func (o *Operator) Guard(f http.HandlerFunc) http.Handler {
	return http.NewCrossOriginProtection().Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if o.NeedsCredential() && (!bearer || !o.Accepts(said)) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "the credential is needed", http.StatusUnauthorized)
			return
		}
		f(w, r)
	}))
}

// NeedsCredential reports whether changes require a credential.
func (o *Operator) NeedsCredential() bool { return o.Credential != nil && o.Credential() != "" }

// Accepts reports whether that is the credential; nothing is, if there is none.
func (o *Operator) Accepts(said string) bool {
	if o.Credential == nil || said == "" {
		return false
	}
	a, b := sha256.Sum256([]byte(said)), sha256.Sum256([]byte(o.Credential())) // equal lengths, so that timing reveals nothing
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}
