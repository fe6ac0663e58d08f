// Package backend is what a measured server and what stands behind it agree on: a database, a
// key-value bucket or a service that fails. A server that has none links none of them.
package backend

import (
	"context"
	"encoding/json"
)

// A Route is a path whose JSON body a backend makes, for GET and HEAD, or for POST if it writes. An
// error is answered with 503 and its text. The body belongs to the request.
type Route struct {
	Path   string
	About  string // one line
	Writes bool
	Query  func(seed uint64) ([]byte, error)
}

// A Backend is open in one process.
type Backend interface {
	// Routes are added to those of the server; Query is nil only in a list for a help text.
	Routes() []Route
	// Line describes it in one line; "" if there is nothing to say.
	Line() string
	// Abort fails requests that wait for it: no framework cancels them.
	Abort()
	Close() error
}

// Open opens a backend of a server with one process.
type Open func(ctx context.Context) (Backend, error)

// A Product is a row of the server's pool.
type Product struct {
	Body       []byte // JSON
	Brand      int
	PriceCents int64
}

// A Database is one that all processes of a server share.
type Database interface {
	// Prepare creates or opens it and loads the products, once; the caller discards what it returns.
	Prepare(ctx context.Context, products []Product) (Prepared, error)
	// Prepared returns what another process prepared, by its String.
	Prepared(text string) (Prepared, error)
}

// Prepared is a loaded database.
type Prepared interface {
	String() string
	Line() string
	// Open gives a process its connections. brands are the names of the products' brands.
	Open(ctx context.Context, brands [][]byte) (Backend, error)
	Discard() error
}

// Keys is a backend that also answers /kv and /kv/KEY.
type Keys interface {
	Backend
	Answer(q *KeyRequest) KeyAnswer
}

// A KeyRequest is a request to a bucket, parsed by any framework.
type KeyRequest struct {
	Method  string
	Key     string // "" for the bucket itself
	Read    string // requested consistency
	Match   string // If-Match
	NoMatch string // If-None-Match
	Body    []byte
}

// A KeyAnswer is its answer.
type KeyAnswer struct {
	Status int
	Allow  string // with 405
	Body   []byte
}

// MaxValue is the largest value of a key, in bytes.
const MaxValue = 64 << 10

// Failure is the body of a response to a backend's error.
func Failure(err error) []byte {
	text, err := json.Marshal(struct {
		Error string `json:"error"`
	}{err.Error()})
	if err != nil {
		return []byte(`{"error":"unknown"}`)
	}
	return text
}
