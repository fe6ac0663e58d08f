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

// A Database is one that is loaded, and that processes open.
type Database struct {
	source  string // "sqlite:PATH" or "postgres://…"
	rows    int    // products
	about   About
	options Options // of the processes that open it
	discard func() error
}

// A kind is one of the two databases.
type kind struct {
	// connect makes a process's pools, without a connection yet.
	connect func(source string, o Options) (read, write *sql.DB, err error)
	// describe asks the database what it is and how it commits.
	describe func(context.Context, *sql.DB) (About, error)
	// begin is executed before the tables are made, in the same transaction.
	begin []string
	// end is executed after the tables are loaded.
	end []string
	// numbered: parameters are $1, $2, …, else each is a ?.
	numbered bool
}

func (d *Database) kind() kind { return kindOf(d.source) }

func kindOf(source string) kind {
	if strings.HasPrefix(source, "sqlite") {
		return kind{connect: connectSQLite, describe: describeSQLite, end: []string{"ANALYZE", "PRAGMA wal_checkpoint(TRUNCATE)"}}
	}
	return kind{connect: connectPostgres, describe: describePostgres, begin: beginPostgres(), end: []string{"ANALYZE"}, numbered: true}
}

// CheckSource says what is wrong with a source, or nil: "sqlite" and "postgres" are databases for the time of the
// server, "sqlite:PATH" a file and "postgres://…" a server's database, which keep what is written.
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

// Prepare makes the database that a source names, see CheckSource, and loads products where they are not loaded yet.
// Discard it in the end.
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

// Prepared is the database that another process has prepared and handed on as String.
func Prepared(text string) (*Database, error) {
	rows, source, _ := strings.Cut(text, " ")
	n, err := strconv.Atoi(rows)
	if err != nil || n < RangeSize {
		return nil, fmt.Errorf("database %q: no number of products", text)
	}
	return &Database{source: source, rows: n, discard: func() error { return nil }}, nil
}

// String is what Prepared reads. It may have a password in it.
func (d *Database) String() string { return itoa(d.rows) + " " + d.source }

// Source names the database as Prepare takes it: another process can use it while it is there.
func (d *Database) Source() string { return d.source }

// Discard ends and removes what Prepare started and made for the time of the server, and nothing else. It may be called
// again.
func (d *Database) Discard() error {
	discard := d.discard
	d.discard = func() error { return nil }
	return discard()
}

// makeFile makes a directory for an SQLite file.
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

// newRoom makes a directory for a database.
func newRoom(parent string) (*scratch.Dir, error) {
	room, err := scratch.New(parent, roomPrefix)
	if err != nil {
		return nil, fmt.Errorf("make a directory for the database: %w", err)
	}
	return room, nil
}

func itoa(n int) string { return strconv.Itoa(n) }
