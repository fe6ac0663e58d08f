package planted

import (
	"net/http"
	"net/http/pprof"
	"runtime"
	"strings"
)

// blockRateNs: of shorter waits one in so many is recorded, longer ones all. Recording costs more
// than a short wait itself.
const blockRateNs = 10_000

// recordWaits makes the runtime record lock contention and other waits until the returned
// function is called.
func recordWaits() (stop func()) {
	before := runtime.SetMutexProfileFraction(1)
	runtime.SetBlockProfileRate(blockRateNs)
	return func() {
		runtime.SetMutexProfileFraction(before)
		runtime.SetBlockProfileRate(0)
	}
}

// withProfiles serves /debug/pprof/ in addition to h.
func withProfiles(h http.HandlerFunc) http.HandlerFunc {
	const root = "/debug/pprof/"
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !strings.HasPrefix(r.URL.Path, root):
			h(w, r)
		case r.URL.Path == root+"profile":
			pprof.Profile(w, r)
		default:
			pprof.Index(w, r) // the others by their names
		}
	}
}
