package record

// HTTP2 is what HTTP/2 adds to the load figures of a run.
type HTTP2 struct {
	// Connections that used it, over the whole run.
	Connections uint64 `json:"connections"`
	// Sent and Received frames in the window.
	Sent     Frames `json:"sent"`
	Received Frames `json:"received"`
	// Stalls counts how often a connection had request bodies to send while the server's
	// flow-control windows were closed; StalledNs is how long that lasted in the window, summed
	// over the connections.
	Stalls    uint64 `json:"stalls"`
	StalledNs int64  `json:"stalled_ns"`
	// StallPings counts the PINGs sent at the start of a stall that were answered; StallPingNs is
	// their mean round trip, StallPingedNs the mean length of those stalls.
	StallPings    uint64  `json:"stall_pings,omitempty"`
	StallPingNs   float64 `json:"stall_ping_ns,omitempty"`
	StallPingedNs float64 `json:"stall_pinged_ns,omitempty"`
	// ConnectionWindow is the largest window that the server gave a connection for request
	// bodies.
	ConnectionWindow uint32 `json:"connection_window_bytes,omitempty"`
	// The server's last announced settings. MaxStreams is per connection, 2^32-1 if unlimited.
	MaxStreams    uint32 `json:"max_concurrent_streams"`
	InitialWindow uint32 `json:"initial_window_bytes"` // bytes of a request body, as the server announced last
	MaxFrame      uint32 `json:"max_frame_bytes"`      // bytes of the longest frame that the server takes
}

// Frames are counted by type. A header block split into several frames counts once.
type Frames struct {
	Data         uint64 `json:"data"`
	Headers      uint64 `json:"headers"`
	Settings     uint64 `json:"settings"`
	WindowUpdate uint64 `json:"window_update"`
	Ping         uint64 `json:"ping"`
	GoAway       uint64 `json:"goaway"`
	ResetStream  uint64 `json:"rst_stream"`
}

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
