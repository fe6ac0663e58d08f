package server

import (
	"context"
	"errors"
	"log"
	"math/bits"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"sync"

	"ceiling/server/backend"
)

// A Route is a path that every server of the catalogue serves, for GET and HEAD, or POST if it
// writes. Other methods get 405, other paths 404; the query is ignored.
type Route struct {
	Path            string
	About           string // one line
	ContentType     string
	ContentEncoding string // "" for none

	// Writes is set if the route changes the database.
	Writes bool

	// computed means that the body is built per request. The bodies of other routes belong to the
	// pool and are immutable.
	computed bool

	// answer returns the body for seed. It is pure: the same pool and seed give the same bytes.
	answer func(p *pool, seed uint64) []byte

	// query, instead of answer, asks a backend. The body belongs to the request.
	query func(seed uint64) ([]byte, error)
}

// allow is the value of the Allow header.
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
			answer: func(p *pool, _ uint64) []byte { return p.hello },
		},
		{
			Path: "/read", About: "one of 500 products at random, about 4.5 KB of precomputed JSON", ContentType: typeJSON,
			answer: func(p *pool, seed uint64) []byte { return p.products[choose(seed, productCount)].json },
		},
		{
			Path: "/read-gz", About: "the same, precompressed (1.96 times smaller), always sent as gzip", ContentType: typeJSON,
			ContentEncoding: "gzip",
			answer:          func(p *pool, seed uint64) []byte { return p.products[choose(seed, productCount)].gzip },
		},
		{
			Path: "/list", About: "20 to 30 products, about 110 KB of precomputed JSON (--list-kb)", ContentType: typeJSON,
			answer: func(p *pool, seed uint64) []byte { return p.lists[choose(seed, listCount)] },
		},
		{
			Path: "/compute", About: "statistics of 100 random products: sorting, counting, encoding; about 490 bytes of JSON",
			ContentType: typeJSON, computed: true, answer: summarise,
		},
		{
			Path: "/healthz", About: "returns ok", ContentType: typeText,
			answer: func(p *pool, _ uint64) []byte { return p.ok },
		},
	}
}

// choose maps a seed that is uniform over 64 bits to an index below n: the high word of seed·n,
// which favours no index by more than n in 2^64 and costs a multiplication instead of a division.
func choose(seed uint64, n int) int {
	hi, _ := bits.Mul64(seed, uint64(n))
	return int(hi)
}

// A site is what every framework mounts: the routes and the pool.
type site struct {
	routes  []Route
	pool    *pool
	behind  []backend.Backend
	closing sync.Once
	keys    backend.Keys // nil: no key-value bucket
	log     *log.Logger  // for client errors

	streams    context.Context // of the WebSockets
	endStreams func()          // ends them: no framework does
}

// onePool is the shared pool of all sites of a process: it is immutable, and building it takes 40
// ms of CPU.
var onePool = sync.OnceValues(newPool) // read-only

// newSite returns a site whose lists have about listKB thousand bytes; 0 for the default.
func newSite(listKB int) (*site, error) {
	p, err := onePool()
	if err != nil {
		return nil, err
	}
	if listKB > 0 {
		p = p.withLists(listKB)
	}
	s := &site{routes: Routes(), pool: p, log: newComplaints(os.Stderr)}
	s.streams, s.endStreams = context.WithCancel(context.Background())
	return s, nil
}

// respond returns a response body of r and its status.
func (s *site) respond(r *Route) ([]byte, int) {
	var body []byte
	var err error
	switch {
	case r.query != nil:
		body, err = r.query(rand.Uint64())
	default:
		body = r.answer(s.pool, rand.Uint64())
	}
	if err != nil {
		return backend.Failure(err), http.StatusServiceUnavailable
	}
	return body, http.StatusOK
}

// add puts a backend behind the site, and gives it its routes.
func (s *site) add(b backend.Backend) {
	s.behind = append(s.behind, b)
	for _, r := range b.Routes() {
		s.routes = append(s.routes, Route{Path: r.Path, About: r.About, ContentType: typeJSON, Writes: r.Writes, query: r.Query})
	}
	if keys, is := b.(backend.Keys); is {
		s.keys = keys
	}
}

// close ends WebSockets and backends, the last one first. Once more, it does nothing.
func (s *site) close() (err error) {
	s.closing.Do(func() {
		s.endStreams()
		for _, b := range slices.Backward(s.behind) {
			err = errors.Join(err, b.Close())
		}
	})
	return err
}

// abort fails requests that wait for a backend.
func (s *site) abort() {
	for _, b := range s.behind {
		b.Abort()
	}
}
