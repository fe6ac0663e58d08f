package record

// Quorum is the key-value bucket behind a server, as the server described it before and after the
// load: package run queries it. Counts cover the whole run, including its warm-up.
type Quorum struct {
	Product  string          `json:"product"`
	Settings []QuorumSetting `json:"settings"`
	// Leader at the end; Changes counts those that the server noticed.
	Leader  string `json:"leader"`
	Changes int64  `json:"leader_changes"`
	// Size is how many replicas must have a write before it is acknowledged.
	Size  int          `json:"size"`
	Nodes []QuorumNode `json:"nodes"`

	Writes  int64 `json:"writes"` // of the whole run, with its warm-up
	Reads   int64 `json:"reads"`
	Commits int64 `json:"commits"` // of writes, and of quorum-confirmed reads
	Trips   int64 `json:"trips"`   // round trips to a replica
	// CommitNs is the mean duration of a commit, from the server's side; 0 if there was none.
	CommitNs int64 `json:"commit_ns"`
}

// QuorumSetting determines what a write guarantees.
type QuorumSetting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// QuorumNode is one of the bucket's processes.
type QuorumNode struct {
	Name string `json:"name"`
	PID  int    `json:"pid"` // 0 if it has exited
	// Links to the others, with the round trip that this node measured, the shorter of both
	// times.
	Links []QuorumLink `json:"links,omitempty"`
}

// QuorumLink leads to another node.
type QuorumLink struct {
	To    string `json:"to"`     // another node
	RTTNs int64  `json:"rtt_ns"` // as measured once a second: the shorter of before and after the load
}

// Node returns the node of a name, or nil.
func (q *Quorum) Node(name string) *QuorumNode {
	for i := range q.Nodes {
		if q.Nodes[i].Name == name {
			return &q.Nodes[i]
		}
	}
	return nil
}
