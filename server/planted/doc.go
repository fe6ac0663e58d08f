// Package planted holds servers whose ceiling is known, because it was put
// there: a lock held for so long, a pool of so many, a core of work for each
// request. They are what a verdict is tested against.
//
// Each kind is one small file and one line of the catalogue (catalogue.go). A
// kind takes a few numbers (params.go) and refuses those it does not use, so
// that nobody believes to have planted what is not there. CPU cost is CPU time
// of the thread that pays it, not time on the clock (burn.go); waits end when
// they should, to tens of microseconds (alarm.go). No kind reads the request's
// path: every URL gets the same answer, but for /debug/pprof/ where that was
// asked for (profiles.go).
//
// The package runs on Linux and knows nothing of the rest of the lab.
package planted
