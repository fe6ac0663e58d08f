// Package server holds the servers to measure: a few frameworks that answer the same routes with the same bytes.
//
// A difference between two of them is worth something only if it is the framework's. So there is one catalogue of
// routes (routes.go) over one pool of products (pool.go), an answer is a function of the pool and a seed, and nothing
// of ours on the way of a request takes a lock, allocates, or touches a disk. The pool comes from a fixed seed: every
// machine, and every process of a prefork server, serves the same bytes. It is built when a server starts, not before.
//
// Each framework is one file and one line of the catalogue (catalogue.go); what it has to be able to do is the
// interface engine. How a server starts and stops is in serve.go, and prefork.go does the same with several processes.
//
// The package knows nothing of the rest of the lab, and it runs on Linux.
package server
