//go:build linux

package run

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/needs"
	"ceiling/internal/porttest"
	"ceiling/record"
	"ceiling/server"
	"ceiling/server/store"
)

// A run against a server with a database keeps the database's settings, the server's pool, and what the sessions did; of
// the URL in --database its password is nowhere, whatever else is kept.
func TestDatabaseIsInTheRecord(t *testing.T) {
	needs.Program(t, "pg_lsclusters")
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- server.Serve(ctx, "nethttp", server.Config{Ready: func(addr string) { ready <- addr },
			Database: &store.Backend{Source: "postgres", Options: store.Options{Pool: 2}}})
	}()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	var addr string
	select {
	case addr = <-ready:
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	s := specOf(addr, "/db/row")
	s.Duration = 1500 * time.Millisecond
	first, err := Do(t.Context(), s, Options{Out: filepath.Join(t.TempDir(), "run"), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	d := first.Run.Database
	if d == nil || !strings.HasPrefix(d.Product, "PostgreSQL ") || d.Use == nil || d.Use.Pool != 2 || !d.Use.Prepared || d.MaxConnections != 100 {
		t.Fatalf("%+v", d)
	}
	database := "postgres:///postgres?host=" + d.Address + "&user=ceiling&password=hunter2"
	out := filepath.Join(t.TempDir(), "run")
	done, err := Do(t.Context(), s, Options{Out: out, Version: "test", Database: database, KeepSecrets: true,
		Command: []string{"ceiling", "run", "--database", database, "--database=" + database}})
	if err != nil {
		t.Fatal(err)
	}
	_, series, err := record.Open(done.File)
	if err != nil {
		t.Fatal(err)
	}
	if len(series.Observed.Databases) < 1 || len(series.Observed.Statuses) < 2 {
		t.Errorf("%d rows of the database, %d of the server; not measured: %v", len(series.Observed.Databases), len(series.Observed.Statuses),
			done.Run.NotMeasured)
	}
	for _, r := range series.Observed.Databases {
		if r.Sessions != 2 { // the server's, and not the observer's
			t.Errorf("%d sessions", r.Sessions)
		}
	}
	for _, r := range series.Observed.Statuses {
		if r.Pool.Size != 2 || r.Pool.InUse > 2 {
			t.Errorf("%+v", r.Pool)
		}
	}
	f, err := os.Open(done.File.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	packed, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(packed); err != nil || !strings.Contains(string(text), d.Address) || strings.Contains(string(text), "hunter2") {
		t.Errorf("the password is in the record, or its address is not: %v", err)
	}
}

// A database that was named and does not answer refuses the run before anything is sent or kept.
func TestNamedDatabaseHasToAnswer(t *testing.T) {
	closed := porttest.Refused(t)
	c := startServer(t, "nethttp")
	for _, database := range []string{"postgres://u:hunter2@" + closed + "/x", "nonsense"} {
		dir := t.TempDir()
		_, err := Do(t.Context(), specOf(c.Addr, "/simple"), Options{Store: dir, Version: "test", Database: database})
		if !errors.Is(err, exit.ErrRefused) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "\n") ||
			!strings.Contains(err.Error(), "--database") {
			t.Errorf("%s: %v", database, err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			t.Errorf("%s: %v is left, %v", database, entries, err)
		}
	}
}

// What a bucket says before and after is the run's, and the shorter round trip counts.
func TestQuorumOf(t *testing.T) {
	nodes := func(rtt int64) []record.QuorumNode {
		return []record.QuorumNode{{Name: "r1", PID: 7, Links: []record.QuorumLink{{To: "r2", RTTNs: rtt}}}, {Name: "r2"}}
	}
	first := &quorumStatus{Product: "NATS", Writes: 100, Reads: 10, Commits: 105, Trips: 200, CommitNs: 1000, Changes: 1, Nodes: nodes(5)[:1]}
	last := &quorumStatus{Product: "NATS", Writes: 300, Reads: 30, Commits: 305, Trips: 600, CommitNs: 41_000, Changes: 2, Leader: "r1", Quorum: 2,
		Nodes: nodes(9)}
	q := quorumOf(first, last)
	if q.Writes != 200 || q.Reads != 20 || q.Commits != 200 || q.Trips != 400 || q.CommitNs != 200 || q.Changes != 1 || q.Size != 2 ||
		q.Node("r1").Links[0].RTTNs != 5 || q.Node("r3") != nil {
		t.Errorf("%+v", q)
	}
	if q := quorumOf(last, first); q != nil {
		t.Errorf("another process's counts: %+v", q)
	}
	if q := quorumOf(first, nil); q != nil {
		t.Errorf("from nothing: %+v", q)
	}
}

// Only a server of ours is asked, and only its own answer is taken.
func TestAskQuorum(t *testing.T) {
	answer, asked := `{"product":"NATS 2 JetStream","writes":3}`, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.URL.Path != quorumPath {
			t.Errorf("asked for %s", r.URL.Path)
		}
		fmt.Fprint(w, answer)
	}))
	defer server.Close()
	ask := func(path string) *quorumStatus {
		return askQuorum(t.Context(), &spec.Spec{Targets: []spec.Target{{Method: "GET", URL: server.URL + path}}})
	}
	if q := ask("/kv/*?read=stale"); q == nil || q.Writes != 3 || asked != 1 {
		t.Errorf("%+v, asked %d times", q, asked)
	}
	if q := ask("/read"); q != nil || asked != 1 {
		t.Errorf("%+v, asked %d times", q, asked)
	}
	for _, answer = range []string{`{"product":"other"}`, "<html>", ""} {
		if q := ask("/kv/a"); q != nil {
			t.Errorf("%q: %+v", answer, q)
		}
	}
}
