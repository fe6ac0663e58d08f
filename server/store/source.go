package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"ceiling/internal/scratch"
)

// A Database is a loaded database, which processes open.
type Database struct {
	source  string // "sqlite:PATH" or "postgres://…"
	rows    int    // products
	about   About
	options Options // for the processes that open it
	discard func() error
}

// A kind is one of the two databases.
type kind struct {
	// connect creates a process's pools, without connecting yet.
	connect func(source string, o Options) (read, write *sql.DB, err error)
	// describe queries the database's version and commit settings.
	describe func(context.Context, *sql.DB) (About, error)
	// begin runs before the tables are created, in the same transaction.
	begin []string
	// end runs after the tables are loaded.
	end []string
	// numbered: parameters are $1, $2, …; otherwise each is a ?.
	numbered bool
}

func (d *Database) kind() kind { return kindOf(d.source) }

func kindOf(source string) kind {
	if strings.HasPrefix(source, "sqlite") {
		return kind{connect: connectSQLite, describe: describeSQLite, end: []string{"ANALYZE", "PRAGMA wal_checkpoint(TRUNCATE)"}}
	}
	return kind{connect: connectPostgres, describe: describePostgres, begin: beginPostgres(), end: []string{"ANALYZE"}, numbered: true}
}

// CheckSource validates a source: "sqlite" and "postgres" are temporary databases for the
// server's lifetime; "sqlite:PATH" is a file and "postgres://…" a server's database, which keep
// what is written.
func CheckSource(source string) error {
	path, file := strings.CutPrefix(source, "sqlite:")
	switch {
	case source == "sqlite" || source == "postgres":
		return nil
	case file && path != "":
		return nil
	case strings.HasPrefix(source, "postgres://") || strings.HasPrefix(source, "postgresql://"):
		return checkPostgres(source)
	}
	return fmt.Errorf("unknown database %q; use sqlite, sqlite:PATH, postgres or postgres://USER@HOST/DATABASE", source)
}

// Prepare creates or opens the database that a source names, see CheckSource, and loads products
// unless they are there. The caller must Discard it.
func Prepare(ctx context.Context, source string, products []Product, o Options) (*Database, error) {
	if err := errors.Join(CheckSource(source), o.Check()); err != nil {
		return nil, err
	}
	d := &Database{source: source, options: o.completed(), discard: func() error { return nil }}
	var err error
	switch source {
	case "sqlite":
		err = d.makeFile()
	case "postgres":
		err = d.startCluster(ctx)
	}
	if err == nil {
		err = d.load(ctx, products)
	}
	if err != nil {
		return nil, errors.Join(clarify(err), d.Discard())
	}
	return d, nil
}

// Prepared returns the database that another process prepared and passed on as String.
func Prepared(text string) (*Database, error) {
	rows, source, _ := strings.Cut(text, " ")
	n, err := strconv.Atoi(rows)
	if err != nil || n < RangeSize {
		return nil, fmt.Errorf("database %q: no number of products", text)
	}
	return &Database{source: source, rows: n, discard: func() error { return nil }}, nil
}

// String returns the input of Prepared. It may contain a password.
func (d *Database) String() string { return itoa(d.rows) + " " + d.source }

// Source returns the database's source for Prepare: another process can use it while it exists.
func (d *Database) Source() string { return d.source }

// Discard stops and removes what Prepare created for the server's lifetime, and nothing else. It
// may be called again.
func (d *Database) Discard() error {
	discard := d.discard
	d.discard = func() error { return nil }
	return discard()
}

// makeFile creates a directory for an SQLite file.
func (d *Database) makeFile() error {
	room, err := newRoom(os.TempDir())
	if err != nil {
		return err
	}
	d.source = "sqlite:" + filepath.Join(room.Path, "ceiling.db")
	d.discard = room.Remove
	return nil
}

const roomPrefix = "ceiling-db-"

// newRoom creates a directory for a database.
func newRoom(parent string) (*scratch.Dir, error) {
	room, err := scratch.New(parent, roomPrefix)
	if err != nil {
		return nil, fmt.Errorf("make a directory for the database: %w", err)
	}
	return room, nil
}

func itoa(n int) string { return strconv.Itoa(n) }
