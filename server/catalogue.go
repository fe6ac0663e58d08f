// Package server holds the servers to measure: several frameworks that serve the same routes with
// the same bytes.
//
// A difference between two of them must come from the framework alone. So they share one
// catalogue of routes (routes.go) over one pool of products (pool.go), a response is a function
// of the pool and a seed, and none of our code on the path of a request takes a lock, allocates,
// or accesses a disk. Routes with a database (database.go, store) are separate, and exist only if
// the server is given one. The pool comes from a fixed seed: every machine, and every process of
// a prefork server, serves the same bytes. It is built when a server starts.
//
// Each framework is one file and one line of the catalogue (catalogue.go); the interface engine
// defines what it must provide. serve.go starts and stops a server, and prefork.go does so with
// several processes.
//
// The package does not depend on the rest of the project, and runs on Linux; some of it elsewhere.
package server

import (
	"context"
	"fmt"
	"net"
	"strings"
)

// A Kind is a server that can be started by name.
type Kind struct {
	Name    string
	About   string // one line, for choosing
	Prefork bool   // can run as several processes that share the port
	Memory  bool   // responds from memory only: takes no database
	Plain   bool   // without TLS
	HTTP2   bool   // also speaks HTTP/2
	Forks   bool   // is several processes by the framework's own prefork, which serve the routes alone
}

// An engine is a framework with the routes mounted.
type engine interface {
	// serve serves the connections of ln. It returns when stop is called or when ln fails; the
	// error is meaningful only in the second case.
	serve(ln net.Listener) error

	// stop closes the listener, lets requests in progress finish until ctx ends, then closes the
	// remaining connections. None are open when it returns. It may be called before serve.
	stop(ctx context.Context)
}

// A framework is an entry of the catalogue.
type framework struct {
	Kind
	mount func(*site) engine
	// serve, if not nil, is Serve for a framework that starts processes by itself.
	serve func(ctx context.Context, f framework, cfg Config) error
}

func frameworks() []framework {
	return append([]framework{
		{Kind{Name: "nethttp", About: "the standard library's net/http", HTTP2: true}, mountNetHTTP, nil},
		{Kind{Name: "fasthttp", About: "valyala/fasthttp", Prefork: preforks}, mountFastHTTP, nil},
		{Kind{Name: "fiber", About: "gofiber/fiber v3, built on fasthttp", Prefork: preforks}, mountFiber, nil},
	}, onLinux()...)
}

// Catalogue returns all kinds of server.
func Catalogue() []Kind {
	var kinds []Kind
	for _, f := range frameworks() {
		kinds = append(kinds, f.Kind)
	}
	return kinds
}

// Lookup returns the kind of that name, or an error that lists the valid names.
func Lookup(name string) (Kind, error) {
	f, err := lookup(name)
	return f.Kind, err
}

func lookup(name string) (framework, error) {
	var names []string
	for _, f := range frameworks() {
		if f.Name == name {
			return f, nil
		}
		names = append(names, f.Name)
	}
	return framework{}, fmt.Errorf("unknown server %q: there are %s", name, strings.Join(names, ", "))
}
