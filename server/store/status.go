package store

import (
	"encoding/json"
	"fmt"
	"strings"
)

// About is a database's description of itself.
type About struct {
	Product string `json:"product"` // "SQLite 3.50.4"
	// Settings that determine the cost and the guarantees of a commit, by the database's own
	// names.
	Settings []Setting `json:"settings"`
}

// A Setting is a database's setting, as returned by the database.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// A Status is a process's view of its database.
type Status struct {
	About
	Prepared bool `json:"prepared"`
	Cached   bool `json:"cached"`
	Rows     int  `json:"rows"` // of products

	Pool    int     `json:"pool"`   // maximum connections
	InUse   int     `json:"in_use"` // now
	Waited  int64   `json:"waited"` // requests that found no free connection, since the start
	WaitedS float64 `json:"waited_s"`

	// Commits of this process since its start; each is at least one fsync if commits wait for the
	// disk.
	Commits   int64 `json:"commits"`
	Writes    int64 `json:"writes"` // requests in those commits
	GroupSize int   `json:"group_size"`
	GroupMs   int64 `json:"group_wait_ms"`
	Grouped   int64 `json:"grouped"` // entries of group commits

	Async   int64 `json:"async"`   // entries acknowledged first and committed since
	Waiting int   `json:"waiting"` // acknowledged, not yet committed
	Lost    int64 `json:"lost"`    // acknowledged, but rejected by the database

	// Source is the address at which a run's observer can query the database directly; "" if that
	// takes a password, or it is not a server.
	Source string `json:"source,omitempty"`
}

// Status returns the current figures.
func (s *Store) Status() Status {
	pool := s.read.Stats()
	st := Status{
		About: s.about, Prepared: !s.options.Unprepared, Cached: s.options.Cached, Rows: s.rows,
		Pool: s.options.Pool, InUse: pool.InUse, Waited: pool.WaitCount, WaitedS: pool.WaitDuration.Seconds(),
		Commits: s.commits.Load(), GroupSize: s.options.GroupSize, GroupMs: s.options.GroupWait.Milliseconds(),
		Source:  s.source,
		Grouped: s.group.committed.Load(), Async: s.async.committed.Load(), Waiting: len(s.async.queue), Lost: s.async.lost.Load(),
	}
	st.Writes = s.alone.Load() + st.Grouped + st.Async
	if s.write != s.read {
		w := s.write.Stats()
		st.InUse += w.InUse
		st.Waited += w.WaitCount
		st.WaitedS += w.WaitDuration.Seconds()
	}
	return st
}

// StatusJSON is Status for a route. It asks the database nothing: that would take a connection of the pool.
func (s *Store) StatusJSON() ([]byte, error) { return json.Marshal(s.Status()) }

// Line describes the database, its use by a process, and the guarantees of its commits.
func (d *Database) Line() string {
	statements := "statements prepared"
	if d.options.Unprepared {
		statements = "statements not prepared"
	}
	if d.options.Cached {
		statements += ", products cached"
	}
	settings := make([]string, 0, len(d.about.Settings))
	for _, v := range d.about.Settings {
		settings = append(settings, v.Name+" "+v.Value)
	}
	return fmt.Sprintf("%s: pool of %d, %s; %s", d.about.Product, d.options.Pool, statements, strings.Join(settings, ", "))
}
