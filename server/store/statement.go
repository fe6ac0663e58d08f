package store

import (
	"context"
	"database/sql"
	"errors"
	"strings"
)

// A statement is SQL for both databases, prepared on every connection that executes it, or not at
// all.
type statement struct {
	db       *sql.DB
	text     string
	prepared *sql.Stmt // nil: parsed each time
}

// statements are those of the routes.
type statements struct {
	product, products, brands statement
	insert, update, count     statement
}

func (s *statements) prepare(ctx context.Context, read, write *sql.DB, prepared bool) error {
	s.product = statement{db: read, text: "SELECT body FROM product WHERE id = $1"}
	s.products = statement{db: read, text: "SELECT body FROM product WHERE id >= $1 AND id < $2 ORDER BY id"}
	s.brands = statement{db: read, text: "SELECT brand, count(*), sum(price_cents) FROM product GROUP BY brand ORDER BY brand"}
	s.insert = statement{db: write, text: "INSERT INTO entry (id, product, quantity, note) VALUES ($1, $2, $3, $4)"}
	s.update = statement{db: write, text: "UPDATE stock SET quantity = quantity + 1 WHERE product = $1"}
	s.count = statement{db: write, text: "UPDATE counter SET n = n + 1 WHERE id = 1"}
	if !prepared {
		return nil
	}
	for _, st := range []*statement{&s.product, &s.products, &s.brands, &s.insert, &s.update, &s.count} {
		var err error
		if st.prepared, err = st.db.PrepareContext(ctx, st.text); err != nil {
			return err
		}
	}
	return nil
}

// each executes a query and calls row for each result row.
func (st *statement) each(ctx context.Context, row func(*sql.Rows) error, args ...any) (err error) {
	var rows *sql.Rows
	if st.prepared != nil {
		rows, err = st.prepared.QueryContext(ctx, args...)
	} else {
		rows, err = st.db.QueryContext(ctx, st.text, args...)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// exec executes a change and returns the number of rows changed.
func (st *statement) exec(ctx context.Context, args ...any) (n int64, err error) {
	var done sql.Result
	if st.prepared != nil {
		done, err = st.prepared.ExecContext(ctx, args...)
	} else {
		done, err = st.db.ExecContext(ctx, st.text, args...)
	}
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

// values returns "($1, $2), ($3, $4)" for two rows of two columns, or "?" for each parameter:
// SQLite treats $1 as a name, and looks up every name.
func values(rows, columns int, numbered bool) string {
	var b strings.Builder
	n := 0
	for r := range rows {
		if r > 0 {
			b.WriteString(", ")
		}
		for c := range columns {
			b.WriteString([]string{"(", ", "}[min(c, 1)])
			n++
			if !numbered {
				b.WriteByte('?')
				continue
			}
			b.WriteByte('$')
			b.WriteString(itoa(n))
		}
		b.WriteByte(')')
	}
	return b.String()
}
