// Package server holds the servers to measure: a few frameworks that answer the same routes with the same bytes.
//
// A difference between two of them is worth something only if it is the framework's. So there is one catalogue of
// routes (routes.go) over one pool of products (pool.go), an answer is a function of the pool and a seed, and nothing
// of ours on the way of a request takes a lock, allocates, or touches a disk; the routes of a database (database.go,
// store) are apart, and there only where a server is given one. The pool comes from a fixed seed: every
// machine, and every process of a prefork server, serves the same bytes. It is built when a server starts, not before.
//
// Each framework is one file and one line of the catalogue (catalogue.go); what it has to be able to do is the
// interface engine. How a server starts and stops is in serve.go, and prefork.go does the same with several processes.
//
// The package knows nothing of the rest of the lab, and it runs on Linux.
package server

import (
	"context"
	"fmt"
	"net"
	"strings"
)

// A Kind is a server that can be started by its name.
type Kind struct {
	Name    string
	About   string // one line for a person who chooses
	Prefork bool   // it can run as several processes which share the port
	Memory  bool   // it answers from memory alone, so it takes no database
	Plain   bool   // it has no TLS
	HTTP2   bool   // it speaks HTTP/2 too
}

// An engine is a framework with the routes mounted.
type engine interface {
	// serve answers the connections of ln. It returns when stop has been called or when ln fails; the error says
	// which one it was only in the second case.
	serve(ln net.Listener) error

	// stop closes the listener, lets requests that are being answered finish until ctx ends, then closes what is
	// still open. No connection is left when it returns. It may come before serve has taken the listener.
	stop(ctx context.Context)
}

// A framework is a line of the catalogue.
type framework struct {
	Kind
	mount func(*site) engine
}

func frameworks() []framework {
	return []framework{
		{Kind{Name: "nethttp", About: "the standard library's net/http", HTTP2: true}, mountNetHTTP},
		{Kind{Name: "fasthttp", About: "valyala/fasthttp", Prefork: true}, mountFastHTTP},
		{Kind{Name: "fiber", About: "gofiber/fiber v3, built on fasthttp", Prefork: true}, mountFiber},
		{Kind{Name: "floor", About: "minimal io_uring server: its cost is close to that of the kernel alone", Memory: true, Plain: true, HTTP2: true}, mountFloor},
	}
}

// Catalogue returns the kinds of server there are.
func Catalogue() []Kind {
	var kinds []Kind
	for _, f := range frameworks() {
		kinds = append(kinds, f.Kind)
	}
	return kinds
}

// Lookup returns the kind of that name, or an error that lists the names there are.
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
