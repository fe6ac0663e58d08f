package server

import (
	"log"
	"math/bits"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"

	"ceiling/server/downstream"
	"ceiling/server/publish"
	"ceiling/server/quorum"
	"ceiling/server/store"
)

// A Route is a path that every server of the catalogue answers, to GET and HEAD, or to POST where it writes.
// Other methods get 405, other paths 404; what is after a question mark is ignored.
type Route struct {
	Path            string
	About           string // one line
	ContentType     string
	ContentEncoding string // "" is none

	// Writes says that the route changes what is in the database.
	Writes bool

	// computed says that the body is made for the request and lies in the scratch. The bodies of the other routes
	// belong to the pool and never change, so a framework may hold on to them without a copy.
	computed bool

	// answer returns the body that seed chooses. It is pure: the same pool and seed give the same bytes.
	// A route that is not computed does not look at the scratch.
	answer func(p *pool, seed uint64, s *scratch) []byte

	// query, in place of answer, asks the database. The body is the request's own.
	query func(db *store.Store, seed uint64) ([]byte, error)

	// status, in place of these, tells of what is published.
	status func(h *publish.Hub) ([]byte, error)

	// call, in place of both, calls the downstream service. The body is the request's own.
	call func(c *downstream.Caller) ([]byte, error)
}

// own tells whether the bodies of a route are made for each request and not bounded by the scratch.
func (r *Route) own() bool { return r.query != nil || r.call != nil || r.status != nil }

// allow is the value of the header Allow.
func (r *Route) allow() string {
	if r.Writes {
		return "POST"
	}
	return "GET, HEAD"
}

const (
	typeJSON = "application/json"
	typeText = "text/plain; charset=utf-8"
)

// Routes returns the catalogue of routes.
func Routes() []Route {
	return []Route{
		{
			Path: "/simple", About: "16 bytes of JSON, always the same", ContentType: typeJSON,
			answer: func(p *pool, _ uint64, _ *scratch) []byte { return p.hello },
		},
		{
			Path: "/read", About: "one of 500 products at random, about 4.5 KB of precomputed JSON", ContentType: typeJSON,
			answer: func(p *pool, seed uint64, _ *scratch) []byte { return p.products[choose(seed, productCount)].json },
		},
		{
			Path: "/read-gz", About: "the same, precompressed (1.97 times smaller), always sent as gzip", ContentType: typeJSON,
			ContentEncoding: "gzip",
			answer:          func(p *pool, seed uint64, _ *scratch) []byte { return p.products[choose(seed, productCount)].gzip },
		},
		{
			Path: "/list", About: "20 to 30 products, about 110 KB of precomputed JSON (--list-kb)", ContentType: typeJSON,
			answer: func(p *pool, seed uint64, _ *scratch) []byte { return p.lists[choose(seed, listCount)] },
		},
		{
			Path: "/compute", About: "statistics of 100 random products: sorting, arithmetic, about 500 bytes of JSON",
			ContentType: typeJSON, computed: true, answer: summarise,
		},
		{
			Path: "/healthz", About: "returns ok", ContentType: typeText,
			answer: func(p *pool, _ uint64, _ *scratch) []byte { return p.ok },
		},
	}
}

// choose maps a seed that is uniform over 64 bits to an index below n: the high word of seed·n, which favours no
// index by more than n in 2^64 and costs a multiplication where a remainder costs a division.
func choose(seed uint64, n int) int {
	hi, _ := bits.Mul64(seed, uint64(n))
	return int(hi)
}

// A site is what every framework mounts: the routes, the pool they answer from, and memory for those that compute.
type site struct {
	routes    []Route
	pool      *pool
	scratches sync.Pool          // of *scratch; kept per processor by the runtime, so without a lock
	db        *store.Store       // nil: there are no routes of a database
	caller    *downstream.Caller // nil: there is no downstream service
	bucket    *quorum.Bucket     // nil: there is no key-value bucket
	hub       *publish.Hub       // nil: nothing is published
	log       *log.Logger        // of what is wrong with clients
}

// onePool is the pool of all sites of a process: it never changes once it is made, and making it takes 40 ms of CPU.
var onePool = sync.OnceValues(newPool) // read-only

// newSite returns a site whose lists have about listKB thousand bytes; 0 is what they have by default.
func newSite(listKB int) (*site, error) {
	p, err := onePool()
	if err != nil {
		return nil, err
	}
	if listKB > 0 {
		p = p.withLists(listKB)
	}
	s := &site{routes: Routes(), pool: p, log: newComplaints(os.Stderr)}
	s.scratches.New = func() any { return new(scratch) }
	return s, nil
}

// respond returns the body of one answer of r and its status. m is what borrow has returned for r.
func (s *site) respond(r *Route, m *scratch) ([]byte, int) {
	var body []byte
	var err error
	switch {
	case r.query != nil:
		body, err = r.query(s.db, rand.Uint64())
	case r.call != nil:
		body, err = r.call(s.caller)
	case r.status != nil:
		body, err = r.status(s.hub)
	default:
		body = r.answer(s.pool, rand.Uint64(), m)
	}
	if err != nil {
		return failure(err), http.StatusServiceUnavailable
	}
	return body, http.StatusOK
}

// endStreams ends every subscription and WebSocket: no framework would.
func (s *site) endStreams() {
	if s.hub != nil {
		s.hub.Close()
	}
}

// close ends what the site has besides memory, but for the bucket, which serveAlone does: it may fail.
func (s *site) close() {
	s.endStreams()
	if s.db != nil {
		s.db.Close()
	}
	if s.caller != nil {
		s.caller.Close()
	}
}

// abort makes requests that wait for the database, the downstream service or the bucket fail.
func (s *site) abort() {
	if s.db != nil {
		s.db.Abort()
	}
	if s.caller != nil {
		s.caller.Abort()
	}
	if s.bucket != nil {
		s.bucket.Abort()
	}
}

// borrow returns memory for one answer of r, nil if r needs none. Give it back when the body has been sent or copied.
func (s *site) borrow(r *Route) *scratch {
	if !r.computed {
		return nil
	}
	return s.scratches.Get().(*scratch)
}

func (s *site) giveBack(m *scratch) {
	if m != nil {
		s.scratches.Put(m)
	}
}
