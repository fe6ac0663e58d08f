package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"

	"ceiling/server/backend"
)

// preforkDatabaseEnv is set in the environment of a child whose parent has prepared a database,
// to the input of backend.Database.Prepared.
const preforkDatabaseEnv = "CEILING_PREFORK_DATABASE"

// products returns those of the pool, for a database.
func products() ([]backend.Product, error) {
	p, err := onePool()
	if err != nil {
		return nil, err
	}
	list := make([]backend.Product, len(p.products))
	for i, x := range p.products {
		list[i] = backend.Product{Body: x.json, Brand: x.brand, PriceCents: int64(math.Round(x.Price * 100))}
	}
	return list, nil
}

// open gives s the routes of a database, and connections to it.
func (s *site) open(ctx context.Context, db backend.Prepared) error {
	opened, err := db.Open(ctx, s.pool.brands)
	if err != nil {
		return err
	}
	s.add(opened)
	return nil
}

// openInherited is open in a prefork child.
func (s *site) openInherited(ctx context.Context, of backend.Database) error {
	if of == nil {
		return nil
	}
	db, err := of.Prepared(os.Getenv(preforkDatabaseEnv))
	if err != nil {
		return fmt.Errorf("prefork child: %w", err)
	}
	return s.open(ctx, db)
}

// withDatabase calls serve with the database prepared, then stops and removes it. db is nil without
// one.
func withDatabase(ctx context.Context, of backend.Database, serve func(db backend.Prepared) error) error {
	if of == nil {
		return serve(nil)
	}
	list, err := products()
	if err != nil {
		return err
	}
	db, err := of.Prepare(ctx, list)
	if err != nil {
		return err
	}
	err = serve(db)
	if failed := db.Discard(); failed != nil {
		err = errors.Join(err, fmt.Errorf("remove the database: %w", failed))
	}
	return err
}
