package behind

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"ceiling/internal/pause"
	"ceiling/record"
)

// Routes that only `ceiling serve` has, and where it reports their status.
const (
	databaseRoutes = "/db/"
	serviceRoutes  = "/call/"

	databaseStatus = "/db/status"
	serviceStatus  = "/call/status"
)

// statusPaths returns the status routes of a server with these paths.
func statusPaths(paths []string) []string {
	var list []string
	for _, kind := range []struct{ routes, status string }{{databaseRoutes, databaseStatus}, {serviceRoutes, serviceStatus}} {
		if slices.ContainsFunc(paths, func(p string) bool { return strings.HasPrefix(p, kind.routes) }) {
			list = append(list, kind.status)
		}
	}
	return list
}

// databaseAnswer is the response of /db/status, as far as it is used here.
type databaseAnswer struct {
	Product  string                   `json:"product"`
	Settings []record.DatabaseSetting `json:"settings"`
	Prepared bool                     `json:"prepared"`
	Cached   bool                     `json:"cached"`
	Pool     int                      `json:"pool"`
	InUse    int                      `json:"in_use"`
	Waited   int64                    `json:"waited"`
	WaitedS  float64                  `json:"waited_s"`
	Commits  int64                    `json:"commits"`
	Writes   int64                    `json:"writes"`
	Group    int                      `json:"group_size"`
	GroupMs  int64                    `json:"group_wait_ms"`
	Source   string                   `json:"source"`
}

// serviceAnswer does the same for /call/status.
type serviceAnswer struct {
	Requests  int64 `json:"requests"`
	Answered  int64 `json:"answered"`
	Calls     int64 `json:"calls"`
	Failed    int64 `json:"failed"`
	Waiting   int64 `json:"waiting"`
	Stalled   bool  `json:"stalled"`
	Slots     int   `json:"slots"`
	WorkNs    int64 `json:"work_ns"`
	TimeoutNs int64 `json:"timeout_ns"`
}

// statusClient uses one connection, so that one process of several answers.
type statusClient struct {
	client http.Client
	paths  []string
	last   record.StatusRow // with the counts since the server's start
}

func (c *statusClient) close() { c.client.CloseIdleConnections() }

// openStatus asks the server for its status. It returns the address of its database, "" if the
// server does not report one.
func (w *Watch) openStatus(ctx context.Context, dial func(context.Context) (net.Conn, error), paths []string) (source string, err error) {
	c := &statusClient{paths: paths}
	c.client.Transport = &http.Transport{MaxConnsPerHost: 1,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
	if slices.Contains(paths, databaseStatus) {
		var a databaseAnswer
		if err := c.get(ctx, databaseStatus, &a); err != nil {
			return "", err
		}
		if a.Product == "" || a.Pool < 1 {
			return "", errors.New(databaseStatus + " answers without a database")
		}
		w.database = &record.Database{Product: a.Product, Settings: a.Settings, Use: &record.DatabaseUse{
			Pool: a.Pool, Prepared: a.Prepared, Cached: a.Cached, GroupSize: a.Group, GroupWaitNs: a.GroupMs * int64(time.Millisecond),
		}}
		source = a.Source
	}
	if slices.Contains(paths, serviceStatus) {
		var a serviceAnswer
		if err := c.get(ctx, serviceStatus, &a); err != nil {
			return "", err
		}
		w.service = &record.Downstream{Slots: a.Slots, WorkNs: a.WorkNs, TimeoutNs: a.TimeoutNs}
	}
	w.status = c
	return source, nil
}

// get reads one response.
func (c *statusClient) get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://server"+path, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := c.client.Do(q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", path, answer.Status)
	}
	return json.NewDecoder(http.MaxBytesReader(nil, answer.Body, statusMost)).Decode(into)
}

// statusMost bounds a response, in bytes.
const statusMost = 1 << 20

// read reads everything. Its counts are since the server's start.
func (c *statusClient) read(ctx context.Context) (row record.StatusRow, err error) {
	begun := time.Now()
	for _, path := range c.paths {
		switch path {
		case databaseStatus:
			var a databaseAnswer
			err = errors.Join(err, c.get(ctx, path, &a))
			row.Pool = record.PoolStatus{Size: a.Pool, InUse: a.InUse, Waited: a.Waited, WaitedNs: int64(a.WaitedS * 1e9), Commits: a.Commits,
				Writes: a.Writes}
		case serviceStatus:
			var a serviceAnswer
			err = errors.Join(err, c.get(ctx, path, &a))
			row.Calls = record.CallStatus{Requests: a.Requests, Answered: a.Answered, Calls: a.Calls, Failed: a.Failed, Waiting: a.Waiting,
				Stalled: a.Stalled}
		}
	}
	row.TookNs = time.Since(begun).Nanoseconds()
	return row, err
}

// askStatus polls the server until the end.
func (w *Watch) askStatus(ctx context.Context, now func() int64, told func(record.ObservedRow)) {
	at := clock{host: w.host, now: now}
	for known := false; ; {
		row, err := w.status.read(ctx)
		tNs := now()
		took := time.Duration(row.TookNs)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			w.lose("server status", err, tNs, true)
			known = false
		default:
			head := at.head(record.KindStatus, tNs)
			if known {
				next := since(&row, &w.status.last)
				next.ObservedHead = head
				told(&next)
			}
			w.status.last, known = row, true
		}
		if !pause.For(ctx, max(every, min(seldom, restful*took/4))) {
			return
		}
	}
}

// since returns a status with the differences of its counts to an earlier one.
func since(row, last *record.StatusRow) record.StatusRow {
	d := *row
	d.Pool.Waited -= last.Pool.Waited
	d.Pool.WaitedNs -= last.Pool.WaitedNs
	d.Pool.Commits -= last.Pool.Commits
	d.Pool.Writes -= last.Pool.Writes
	d.Calls.Requests -= last.Calls.Requests
	d.Calls.Answered -= last.Calls.Answered
	d.Calls.Calls -= last.Calls.Calls
	d.Calls.Failed -= last.Calls.Failed
	return d
}
