//go:build linux

package server

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ceiling/internal/needs"
	"ceiling/server/backend"
	"ceiling/server/store"
)

// kindsWithDatabase are the kinds that take a database.
func kindsWithDatabase() []Kind {
	var kinds []Kind
	for _, k := range Catalogue() {
		if !k.Memory {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// postgres is a cluster with the products.
func postgres(t *testing.T) *store.Database {
	t.Helper()
	list, err := products()
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := store.Prepare(t.Context(), "postgres", list, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}

// givenDatabases are one of each kind, which several servers may use.
func givenDatabases(t *testing.T) map[string]string {
	t.Helper()
	needs.Program(t, "psql")
	cluster := postgres(t)
	t.Cleanup(func() {
		if err := cluster.Discard(); err != nil {
			t.Error(err)
		}
	})
	return map[string]string{"postgres": cluster.Source(), "sqlite": "sqlite:" + filepath.Join(t.TempDir(), "db")}
}

// Every framework answers the routes of a database with the same bytes, whichever the database, in one process and in
// several.
func TestFrameworksAnswerAlikeFromDatabases(t *testing.T) {
	given := givenDatabases(t)
	scans := map[string]bool{}
	for name, source := range given {
		for _, k := range kindsWithDatabase() {
			for _, prefork := range []bool{false, true} {
				if prefork && (!k.Prefork || k.Name == "fiber" && name == "sqlite") { // three of the four are enough
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/prefork=%v", name, k.Name, prefork), func(t *testing.T) {
					cfg := Config{Database: &store.Backend{Source: source, Options: store.Options{Pool: 2}}}
					if prefork {
						cfg.Prefork, cfg.Workers = true, 2
					}
					scans[string(checkDatabase(t, newClient(t, start(t, k.Name, cfg).addr)))] = true
				})
			}
		}
	}
	if len(scans) != 1 {
		t.Errorf("%d different answers to /db/scan", len(scans))
	}
}

// checkDatabase checks the routes of a server with a database, and returns the answer of /db/scan.
func checkDatabase(t *testing.T, c *client) (scan []byte) {
	t.Helper()
	known := map[string]bool{}
	for _, x := range mustPool(t).products {
		known[string(x.json)] = true
	}
	for _, r := range store.Routes(nil) {
		method, other := http.MethodGet, http.MethodPost
		if r.Writes {
			method, other = other, method
		}
		c.send(t, method, r.Path)
		a := c.read(t, method)
		if a.status != 200 || a.contentType != typeJSON || a.chunked || a.length != int64(len(a.body)) || !a.keepsServer || !a.date {
			t.Fatalf("%s %s: %+v", method, r.Path, a)
		}
		checkBody(t, &r, a.body, known)
		if r.Path == "/db/scan" {
			scan = a.body
		}
		c.send(t, other, r.Path)
		if a := c.read(t, other); a.status != 405 || !a.allow {
			t.Errorf("%s %s: %d, Allow %v", other, r.Path, a.status, a.allow)
		}
	}
	c.send(t, http.MethodGet, "/simple")
	if a := c.read(t, http.MethodGet); string(a.body) != `{"message":"hi"}` {
		t.Errorf("/simple: %q", a.body)
	}
	return scan
}

func checkBody(t *testing.T, r *backend.Route, body []byte, products map[string]bool) {
	t.Helper()
	var answer struct {
		ID, Product int64
		Count       int
		Products    []json.RawMessage
		Brands      []struct{ Count int }
	}
	if r.Path != "/db/status" { // whose product is a name
		if err := json.Unmarshal(body, &answer); err != nil && r.Path != "/db/row" {
			t.Fatalf("%s: %v in %.80q", r.Path, err, body)
		}
	}
	good := false
	switch r.Path {
	case "/db/row":
		good = products[string(body)]
	case "/db/range":
		good = answer.Count == store.RangeSize && len(answer.Products) == store.RangeSize
		for _, p := range answer.Products {
			good = good && products[string(p)]
		}
	case "/db/scan":
		n := 0
		for _, b := range answer.Brands {
			n += b.Count
		}
		good = n == 10_000 && len(answer.Brands) == 40
	case "/db/update":
		good = answer.Product >= 1 && answer.Product <= 10_000
	case "/db/counter":
		good = string(body) == `{"counter":1}`
	case "/db/status":
		good = strings.Contains(string(body), `"pool":2,`)
	default:
		good = answer.ID >= 1<<32
	}
	if !good {
		t.Errorf("%s: %.120q", r.Path, body)
	}
}

// A database that fails is a 503 with its reason, from every framework, and the server goes on.
func TestFrameworksSayThatDatabasesFail(t *testing.T) {
	needs.Processes(t)
	for _, k := range kindsWithDatabase() {
		t.Run(k.Name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "db")
			c := newClient(t, start(t, k.Name, Config{Database: &store.Backend{Source: "sqlite:" + name}}).addr)
			// The file's pages are gone, and so is what the log has of them.
			for _, f := range []string{name, name + "-wal"} {
				if err := os.Truncate(f, 0); err != nil {
					t.Fatal(err)
				}
			}
			c.send(t, http.MethodPost, "/db/insert")
			a := c.read(t, http.MethodPost)
			var said struct{ Error string }
			if err := json.Unmarshal(a.body, &said); err != nil || a.status != 503 || said.Error == "" || a.contentType != typeJSON {
				t.Errorf("%+v: %q, %v", a, a.body, err)
			}
			c.send(t, http.MethodGet, "/simple")
			if a := c.read(t, http.MethodGet); a.status != 200 {
				t.Errorf("/simple: %d", a.status)
			}
		})
	}
}

// A server whose database does not answer stops within its second all the same.
func TestServerStopsWithBusyDatabase(t *testing.T) {
	needs.Processes(t)
	for _, k := range kindsWithDatabase() {
		t.Run(k.Name, func(t *testing.T) {
			d := &store.Backend{Source: "sqlite", Options: store.Options{GroupSize: 2, GroupWait: 1 << 40}} // some 18 minutes
			r := start(t, k.Name, Config{Database: d})
			c := newClient(t, r.addr)
			c.send(t, http.MethodPost, "/db/group") // waits for a second write that does not come
			c.send(t, http.MethodPost, "/db/group")
			r.stop(t)
		})
	}
}

func TestServeRefusesDatabases(t *testing.T) {
	for kind, d := range map[string]*store.Backend{
		"floor":   {Source: "sqlite"},
		"nethttp": {Source: "mysql"},
		"fiber":   {Source: "sqlite", Options: store.Options{Pool: -1}},
	} {
		if err := Serve(t.Context(), kind, Config{Database: d}); err == nil {
			t.Errorf("%s serves with %+v", kind, d)
		}
	}
}

// Where the port is taken, the database that was made for the server is gone again.
func TestPortIsTaken(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for _, prefork := range []bool{false, true} {
		cfg := Config{Addr: ln.Addr().String(), Prefork: prefork, Database: &store.Backend{Source: "sqlite"}}
		err = Serve(t.Context(), "fiber", cfg)
		if err == nil || !strings.Contains(err.Error(), "address already in use; ss -ltnp") || strings.Contains(err.Error(), "\n") {
			t.Errorf("prefork %v: %v", prefork, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("prefork %v: %v is left, %v", prefork, left, err)
		}
	}
}

// A database that dies under its server is a 503 with one line, from each route; the server goes on, and ends as usual.
func TestDatabaseDies(t *testing.T) {
	needs.Program(t, "psql")
	cluster := postgres(t)
	t.Cleanup(func() { _ = cluster.Discard() })
	r := start(t, "fasthttp", Config{Database: &store.Backend{Source: cluster.Source(), Options: store.Options{Pool: 2}}})
	c := newClient(t, r.addr)
	if err := cluster.Discard(); err != nil { // ends it as a crash would: without a word to its clients
		t.Fatal(err)
	}
	for _, route := range store.Routes(nil) {
		method := http.MethodGet
		if route.Writes {
			method = http.MethodPost
		}
		c.send(t, method, route.Path)
		a := c.read(t, method)
		if route.Path == "/db/status" || route.Path == "/db/async" { // which do not ask it before they answer
			continue
		}
		var said struct{ Error string }
		if err := json.Unmarshal(a.body, &said); err != nil || a.status != 503 || said.Error == "" || strings.Contains(said.Error, "\n") {
			t.Errorf("%s: %d %s", route.Path, a.status, a.body)
		}
	}
	c.send(t, http.MethodGet, "/simple")
	if a := c.read(t, http.MethodGet); a.status != 200 {
		t.Errorf("/simple: %d", a.status)
	}
	r.stop(t)
}
