package record

// Streams is what a run of messages or events adds. Counts are of the window.
type Streams struct {
	// Before has the openings before the window, Opened those in it: from the established
	// connection to the end of the response head, ns.
	Before Quantiles `json:"before"`
	Opened Quantiles `json:"opened"`
	// Echoed counts completed messages answered with their own payload.
	Echoed uint64 `json:"echoed,omitempty"`
	// Pings from the server that were answered.
	Pings uint64 `json:"pings,omitempty"`
	// First are the messages that the server sent before it had got one, on all connections of the
	// whole run: they answer nothing.
	First uint64 `json:"first,omitempty"`
	// Numbered counts the events with a number, from FirstSeq to LastSeq: LastSeq - FirstSeq + 1
	// of them were published. Without numbers, missed events are unknown.
	Numbered uint64 `json:"numbered,omitempty"`
	FirstSeq uint64 `json:"first_seq,omitempty"`
	LastSeq  uint64 `json:"last_seq,omitempty"`
	// Monotonic counts the events that carry their publication time by this host's
	// CLOCK_MONOTONIC; Latency.Response has these. Early ones were received before their
	// publication time and count as 0 ns. Wall counts those timed by another host's clock of
	// unknown offset: their latency is not measured (records from before November 2026 have it,
	// including the offset).
	Monotonic uint64 `json:"monotonic,omitempty"`
	Wall      uint64 `json:"wall,omitempty"`
	Early     uint64 `json:"early,omitempty"`
}

// PublishedPerS returns how many events were published per second, each for all subscribers; 0 if
// unknown.
func (r *Run) PublishedPerS() float64 {
	s := r.Load.Streams
	if s == nil || s.FirstSeq == 0 || r.ElapsedS <= 0 {
		return 0
	}
	return float64(s.LastSeq-s.FirstSeq+1) / r.ElapsedS
}
