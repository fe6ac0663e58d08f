package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"ceiling/internal/text"
)

// connectWithin is the timeout of a connect.
const connectWithin = 5 * time.Second

func checkPostgres(source string) error {
	_, err := pgx.ParseConfig(source)
	return clarify(err)
}

func connectPostgres(source string, o Options) (read, write *sql.DB, err error) {
	config, err := pgx.ParseConfig(source)
	if err != nil {
		return nil, nil, err
	}
	config.ConnectTimeout = connectWithin
	config.RuntimeParams["search_path"] = "ceiling"
	config.RuntimeParams["application_name"] = "ceiling"
	config.RuntimeParams["synchronous_commit"] = "on"
	if o.NoSync {
		config.RuntimeParams["synchronous_commit"] = "off"
	}
	if o.Unprepared {
		config.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	db := stdlib.OpenDB(*config)
	limit(db, o.Pool)
	return db, db, nil
}

// openSource returns a source that may be disclosed on this host: that of a PostgreSQL behind a
// socket, without a password.
func openSource(source string) string {
	if !strings.HasPrefix(source, "postgres") {
		return ""
	}
	config, err := pgx.ParseConfig(source)
	if err != nil || config.Password != "" || !strings.HasPrefix(config.Host, "/") {
		return ""
	}
	return source
}

// beginPostgres lets one process load at a time: the key is the bytes of a word.
func beginPostgres() []string {
	return []string{"SELECT pg_advisory_xact_lock(x'6365696c'::int)", "CREATE SCHEMA IF NOT EXISTS ceiling"}
}

func describePostgres(ctx context.Context, db *sql.DB) (About, error) {
	var a About
	names := []string{"server_version", "synchronous_commit", "fsync", "wal_sync_method", "full_page_writes", "commit_delay", "max_connections",
		"shared_buffers"}
	for _, name := range names {
		var value string
		if err := db.QueryRowContext(ctx, "SHOW "+name).Scan(&value); err != nil {
			return a, fmt.Errorf("SHOW %s: %w", name, err)
		}
		if name == "server_version" {
			a.Product = "PostgreSQL " + value
			continue
		}
		a.Settings = append(a.Settings, Setting{name, value})
	}
	return a, nil
}

// clarify reduces a driver's error to one line, with a fix if known.
func clarify(err error) error {
	if err == nil {
		return nil
	}
	var said *pgconn.PgError
	var unreached *pgconn.ConnectError
	var refused syscall.Errno
	switch {
	case errors.As(err, &unreached) && errors.As(err, &refused) && unreached.Config != nil:
		// The driver repeats it for each address and each TLS mode.
		c := unreached.Config
		return &clearError{fmt.Sprintf("cannot connect to %s as user %s: %s; start PostgreSQL there, or --db postgres starts one for the time of the server",
			net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))), c.User, refused.Error()), err}
	case errors.As(err, &said):
		if hint := hints(said.Code); hint != "" {
			return &clearError{text.Line(err.Error()) + "; " + hint, err}
		}
	}
	return &clearError{text.Line(err.Error()), err}
}

// hints are fixes for PostgreSQL's errors (Appendix A of its manual).
func hints(code string) string {
	switch code {
	case "53300":
		return "max_connections is reached: make --db-pool smaller (each process of --prefork has its own pool), or max_connections larger"
	case "28P01", "28000":
		return "check user and password of --db, and the server's pg_hba.conf"
	case "3D000":
		return "make the database first: createdb"
	case "42501":
		return "the user of --db has to be allowed to make a schema: GRANT CREATE ON DATABASE … TO …"
	case "53100":
		return "the database's disk is full"
	}
	return ""
}

type clearError struct {
	text string
	err  error
}

func (e *clearError) Error() string { return e.text }
func (e *clearError) Unwrap() error { return e.err }
