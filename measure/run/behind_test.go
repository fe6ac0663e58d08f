//go:build linux

package run

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
