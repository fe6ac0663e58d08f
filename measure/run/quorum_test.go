//go:build linux

package run

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"ceiling/experiment/spec"
	"ceiling/record"
)

// What a bucket says before and after is the run's, and the shorter round trip counts.
func TestQuorumOf(t *testing.T) {
	nodes := func(rtt int64) []record.QuorumNode {
		return []record.QuorumNode{{Name: "r1", PID: 7, Links: []record.QuorumLink{{To: "r2", RTTNs: rtt}}}, {Name: "r2"}}
	}
	first := &quorumStatus{Product: "NATS", Writes: 100, Reads: 10, Commits: 105, Trips: 200, CommitNs: 1000, Changes: 1, Nodes: nodes(5)[:1]}
	last := &quorumStatus{Product: "NATS", Writes: 300, Reads: 30, Commits: 305, Trips: 600, CommitNs: 41_000, Changes: 2, Leader: "r1", Quorum: 2,
		Nodes: nodes(9)}
	q := quorumOf(first, last)
	if q.Writes != 200 || q.Reads != 20 || q.Commits != 200 || q.Trips != 400 || q.CommitNs != 200 || q.Changes != 1 || q.Size != 2 ||
		q.Node("r1").Links[0].RTTNs != 5 || q.Node("r3") != nil {
		t.Errorf("%+v", q)
	}
	if q := quorumOf(last, first); q != nil {
		t.Errorf("another process's counts: %+v", q)
	}
	if q := quorumOf(first, nil); q != nil {
		t.Errorf("from nothing: %+v", q)
	}
}

// Only a server of ours is asked, and only its own answer is taken.
func TestAskQuorum(t *testing.T) {
	answer, asked := `{"product":"NATS 2 JetStream","writes":3}`, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.URL.Path != quorumPath {
			t.Errorf("asked for %s", r.URL.Path)
		}
		fmt.Fprint(w, answer)
	}))
	defer server.Close()
	ask := func(path string) *quorumStatus {
		return askQuorum(t.Context(), &spec.Spec{Targets: []spec.Target{{Method: "GET", URL: server.URL + path}}})
	}
	if q := ask("/kv/*?read=stale"); q == nil || q.Writes != 3 || asked != 1 {
		t.Errorf("%+v, asked %d times", q, asked)
	}
	if q := ask("/read"); q != nil || asked != 1 {
		t.Errorf("%+v, asked %d times", q, asked)
	}
	for _, answer = range []string{`{"product":"other"}`, "<html>", ""} {
		if q := ask("/kv/a"); q != nil {
			t.Errorf("%q: %+v", answer, q)
		}
	}
}
