package verdict

import (
	"strings"
	"testing"
	"time"

	"ceiling/record"
)

// titled is a server whose PostgreSQL says so many times what its sessions do.
func titled(samples int, row record.TitlesRow) *watchedRun {
	w := watched(60e6, .3)
	for s := range samples {
		one := row
		w.row(s, time.Second, &one)
	}
	return w
}

// TestTitlesNameALock: without an account of the database's own its processes' titles say that
// sessions wait for a lock, and that is all they say.
func TestTitlesNameALock(t *testing.T) {
	locked := record.TitlesRow{Sessions: 9, Active: 8, Waiting: 6,
		Commands: []record.TitleCommand{{Command: "UPDATE", Sessions: 5}, {Command: "DELETE", Sessions: 1}}}
	const says = "6.0 of 8.0 active sessions of PostgreSQL wait for a lock that other sessions hold (most in UPDATE)"
	held := locked
	held.IdleInTransaction = 1
	few := locked
	few.Waiting = 3
	for name, c := range map[string]struct {
		w             *watchedRun
		says, refuses string
	}{
		"a lock":              {w: titled(10, locked), says: says},
		"what to do":          {w: titled(10, locked), says: "rerun with --database to see which row or table it is"},
		"what is not known":   {w: titled(10, locked), says: "which do not show its row or table"},
		"held by an idle one": {w: titled(10, held), says: "1.0 sessions are idle in a transaction and hold their locks"},
		"evidence":            {w: titled(10, few), says: "of 9.0 sessions of PostgreSQL 8.0 were active, 3.0 of them waiting for a lock (from its process titles, 10 samples)"},
		"the lesser part":     {w: titled(10, few), refuses: "for a lock that other sessions hold"},
		"seen too seldom":     {w: titled(4, locked), refuses: "for a lock that other sessions hold"},
		"of another host": {w: each(titled(10, locked), func(r *record.TitlesRow) { r.Host = "other" }),
			refuses: "PostgreSQL"},
		"the database's own account": {w: func() *watchedRun {
			w := titled(10, locked)
			row := sessionsIn(8, record.SessionWait{Type: "IO", Event: "DataFileRead", Sessions: 8})
			asked(w.series, row, record.StatusRow{})
			return w
		}(), refuses: "from its process titles"},
	} {
		v := c.w.judge()
		text := sayings(v)
		if !strings.Contains(text, c.says) || c.refuses != "" && strings.Contains(text, c.refuses) {
			t.Errorf("%s: wanted %q, and not %q: %s", name, c.says, c.refuses, text)
		}
		if c.says == says && v.Bottleneck != record.ServerBlocked {
			t.Errorf("%s: %s", name, v.Bottleneck)
		}
		allSaid(t, v)
	}
}
