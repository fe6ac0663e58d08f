package run

import (
	"testing"

	"ceiling/record"
)

// TestSubjectIsOnOneHost: two agents of one machine tell of the same process; it
// is counted once, on the host that identified it.
func TestSubjectIsOnOneHost(t *testing.T) {
	var series record.Series
	for _, host := range []string{"a1", "web1"} {
		found := &record.SubjectRow{PID: 7, Comm: "nginx", Role: record.RoleSubject, Event: record.SubjectFound}
		used := &record.ProcessRow{PID: 7, Role: record.RoleSubject, CPUNs: 1000}
		found.Host, used.Host = host, host
		used.TNs, used.WidthNs = 1e9, 1e9
		series.Observed.Add(found, used)
	}
	r := &record.Run{ElapsedS: 1, Requests: record.Requests{Completed: 10}}
	for _, c := range []struct {
		identities []Identity
		host       string
	}{
		{nil, "a1"}, {[]Identity{{Host: "web1", PID: 7, BinaryID: "go:x"}}, "web1"},
	} {
		w := &Worked{Target: "10.0.0.1:80", Found: Found{Identities: c.identities}}
		s := subjectOf(r, &series, w)
		identified(s, w.Identities)
		if s == nil || s.Host != c.host || len(s.Processes) != 1 || s.Processes[0].CPUNs != 1000 || s.CPUNsPerRequest != 100 ||
			(s.Processes[0].BinaryID != "") != (c.identities != nil) {
			t.Errorf("%+v, want it on %s", s, c.host)
		}
	}
}
