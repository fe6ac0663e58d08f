package record

import (
	"fmt"
	"strings"
)

// This file defines what the server and its backends report about themselves: its database and
// the service that it calls. Package behind queries them.

// Kinds of these rows.
const (
	KindStatus   = "status"
	KindDatabase = "database"
)

// Database is the database behind the server, as it reported its settings before the load.
type Database struct {
	Product string `json:"product"` // "PostgreSQL 15.18", "SQLite 3.50.4"
	// Address that --database names, or the server: host:port/name, or the directory of a socket,
	// without user and password; "" if the database was not queried directly.
	Address string `json:"address,omitempty"`
	// Settings that determine what a commit costs and guarantees, by the database's own names.
	Settings []DatabaseSetting `json:"settings"`
	// MaxConnections allowed; 0 if unknown or unlimited.
	MaxConnections int `json:"max_connections,omitempty"`
	// Use is how the server reports using it; nil if it does not.
	Use *DatabaseUse `json:"use,omitempty"`
}

// String describes the database in one line: the product, how the server uses it, and what its
// commits guarantee.
func (d *Database) String() string {
	text := d.Brief()
	for i, s := range d.Settings {
		separator := ", "
		if i == 0 {
			separator = ": "
		}
		text += separator + s.Name + " " + s.Value
	}
	return text
}

// Brief is String without the settings.
func (d *Database) Brief() string {
	text := d.Product
	if u := d.Use; u != nil {
		text += fmt.Sprintf(", pool of %d, statements ", u.Pool)
		if !u.Prepared {
			text += "not "
		}
		text += "prepared"
		if u.Cached {
			text += ", rows cached"
		}
	}
	return text
}

// DatabaseSetting is one setting, as the database reports it.
type DatabaseSetting struct {
	Name  string `json:"name"` // by the database's own name
	Value string `json:"value"`
}

// DatabaseUse is how one process of the server uses its database.
type DatabaseUse struct {
	Pool        int   `json:"pool"`             // maximum number of connections
	Prepared    bool  `json:"prepared"`         // statements are prepared
	Cached      bool  `json:"cached,omitempty"` // products read once are served from memory
	GroupSize   int   `json:"group_size"`       // writes that a group commit waits for
	GroupWaitNs int64 `json:"group_wait_ns"`    // how long it waits for them
}

// Downstream is the service that the server calls, as the server describes it.
type Downstream struct {
	Slots     int   `json:"slots"`      // calls that it works on at a time
	WorkNs    int64 `json:"work_ns"`    // that a call takes
	TimeoutNs int64 `json:"timeout_ns"` // of one call, under a retry policy
}

// CapacityPerS returns the calls per second that its slots allow, by Little's law; 0 if unknown.
func (d *Downstream) CapacityPerS() float64 {
	if d == nil || d.WorkNs <= 0 || d.Slots <= 0 {
		return 0
	}
	return float64(d.Slots) / (float64(d.WorkNs) / 1e9)
}

// StatusRow is what the server reports about itself, over one interval: counts are differences,
// from the one process that answered.
type StatusRow struct {
	ObservedHead
	Pool  PoolStatus `json:"pool,omitzero"`  // none if Size is 0
	Calls CallStatus `json:"calls,omitzero"` // all 0 if there are none
	// TookNs is from query to response, which waits for the server's CPU like any request.
	TookNs int64 `json:"took_ns"`
}

// PoolStatus is a process's pool of connections to its database.
type PoolStatus struct {
	Size     int   `json:"size"`
	InUse    int   `json:"in_use"`    // gauge
	Waited   int64 `json:"waited"`    // requests that found none free and later got one
	WaitedNs int64 `json:"waited_ns"` // their total wait
	Commits  int64 `json:"commits"`
	Writes   int64 `json:"writes"` // requests in those commits
}

// CallStatus is what a server made of its requests to the downstream service.
type CallStatus struct {
	Requests int64 `json:"requests"`          // from clients, started
	Answered int64 `json:"answered"`          // from clients, answered without an error
	Calls    int64 `json:"calls"`             // that the service received, by its own count
	Failed   int64 `json:"failed"`            // of those, by the service's fault
	Waiting  int64 `json:"waiting"`           // gauge: calls waiting for one of its slots
	Stalled  bool  `json:"stalled,omitempty"` // gauge: the service stalls, as it was told to
}

// DatabaseRow is what a database reports about its sessions (gauges) and what it counted over the
// interval. -1: it does not count that.
type DatabaseRow struct {
	ObservedHead
	Sessions          int `json:"sessions"`                      // of clients in this database, except the observer's own
	Active            int `json:"active"`                        // of these, within a statement
	IdleInTransaction int `json:"idle_in_transaction,omitempty"` // sessions between the statements of a transaction
	// Waits of the active sessions, most sessions first: pg_stat_activity's wait_event. A session
	// without one is on a CPU or runnable.
	Waits []SessionWait `json:"waits,omitempty"`
	// Locks that sessions wait for, most waiters first.
	Locks []LockQueue `json:"locks,omitempty"`

	Commits   int64 `json:"commits"` // from pg_stat_database
	Rollbacks int64 `json:"rollbacks"`
	WALSyncs  int64 `json:"wal_syncs"`   // fsyncs of the log
	WALSyncNs int64 `json:"wal_sync_ns"` // time they took; -1 without track_wal_io_timing
	WALBytes  int64 `json:"wal_bytes"`   // written to the log
	TookNs    int64 `json:"took_ns"`     // from query to response
}

// OnCPU is the SessionWait.Type of a session without a wait event.
const OnCPU = "CPU"

// SessionWait counts the active sessions that wait for one thing.
type SessionWait struct {
	Type     string `json:"type"`            // "Lock", "IO", "LWLock", …
	Event    string `json:"event,omitempty"` // "transactionid", "WALSync", …
	Sessions int    `json:"sessions"`
}

// OfLog reports whether it is a wait for the log: WALSync and WALWrite are I/O, the lock WALWrite
// is the wait for the session doing it (src/backend/utils/activity of PostgreSQL), and SyncRep is
// the wait for a standby's.
func (w SessionWait) OfLog() bool {
	return (w.Type == "IO" || w.Type == "LWLock") && strings.HasPrefix(strings.ToUpper(w.Event), "WAL") || w.Type == "IPC" && w.Event == "SyncRep"
}

// LockQueue is the sessions that wait for locks of one kind on one table.
type LockQueue struct {
	Kind     string `json:"kind"`               // "transactionid": the end of another transaction; "tuple", "relation", …
	Relation string `json:"relation,omitempty"` // the table; "" if unknown
	Rows     int    `json:"rows,omitempty"`     // different rows waited for; 0 if unknown
	Waiting  int    `json:"waiting"`
	// Blocker is the statement of the blocking session, without its literals; "" if unknown.
	Blocker string `json:"blocker,omitempty"`
}
