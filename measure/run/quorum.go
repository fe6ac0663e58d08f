package run

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"ceiling/experiment/spec"
	"ceiling/record"
)

const (
	quorumPath   = "/kv" // where our own server describes its key-value bucket, and the prefix of its keys
	quorumWithin = 2 * time.Second
	quorumBytes  = 1 << 20
)

// quorumStatus is that server's description. Product distinguishes it from another server's
// response.
type quorumStatus struct {
	Product  string
	Settings []record.QuorumSetting
	Leader   string
	Quorum   int
	Changes  int64 `json:"leader_changes"`
	Nodes    []record.QuorumNode
	Writes   int64
	Reads    int64
	Commits  int64
	Trips    int64
	CommitNs int64 `json:"commit_ns"`
}

// askQuorum asks the server for its bucket if a target is one of its keys; nil if there is none, or
// it does not answer.
func askQuorum(ctx context.Context, s *spec.Spec) *quorumStatus {
	var at string
	for i := range s.Targets {
		u, err := url.Parse(s.Targets[i].URL)
		if err == nil && u.Scheme == "http" && strings.HasPrefix(u.Path, quorumPath+"/") {
			at = "http://" + u.Host + quorumPath
		}
	}
	if at == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), quorumWithin) // after an interrupted run too
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, at, http.NoBody)
	if err != nil {
		return nil
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(q)
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	var status quorumStatus
	if json.NewDecoder(http.MaxBytesReader(nil, answer.Body, quorumBytes)).Decode(&status) != nil || !strings.HasPrefix(status.Product, "NATS ") {
		return nil
	}
	return &status
}

// quorumOf returns the difference of both; nil if one is missing, or is from another process.
func quorumOf(first, last *quorumStatus) *record.Quorum {
	if first == nil || last == nil || last.Commits < first.Commits || last.Writes < first.Writes {
		return nil
	}
	q := &record.Quorum{
		Product: last.Product, Settings: last.Settings, Leader: last.Leader, Changes: last.Changes - first.Changes, Size: last.Quorum,
		Nodes: last.Nodes, Writes: last.Writes - first.Writes, Reads: last.Reads - first.Reads, Commits: last.Commits - first.Commits,
		Trips: last.Trips - first.Trips,
	}
	if q.Commits > 0 {
		q.CommitNs = (last.CommitNs - first.CommitNs) / q.Commits
	}
	// A replica measures its links once a second, and under load those include waiting for CPU.
	before := &record.Quorum{Nodes: first.Nodes}
	for i := range q.Nodes {
		was := before.Node(q.Nodes[i].Name)
		if was == nil {
			continue
		}
		for j := range q.Nodes[i].Links {
			link := &q.Nodes[i].Links[j]
			for _, other := range was.Links {
				if other.To == link.To && other.RTTNs > 0 {
					link.RTTNs = min(link.RTTNs, other.RTTNs)
				}
			}
		}
	}
	return q
}
