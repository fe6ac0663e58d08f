package record

// LostController begins Agent.Lost if the driver was disconnected from the controller for so long
// that all agents count as lost.
const LostController = "the controller was gone for"

// Agent is one agent's part in a multi-agent run: what a single-machine run reports about itself,
// for this agent only. Nothing in it is merged; the Run's figures come from all agents' counts
// and histograms, never from these quantiles.
type Agent struct {
	// Name in the fleet; the rows of its host carry it as their Host.
	Name string `json:"name"`
	// Loads and Observes are its roles. An agent that only observes has no load figures.
	Loads    bool `json:"loads,omitempty"`
	Observes bool `json:"observes,omitempty"`
	// Share of the run that it was assigned.
	Share AgentShare `json:"share"`
	// Load has its own connections and threads; TargetPerS is its own part of the target rate.
	Load     Load     `json:"load"`
	ElapsedS float64  `json:"elapsed_s"`
	Requests Requests `json:"requests"`
	// Rate's Spread is over its own rows.
	Rate  Rate  `json:"rate"`
	Bytes Bytes `json:"bytes"`
	// Statuses and Errors, as in Run.
	Statuses  map[string]uint64 `json:"statuses"`
	Errors    []Error           `json:"errors"`
	Latency   Latency           `json:"latency"`
	Generator Generator         `json:"generator"`
	// Environment is its host, with its limits there.
	Environment Environment `json:"environment"`
	Clock       AgentClock  `json:"clock"`
	// StartSkewNs is how long after the common start it sent its first request, by its own
	// corrected clock, without the error of Clock. In an open loop it counts from when its own
	// first request was due. -1: it sent nothing, or was lost before it reported.
	StartSkewNs int64 `json:"start_skew_ns"`
	// Lost says why it stopped reporting; "" if it took part to the end. LostAtNs is the end of
	// its last row, on the run's clock: no figure includes what it did after that.
	Lost     string `json:"lost,omitempty"` // begins with LostController if the agent is not to blame
	LostAtNs int64  `json:"lost_at_ns,omitempty"`
}

// AgentShare is the part of a run that an agent does: of every Of consecutive connections,
// requests and due times, it does Count, starting with First. Of is 0 if the agent only observes.
type AgentShare struct {
	First uint64 `json:"first"`
	Count uint64 `json:"count"`
	Of    uint64 `json:"of"`
}

// Fraction returns the share of the run, 0 to 1.
func (s AgentShare) Fraction() float64 {
	if s.Of == 0 {
		return 0
	}
	return float64(s.Count) / float64(s.Of)
}

// AgentClock is how an agent's clock relates to the controller's, by pings before and after the
// run.
type AgentClock struct {
	// OffsetNs is the agent's monotonic clock minus the controller's at the start of the window;
	// it has no meaning without the other. WallOffsetNs is the same for their wall clocks: how wrong one
	// of them is.
	OffsetNs     int64 `json:"offset_ns"`
	WallOffsetNs int64 `json:"wall_offset_ns"`
	// ErrorNs bounds the error of OffsetNs: half the shortest round trip plus the drift between
	// the pings.
	ErrorNs int64 `json:"error_ns"`
	// DriftPPM is how much faster the agent's clock runs, in parts per million.
	DriftPPM float64 `json:"drift_ppm"`
	Pings    int     `json:"pings"`      // before and after the run
	RTTMinNs int64   `json:"rtt_min_ns"` // of the shortest round trip
}

// Fleet is what the agents of a run had in common.
type Fleet struct {
	// Bed is the test bed: the run held its lease.
	Bed string `json:"bed"`
	// AllowLoss: the run continues without lost agents.
	AllowLoss bool `json:"allow_loss,omitempty"`
	// StartSkewNs and ClockErrorNs are the largest of all loading agents.
	StartSkewNs  int64 `json:"start_skew_ns"`
	ClockErrorNs int64 `json:"clock_error_ns"`
	// LostShare is the part of the requested load, 0 to 1, assigned to lost agents, from
	// LostFromNs (the run's clock), when the first was lost. ElapsedS and rates still cover the
	// whole window.
	LostShare  float64 `json:"lost_share,omitempty"`
	LostFromNs int64   `json:"lost_from_ns,omitempty"`
}

// Agent returns the agent of a name, or nil.
func (r *Run) Agent(name string) *Agent {
	for i := range r.Agents {
		if r.Agents[i].Name == name {
			return &r.Agents[i]
		}
	}
	return nil
}
