package verdict

import (
	"fmt"
	"math"

	"ceiling/record"
)

// Connections that stay in the accept queue: the kernel has established them, so
// the client takes them for good ones, and the server never asks for them. Their
// requests are answered by nobody, however long the timeout is.

// unacceptedFacts are the connections of the run that no process had accepted.
type unacceptedFacts struct {
	known bool
	mean  float64 // over the samples of the window
	least float64 // the fewest in a sample
	of    float64 // connections at the server's end, on average
	files filesFacts
}

// filesFacts are the open files of the server's process that is nearest to its
// limit.
type filesFacts struct {
	known     bool
	pid       int
	comm      string
	open, may int
}

// full tells whether accept(2) has no descriptor left to give. A look may fall
// between a close and the next accept.
func (l *filesFacts) full() bool {
	return l.known && l.open >= l.may-max(1, l.may/100)
}

func unacceptedOf(f *facts, series *record.Series, rows []*record.SocketsRow) unacceptedFacts {
	var u unacceptedFacts
	n := 0.0
	for _, row := range rows {
		if row.Server.Sockets <= 0 {
			continue
		}
		now := math.Max(row.Server.Unaccepted, 0)
		if n == 0 || now < u.least {
			u.least = now
		}
		u.mean, u.of = u.mean+now, u.of+float64(row.Server.Sockets)
		n++
	}
	if n > 0 {
		u.known, u.mean, u.of = true, u.mean/n, u.of/n
	}
	u.files = filesOf(f, series)
	return u
}

func filesOf(f *facts, series *record.Series) filesFacts {
	var worst filesFacts
	if !f.subject.known {
		return worst
	}
	may := map[int]int64{}
	for _, row := range record.Of[*record.SubjectRow](series) {
		if row.Role == record.RoleSubject && row.Host == f.subject.host && row.FilesMax > 0 {
			may[row.PID] = row.FilesMax
		}
	}
	for _, row := range observed[*record.ProcessRow](f, series) {
		limit := may[row.PID]
		if row.Role != record.RoleSubject || row.Host != f.subject.host || limit <= 0 || row.OpenFiles <= 0 {
			continue
		}
		if !worst.known || float64(row.OpenFiles)*float64(worst.may) > float64(worst.open)*float64(limit) {
			worst = filesFacts{true, row.PID, row.Comm, row.OpenFiles, int(min(limit, math.MaxInt32))}
		}
	}
	return worst
}

// neverAccepted is how many connections of the run no process ever accepted, 0
// where all were or where connections come and go: there some always wait for
// their turn.
func (f *facts) neverAccepted() float64 {
	u, run := &f.unaccepted, f.run
	if !u.known || u.mean < 1 || u.least < u.mean*unacceptedStays || run.Spec.NewConnections {
		return 0
	}
	// Those opened again in place of one that timed out do not come and go.
	if again := float64(run.Load.Reconnects); again > reconnectShare*float64(run.Requests.Completed) && again > 2*f.timeouts {
		return 0
	}
	return math.Round(u.mean)
}

// unacceptedSays is how many connections wait to be accepted, and why if that is
// known.
func (f *facts) unacceptedSays() string {
	n, u := f.neverAccepted(), &f.unaccepted
	text := fmt.Sprintf("the server never accepted %.0f of %.0f connections", n, math.Round(u.of))
	switch {
	case u.files.full():
		text += fmt.Sprintf(": %s", u.files.says())
	case u.of-n >= 1:
		text += fmt.Sprintf(": it holds %.0f and accepts no more", math.Round(u.of-n))
	}
	return text
}

// says is how near a process is to its limit.
func (l *filesFacts) says() string {
	return fmt.Sprintf("process %d (%s) has %d of %d files open (RLIMIT_NOFILE)", l.pid, l.comm, l.open, l.may)
}

// unacceptedNext is what to do about them.
func (f *facts) unacceptedNext() string {
	u := &f.unaccepted
	if u.files.full() {
		return u.files.next()
	}
	holds := math.Round(u.of - f.neverAccepted())
	if holds < 1 {
		return "see why the server accepts no connections: its accept loop is stuck, or all its workers are busy"
	}
	return fmt.Sprintf("raise the server's own limit of connections, which is at or near %.0f (nginx worker_connections, Apache MaxRequestWorkers, HAProxy maxconn, or its number of workers or threads), or open no more than it takes (-c %.0f)", holds, holds)
}

// next is how to raise the limit.
func (l *filesFacts) next() string {
	return fmt.Sprintf("raise the server's limit of open files above %d before it starts (ulimit -n, LimitNOFILE= of its unit, or its own setting)", l.may)
}

// unacceptedEvidence are the facts.
func (f *facts) unacceptedEvidence() []record.Evidence {
	u := &f.unaccepted
	var list []record.Evidence
	if n := f.neverAccepted(); n > 0 {
		list = append(list, evidence("series.sockets.server.unaccepted", u.mean, "connections", "%.0f of %.0f connections were in the accept queue in every sample: no process holds them", n, math.Round(u.of)))
		if a := &f.accept; a.limit > 0 {
			list = append(list, evidence("series.listener.queue", float64(a.queue), "connections", "up to %d connections waited in the accept queue, whose limit is %d", a.queue, a.limit))
		}
	}
	if u.files.full() {
		list = append(list, evidence("series.process.open_files", float64(u.files.open), "files", "%s", u.files.says()))
	}
	return list
}
