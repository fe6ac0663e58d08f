package quorum

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"

	"ceiling/server/backend"
)

// anyKey represents one of the initial keys.
const anyKey = "*"

// Backend returns how a server opens a bucket that options describe (see Parse).
func Backend(options string) backend.Open {
	return func(ctx context.Context) (backend.Backend, error) {
		o, err := Parse(options)
		if err != nil {
			return nil, err
		}
		b, err := Start(ctx, o)
		if err != nil {
			return nil, err
		}
		return served{b}, nil
	}
}

// served is a bucket behind a server.
type served struct{ bucket *Bucket }

// Routes are none: Answer answers the paths.
func (s served) Routes() []backend.Route { return nil }
func (s served) Line() string            { return s.bucket.Line() }
func (s served) Abort()                  { s.bucket.Abort() }
func (s served) Close() error            { return s.bucket.Close() }

// Paths describes what Answer answers.
func Paths() []backend.Route {
	return []backend.Route{
		{Path: "/kv", About: "GET: the bucket's settings, its replicas, commits so far"},
		{Path: "/kv/KEY", About: "GET, ?read=replica, stale or mirror; PUT, with If-Match: REVISION; KEY * is any"},
	}
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

// Answer implements backend.Keys. An operation without a result, which may or may not have been done,
// gets 503.
func (s served) Answer(q *backend.KeyRequest) backend.KeyAnswer {
	read := q.Method == http.MethodGet || q.Method == http.MethodHead
	if !read && (q.Key == "" || q.Method != http.MethodPut) {
		return backend.KeyAnswer{Status: http.StatusMethodNotAllowed, Allow: kvAllow(q.Key), Body: backend.Failure(errors.New("the method must be one of " + kvAllow(q.Key)))}
	}
	if q.Key == "" {
		body, err := s.bucket.StatusJSON()
		return kvResult(body, err)
	}
	given := q.Key != anyKey
	if !given {
		q.Key = Any(rand.Uint64())
	} else if err := CheckKey(q.Key); err != nil {
		return backend.KeyAnswer{Status: http.StatusBadRequest, Allow: "", Body: backend.Failure(err)}
	}
	var e kvEntry
	var err error
	if read {
		e, err = s.readKey(q)
	} else {
		if !given && len(q.Body) == 0 {
			q.Body = Value(rand.Uint64())
		}
		e, err = s.writeKey(q)
	}
	if err != nil {
		return kvResult(nil, err)
	}
	return kvResult(json.Marshal(e))
}

var errBadRequest = errors.New("bad request")

func kvResult(body []byte, err error) backend.KeyAnswer {
	switch {
	case err == nil:
		return backend.KeyAnswer{Status: http.StatusOK, Allow: "", Body: body}
	case errors.Is(err, ErrNoKey):
		return backend.KeyAnswer{Status: http.StatusNotFound, Allow: "", Body: backend.Failure(err)}
	case errors.Is(err, ErrRevision):
		return backend.KeyAnswer{Status: http.StatusPreconditionFailed, Allow: "", Body: backend.Failure(err)}
	case errors.Is(err, errBadRequest) || errors.Is(err, ErrNone):
		return backend.KeyAnswer{Status: http.StatusBadRequest, Allow: "", Body: backend.Failure(err)}
	}
	return backend.KeyAnswer{Status: http.StatusServiceUnavailable, Allow: "", Body: backend.Failure(err)}
}

func (s served) readKey(q *backend.KeyRequest) (kvEntry, error) {
	ways := map[string]func(context.Context, string) (Entry, error){
		"": s.bucket.Get, "linearizable": s.bucket.Get, "replica": s.bucket.Replica, "stale": s.bucket.Stale, "mirror": s.bucket.FromMirror,
	}
	way := ways[q.Read]
	if way == nil {
		return kvEntry{}, fmt.Errorf("%w: read=%s; there are linearizable, replica, stale and mirror", errBadRequest, q.Read)
	}
	got, err := way(context.Background(), q.Key)
	if err != nil {
		return kvEntry{}, err
	}
	value := string(got.Value)
	return kvEntry{got.Key, got.Revision, &value}, nil
}

// writeKey writes, conditionally if requested: RFC 9110, 13.1.1 and 13.1.2. If-Match: * uses the
// revision that it reads, so it is a read and a write without another write in between.
func (s served) writeKey(q *backend.KeyRequest) (kvEntry, error) {
	ctx := context.Background()
	if len(q.Body) > MaxValue {
		return kvEntry{}, fmt.Errorf("%w: a value has up to %d bytes", errBadRequest, MaxValue)
	}
	if q.Match == "" && q.NoMatch == "" {
		revision, err := s.bucket.Put(ctx, q.Key, q.Body)
		return kvEntry{Key: q.Key, Revision: revision}, err
	}
	revision := uint64(0)
	switch {
	case q.Match != "" && q.NoMatch != "" || q.NoMatch != "" && q.NoMatch != "*":
		return kvEntry{}, fmt.Errorf("%w: give If-Match: REVISION or If-None-Match: *, one of them", errBadRequest)
	case q.Match == "*":
		got, err := s.bucket.Get(ctx, q.Key)
		if err != nil {
			return kvEntry{}, err
		}
		revision = got.Revision
	case q.Match != "":
		n, err := strconv.ParseUint(strings.Trim(q.Match, `"`), 10, 64)
		if err != nil || n == 0 {
			return kvEntry{}, fmt.Errorf("%w: If-Match has no revision", errBadRequest)
		}
		revision = n
	}
	revision, err := s.bucket.Set(ctx, q.Key, q.Body, revision)
	return kvEntry{Key: q.Key, Revision: revision}, err
}
