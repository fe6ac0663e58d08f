package record

// Streams is what a run of messages adds. Counts are of the window.
type Streams struct {
	// Before has the openings before the window, Opened those in it: from the established
	// connection to the end of the response head, ns.
	Before Quantiles `json:"before"`
	Opened Quantiles `json:"opened"`
	// Echoed counts completed messages answered with their own payload.
	Echoed uint64 `json:"echoed,omitempty"`
	// Pings from the server that were answered.
	Pings uint64 `json:"pings,omitempty"`
}
