package quorum

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// A Status is a bucket's description of itself.
type Status struct {
	Product  string    `json:"product"`
	Settings []Setting `json:"settings"`
	// Leader is the name of the presumed leader.
	Leader  string    `json:"leader"`
	Quorum  int       `json:"quorum"` // replicas that must have a write
	Changes int64     `json:"leader_changes"`
	Nodes   []Replica `json:"nodes"`

	Writes  int64 `json:"writes"`
	Reads   int64 `json:"reads"`
	Commits int64 `json:"commits"` // by a quorum: one per write, and one per group of reads
	Trips   int64 `json:"trips"`   // requests to a replica
	// CommitNs is the duration of all commits, measured here.
	CommitNs int64 `json:"commit_ns"`
}

// A Setting affects the guarantees of a write.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// A Replica is a process of the bucket, the mirror included.
type Replica struct {
	Name    string `json:"name"`
	PID     int    `json:"pid"` // 0 if it has exited
	Address string `json:"address"`
	RTTNs   int64  `json:"rtt_ns"` // from here; 0 if unknown
	Links   []Link `json:"links,omitempty"`
	Trouble string `json:"trouble,omitempty"` // the last error in its log
}

// settings returns the bucket's settings, by JetStream's names if it has them.
func (b *Bucket) settings() []Setting {
	o := &b.options
	sync := "sync_interval " + syncInterval.String()
	if o.Sync {
		sync = "sync always"
	}
	first, second, _ := strings.Cut(sync, " ")
	list := []Setting{
		{"replicas", strconv.Itoa(o.Replicas)}, {"quorum", strconv.Itoa(o.quorum())}, {first, second}, {"net", b.net},
	}
	if len(b.nodes) > 1 {
		list = append(list, Setting{"delay", o.Delay.String()})
	}
	mirror := "no"
	if o.Mirror {
		mirror = "asynchronous, on " + b.nodes[len(b.nodes)-1].plan.Name
	}
	return append(list, Setting{"mirror", mirror}, Setting{"stale reads", "of " + o.Bound.String() + " at most"})
}

const product = "NATS " + server.VERSION + " JetStream"

// Line describes the bucket and its guarantees.
func (b *Bucket) Line() string {
	var said []string
	for _, s := range b.settings() {
		said = append(said, s.Name+" "+s.Value)
	}
	line := fmt.Sprintf("%s: %s", product, strings.Join(said, ", "))
	if b.options.Delay > 0 {
		line += " (each way, by a forwarder before each replica)"
	}
	return line
}

// Status queries the replicas.
func (b *Bucket) Status() Status {
	s := Status{
		Product: product, Settings: b.settings(), Leader: b.leader().plan.Name, Quorum: b.options.quorum(), Changes: b.lead.changes.Load(),
		Nodes: make([]Replica, len(b.nodes)), Writes: b.counts.writes.Load(), Reads: b.counts.reads.Load(),
		Commits: b.counts.commits.Load(), Trips: b.counts.trips.Load(), CommitNs: b.counts.commitNs.Load(),
	}
	ctx, cancel := context.WithTimeout(b.ctx, lookMost)
	defer cancel()
	var all sync.WaitGroup
	for i, n := range b.nodes {
		all.Go(func() { s.Nodes[i] = n.describe(ctx) })
	}
	all.Wait()
	return s
}

func (n *node) describe(ctx context.Context) Replica {
	r := Replica{Name: n.plan.Name, Address: n.conn.ConnectedAddr()}
	if p := n.current(); p != nil {
		if p.Ended() {
			return r
		}
		r.PID = p.PID
	}
	begun := time.Now()
	answer, err := n.report(ctx)
	if err != nil {
		return r
	}
	r.RTTNs, r.Links, r.Trouble = int64(time.Since(begun)), answer.Links, answer.Trouble
	return r
}

// report queries the replica's own report.
func (n *node) report(ctx context.Context) (r report, err error) {
	answer, err := n.conn.RequestWithContext(ctx, reportSubject(n.plan.Name), nil)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(answer.Data, &r)
}

// StatusJSON is Status for a route.
func (b *Bucket) StatusJSON() ([]byte, error) { return json.Marshal(b.Status()) }
