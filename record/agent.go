package record

// LostController begins Agent.Lost where the driver had no connection to the
// controller for so long that all agents count as lost.
const LostController = "the controller was gone for"

// Agent is one agent's part in a run of several: the account that a run of one
// machine has of itself, of this agent alone. Nothing of it is merged; the
// figures of the Run are those of all agents, made from their counts and
// histograms and never from these quantiles.
type Agent struct {
	// Name it has in the fleet; the rows of its host carry it as their Host.
	Name string `json:"name"`
	// Loads and Observes are its roles. One that only observes has no figures
	// of a load.
	Loads    bool `json:"loads,omitempty"`
	Observes bool `json:"observes,omitempty"`
	// Share of the run that it was given.
	Share AgentShare `json:"share"`
	// Load has its own connections and threads; AskedPerS is its own part of
	// the asked rate.
	Load     Load     `json:"load"`
	ElapsedS float64  `json:"elapsed_s"`
	Requests Requests `json:"requests"`
	// Rate's Spread is that of its own rows.
	Rate  Rate  `json:"rate"`
	Bytes Bytes `json:"bytes"`
	// Statuses and Errors, as in Run.
	Statuses  map[string]uint64 `json:"statuses"`
	Errors    []Error           `json:"errors"`
	Latency   Latency           `json:"latency"`
	Generator Generator         `json:"generator"`
	// Environment is its host, and the limits it had there.
	Environment Environment `json:"environment"`
	Clock       AgentClock  `json:"clock"`
	// StartSkewNs is how long after the common start it sent its first request,
	// by its own corrected clock: the error of Clock is not in it. In an open
	// loop it is counted from when its own first request was due.
	// -1: nothing left, or it was lost before it told when.
	StartSkewNs int64 `json:"start_skew_ns"`
	// Lost says why nothing more came of it; "" where it took part to the end.
	// LostAtNs is the end of the last row that came, on the run's clock: what it
	// did after that is in no figure.
	Lost     string `json:"lost,omitempty"` // begins with LostController where the agent is not to blame
	LostAtNs int64  `json:"lost_at_ns,omitempty"`
}

// AgentShare is the part of a run that an agent does: of every Of connections,
// requests and due times in a row it has the Count from First on. Of 0: none,
// the agent only observes.
type AgentShare struct {
	First uint64 `json:"first"`
	Count uint64 `json:"count"`
	Of    uint64 `json:"of"`
}

// Fraction of the run that the share is, 0 to 1.
func (s AgentShare) Fraction() float64 {
	if s.Of == 0 {
		return 0
	}
	return float64(s.Count) / float64(s.Of)
}

// AgentClock is how an agent's clock relates to the controller's, by pings
// before and after the run.
type AgentClock struct {
	// OffsetNs is the agent's monotonic clock less the controller's at the start
	// of the window; it means nothing by itself. WallOffsetNs is the same of
	// their wall clocks: how wrong one of them is.
	OffsetNs     int64 `json:"offset_ns"`
	WallOffsetNs int64 `json:"wall_offset_ns"`
	// ErrorNs bounds the error of OffsetNs: half the shortest round trip and
	// what drift adds between the pings.
	ErrorNs int64 `json:"error_ns"`
	// DriftPPM is how much faster the agent's clock runs, in millionths.
	DriftPPM float64 `json:"drift_ppm"`
	Pings    int     `json:"pings"`
	RTTMinNs int64   `json:"rtt_min_ns"`
}

// Fleet is what a run of several agents had in common.
type Fleet struct {
	// Bed is the test bed whose lease the run held.
	Bed string `json:"bed"`
	// AllowLoss: the run was to go on without an agent that is lost.
	AllowLoss bool `json:"allow_loss,omitempty"`
	// StartSkewNs and ClockErrorNs are the largest of all agents that load.
	StartSkewNs  int64 `json:"start_skew_ns"`
	ClockErrorNs int64 `json:"clock_error_ns"`
	// LostShare is the part of the asked load, 0 to 1, that was with agents that
	// were lost, from LostFromNs on (the run's clock), when the first of them
	// was. ElapsedS and rates are of the whole window all the same.
	LostShare  float64 `json:"lost_share,omitempty"`
	LostFromNs int64   `json:"lost_from_ns,omitempty"`
}

// Agent is the agent of a name, or nil.
func (r *Run) Agent(name string) *Agent {
	for i := range r.Agents {
		if r.Agents[i].Name == name {
			return &r.Agents[i]
		}
	}
	return nil
}
