package verdict

import (
	"ceiling/record"
)

// What PostgreSQL's process titles show if the database was not queried: that sessions wait for
// each other's locks, but not for which row.

// titleFacts is means over the samples, in sessions.
type titleFacts struct {
	samples                                  int
	sessions, active, waiting, inTransaction float64
	command                                  string // of most waiting sessions
}

// titlesOf summarises the rows of the server's host.
func titlesOf(f *serverSide, series *record.Series) titleFacts {
	var t titleFacts
	commands := map[string]float64{}
	for _, r := range observed(f.base, series.Observed.Titles) {
		if !f.subject.known || r.Host != f.subject.host {
			continue
		}
		t.samples++
		t.sessions += positive(float64(r.Sessions))
		t.active += positive(float64(r.Active))
		t.waiting += positive(float64(r.Waiting))
		t.inTransaction += positive(float64(r.IdleInTransaction))
		for _, c := range r.Commands {
			commands[c.Command] += positive(float64(c.Sessions))
		}
	}
	if t.samples == 0 {
		return t
	}
	for _, sum := range []*float64{&t.sessions, &t.active, &t.waiting, &t.inTransaction} {
		*sum /= float64(t.samples)
	}
	for command, n := range commands {
		if most := commands[t.command]; n > most || n == most && command < t.command {
			t.command = command
		}
	}
	return t
}

// known reports whether there are enough samples.
func (t *titleFacts) known() bool { return t.samples >= sessionsFewest }

// atLock says that sessions wait for each other's locks.
func (t *titleFacts) atLock() *limit {
	if !t.known() || t.waiting < waitStep || t.waiting < mostOf*t.active {
		return nil
	}
	of := with{"waiting": t.waiting, "active": t.active, "command": t.command, "in_transaction": t.inTransaction}
	return &limit{says: say("database.titles-lock", of), next: just("database.titles-lock.next", of),
		caveats: just("caveat.database-titles", nil)}
}

// evidence returns what the sessions did.
func (t *titleFacts) evidence() []record.Evidence {
	if !t.known() {
		return nil
	}
	return []record.Evidence{record.NewEvidence("series.titles.waiting", t.waiting, "sessions",
		say("database.titles", with{"sessions": t.sessions, "active": t.active, "waiting": t.waiting, "in_transaction": t.inTransaction,
			"samples": t.samples}))}
}
