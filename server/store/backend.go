package store

import (
	"context"
	"fmt"
	"strings"

	"ceiling/server/backend"
)

// Backend is a database as what stands behind a server.
type Backend struct {
	Source string // see CheckSource
	Options
}

// Prepare implements backend.Database.
func (c *Backend) Prepare(ctx context.Context, products []Product) (backend.Prepared, error) {
	db, err := Prepare(ctx, c.Source, products, c.Options)
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", c.name(), err)
	}
	return &shared{db, c}, nil
}

// Prepared implements backend.Database.
func (c *Backend) Prepared(text string) (backend.Prepared, error) {
	db, err := Prepared(text)
	if err != nil {
		return nil, err
	}
	return &shared{db, c}, nil
}

// name returns the source without the part after its scheme, which may contain a password.
func (c *Backend) name() string {
	scheme, _, _ := strings.Cut(c.Source, ":")
	return scheme
}

type shared struct {
	*Database
	config *Backend
}

func (p *shared) Open(ctx context.Context, brands [][]byte) (backend.Backend, error) {
	s, err := Open(ctx, p.Database, brands, p.config.Options)
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", p.config.name(), err)
	}
	return &connected{s}, nil
}

type connected struct{ *Store }

func (o *connected) Routes() []backend.Route { return Routes(o.Store) }
func (o *connected) Line() string            { return "" } // the prepared database's is printed
func (o *connected) Close() error {
	o.Store.Close()
	return nil
}

// Routes are those of a server with a database. Without a store they can be listed, and not called.
func Routes(s *Store) []backend.Route {
	read := func(path, about string, query func(uint64) ([]byte, error)) backend.Route {
		return backend.Route{Path: path, About: about, Query: query}
	}
	write := func(path, about string, query func(uint64) ([]byte, error)) backend.Route {
		return backend.Route{Path: path, About: about, Writes: true, Query: query}
	}
	seedless := func(query func(*Store) ([]byte, error)) func(uint64) ([]byte, error) {
		return func(uint64) ([]byte, error) { return query(s) }
	}
	return []backend.Route{
		read("/db/row", "one of 10,000 products by its primary key, 4.5 KB", s.Product),
		read("/db/range", "20 neighbours by the primary key, about 80 KB", s.Range),
		read("/db/scan", "number and prices of the products of every brand: reads all 10,000", seedless((*Store).Scan)),
		write("/db/insert", "INSERT of one row, durable when it is answered", s.Insert),
		write("/db/update", "UPDATE of one of 10,000 rows, durable when it is answered", s.Update),
		write("/db/counter", "UPDATE of one row, the same for all requests", seedless((*Store).Count)),
		write("/db/group", "INSERT that shares its commit with others (--db-group)", s.InsertGroup),
		write("/db/async", "INSERT that is answered before it is durable", s.InsertAsync),
		read("/db/status", "settings of the database, its pool, commits so far", seedless((*Store).StatusJSON)),
	}
}
