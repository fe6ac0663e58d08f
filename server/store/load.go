package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

const (
	// copies is how often the table contains the pool of products: 500 products, 10,000 rows,
	// about 45 MB.
	copies = 20

	// layout is the version of the tables and their content.
	layout = 2

	// rowsAStatement are loaded together; more gain nothing.
	rowsAStatement = 100
)

func tables() []string {
	return []string{
		"CREATE TABLE product (id integer PRIMARY KEY, brand integer NOT NULL, price_cents bigint NOT NULL, body text NOT NULL)",
		"CREATE TABLE stock (product integer PRIMARY KEY, quantity bigint NOT NULL)",
		"CREATE TABLE entry (id bigint PRIMARY KEY, product integer NOT NULL, quantity integer NOT NULL, note text NOT NULL)",
		"CREATE TABLE counter (id integer PRIMARY KEY, n bigint NOT NULL)",
		"INSERT INTO counter VALUES (0, 0), (1, 0)",
		"CREATE TABLE loaded (layout integer NOT NULL, products integer NOT NULL)",
	}
}

// load creates and fills the tables in one transaction, so they are either complete or absent. If
// several processes load at once, all but one wait and find them complete.
func (d *Database) load(ctx context.Context, products []Product) (err error) {
	d.rows = copies * len(products)
	read, db, err := d.kind().connect(d.source, Options{Pool: 1, NoSync: d.options.NoSync})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, read.Close(), db.Close()) }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, text := range d.kind().begin {
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	known, err := d.loaded(ctx, tx)
	if err == nil && !known {
		err = d.fill(ctx, tx, products)
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return err
	}
	for _, text := range d.kind().end {
		if _, err := db.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	d.about, err = d.kind().describe(ctx, db)
	return err
}

// fill creates the tables and loads them.
func (d *Database) fill(ctx context.Context, tx *sql.Tx, products []Product) error {
	for _, text := range tables() {
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("make the tables: %w", err)
		}
	}
	if err := d.loadProducts(ctx, tx, products); err != nil {
		return fmt.Errorf("load the products: %w", err)
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO loaded VALUES ($1, $2)", layout, d.rows)
	return err
}

// loaded reports whether the tables exist. Foreign tables with our names, or of another version,
// are an error.
func (d *Database) loaded(ctx context.Context, tx *sql.Tx) (bool, error) {
	n, err := ownTables(ctx, tx, d.source)
	if err != nil || n == 0 {
		return false, err
	}
	var have, rows int
	if n == len(tables())-1 {
		err = tx.QueryRowContext(ctx, "SELECT layout, products FROM loaded").Scan(&have, &rows)
	}
	if err != nil || have != layout || rows != d.rows {
		return false, fmt.Errorf("the database has tables of our names that are not ours or half made (%d of %d, layout %d of %d); %s",
			n, len(tables())-1, have, layout, remedy(d.source))
	}
	return true, nil
}

func ownTables(ctx context.Context, tx *sql.Tx, source string) (n int, err error) {
	text := "SELECT count(*) FROM pg_tables WHERE schemaname = 'ceiling' AND tablename"
	if isSQLite(source) {
		text = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name"
	}
	err = tx.QueryRowContext(ctx, text+" IN ('product', 'stock', 'entry', 'counter', 'loaded')").Scan(&n)
	return n, err
}

func remedy(source string) string {
	if isSQLite(source) {
		return "name another file"
	}
	return `remove them: DROP SCHEMA ceiling CASCADE`
}

func (d *Database) loadProducts(ctx context.Context, tx *sql.Tx, products []Product) error {
	numbered := d.kind().numbered
	insert, err := tx.PrepareContext(ctx, "INSERT INTO product (id, brand, price_cents, body) VALUES "+values(rowsAStatement, 4, numbered))
	if err != nil {
		return err
	}
	defer insert.Close()
	stock, err := tx.PrepareContext(ctx, "INSERT INTO stock (product, quantity) VALUES "+values(rowsAStatement, 2, numbered))
	if err != nil {
		return err
	}
	defer stock.Close()
	for first := 1; first <= d.rows; first += rowsAStatement {
		var full, ids []any
		for id := first; id < first+rowsAStatement; id++ {
			p := &products[(id-1)%len(products)]
			full = append(full, id, p.Brand, p.PriceCents, string(p.Body))
			ids = append(ids, id, 0)
		}
		if _, err := insert.ExecContext(ctx, full...); err != nil {
			return err
		}
		if _, err := stock.ExecContext(ctx, ids...); err != nil {
			return err
		}
	}
	return nil
}
