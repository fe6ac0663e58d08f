package record

// Streams is what a run of messages or events has besides. The counts are of the
// window.
type Streams struct {
	// Before are the openings before the window and Opened those in it: from the
	// connection's being established to the end of the head of the answer, nanoseconds.
	Before Quantiles `json:"before"`
	Opened Quantiles `json:"opened"`
	// Echoed of the completed messages were answered with their own payload.
	Echoed uint64 `json:"echoed,omitempty"`
	// Pings of the server that were answered.
	Pings uint64 `json:"pings,omitempty"`
	// Numbered of the events had a number, from FirstSeq to LastSeq: LastSeq -
	// FirstSeq + 1 of them were published. Without numbers, missed ones are not known.
	Numbered uint64 `json:"numbered,omitempty"`
	FirstSeq uint64 `json:"first_seq,omitempty"`
	LastSeq  uint64 `json:"last_seq,omitempty"`
	// Monotonic of the events said when they were published by CLOCK_MONOTONIC of this
	// host: Latency.Response has these. Early ones of them were received before they were
	// published and count as 0 ns. Wall said it by another host's clock, whose offset is not
	// known: their time is not measured (records of before November 2026 have it, with the offset in it).
	Monotonic uint64 `json:"monotonic,omitempty"`
	Wall      uint64 `json:"wall,omitempty"`
	Early     uint64 `json:"early,omitempty"`
}

// PublishedPerS is how many events were published in a second, each for all
// subscribers; 0: not known.
func (r *Run) PublishedPerS() float64 {
	s := r.Load.Streams
	if s == nil || s.FirstSeq == 0 || r.ElapsedS <= 0 {
		return 0
	}
	return float64(s.LastSeq-s.FirstSeq+1) / r.ElapsedS
}
