package server

import (
	"crypto/tls"
	"time"

	"ceiling/server/backend"
)

// When a server is stopped, requests in progress have graceful to finish; then their connections
// are closed. The children of a prefork server still running after killAfter are killed. Together
// these ensure that Serve returns within a second.
const (
	graceful  = 500 * time.Millisecond
	killAfter = 800 * time.Millisecond
)

// Config configures a server. Its zero value serves a free loopback port with one process on all
// CPUs.
type Config struct {
	// Addr is "host:port", where port 0 is a free one, or "unix:/path". "" is "127.0.0.1:0". A
	// prefork server cannot use a unix socket, since only ports can be shared among listeners.
	Addr string

	// Prefork runs several processes, each with one CPU and its own listener on the shared port.
	Prefork bool

	// Workers is the number of processes with Prefork, otherwise of threads that run Go code
	// (GOMAXPROCS, set for the whole process until Serve returns). 0 is the number of CPUs
	// available to this process.
	Workers int

	// TLS configuration; nil for none. Not all frameworks support it; prefork children get it
	// from their parent and leave it nil.
	TLS *tls.Config

	// Ready, if not nil, is called once with the actual address, in the form of Addr, when all
	// connections to it will be served. The parent of a prefork server calls it, not the
	// children.
	Ready func(addr string)

	// Pprof is the address for profiles ("host:port", 0 is a free one) of all processes:
	// http://Pprof/debug/pprof/. The runtime then records lock contention and other waits. "" for
	// none.
	Pprof string

	// ListKB is the approximate size of a response of /list in thousand bytes, from MinListKB to
	// MaxListKB; 0 is 111.
	ListKB int

	// Database is what all processes of the server share; nil: none. Behind are backends of a server
	// with one process.
	Database backend.Database
	Behind   []backend.Open
	// Announce, if not nil, is called before Ready with a line that describes each backend.
	Announce func(about string)

	// PprofReady, if not nil, is called before Ready with the actual address of Pprof.
	PprofReady func(addr string)
}

// MinListKB and MaxListKB limit Config.ListKB: at least two products, and at most what the pool's
// 500 suffice for.
const (
	MinListKB = 10
	MaxListKB = 1500
)

// ready reports that the server serves on addr, and what is behind it.
func (cfg *Config) ready(db backend.Prepared, behind []backend.Backend, addr string) {
	announce := func(line string) {
		if line != "" && cfg.Announce != nil {
			cfg.Announce(line)
		}
	}
	for _, b := range behind {
		announce(b.Line())
	}
	if db != nil {
		announce(db.Line())
	}
	if cfg.Ready != nil {
		cfg.Ready(addr)
	}
}
