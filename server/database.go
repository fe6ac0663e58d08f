package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"ceiling/server/store"
)

// A Database configures the database of a server.
type Database struct {
	Source string // in the form of store.CheckSource; "" for none
	store.Options

	// Ready, if not nil, is called before Config.Ready with a line that describes the database
	// and its commit mode.
	Ready func(about string)
}

// preforkDatabaseEnv is set in the environment of a child whose parent has prepared a database,
// to the input of store.Prepared.
const preforkDatabaseEnv = "CEILING_PREFORK_DATABASE"

// DatabaseRoutes returns the additional routes of a server with a database. Routes that write
// accept POST with any body, the others GET and HEAD. If the database fails they return 503 and
// the reason.
func DatabaseRoutes() []Route {
	read := func(path, about string, query func(*store.Store, uint64) ([]byte, error)) Route {
		return Route{Path: path, About: about, ContentType: typeJSON, query: query}
	}
	write := func(path, about string, query func(*store.Store, uint64) ([]byte, error)) Route {
		return Route{Path: path, About: about, ContentType: typeJSON, Writes: true, query: query}
	}
	return []Route{
		read("/db/row", "one of 10,000 products by its primary key, 4.5 KB", (*store.Store).Product),
		read("/db/range", "20 neighbours by the primary key, about 80 KB", (*store.Store).Range),
		read("/db/scan", "number and prices of the products of every brand: reads all 10,000",
			func(s *store.Store, _ uint64) ([]byte, error) { return s.Scan() }),
		write("/db/insert", "INSERT of one row, durable when it is answered", (*store.Store).Insert),
		write("/db/update", "UPDATE of one of 10,000 rows, durable when it is answered", (*store.Store).Update),
		write("/db/counter", "UPDATE of one row, the same for all requests",
			func(s *store.Store, _ uint64) ([]byte, error) { return s.Count() }),
		write("/db/group", "INSERT that shares its commit with others (--db-group)", (*store.Store).InsertGroup),
		write("/db/async", "INSERT that is answered before it is durable", (*store.Store).InsertAsync),
		read("/db/status", "settings of the database, its pool, commits so far",
			func(s *store.Store, _ uint64) ([]byte, error) { return s.StatusJSON() }),
		read("/db/pool", "the same without asking the database",
			func(s *store.Store, _ uint64) ([]byte, error) { return s.PoolJSON() }),
	}
}

// prepare prepares the database for all processes of the server. The caller discards it.
func (d *Database) prepare(ctx context.Context) (*store.Database, error) {
	p, err := onePool()
	if err != nil {
		return nil, err
	}
	products := make([]store.Product, len(p.products))
	for i, x := range p.products {
		products[i] = store.Product{Body: x.json, Brand: x.brand, PriceCents: x.priceCents}
	}
	db, err := store.Prepare(ctx, d.Source, products, d.Options)
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", d.name(), err)
	}
	return db, nil
}

// name returns the source without the part after its scheme, which may contain a password.
func (d *Database) name() string {
	for i, c := range d.Source {
		if c == ':' {
			return d.Source[:i]
		}
	}
	return d.Source
}

// open gives s the routes of the database, and its connections to it.
func (d *Database) open(ctx context.Context, s *site, db *store.Database) error {
	opened, err := store.Open(ctx, db, s.pool.brands, d.Options)
	if err != nil {
		return fmt.Errorf("database %s: %w", d.name(), err)
	}
	s.db = opened
	s.routes = append(s.routes, DatabaseRoutes()...)
	return nil
}

// openInherited is open in a prefork child.
func (d *Database) openInherited(ctx context.Context, s *site) error {
	if d.Source == "" {
		return nil
	}
	db, err := store.Prepared(os.Getenv(preforkDatabaseEnv))
	if err != nil {
		return fmt.Errorf("prefork child: %w", err)
	}
	return d.open(ctx, s, db)
}

// withDatabase calls serve with the database that cfg names, then stops and removes it. db is nil
// without one.
func withDatabase(ctx context.Context, cfg *Database, serve func(db *store.Database) error) error {
	if cfg.Source == "" {
		return serve(nil)
	}
	db, err := cfg.prepare(ctx)
	if err != nil {
		return err
	}
	err = serve(db)
	if failed := db.Discard(); failed != nil {
		err = errors.Join(err, fmt.Errorf("remove the database: %w", failed))
	}
	return err
}

// failure is the response to a database error.
func failure(err error) []byte {
	text, err := json.Marshal(struct {
		Error string `json:"error"`
	}{err.Error()})
	if err != nil {
		return []byte(`{"error":"unknown"}`)
	}
	return text
}
