package apps

import (
	"encoding/json"
	"net/http"
)

// Handle adds to the admin address: GET /applications, and POST
// /applications/{id}/restart and /stop, which guard stands before.
func (s *Supervisor) Handle(mux *http.ServeMux, guard func(http.HandlerFunc) http.Handler) {
	status := func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.Status()) // the client has gone
	}
	mux.HandleFunc("GET /applications", func(w http.ResponseWriter, _ *http.Request) { status(w) })
	change := func(f func(id string) error) http.Handler {
		return guard(func(w http.ResponseWriter, r *http.Request) {
			if err := f(r.PathValue("id")); err != nil {
				http.Error(w, err.Error(), http.StatusNotFound)
				return
			}
			status(w)
		})
	}
	mux.Handle("POST /applications/{id}/restart", change(s.Restart))
	mux.Handle("POST /applications/{id}/stop", change(s.Stop))
}
