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

// Operator is what the admin address asks: the proxy of this process, or the
// parent of several.
type Operator struct {
	Snapshot func() (*Snapshot, error)
	Reload   func() error
	// Traces are the last requests, the newest first; nil has none.
	Traces func() ([]Trace, error)
	// Credential that changes need as a Bearer token; "" needs none. It is asked for
	// each request, so that a reload changes it.
	Credential func() string
	// Beyond the loopback the address is known by names; on it a Host field that is a
	// name means that another site's page asks, see package rebind.
	Beyond bool
}

// adminTimeout bounds what a client of the admin address may take.
const adminTimeout = 10 * time.Second

// Server serves the admin address: GET /metrics (Prometheus) and /status (JSON),
// GET /healthz, POST /reload, GET /traces, and what more adds.
func (o *Operator) Server(more ...func(*http.ServeMux)) *http.Server {
	mux := http.NewServeMux()
	for _, add := range more {
		add(mux)
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		s, err := o.Snapshot()
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_ = s.WritePrometheus(w) // the client has gone
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		s, err := o.Snapshot()
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		_ = e.Encode(s) // the client has gone
	})
	if o.Traces != nil { // what clients have asked for is not for everybody
		mux.Handle("GET /traces", o.Guard(o.traces))
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

// own refuses what comes under another site's name.
func (o *Operator) own(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !o.Beyond && !rebind.Safe(r.Host, true) {
			http.Error(w, "use the admin address itself, such as 127.0.0.1, not a name", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// traces answers with one line of JSON for each request.
func (o *Operator) traces(w http.ResponseWriter, _ *http.Request) {
	list, err := o.Traces()
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	for _, t := range list {
		_, _ = w.Write(append(t.Line, '\n')) // the client has gone
	}
}

// Guard lets requests through that may change something: those with the
// credential, and none that a page in a browser has sent.
func (o *Operator) Guard(f http.HandlerFunc) http.Handler {
	return http.NewCrossOriginProtection().Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if credential := o.credential(); credential != "" {
			said, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			a, b := sha256.Sum256([]byte(said)), sha256.Sum256([]byte(credential)) // of one length, so that the time tells nothing of it
			if subtle.ConstantTimeCompare(a[:], b[:]) != 1 || !bearer {
				w.Header().Set("WWW-Authenticate", "Bearer")
				http.Error(w, "the credential is needed", http.StatusUnauthorized)
				return
			}
		}
		f(w, r)
	}))
}

func (o *Operator) credential() string {
	if o.Credential == nil {
		return ""
	}
	return o.Credential()
}
