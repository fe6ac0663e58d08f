package record

// Quorum is the key-value bucket behind a server, as the server described it before and after the load: package run asks. Counts are
// over all of the run, its warm-up with it.
type Quorum struct {
	Product  string          `json:"product"`
	Settings []QuorumSetting `json:"settings"`
	// Leader at the end; Changes of it are what the server noticed.
	Leader  string `json:"leader"`
	Changes int64  `json:"leader_changes"`
	// Size is how many replicas have to have a write before it is acknowledged.
	Size  int          `json:"size"`
	Nodes []QuorumNode `json:"nodes"`

	Writes  int64 `json:"writes"`
	Reads   int64 `json:"reads"`
	Commits int64 `json:"commits"` // of writes, and of reads that a quorum confirmed
	Trips   int64 `json:"trips"`   // questions to a replica
	// CommitNs is what a commit took on average, from the server's side; 0 there was none.
	CommitNs int64 `json:"commit_ns"`
}

// QuorumSetting decides what a write promises.
type QuorumSetting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// QuorumNode is a process of the bucket's.
type QuorumNode struct {
	Name string `json:"name"`
	PID  int    `json:"pid"` // 0: it has ended
	// Links to the others, with the round trip that this one measured, the shorter of both times.
	Links []QuorumLink `json:"links,omitempty"`
}

// QuorumLink leads to another node.
type QuorumLink struct {
	To    string `json:"to"`
	RTTNs int64  `json:"rtt_ns"`
}

// Node of a name, or nil.
func (q *Quorum) Node(name string) *QuorumNode {
	for i := range q.Nodes {
		if q.Nodes[i].Name == name {
			return &q.Nodes[i]
		}
	}
	return nil
}
