package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"

	"ceiling/server/quorum"
)

// The bucket's paths: its status, and one per key. anyKey represents one of the initial keys.
const (
	kvPath = "/kv"
	anyKey = "*"
)

// KeyValueRoutes describes the additional routes of a server with a key-value bucket.
func KeyValueRoutes() []Route {
	return []Route{
		{Path: "/kv", About: "GET: the bucket's settings, its replicas, commits so far"},
		{Path: "/kv/KEY", About: "GET, ?read=replica, stale or mirror; PUT, with If-Match: REVISION; KEY * is any"},
	}
}

// A kvRequest is a request to the bucket, parsed by any framework.
type kvRequest struct {
	method  string
	key     string // "" for the bucket itself
	read    string // requested consistency
	match   string // If-Match
	noMatch string // If-None-Match
	body    []byte
}

// A kvAnswer is its answer.
type kvAnswer struct {
	status int
	allow  string // with 405
	body   []byte
}

type kvEntry struct {
	Key      string  `json:"key"`
	Revision uint64  `json:"revision"`
	Value    *string `json:"value,omitempty"` // of a read
}

// kvAllow returns the methods of a path.
func kvAllow(key string) string {
	if key == "" {
		return "GET, HEAD"
	}
	return "GET, HEAD, PUT"
}

// keyValue answers a request. An operation without a result, which may or may not have been done,
// gets 503.
func (s *site) keyValue(q *kvRequest) kvAnswer {
	read := q.method == http.MethodGet || q.method == http.MethodHead
	if !read && (q.key == "" || q.method != http.MethodPut) {
		return kvAnswer{http.StatusMethodNotAllowed, kvAllow(q.key), failure(errors.New("the method must be one of " + kvAllow(q.key)))}
	}
	if q.key == "" {
		body, err := s.bucket.StatusJSON()
		return kvResult(body, err)
	}
	given := q.key != anyKey
	if !given {
		q.key = quorum.Any(rand.Uint64())
	} else if err := quorum.CheckKey(q.key); err != nil {
		return kvAnswer{http.StatusBadRequest, "", failure(err)}
	}
	var e kvEntry
	var err error
	if read {
		e, err = s.readKey(q)
	} else {
		if !given && len(q.body) == 0 {
			q.body = quorum.Value(rand.Uint64())
		}
		e, err = s.writeKey(q)
	}
	if err != nil {
		return kvResult(nil, err)
	}
	return kvResult(json.Marshal(e))
}

var errBadRequest = errors.New("bad request")

func kvResult(body []byte, err error) kvAnswer {
	switch {
	case err == nil:
		return kvAnswer{http.StatusOK, "", body}
	case errors.Is(err, quorum.ErrNoKey):
		return kvAnswer{http.StatusNotFound, "", failure(err)}
	case errors.Is(err, quorum.ErrRevision):
		return kvAnswer{http.StatusPreconditionFailed, "", failure(err)}
	case errors.Is(err, errBadRequest) || errors.Is(err, quorum.ErrNone):
		return kvAnswer{http.StatusBadRequest, "", failure(err)}
	}
	return kvAnswer{http.StatusServiceUnavailable, "", failure(err)}
}

func (s *site) readKey(q *kvRequest) (kvEntry, error) {
	ways := map[string]func(context.Context, string) (quorum.Entry, error){
		"": s.bucket.Get, "linearizable": s.bucket.Get, "replica": s.bucket.Replica, "stale": s.bucket.Stale, "mirror": s.bucket.FromMirror,
	}
	way := ways[q.read]
	if way == nil {
		return kvEntry{}, fmt.Errorf("%w: read=%s; there are linearizable, replica, stale and mirror", errBadRequest, q.read)
	}
	got, err := way(context.Background(), q.key)
	if err != nil {
		return kvEntry{}, err
	}
	value := string(got.Value)
	return kvEntry{got.Key, got.Revision, &value}, nil
}

// writeKey writes, conditionally if requested: RFC 9110, 13.1.1 and 13.1.2. If-Match: * uses the
// revision that it reads, so it is a read and a write without another write in between.
func (s *site) writeKey(q *kvRequest) (kvEntry, error) {
	ctx := context.Background()
	if len(q.body) > quorum.MaxValue {
		return kvEntry{}, fmt.Errorf("%w: a value has up to %d bytes", errBadRequest, quorum.MaxValue)
	}
	if q.match == "" && q.noMatch == "" {
		revision, err := s.bucket.Put(ctx, q.key, q.body)
		return kvEntry{Key: q.key, Revision: revision}, err
	}
	revision := uint64(0)
	switch {
	case q.match != "" && q.noMatch != "" || q.noMatch != "" && q.noMatch != "*":
		return kvEntry{}, fmt.Errorf("%w: give If-Match: REVISION or If-None-Match: *, one of them", errBadRequest)
	case q.match == "*":
		got, err := s.bucket.Get(ctx, q.key)
		if err != nil {
			return kvEntry{}, err
		}
		revision = got.Revision
	case q.match != "":
		n, err := strconv.ParseUint(strings.Trim(q.match, `"`), 10, 64)
		if err != nil || n == 0 {
			return kvEntry{}, fmt.Errorf("%w: If-Match has no revision", errBadRequest)
		}
		revision = n
	}
	revision, err := s.bucket.Set(ctx, q.key, q.body, revision)
	return kvEntry{Key: q.key, Revision: revision}, err
}

// startKeyValue starts the bucket that options describe.
func (s *site) startKeyValue(ctx context.Context, options string) (err error) {
	if options == "" {
		return nil
	}
	o, err := quorum.Parse(options)
	if err != nil {
		return err
	}
	s.bucket, err = quorum.Start(ctx, o)
	return err
}

// keyOf returns the key that a path names: "" for the bucket itself.
func keyOf(path string) (key string, ok bool) {
	rest, ok := strings.CutPrefix(path, kvPath)
	if !ok || rest == "" {
		return "", ok
	}
	key, ok = strings.CutPrefix(rest, "/")
	return key, ok && key != "" && !strings.Contains(key, "/")
}
