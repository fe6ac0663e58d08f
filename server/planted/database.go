package planted

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"ceiling/server/store"
)

// What a request does in the database.
const (
	FaultQuery  = "query"  // a query that sleeps: the pool is the bottleneck
	FaultRow    = "row"    // all requests update the same row and hold its lock for a while
	FaultCommit = "commit" // a row is inserted, durable at commit
	FaultWork   = "work"   // a query that computes
)

// workRows is how many rows a computing query sums per unit of --every.
const workRows = 1000

// statement returns the statement of a request; none has parameters.
func (p *Params) statement() string {
	sleep := fmt.Sprintf("SELECT pg_sleep(%f)", p.Sleep.Seconds())
	switch p.Fault {
	case FaultRow:
		return "BEGIN; UPDATE hot SET n = n + 1 WHERE id = 1; " + sleep + "; COMMIT"
	case FaultCommit:
		return "INSERT INTO log VALUES (repeat('x', 100))"
	case FaultWork:
		return fmt.Sprintf("SELECT sum(i) FROM generate_series(1, %d) i", workRows*p.Every)
	}
	return sleep
}

// serveDatabase has its own PostgreSQL, and a pool of n connections to it. It reports its pool's
// database/sql counters in the same place as our other servers.
func serveDatabase(ctx context.Context, p *Params, ready func(string)) (err error) {
	if (p.Fault == FaultQuery || p.Fault == FaultRow) != (p.Sleep > 0) || (p.Fault == FaultWork) != (p.Every > 0) {
		return errors.New("give query and row a sleep, and work an every")
	}
	cluster, err := store.Prepare(ctx, "postgres", []store.Product{{Body: []byte("{}")}}, store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Discard()) }()
	config, err := pgx.ParseConfig(cluster.Source())
	if err != nil {
		return err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // several statements at once
	db := stdlib.OpenDB(*config)
	defer db.Close()
	db.SetMaxOpenConns(p.N)
	db.SetMaxIdleConns(p.N)
	if _, err := db.ExecContext(ctx, "CREATE TABLE log (text text); CREATE TABLE hot (id int PRIMARY KEY, n int); INSERT INTO hot VALUES (1, 0)"); err != nil {
		return err
	}
	statement := p.statement()
	return serveHTTP(ctx, p, ready, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/db/status") {
			sayPool(w, db, p.N, cluster.Source())
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), timeMax)
		defer cancel()
		_, err := db.ExecContext(ctx, statement)
		reply(w, err)
	})
}

func sayPool(w http.ResponseWriter, db *sql.DB, size int, source string) {
	s := db.Stats()
	text, err := json.Marshal(map[string]any{"product": "PostgreSQL", "pool": size, "in_use": s.InUse, "waited": s.WaitCount,
		"waited_s": s.WaitDuration.Seconds(), "source": source})
	if err != nil {
		reply(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // a client that has disconnected needs no response
}
