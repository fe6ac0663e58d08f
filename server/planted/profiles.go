package planted

import (
	"net/http"
	"net/http/pprof"
	"runtime"
	"strings"
)

// blockRateNs: of waits shorter than this one in so many is recorded, longer
// ones all. Recording each costs more than a short wait itself.
const blockRateNs = 10_000

// recordWaits has the runtime record who waits for locks and elsewhere, until
// the function that it answers is called.
func recordWaits() (stop func()) {
	before := runtime.SetMutexProfileFraction(1)
	runtime.SetBlockProfileRate(blockRateNs)
	return func() {
		runtime.SetMutexProfileFraction(before)
		runtime.SetBlockProfileRate(0)
	}
}

// withProfiles answers /debug/pprof/ beside h.
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
