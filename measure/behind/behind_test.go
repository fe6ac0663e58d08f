//go:build linux

package behind

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"ceiling/internal/needs"
	"ceiling/internal/porttest"
	"ceiling/record"
	"ceiling/server"
	"ceiling/server/backend"
	"ceiling/server/downstream"
	"ceiling/server/store"
)

// cluster is a PostgreSQL for the time of a test.
func cluster(t *testing.T) (source string) {
	needs.Program(t, "pg_lsclusters")
	t.Helper()
	var products []store.Product
	for i := range 100 {
		products = append(products, store.Product{Body: fmt.Appendf(nil, `{"id":%d}`, i), PriceCents: int64(i)})
	}
	d, err := store.Prepare(t.Context(), "postgres", products, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Discard(); err != nil {
			t.Error(err)
		}
	})
	return d.Source()
}

func connected(t *testing.T, source string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func exec(t *testing.T, c *pgx.Conn, text string) {
	t.Helper()
	if _, err := c.Exec(t.Context(), text); err != nil {
		t.Fatal(err)
	}
}

// rows are those of a kind that a watch tells until done is content, or for 20 s.
func rows[R record.ObservedRow](t *testing.T, w *Watch, done func(R) bool) (list []R) {
	t.Helper()
	told := make(chan R, 100)
	w.Start(time.Now(), func(row record.ObservedRow) {
		if r, is := row.(R); is {
			told <- r
		}
	})
	defer w.Stop()
	late := time.After(20 * time.Second)
	for {
		select {
		case r := <-told:
			if list = append(list, r); done(r) {
				return list
			}
		case <-late:
			t.Fatalf("%d rows and none as wanted: %v", len(list), w.NotMeasured())
		}
	}
}

// Sessions that wait for one row are told with the table, the number of them and the statement that has it; a session
// that sleeps and one that waits for its client's next statement are what they are.
func TestSessionsAreTold(t *testing.T) {
	t.Parallel()
	source := cluster(t)
	holder, sleeper := connected(t, source), connected(t, source)
	exec(t, holder, "CREATE TABLE hot (id int PRIMARY KEY, n int)")
	exec(t, holder, "INSERT INTO hot VALUES (1, 0)")
	exec(t, holder, "BEGIN")
	exec(t, holder, "UPDATE hot SET n = n + 1 /* 'Miller' */ WHERE id = 1")
	var waiting sync.WaitGroup
	for range 3 {
		c := connected(t, source)
		waiting.Go(func() { _, _ = c.Exec(t.Context(), "UPDATE hot SET n = 2 WHERE id = 1") }) // fails at the end of the test
	}
	waiting.Go(func() { _, _ = sleeper.Exec(t.Context(), "SELECT pg_sleep(60)") })
	w, err := Open(t.Context(), Config{Database: source, Host: "h"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	list := rows(t, w, func(r *record.DatabaseRow) bool { return r.Active == 4 && r.IdleInTransaction == 1 && r.Sessions == 5 })
	last := list[len(list)-1]
	locked := 0
	for _, wait := range last.Waits {
		if wait.Type == "Lock" {
			locked += wait.Sessions
		}
	}
	if locked != 3 || !slices.Contains(last.Waits, record.SessionWait{Type: "Timeout", Event: "PgSleep", Sessions: 1}) {
		t.Errorf("waits %+v", last.Waits)
	}
	waits, blocker, table := 0, "", ""
	for _, l := range last.Locks {
		waits += l.Waiting
		blocker, table = blocker+l.Blocker, table+l.Relation
	}
	if waits != 3 || !strings.Contains(blocker, "UPDATE hot SET n = n + ? /* ? */ WHERE id = ?") || !strings.Contains(table, "hot") {
		t.Errorf("locks %+v", last.Locks)
	}
	if last.Host != "h" || last.Kind != record.KindDatabase || last.TookNs <= 0 || last.WidthNs <= 0 {
		t.Errorf("%+v", last)
	}
	exec(t, holder, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")
	waiting.Wait()
}

// What the database counts of commits and fsyncs is what was committed.
func TestCommitsAreCounted(t *testing.T) {
	t.Parallel()
	source := cluster(t)
	writer := connected(t, source)
	exec(t, writer, "CREATE TABLE log (n int)")
	w, err := Open(t.Context(), Config{Database: source})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	const writes = 500
	go func() {
		time.Sleep(2 * every) // the first sample is of before
		for range writes {
			if _, err := writer.Exec(t.Context(), "INSERT INTO log VALUES (1)"); err != nil {
				t.Error(err)
			}
		}
		if _, err := writer.Exec(t.Context(), "SELECT pg_stat_force_next_flush()"); err != nil {
			t.Error(err)
		}
	}()
	commits, syncs, n := int64(0), int64(0), int64(0)
	rows(t, w, func(r *record.DatabaseRow) bool {
		n++
		commits, syncs = commits+r.Commits, syncs+r.WALSyncs
		return commits >= writes
	})
	// The observer's own are among the commits: one a sample, and one of those that looked at the database before.
	if commits > writes+n+5 || syncs < writes || syncs > writes+20 {
		t.Errorf("%d commits and %d fsyncs counted of %d writes, in %d samples", commits, syncs, writes, n)
	}
	d := w.Database()
	if !strings.HasPrefix(d.Product, "PostgreSQL ") || d.MaxConnections != 100 || !strings.HasPrefix(d.Address, "/") || d.Use != nil ||
		!slices.Contains(d.Settings, record.DatabaseSetting{Name: "wal_sync_method", Value: "fdatasync"}) {
		t.Errorf("%+v", d)
	}
}

// started is a server of ours, and how to reach it.
func started(t *testing.T, cfg server.Config) func(context.Context) (net.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan string, 1), make(chan error, 1)
	cfg.Ready = func(addr string) { ready <- addr }
	go func() { ended <- server.Serve(ctx, "nethttp", cfg) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case addr := <-ready:
		return func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", addr) }
	case err := <-ended:
		t.Fatal(err)
		return nil
	}
}

func client(dial func(context.Context) (net.Conn, error)) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}}
}

// A server says its database's settings, and its pool counts as many writes and waits as there were.
func TestServerSaysItsPool(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	options := store.Options{Pool: 1, GroupSize: 7, GroupWait: 3 * time.Millisecond, Unprepared: true}
	dial := started(t, server.Config{Database: &store.Backend{Source: "sqlite", Options: options}})
	w, err := Open(t.Context(), Config{Paths: []string{"/simple", "/db/insert"}, Dial: dial, Near: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	want := record.DatabaseUse{Pool: 1, GroupSize: 7, GroupWaitNs: 3e6}
	if d := w.Database(); d == nil || !strings.HasPrefix(d.Product, "SQLite 3.") || *d.Use != want || d.Address != "" ||
		!slices.Contains(d.Settings, record.DatabaseSetting{Name: "synchronous", Value: "FULL"}) {
		t.Fatalf("%+v, %v", d, w.NotMeasured())
	}
	const writes = 60
	go func() {
		time.Sleep(2 * every)
		c := client(dial)
		var clients sync.WaitGroup
		for range 6 {
			clients.Go(func() {
				for range writes / 6 {
					answer, err := c.Post("http://server/db/insert", "", http.NoBody)
					if err != nil {
						t.Error(err)
						return
					}
					answer.Body.Close()
				}
			})
		}
		clients.Wait()
	}()
	var sum record.PoolStatus
	rows(t, w, func(r *record.StatusRow) bool {
		sum.Writes, sum.Waited, sum.WaitedNs = sum.Writes+r.Pool.Writes, sum.Waited+r.Pool.Waited, sum.WaitedNs+r.Pool.WaitedNs
		return sum.Writes >= writes
	})
	if sum.Writes != writes || sum.Waited > writes || sum.Waited > 0 != (sum.WaitedNs > 0) {
		t.Errorf("%+v of %d writes", sum, writes)
	}
}

// A server says what it calls, and the service's own count of calls is what the policy made of the requests.
func TestServerSaysItsCalls(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	dial := started(t, server.Config{Behind: []backend.Open{downstream.Backend("fail=100%,work=1ms,slots=5,timeout=2s")}})
	w, err := Open(t.Context(), Config{Paths: []string{"/call/retry"}, Dial: dial, Near: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if d := w.Downstream(); d == nil || d.Slots != 5 || d.CapacityPerS() != 5000 || d.TimeoutNs != 2e9 || w.Database() != nil {
		t.Fatalf("%+v", d)
	}
	const requests = 10
	go func() {
		time.Sleep(2 * every)
		c := client(dial)
		for range requests {
			answer, err := c.Get("http://server/call/retry")
			if err != nil {
				t.Error(err)
				return
			}
			answer.Body.Close()
		}
	}()
	var sum record.CallStatus
	rows(t, w, func(r *record.StatusRow) bool {
		sum.Requests, sum.Answered, sum.Calls = sum.Requests+r.Calls.Requests, sum.Answered+r.Calls.Answered, sum.Calls+r.Calls.Calls
		return sum.Calls >= 3*requests
	})
	if sum.Requests != requests || sum.Calls != 3*requests || sum.Answered != 0 {
		t.Errorf("%+v", sum)
	}
}

// A server of others is not asked; one that cannot say is named.
func TestOthersAreNotAsked(t *testing.T) {
	t.Parallel()
	var asked sync.Map
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.URL.Path, true)
		http.NotFound(w, r)
	})}
	go func() { _ = s.Serve(ln) }()
	defer s.Close()
	dial := func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", ln.Addr().String())
	}
	for path, missing := range map[string]int{"/database": 0, "/": 0, "/db/row": 1} {
		w, err := Open(t.Context(), Config{Paths: []string{path}, Dial: dial, Near: true})
		if err != nil || len(w.NotMeasured()) != missing || w.Database() != nil {
			t.Errorf("%s: %v, %v", path, err, w.NotMeasured())
		}
		if _, any := asked.Load(databaseStatus); any != (missing == 1) {
			t.Errorf("%s: asked %v", path, any)
		}
		asked.Clear()
		w.Close()
	}
}

// A database that was named and does not answer is one line that says what helps, without the password.
func TestNamedDatabaseHasToAnswer(t *testing.T) {
	t.Parallel()
	closed := porttest.Refused(t)
	source := cluster(t)
	for database, want := range map[string]string{
		"mysql://u:secret@h/x":                                  "postgres://USER@HOST/DATABASE",
		"postgres://u:secret@[::1/x":                            "parse",
		"postgres://u:secret@" + closed + "/x":                  "connection refused",
		strings.Replace(source, "/postgres?", "/none?", 1):      "check the database's name",
		strings.Replace(source, "user=ceiling", "user=none", 1): "check the user",
		source + "&host=/nowhere&password=secret":               "no such file",
	} {
		_, err := Open(t.Context(), Config{Database: database})
		if err == nil || !strings.Contains(err.Error(), want) || strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v; want %q", database, err, want)
		}
		if shown := Shown(database); strings.Contains(shown, "secret") {
			t.Errorf("%s is shown as %s", database, shown)
		}
	}
}

// A database that takes no more sessions, one that dies during the run, and one that comes back: what was not measured is
// said once, in one line, and the run goes on.
func TestDatabaseIsLost(t *testing.T) {
	t.Parallel()
	source := cluster(t)
	admin := connected(t, source)
	exec(t, admin, "CREATE ROLE guest LOGIN")
	guest := strings.Replace(source, "user=ceiling", "user=guest", 1)
	w, err := Open(t.Context(), Config{Database: guest})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if n := w.NotMeasured(); len(n) != 1 || !strings.Contains(n[0].Why, "GRANT pg_monitor TO guest") {
		t.Errorf("what it may not see is not said: %v", n)
	}
	rows(t, w, func(r *record.DatabaseRow) bool { return true })
	w.Close()

	exec(t, admin, "ALTER ROLE guest CONNECTION LIMIT 0")
	if _, err := Open(t.Context(), Config{Database: guest}); err == nil || !strings.Contains(err.Error(), "max_connections is reached") {
		t.Errorf("no session is left: %v", err)
	}

	w, err = Open(t.Context(), Config{Database: source})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	exec(t, admin, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '"+observerName+"'")
	before := 0
	rows(t, w, func(*record.DatabaseRow) bool { before++; return before == 2 }) // it is asked again
	if n := w.NotMeasured(); len(n) != 1 || !n[0].Part || strings.Contains(n[0].Why, "\n") {
		t.Errorf("%v", n)
	}
	w.Close()

	w, err = Open(t.Context(), Config{Database: source})
	if err != nil {
		t.Fatal(err)
	}
	dir, _, _ := strings.Cut(source[strings.Index(source, "host=")+5:], "&")
	text, err := os.ReadFile(filepath.Join(strings.ReplaceAll(dir, "%2F", "/"), "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(text), &pid); err != nil {
		t.Fatal(err)
	}
	w.Start(time.Now(), func(record.ObservedRow) {})
	if err := syscall.Kill(pid, syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(20 * time.Second); len(w.NotMeasured()) == 0 && time.Now().Before(limit); {
		time.Sleep(20 * time.Millisecond)
	}
	w.Close() // returns
	if n := w.NotMeasured(); len(n) != 1 || strings.Contains(n[0].Why, "\n") {
		t.Errorf("%v", n)
	}
}

// Statements are kept without what they were called with.
func TestLiteralsAreLeftOut(t *testing.T) {
	for query, want := range map[string]string{
		"SELECT  1": "SELECT ?",
		"UPDATE t2 SET name = 'O''Neill'\nWHERE a=$1": "UPDATE t2 SET name = ? WHERE a=?",
		"SELECT $tag$it's$tag$, 1.5e3, 0x1F":          "SELECT ?, ?, ?",
		"INSERT INTO t VALUES ('cut off":              "INSERT INTO t VALUES (?…",
		"":                                            "",
	} {
		if got := withoutLiterals(query); got != want {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
	}
	if long := withoutLiterals(strings.Repeat("ä", 200)); len(long) > blockerMost+3 || !strings.HasSuffix(long, "…") {
		t.Errorf("%q", long)
	}
}
