package store

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

func isSQLite(source string) bool { return strings.HasPrefix(source, "sqlite:") }

// connectSQLite creates two pools: SQLite allows one writer at a time, and a second would poll
// for its lock. With the write-ahead log, readers and the writer do not wait for each other.
func connectSQLite(source string, o Options) (read, write *sql.DB, err error) {
	path, err := filepath.Abs(strings.TrimPrefix(source, "sqlite:"))
	if err != nil {
		return nil, nil, err
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil, nil, err // SQLite would name neither the file nor the cause
	}
	synchronous := "FULL"
	if o.NoSync {
		synchronous = "OFF"
	}
	query := url.Values{"_txlock": {"immediate"}, "_pragma": {
		"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(" + synchronous + ")",
	}}
	name := "file://" + (&url.URL{Path: path}).EscapedPath() + "?" + query.Encode()
	if write, err = sql.Open("sqlite", name); err != nil {
		return nil, nil, err
	}
	if read, err = sql.Open("sqlite", name); err != nil {
		return nil, nil, err
	}
	limit(write, 1)
	limit(read, o.Pool)
	return read, write, nil
}

// limit makes a pool of n connections that stay open.
func limit(db *sql.DB, n int) {
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
}

func describeSQLite(ctx context.Context, db *sql.DB) (About, error) {
	var a About
	if err := db.QueryRowContext(ctx, "SELECT 'SQLite ' || sqlite_version()").Scan(&a.Product); err != nil {
		return a, err
	}
	levels := map[string]string{"0": "OFF", "1": "NORMAL", "2": "FULL", "3": "EXTRA"}
	for _, name := range []string{"journal_mode", "synchronous", "wal_autocheckpoint", "page_size"} {
		var value string
		if err := db.QueryRowContext(ctx, "PRAGMA "+name).Scan(&value); err != nil {
			return a, fmt.Errorf("PRAGMA %s: %w", name, err)
		}
		if name == "synchronous" {
			value = levels[value]
		}
		a.Settings = append(a.Settings, Setting{name, value})
	}
	return a, nil
}
