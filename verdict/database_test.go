package verdict

import (
	"slices"
	"strings"
	"testing"
	"time"

	"ceiling/record"
	"ceiling/verdict/prose"
)

// fixtureNamed is one of testdata, to add rows to.
func fixtureNamed(t *testing.T, name string) (*record.Run, *record.Series) {
	t.Helper()
	for _, f := range fixtures(t) {
		if strings.HasSuffix(f.path, name) {
			return f.read(t)
		}
	}
	t.Fatalf("no fixture %s", name)
	return nil, nil
}

// asked adds what a database and a server said, five times a second for 10 s.
func asked(series *record.Series, database record.DatabaseRow, status record.StatusRow) {
	for i := range 50 {
		head := record.ObservedHead{Host: "h", TNs: int64(i+1) * 2e8, WidthNs: 2e8}
		if database.Sessions > 0 {
			d := database
			d.ObservedHead = head
			d.Kind = record.KindDatabase
			series.Observed.Add(&d)
		}
		if status != (record.StatusRow{}) {
			s := status
			s.ObservedHead = head
			s.Kind = record.KindStatus
			series.Observed.Add(&s)
		}
	}
}

func sessionsIn(active int, waits ...record.SessionWait) record.DatabaseRow {
	return record.DatabaseRow{Sessions: 10, Active: active, Waits: waits, Commits: 100, WALSyncs: 40, WALSyncNs: -1, TookNs: 3e6}
}

// The sessions of a database behind an idle server, whose requests are inside it, tell the one answer from the other.
func TestDatabaseIsToldApart(t *testing.T) {
	row := sessionsIn(10, record.SessionWait{Type: "Lock", Event: "transactionid", Sessions: 6}, record.SessionWait{Type: "Lock", Event: "tuple", Sessions: 3},
		record.SessionWait{Type: "IO", Event: "WALSync", Sessions: 1})
	row.Locks = []record.LockQueue{{Kind: "transactionid", Relation: "counter", Rows: 1, Waiting: 6, Blocker: "UPDATE counter SET n = n + ? WHERE id = ?"},
		{Kind: "tuple", Relation: "counter", Rows: 1, Waiting: 3}}
	rows := row
	rows.Locks = []record.LockQueue{{Kind: "transactionid", Relation: "stock", Rows: 5, Waiting: 9}}
	log := sessionsIn(8, record.SessionWait{Type: "LWLock", Event: "WALWrite", Sessions: 6}, record.SessionWait{Type: "IO", Event: "WALSync", Sessions: 1},
		record.SessionWait{Type: record.OnCPU, Sessions: 1})
	timed := log
	timed.WALSyncNs = 40 * 7e6
	cpu := sessionsIn(10, record.SessionWait{Type: record.OnCPU, Sessions: 10})
	sleeps := sessionsIn(5, record.SessionWait{Type: "Timeout", Event: "PgSleep", Sessions: 5})
	full := record.StatusRow{Pool: record.PoolStatus{Size: 5, InUse: 5, Waited: 180, WaitedNs: 59 * 2e8}}
	free := record.StatusRow{Pool: record.PoolStatus{Size: 100, InUse: 64}}
	for _, c := range []struct {
		name     string
		database record.DatabaseRow
		status   record.StatusRow
		because  []string
		next     string
	}{
		{"one row", row, full, []string{"9.0 of 10.0 active sessions of PostgreSQL wait for one row of the table counter",
			"(UPDATE counter SET n = n + ? WHERE id = ?), and the holders wait for the fsync of their commit"}, "split it into several rows"},
		{"rows", rows, record.StatusRow{}, []string{"wait for rows of the table stock that other sessions hold"}, "only make the queue in PostgreSQL longer"},
		// By Little's law 1 session in the sync and 200 syncs/s are 5 ms each.
		{"log", log, full, []string{"7.0 of 8.0 active sessions", "takes 5.00 ms (200/s, 2.5 commits each, in progress 100% of the time)"}, "commit several writes at once"},
		{"log by its own clock", timed, record.StatusRow{}, []string{"takes 7.00 ms"}, "synchronous_commit=off"},
		{"works", cpu, record.StatusRow{}, []string{"10.0 of 10.0 active sessions of PostgreSQL report no wait event"}, "EXPLAIN ANALYZE"},
		{"pool", sleeps, full, []string{"all 5 connections of the pool to PostgreSQL are in use, and 59 of 64 requests wait"}, "give the pool 10 connections: by Little's law at most 2× this rate"},
		{"pool of a library", record.DatabaseRow{}, full, []string{"all 5 connections of the pool"}, "give the pool 10"},
		{"no pool", record.DatabaseRow{}, free, nil, ""},
		{"nothing of it", sessionsIn(1, record.SessionWait{Type: "Client", Event: "ClientRead", Sessions: 1}), free, nil, ""},
	} {
		run, series := fixtureNamed(t, "cannot-be-told.json")
		run.Database = &record.Database{Product: "PostgreSQL 15.18"}
		run.Latency.Response.MeanNs = 64 / run.Rate.CompletedPerS * 1e9
		asked(series, c.database, c.status)
		v := Judge(run, series)
		allSaid(t, v)
		because := prose.Sentence(v.Because)
		if named := mentions(v.Because, "database.lock", "database.log", "database.pool-full", "database.works"); named != (c.because != nil) {
			t.Errorf("%s: %s: %s", c.name, v.Bottleneck, because)
			continue
		}
		if c.because != nil && v.Bottleneck != record.ServerBlocked {
			t.Errorf("%s: %s", c.name, v.Bottleneck)
		}
		for _, want := range c.because {
			if !strings.Contains(because, want) {
				t.Errorf("%s: %q lacks %q", c.name, because, want)
			}
		}
		if next := prose.Sentence(v.Next); !strings.Contains(next, c.next) {
			t.Errorf("%s: %q lacks %q", c.name, next, c.next)
		}
	}
}

// What twice the pool would give ends where the CPUs of its host do, and where no request waits any more.
func TestTwiceThePool(t *testing.T) {
	for _, c := range []struct {
		name          string
		databaseCores int64 // ns of CPU in each second, of a postgres among the server's processes
		waiting       int64
		want          string
	}{
		{"room", 50e6, 59, "at most 2× this rate"},
		{"few wait", 50e6, 16, "at most 1.33× this rate, where no request waits for one any more"},
	} {
		run, series := fixtureNamed(t, "cannot-be-told.json")
		run.Database = &record.Database{Product: "PostgreSQL 15.18"}
		run.Latency.Response.MeanNs = 64 / run.Rate.CompletedPerS * 1e9
		asked(series, record.DatabaseRow{}, record.StatusRow{Pool: record.PoolStatus{Size: 5, InUse: 5, Waited: 100, WaitedNs: c.waiting * 2e8}})
		if next := prose.Sentence(Judge(run, series).Next); !strings.HasSuffix(next, c.want) {
			t.Errorf("%s: %q, want %q", c.name, next, c.want)
		}
	}
	f := newParts(runFacts{rate: 100, slots: 64, run: &record.Run{}})
	f.cpu.server.database = databaseFacts{cores: some(.8), pool: poolFacts{samples: 50, size: 5, inUse: 5, waiting: 50}}
	f.cpu.server.subject = processFacts{known: true, cores: 1.6}
	f.cpu.server.host, f.cpu.server.cpus = hostFacts{}, []int{0, 1}
	l := f.atPool()
	if text := prose.Sentence(l.next); !strings.HasSuffix(text, "at most 2× this rate") {
		t.Errorf("unknown CPUs: %q", text)
	}
}

// calling adds what a server said of its calls: as a function of the time in seconds.
func calling(series *record.Series, of func(s float64) record.CallStatus) {
	for i := range 50 {
		row := record.StatusRow{ObservedHead: record.ObservedHead{Kind: record.KindStatus, Host: "h", TNs: int64(i+1) * 2e8, WidthNs: 2e8}}
		row.Calls = of(float64(i) * .2)
		series.Observed.Add(&row)
	}
}

// Retries are told where they matter; a service that stays down after its outage is metastable, and one that comes back,
// or was never well, is not.
func TestRetries(t *testing.T) {
	stall := func(s float64) bool { return s >= 2 && s < 2.7 }
	well := record.CallStatus{Requests: 40, Answered: 39, Calls: 40}
	down := record.CallStatus{Requests: 40, Calls: 116, Waiting: 100}
	outage := func(after record.CallStatus) func(float64) record.CallStatus {
		return func(s float64) record.CallStatus {
			switch {
			case s < 2:
				return well
			case stall(s):
				return record.CallStatus{Requests: 40, Calls: 120, Stalled: true}
			}
			return after
		}
	}
	always := func(c record.CallStatus) func(float64) record.CallStatus {
		return func(float64) record.CallStatus { return c }
	}
	for _, c := range []struct {
		name              string
		of                func(float64) record.CallStatus
		metastable, twice bool // in because
		caveat            bool
	}{
		{"stays down", outage(down), true, false, false},
		{"recovers", outage(well), false, false, false},
		{"down without more calls", outage(record.CallStatus{Requests: 40, Calls: 40}), false, false, false},
		{"was never well", func(s float64) record.CallStatus { d := down; d.Stalled = stall(s); return d }, false, true, false},
		{"still goes on", func(s float64) record.CallStatus { d := down; d.Stalled = s > 1; return d }, false, true, false},
		{"one call each", always(well), false, false, false},
		{"one in ten again", always(record.CallStatus{Requests: 40, Answered: 40, Calls: 44}), false, false, false},
		{"a hedge each, with room", always(record.CallStatus{Requests: 30, Answered: 30, Calls: 60}), false, false, true},
		{"retries of a full service", always(down), false, true, false},
	} {
		run, series := fixtureNamed(t, "as-asked.json")
		run.Downstream = &record.Downstream{Slots: 4, WorkNs: 1e7, TimeoutNs: 6e7} // 400 calls/s
		calling(series, c.of)
		v := Judge(run, series)
		allSaid(t, v)
		if got := mentions(v.Because, "calls.metastable"); got != c.metastable {
			t.Errorf("%s: metastable %v: %s", c.name, got, prose.Sentence(v.Because))
		}
		if got := mentions(v.Because, "calls.multiply"); got != c.twice {
			t.Errorf("%s: multiplied %v: %s", c.name, got, prose.Sentence(v.Because))
		}
		if got := mentions(v.Caveats, "calls.multiply"); got != c.caveat {
			t.Errorf("%s: caveat %v", c.name, got)
		}
	}
	run, series := fixtureNamed(t, "as-asked.json")
	run.Downstream = &record.Downstream{Slots: 4, WorkNs: 1e7, TimeoutNs: 6e7}
	calling(series, outage(down))
	const want = "metastable failure: the downstream service stalled from 2.0 s to 3.0 s and stays down: 98% of the requests were answered before, " +
		"0% from 6.5 s on, because 2.9 calls per request (580/s, capacity 400/s) are work for callers that have given up"
	if got := prose.Texts(Judge(run, series).Because)[0]; got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// What PostgreSQL says of its connections and its disk in the first error response is the next step.
func TestDatabaseRefuses(t *testing.T) {
	for line, want := range map[string]string{
		`{"error":"FATAL: sorry, too many clients already (SQLSTATE 53300)"}`: "no more than 100 connections (max_connections)",
		"FATAL:  remaining connection slots are reserved for superusers":      "no more than 100 connections",
		"could not extend file: No space left on device (SQLSTATE 53100)":     "free space on the database's disk",
		"overloaded": "check its log",
	} {
		run, series := fixtureNamed(t, "a-tenth-refused.json")
		run.Statuses = map[string]uint64{"503": run.Requests.Completed}
		run.Errors = []record.Error{{Phase: record.PhaseStatus, Cause: "503", Count: run.Requests.Completed}}
		run.Database = &record.Database{Product: "PostgreSQL 15.18", MaxConnections: 100}
		run.ErrorResponses = []record.ErrorResponse{{Status: 503, Line: line}}
		v := Judge(run, series)
		allSaid(t, v)
		if next := prose.Sentence(v.Next); !strings.Contains(next, want) {
			t.Errorf("%s: %q, want %q", line, next, want)
		}
	}
}

// TestExplanationIsTheVerdict holds the steps of every fixture against its verdict: one
// step decides, it is the first yes, and its sentence is the verdict's.
func TestExplanationIsTheVerdict(t *testing.T) {
	decided := 0
	for _, fixture := range fixtures(t) {
		run, series := fixture.read(t)
		d, v := Explain(run, series)
		all := slices.Concat(d.Validity, d.Bottleneck)
		first := slices.IndexFunc(all, func(s Step) bool { return s.Answer == StepYes })
		at := slices.IndexFunc(all, func(s Step) bool { return s.Decides })
		if at >= 0 {
			decided++
		}
		invalid := at >= 0 && at < len(d.Validity)
		switch {
		case at >= 0 && at != first && at < len(d.Validity), invalid != (v.Outcome == record.Invalid):
			t.Errorf("%s: %s, the deciding step is %d, the first yes %d", fixture.path, v.Outcome, at, first)
		case !invalid && at < 0 != (v.Bottleneck == record.Inconclusive):
			t.Errorf("%s: %s, the deciding step is %d", fixture.path, v.Bottleneck, at)
		}
		if slices.ContainsFunc(all[at+1:], func(s Step) bool { return s.Decides }) {
			t.Errorf("%s: two steps decide", fixture.path)
		}
		for _, s := range all {
			if s.Answer == StepUnknown && s.Why == nil || s.Answer == StepYes && s.Why == nil {
				t.Errorf("%s: %s is %s without a reason", fixture.path, s.Rule, s.Answer)
			}
		}
	}
	if decided < 100 {
		t.Errorf("%d fixtures were decided: the test proves little", decided)
	}
}

func TestRulesHaveNames(t *testing.T) {
	seen := map[string]bool{}
	name := func(name, asks string) {
		if name == "" || asks == "" || seen[name] {
			t.Errorf("rule %q asks %q, or there are two of it", name, asks)
		}
		seen[name] = true
	}
	for _, r := range rules() {
		name(r.name, r.asks)
	}
	for _, c := range validity() {
		name(c.name, c.asks)
	}
}

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
