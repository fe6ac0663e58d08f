package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/internal/porttest"

	"github.com/jackc/pgx/v5"
)

// testProducts are 100 rows, of which a table has 2,000.
func testProducts() []Product {
	list := make([]Product, 100)
	for i := range list {
		list[i] = Product{Body: fmt.Appendf(nil, `{"id":"p%d"}`, i), Brand: i % 3, PriceCents: int64(i)}
	}
	return list
}

func testBrands() [][]byte { return [][]byte{[]byte(`"a"`), []byte(`"b"`), []byte(`"c"`)} }

// prepared is a database for the time of a test.
func prepared(t *testing.T, source string, o Options) *Database {
	t.Helper()
	if source == "postgres" {
		needs.Program(t, "psql") // comes with the server
	}
	d, err := Prepare(t.Context(), source, testProducts(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Discard(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func opened(t *testing.T, d *Database, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), d, testBrands(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// forBoth runs a test with each kind of database, and with the options that change the path of a statement.
func forBoth(t *testing.T, test func(t *testing.T, source string)) {
	for _, source := range []string{"sqlite", "postgres"} {
		t.Run(source, func(t *testing.T) {
			t.Parallel()
			if source == "postgres" {
				needs.Program(t, "psql")
			}
			test(t, source)
		})
	}
}

// number is the answer of a query that has one.
func number(t *testing.T, s *Store, text string) (n int64) {
	t.Helper()
	if err := s.read.QueryRowContext(t.Context(), text).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	forBoth(t, func(t *testing.T, source string) {
		d := prepared(t, source, Options{})
		for _, o := range []Options{{}, {Unprepared: true}, {Cached: true}, {NoSync: true}} {
			s := opened(t, d, o)
			for seed := range uint64(3) {
				for range 2 { // the second may come from the cache
					want := fmt.Sprintf(`{"id":"p%d"}`, seed)
					if got, err := s.Product(seed); string(got) != want || err != nil {
						t.Errorf("%+v: product %q, %v; want %s", o, got, err, want)
					}
				}
			}
			var list []string
			for i := range RangeSize {
				list = append(list, fmt.Sprintf(`{"id":"p%d"}`, (95+i)%100))
			}
			want := `{"count":20,"products":[` + strings.Join(list, ",") + "]}"
			if got, err := s.Range(95); string(got) != want || err != nil {
				t.Errorf("%+v: range %s, %v", o, got, err)
			}
			// Of 100 products 34 have the first brand, at 0, 3, … 99 cents, all of them 20 times.
			want = `{"brands":[{"brand":"a","count":680,"cents":33660},{"brand":"b","count":660,"cents":32340},` +
				`{"brand":"c","count":660,"cents":33000}]}`
			if got, err := s.Scan(); string(got) != want || err != nil {
				t.Errorf("%+v: scan %s, %v", o, got, err)
			}
			s.Close()
		}
	})
}

// Each write changes what it says, and is there for others when it is answered.
func TestWrites(t *testing.T) {
	t.Parallel()
	forBoth(t, func(t *testing.T, source string) {
		d := prepared(t, source, Options{})
		s, other := opened(t, d, Options{GroupWait: time.Millisecond}), opened(t, d, Options{})
		check := func(what string, write func(uint64) ([]byte, error), want, query string) {
			t.Helper()
			before := number(t, other, query)
			if got, err := write(7); !strings.HasPrefix(string(got), want) || err != nil {
				t.Errorf("%s: %s, %v", what, got, err)
			}
			if after := number(t, other, query); after != before+1 {
				t.Errorf("%s: %d after %d", what, after, before)
			}
		}
		check("insert", s.Insert, `{"id":`, "SELECT count(*) FROM entry")
		check("group", s.InsertGroup, `{"id":`, "SELECT count(*) FROM entry")
		check("update", s.Update, `{"product":8}`, "SELECT quantity FROM stock WHERE product = 8")
		check("counter", func(uint64) ([]byte, error) { return s.Count() }, `{"counter":1}`, "SELECT n FROM counter WHERE id = 1")
		if a, b := s.entry(1), other.entry(1); a.id>>processBits == b.id>>processBits {
			t.Errorf("two processes write %d and %d", a.id, b.id)
		}
	})
}

// Writes of a group share commits; those of nobody else's commit wait for it.
func TestGroupCommits(t *testing.T) {
	t.Parallel()
	forBoth(t, func(t *testing.T, source string) {
		d := prepared(t, source, Options{})
		s := opened(t, d, Options{GroupSize: 10, GroupWait: time.Minute})
		insertMany(t, 50, s.InsertGroup)
		if n, commits := number(t, s, "SELECT count(*) FROM entry"), s.Status().Commits; n != 50 || commits != 5 {
			t.Errorf("%d of 50 entries, %d commits of 10", n, commits)
		}
	})
}

func insertMany(t *testing.T, n int, insert func(uint64) ([]byte, error)) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if _, err := insert(uint64(i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// What is acknowledged beforehand is written when the server stops.
func TestAsyncIsWrittenAtTheEnd(t *testing.T) {
	t.Parallel()
	forBoth(t, func(t *testing.T, source string) {
		d := prepared(t, source, Options{})
		s := opened(t, d, Options{GroupWait: time.Minute})
		insertMany(t, 100, s.InsertAsync)
		if n := number(t, s, "SELECT count(*) FROM entry"); n != 0 {
			t.Errorf("%d entries are there before their commit", n)
		}
		s.Close()
		if n := number(t, opened(t, d, Options{}), "SELECT count(*) FROM entry"); n != 100 {
			t.Errorf("%d of 100 entries after the end", n)
		}
		if _, err := s.InsertAsync(1); !errors.Is(err, errStopping) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// Settings are what the database answers, not what it was asked for.
func TestStatusSaysWhatACommitPromises(t *testing.T) {
	t.Parallel()
	forBoth(t, func(t *testing.T, source string) {
		for noSync, want := range map[bool]map[string]string{
			false: {"sqlite": `"synchronous","value":"FULL"`, "postgres": `"synchronous_commit","value":"on"`},
			true:  {"sqlite": `"synchronous","value":"OFF"`, "postgres": `"synchronous_commit","value":"off"`},
		} {
			o := Options{NoSync: noSync, Pool: 3}
			d := prepared(t, source, o)
			got, err := opened(t, d, o).StatusJSON()
			if err != nil || !bytes.Contains(got, []byte(want[source])) || !bytes.Contains(got, []byte(`"pool":3`)) {
				t.Errorf("%s, %v", got, err)
			}
			name := map[string]string{"sqlite": "SQLite 3.", "postgres": "PostgreSQL "}[source]
			if line := d.Line(); !strings.HasPrefix(line, name) || !strings.Contains(line, "pool of 3, statements prepared") {
				t.Errorf("line: %s", line)
			}
		}
	})
}

// A file keeps what was written, and is not loaded twice.
func TestFileIsUsedAgain(t *testing.T) {
	t.Parallel()
	source := "sqlite:" + filepath.Join(t.TempDir(), "a file?#%.db")
	for n := range int64(2) {
		s := opened(t, prepared(t, source, Options{}), Options{})
		if have := number(t, s, "SELECT count(*) FROM entry"); have != n {
			t.Errorf("%d entries at start %d", have, n)
		}
		if _, err := s.Insert(1); err != nil {
			t.Fatal(err)
		}
		s.Close()
	}
}

// Several servers that start at once on one database load it once.
func TestLoadedOnce(t *testing.T) {
	t.Parallel()
	cluster := prepared(t, "postgres", Options{})
	for _, source := range []string{"sqlite:" + filepath.Join(t.TempDir(), "db"), cluster.Source()} {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if _, err := Prepare(t.Context(), source, testProducts(), Options{}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	if n := number(t, opened(t, cluster, Options{}), "SELECT count(*) FROM product"); n != 2000 {
		t.Errorf("%d of 2000 products", n)
	}
}

// Tables of our names that are not whole are left alone.
func TestHalfMadeTablesAreRefused(t *testing.T) {
	t.Parallel()
	cluster := prepared(t, "postgres", Options{})
	for _, source := range []string{"sqlite:" + filepath.Join(t.TempDir(), "db"), cluster.Source()} {
		d, err := Prepare(t.Context(), source, testProducts(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := opened(t, d, Options{})
		if _, err := s.write.ExecContext(t.Context(), "DROP TABLE stock"); err != nil {
			t.Fatal(err)
		}
		s.Close()
		_, err = Prepare(t.Context(), source, testProducts(), Options{})
		if err == nil || !strings.Contains(err.Error(), "half made (4 of 5") {
			t.Errorf("%s: %v", source, err)
		}
	}
}

// Every source that cannot be used is one clear line.
func TestBadSources(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, bytes.Repeat([]byte("no database\n"), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	closed := porttest.Refused(t)
	cluster := prepared(t, "postgres", Options{})
	for source, want := range map[string]string{
		"mysql":                      "unknown database",
		"sqlite:":                    "unknown database",
		"postgres://u:secret@[::1/x": "parse",
		"sqlite:" + dir:              "unable to open",
		"sqlite:" + text:             "not a database",
		"sqlite:" + filepath.Join(dir, "none", "db"):                             "none: no such file or directory",
		"postgres://u:secret@" + closed + "/x":                                   closed + " as user u: connection refused; start PostgreSQL",
		strings.Replace(cluster.Source(), "/postgres?", "/none?", 1):             "make the database first",
		strings.Replace(cluster.Source(), "user=ceiling", "user=nobody-here", 1): "check user and password",
	} {
		_, err := Prepare(t.Context(), source, testProducts(), Options{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want %q in one line", source, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the password is told: %v", source, err)
		}
	}
}

// A pool that is larger than the database allows is refused before the first request.
func TestPoolIsLargerThanAllowed(t *testing.T) {
	t.Parallel()
	d := prepared(t, "postgres", Options{})
	o := Options{Pool: 120}
	_, err := Open(t.Context(), d, testBrands(), o)
	if err == nil || !strings.Contains(err.Error(), "of 120: ") || !strings.Contains(err.Error(), "max_connections is reached: make --db-pool smaller") {
		t.Errorf("%v", err)
	}
	opened(t, d, Options{Pool: 20}) // the others were given back
}

// Nothing of a database for the time of a server is left, not even when the server that had it was killed.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	forBoth(t, func(t *testing.T, source string) {
		d := prepared(t, source, Options{})
		_, after, _ := strings.Cut(d.Source(), "sqlite:")
		dir := filepath.Dir(after)
		pid := 0
		if source == "postgres" {
			_, after, _ = strings.Cut(d.Source(), "host=")
			dir = strings.ReplaceAll(strings.Split(after, "&")[0], "%2F", "/")
			pid = postmaster(t, dir)
		}
		if _, err := os.Stat(filepath.Join(dir, "lock")); err != nil {
			t.Fatal(err)
		}
		next, err := newRoom(filepath.Dir(dir)) // leaves it alone: it is in use
		if err == nil {
			err = next.Remove()
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "lock")); err != nil {
			t.Fatal(err)
		}
		if err := d.Discard(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", dir, err)
		}
		if pid != 0 && syscall.Kill(pid, 0) != syscall.ESRCH {
			t.Errorf("PostgreSQL runs on as %d", pid)
		}
	})
}

func postmaster(t *testing.T, dir string) (pid int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err == nil {
		_, err = fmt.Sscan(string(text), &pid)
	}
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// A start that is broken off leaves nothing either.
func TestPrepareIsBrokenOff(t *testing.T) {
	needs.Program(t, "psql")
	t.Parallel()
	for _, after := range []time.Duration{0, 100 * time.Millisecond, time.Second} {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		d, err := Prepare(ctx, "postgres", testProducts(), Options{})
		cancel()
		if err == nil {
			err = d.Discard()
			if err != nil {
				t.Error(err)
			}
			continue // it was faster
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%q", err)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{Pool: -1}, {GroupSize: -1}, {GroupSize: maxGroup + 1}, {GroupWait: -1}} {
		if o.Check() == nil {
			t.Errorf("%+v passes", o)
		}
	}
}

// A server that loses its sessions at run time, when the database has none left, gives one line with what helps, and goes
// on when there are some again.
func TestNoSessionIsLeft(t *testing.T) {
	t.Parallel()
	d := prepared(t, "postgres", Options{})
	s := opened(t, d, Options{Pool: 3})
	var others []*pgx.Conn
	defer func() {
		for _, c := range others {
			_ = c.Close(context.Background())
		}
	}()
	take := func() error {
		c, err := pgx.Connect(t.Context(), d.Source())
		if err == nil {
			others = append(others, c)
		}
		return err
	}
	for range 200 {
		if err := take(); err != nil {
			break
		}
	}
	const lose = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ceiling'"
	if _, err := others[0].Exec(t.Context(), lose); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(20 * time.Second); len(others) < 100 && time.Now().Before(limit); {
		if take() != nil {
			time.Sleep(5 * time.Millisecond) // a session that was ended has its slot until it is gone
		}
	}
	_, err := s.Insert(1)
	if err == nil || !strings.Contains(err.Error(), "max_connections is reached: make --db-pool smaller") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%d others have a session each: %v", len(others), err)
	}
	for _, c := range others[:50] {
		_ = c.Close(t.Context())
	}
	for limit := time.Now().Add(20 * time.Second); err != nil && time.Now().Before(limit); {
		_, err = s.Insert(1)
	}
	if err != nil {
		t.Errorf("sessions are free again: %v", err)
	}
}

// A load that is broken off half-way leaves no half: the next start loads all of it.
func TestLoadIsBrokenOff(t *testing.T) {
	t.Parallel()
	cluster := prepared(t, "postgres", Options{})
	admin, err := pgx.Connect(t.Context(), cluster.Source())
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(t.Context())
	if _, err := admin.Exec(t.Context(), "DROP SCHEMA ceiling CASCADE"); err != nil {
		t.Fatal(err)
	}
	for _, source := range []string{cluster.Source(), "sqlite:" + filepath.Join(t.TempDir(), "db")} {
		broken := 0
		for after := time.Millisecond; after < 2*time.Second; after *= 2 {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			_, err := Prepare(ctx, source, testProducts(), Options{})
			cancel()
			if err == nil {
				break // it was faster
			}
			if broken++; strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "half made") {
				t.Errorf("%s after %v: %v", source, after, err)
			}
		}
		d, err := Prepare(t.Context(), source, testProducts(), Options{})
		if err != nil || broken == 0 {
			t.Fatalf("%s: broken off %d times, then %v", source, broken, err)
		}
		if n := number(t, opened(t, d, Options{}), "SELECT count(*) FROM product"); n != 2000 {
			t.Errorf("%s: %d of 2000 products", source, n)
		}
	}
}

// Without PostgreSQL's programs a server that wants its own says what to install, and one that is named is not affected.
func TestPostgresIsNotInstalled(t *testing.T) {
	needs.Root(t)
	t.Parallel()
	cmd := exec.Command("unshare", "-m", "sh", "-c", `mount -t tmpfs none /usr/lib/postgresql && PATH=/nowhere exec "$1"`, "sh", os.Args[0])
	cmd.Env = append(os.Environ(), absentEnv+"=1")
	out, err := cmd.CombinedOutput()
	const want = "PostgreSQL's server is not installed (apt-get install postgresql); install it, or name a running one: --db postgres://USER@HOST/DATABASE"
	if text := strings.TrimSpace(string(out)); err != nil || text != want {
		t.Errorf("%v: %s", err, text)
	}
}

// The price of a durable commit is its fsync: with one connection each insert has one, and without waiting for the disk
// there is next to none, by PostgreSQL's own count.
func TestFsyncsFollowTheSetting(t *testing.T) {
	t.Parallel()
	d := prepared(t, "postgres", Options{})
	const writes = 100
	syncs := func(o Options) int64 {
		s := opened(t, d, o)
		before := number(t, s, "SELECT wal_sync FROM pg_stat_wal")
		for range writes {
			if _, err := s.Insert(1); err != nil {
				t.Fatal(err)
			}
		}
		number(t, s, "SELECT 1 FROM pg_stat_force_next_flush()") // else it is up to a second late
		return number(t, s, "SELECT wal_sync FROM pg_stat_wal") - before
	}
	for range 2 { // in turns
		on, off := syncs(Options{Pool: 1}), syncs(Options{Pool: 1, NoSync: true})
		if on < writes || off > on/4 {
			t.Errorf("%d inserts: %d fsyncs, and %d where a commit does not wait for them", writes, on, off)
		}
	}
}
