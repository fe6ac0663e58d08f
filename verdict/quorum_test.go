package verdict

import (
	"strings"
	"testing"

	"ceiling/record"
)

func quorumOfThree(commitNs int64, rtts ...int64) *record.Quorum {
	q := &record.Quorum{Leader: "r2", Size: 2, Commits: 100, CommitNs: commitNs,
		Nodes: []record.QuorumNode{{Name: "r1", PID: 11}, {Name: "r2", PID: 12}, {Name: "r3", PID: 13}}}
	for i, rtt := range rtts {
		q.Nodes[1].Links = append(q.Nodes[1].Links, record.QuorumLink{To: []string{"r3", "r1"}[i], RTTNs: rtt})
	}
	return q
}

// The link that is named is the one that completes the quorum: of two others the nearer one.
func TestQuorumLink(t *testing.T) {
	const named = "is the round trip from the quorum's leader r2 to r1"
	for name, c := range map[string]struct {
		q     *record.Quorum
		found record.Bottleneck
		named bool
	}{
		"it is most of a commit":      {quorumOfThree(43e6, 90e6, 40e6), record.Concurrency, true},
		"of a server that waits":      {quorumOfThree(43e6, 90e6, 40e6), record.ServerBlocked, true},
		"it is a little of it":        {quorumOfThree(43e6, 90e6, 4e6), record.Concurrency, false},
		"the CPU is full":             {quorumOfThree(43e6, 90e6, 40e6), record.ServerCPU, false},
		"no link was measured":        {quorumOfThree(43e6), record.Concurrency, false},
		"nothing was committed":       {&record.Quorum{Leader: "r2", Size: 2, Nodes: quorumOfThree(1, 1, 1).Nodes}, record.Concurrency, false},
		"the leader is not known":     {&record.Quorum{Leader: "r9", Size: 2, Commits: 1, CommitNs: 1}, record.Concurrency, false},
		"one replica is no quorum":    {&record.Quorum{Leader: "r1", Size: 1, Commits: 1, CommitNs: 1}, record.Concurrency, false},
		"the server is no such thing": {nil, record.Concurrency, false},
	} {
		found := finding{bottleneck: c.found}
		explainQuorum(newFacts(&record.Run{Quorum: c.q, Subject: &record.Subject{}}, nil).cpu.server, &found)
		text := sayings(record.Verdict{Because: found.because})
		if strings.Contains(text, named) != c.named || c.named && (len(found.next) != 1 || len(found.pro) != 1) {
			t.Errorf("%s: %q, next %v", name, text, found.next)
		}
	}
}

// Where all that is open is whether requests wait for each other, a link that is most of a commit settles it.
func TestQuorumLinkSettles(t *testing.T) {
	for code, want := range map[string]record.Bottleneck{"missing.turns": record.Concurrency, "missing.server-threads": record.Inconclusive} {
		missing := just(code, nil)
		found := finding{bottleneck: record.Inconclusive, answer: unknown, missing: missing,
			because: just("inconclusive", with{"missing": missing})}
		r := &record.Run{Quorum: quorumOfThree(3.3e6, 9e6, 3.2e6), Subject: &record.Subject{},
			Load: record.Load{Connections: 8, Established: 8, Pipelining: 1}}
		r.Latency.Response.MeanNs, r.Rate.CompletedPerS = 3.47e6, 2302
		explainQuorum(newFacts(r, nil).cpu.server, &found)
		if found.bottleneck != want {
			t.Errorf("%s: %s", code, found.bottleneck)
		}
		text := sayings(record.Verdict{Because: found.because})
		settled := strings.Contains(text, "8 requests in flight × 3.47 ms") && strings.Contains(text, "97% of a commit's 3.3")
		if settled != (want == record.Concurrency) {
			t.Errorf("%s: %s", code, text)
		}
	}
}

// The leader is named where it uses most of the server's CPU, and was the leader all the time.
func TestQuorumLeader(t *testing.T) {
	const named = "the quorum's leader r2 used more of it than any other process"
	changed := quorumOfThree(1e6, 1e5, 1e5)
	changed.Changes = 1
	for name, c := range map[string]struct {
		q     *record.Quorum
		found record.Bottleneck
		cpu   []int64 // of r1, r2, r3 and the server
		named bool
	}{
		"it uses most":            {quorumOfThree(1e6, 1e5, 1e5), record.ServerCPU, []int64{2e9, 5e9, 2e9, 1e9}, true},
		"of a CPU that is both's": {quorumOfThree(1e6, 1e5, 1e5), record.SharedCPU, []int64{2e9, 5e9, 2e9, 1e9}, true},
		"the server does":         {quorumOfThree(1e6, 1e5, 1e5), record.ServerCPU, []int64{2e9, 3e9, 2e9, 4e9}, false},
		"a follower does":         {quorumOfThree(1e6, 1e5, 1e5), record.ServerCPU, []int64{4e9, 3e9, 2e9, 1e9}, false},
		"it changed":              {changed, record.ServerCPU, []int64{2e9, 5e9, 2e9, 1e9}, false},
		"no CPU is full":          {quorumOfThree(1e6, 1e5, 1e5), record.ServerBlocked, []int64{2e9, 5e9, 2e9, 1e9}, false},
		"it was not watched":      {quorumOfThree(1e6, 1e5, 1e5), record.ServerCPU, nil, false},
	} {
		subject := &record.Subject{}
		for i, ns := range c.cpu {
			subject.Processes = append(subject.Processes, record.SubjectProcess{PID: 11 + i, CPUNs: ns})
		}
		found := finding{bottleneck: c.found}
		explainQuorum(newFacts(&record.Run{Quorum: c.q, Subject: subject}, nil).cpu.server, &found)
		if text := sayings(record.Verdict{Because: found.because}); strings.Contains(text, named) != c.named {
			t.Errorf("%s: %q", name, text)
		}
	}
}
