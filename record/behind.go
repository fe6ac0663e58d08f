package record

import (
	"fmt"
	"strings"
)

// This file holds what the server, and what stands behind it, say of themselves: its database and the service that it
// calls. Package behind asks them.

// Kinds of those rows.
const (
	KindStatus   = "status"
	KindDatabase = "database"
)

// Database is the database behind the server, as it answered before the load when it was asked for its settings.
type Database struct {
	Product string `json:"product"` // "PostgreSQL 15.18", "SQLite 3.50.4"
	// Address that --database names, or the server: host:port/name, or the directory of a socket. Without a user and a
	// password; "" where the database was not asked itself.
	Address string `json:"address,omitempty"`
	// Settings that decide what a commit costs and promises, by the database's own names.
	Settings []DatabaseSetting `json:"settings"`
	// MaxConnections that it allows; 0 unknown, or it has no such limit.
	MaxConnections int `json:"max_connections,omitempty"`
	// Use is how the server says that it uses it; nil where the server does not say.
	Use *DatabaseUse `json:"use,omitempty"`
}

// String is the database in a line: what it is, how the server uses it, and what its commits promise.
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

// DatabaseSetting is one of a database's, as it answers when it is asked.
type DatabaseSetting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// DatabaseUse is how a process of the server uses its database.
type DatabaseUse struct {
	Pool        int   `json:"pool"` // connections at most
	Prepared    bool  `json:"prepared"`
	Cached      bool  `json:"cached,omitempty"` // products that were read once are answered from memory
	GroupSize   int   `json:"group_size"`       // writes that a group commit waits for
	GroupWaitNs int64 `json:"group_wait_ns"`    // how long it waits for them
}

// Downstream is the service that the server calls, as the server describes it.
type Downstream struct {
	Slots     int   `json:"slots"` // calls that it works on at a time
	WorkNs    int64 `json:"work_ns"`
	TimeoutNs int64 `json:"timeout_ns"` // of one call by a policy
}

// CapacityPerS is what its slots make of calls per second, by Little's law; 0 unknown.
func (d *Downstream) CapacityPerS() float64 {
	if d == nil || d.WorkNs <= 0 || d.Slots <= 0 {
		return 0
	}
	return float64(d.Slots) / (float64(d.WorkNs) / 1e9)
}

// StatusRow is what the server says of itself, over one interval: counts are differences, of the one process that
// answered.
type StatusRow struct {
	ObservedHead
	Pool  PoolStatus `json:"pool,omitzero"`  // without a size there is none
	Calls CallStatus `json:"calls,omitzero"` // all 0: none, or it calls nobody
	// TookNs from the question to the answer, which waits for the server's CPU like any request.
	TookNs int64 `json:"took_ns"`
}

// PoolStatus is a process's pool of connections to its database.
type PoolStatus struct {
	Size     int   `json:"size"`
	InUse    int   `json:"in_use"`    // gauge
	Waited   int64 `json:"waited"`    // requests that found none free, and then got one
	WaitedNs int64 `json:"waited_ns"` // what these waited for, in all
	Commits  int64 `json:"commits"`
	Writes   int64 `json:"writes"` // requests that those commits were of
}

// CallStatus is what a server made of its requests to the service behind it.
type CallStatus struct {
	Requests int64 `json:"requests"`          // of clients, begun
	Answered int64 `json:"answered"`          // of clients, with an answer and not an error
	Calls    int64 `json:"calls"`             // that the service got, by its own count
	Failed   int64 `json:"failed"`            // of those, by the service's fault
	Waiting  int64 `json:"waiting"`           // gauge: calls that wait for one of its slots
	Stalled  bool  `json:"stalled,omitempty"` // gauge: the service stands still, as it was told to
}

// DatabaseRow is what a database says of its sessions (gauges) and what it counted over the interval. -1: it does not
// count that.
type DatabaseRow struct {
	ObservedHead
	Sessions          int `json:"sessions"` // of clients in this database, the observer's own left out
	Active            int `json:"active"`   // of these, within a statement
	IdleInTransaction int `json:"idle_in_transaction,omitempty"`
	// Waits of the active sessions, most sessions first: what pg_stat_activity calls wait_event. One that waits for
	// nothing it knows of is on a CPU, or wants one.
	Waits []SessionWait `json:"waits,omitempty"`
	// Locks that sessions wait for, those with most first.
	Locks []LockQueue `json:"locks,omitempty"`

	Commits   int64 `json:"commits"`
	Rollbacks int64 `json:"rollbacks"`
	WALSyncs  int64 `json:"wal_syncs"`   // fsyncs of the log
	WALSyncNs int64 `json:"wal_sync_ns"` // that they took; -1 without track_wal_io_timing
	WALBytes  int64 `json:"wal_bytes"`
	TookNs    int64 `json:"took_ns"` // from the question to the answer
}

// OnCPU is the SessionWait.Type of a session that waits for nothing the database knows of.
const OnCPU = "CPU"

// SessionWait counts the active sessions that wait for one thing.
type SessionWait struct {
	Type     string `json:"type"`            // "Lock", "IO", "LWLock", …
	Event    string `json:"event,omitempty"` // "transactionid", "WALSync", …
	Sessions int    `json:"sessions"`
}

// OfLog tells a wait for the log: WALSync and WALWrite are I/O, and the lock WALWrite is the wait for the session that does
// it (src/backend/utils/activity of PostgreSQL); SyncRep is that for a standby's.
func (w SessionWait) OfLog() bool {
	return (w.Type == "IO" || w.Type == "LWLock") && strings.HasPrefix(strings.ToUpper(w.Event), "WAL") || w.Type == "IPC" && w.Event == "SyncRep"
}

// LockQueue is the sessions that wait for locks of one kind on one table.
type LockQueue struct {
	Kind     string `json:"kind"`               // "transactionid": the end of another transaction; "tuple", "relation", …
	Relation string `json:"relation,omitempty"` // the table; "" not known
	Rows     int    `json:"rows,omitempty"`     // different rows that are waited for; 0 not known
	Waiting  int    `json:"waiting"`
	// Blocker is the statement of the session that is waited for, without its literals; "" not known.
	Blocker string `json:"blocker,omitempty"`
}
