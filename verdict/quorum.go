package verdict

import (
	"slices"

	"ceiling/record"
)

// quorumMost is the share of a commit from which the round trip it waits for is named.
const quorumMost = 0.5

// explainQuorum names a quorum's part in the bottleneck: its leader, if the server's CPU is full
// and the leader uses most of it, and the link that every write waits for, if requests wait or
// each takes its time.
func explainQuorum(f *serverSide, found *finding) {
	q := f.base.run.Quorum
	if q == nil || q.Size < 2 {
		return
	}
	switch found.bottleneck {
	case record.ServerCPU, record.SharedCPU, record.ServerThread, record.Uneven:
		explainLeader(f, q, found)
	case record.ServerBlocked, record.Concurrency, record.Inconclusive:
		explainLink(f.base, q, found)
	}
}

// explainLeader adds the leader's share of the server's CPU, and names it if it is the largest.
func explainLeader(f *serverSide, q *record.Quorum, found *finding) {
	leader := q.Node(q.Leader)
	if leader == nil || leader.PID == 0 || f.base.run.Subject == nil {
		return
	}
	var all, own, most int64
	for _, p := range f.base.run.Subject.Processes {
		all, most = all+p.CPUNs, max(most, p.CPUNs)
		if p.PID == leader.PID {
			own = p.CPUNs
		}
	}
	if own <= 0 {
		return
	}
	share := float64(own) / float64(all)
	found.pro = append(found.pro, record.NewEvidence("subject.processes.cpu_ns", share, "share",
		say("quorum.leader", with{"leader": q.Leader, "pid": leader.PID, "share": share})))
	if own == most && q.Changes == 0 {
		found.because = append(found.because, say("quorum.leader-most", with{"leader": q.Leader, "share": share}))
		found.next = append(found.next, say("quorum.leader.next", with{"leader": q.Leader}))
	}
}

// explainLink names the slowest link that a quorum needs: as many peers as it takes, nearest
// first. If the only open question is whether requests wait for each other, it settles that: a
// round trip is no queue, and each request has its own.
func explainLink(f *runFacts, q *record.Quorum, found *finding) {
	leader := q.Node(q.Leader)
	if leader == nil || q.Commits == 0 || q.CommitNs <= 0 || len(leader.Links) < q.Size-1 {
		return
	}
	links := slices.SortedFunc(slices.Values(leader.Links), func(a, b record.QuorumLink) int { return int(a.RTTNs - b.RTTNs) })
	needed := links[q.Size-2]
	share := min(1, float64(needed.RTTNs)/float64(q.CommitNs))
	found.pro = append(found.pro, record.NewEvidence("quorum.commit_ns", float64(q.CommitNs), "ns",
		say("quorum.commit", with{"commit_ns": q.CommitNs, "rtt_ns": needed.RTTNs, "leader": q.Leader, "to": needed.To})))
	if share < quorumMost {
		return
	}
	if onlyTurnsMissing(found) {
		*found = finding{bottleneck: record.Concurrency, answer: matched, pro: found.pro, against: found.against, explained: true,
			because: just("slots.few", with{"slots": f.slots, "mean_ns": f.run.Latency.Response.MeanNs, "per_s": f.rate,
				"network": record.Statement{}, "lone": record.Statement{}})}
	}
	found.because = append(found.because, say("quorum.link", with{"share": share, "commit_ns": q.CommitNs, "leader": q.Leader, "to": needed.To}))
	found.next = append(found.next, say("quorum.link.next", with{"to": needed.To, "leader": q.Leader}))
}

// onlyTurnsMissing reports whether a finding would be definite if it were known whether requests
// wait for each other.
func onlyTurnsMissing(found *finding) bool {
	return found.bottleneck == record.Inconclusive && len(found.missing) == 1 && found.missing[0].Code == "missing.turns"
}
