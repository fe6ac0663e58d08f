package record

// TLS is what the connections of a run agreed on, and their handshakes.
type TLS struct {
	// Version and Cipher by their names, as in "TLS 1.3" and
	// "TLS_AES_128_GCM_SHA256"; of the handshake that ended last.
	Version string `json:"version"`
	Cipher  string `json:"cipher"`
	// KeyExchange is its group, as in "X25519"; "" where it was by RSA alone.
	KeyExchange string `json:"key_exchange,omitempty"`
	// Protocol that the server chose (ALPN); "" none.
	Protocol string `json:"alpn,omitempty"`
	// Resumed: the handshake went on from an earlier session.
	Resumed bool `json:"resumed"`
	// Before are the times of the full handshakes before the window, Handshakes of
	// those in it: from the connection's being established to the end of the handshake.
	// Those that failed are errors of PhaseTLS.
	Before     Quantiles `json:"before_window"`
	Handshakes Quantiles `json:"handshakes"`
	// ResumedBefore and Resumptions are those that went on from an earlier session;
	// nil where none was asked for.
	ResumedBefore *Quantiles `json:"resumed_before_window,omitempty"`
	Resumptions   *Quantiles `json:"resumed_handshakes,omitempty"`
	// PerS is handshakes per second in the window, full and resumed.
	PerS float64 `json:"handshakes_per_s"`
	// CPUNs is the generator's CPU time for the handshakes in the window, without
	// its system calls, and ResumedCPUNs the part of it for those that resumed.
	CPUNs        int64 `json:"handshake_cpu_ns"`
	ResumedCPUNs int64 `json:"resumed_cpu_ns,omitempty"`
}

// RowHandshakes are those of TLS in an interval, full and resumed, and what they took of
// the generator's CPU without its system calls.
type RowHandshakes struct {
	Handshakes     uint64 `json:"handshakes,omitempty"`
	HandshakeCPUNs int64  `json:"handshake_cpu_ns,omitempty"`
}

// Count is how many handshakes there were in the window, full and resumed.
func (t *TLS) Count() uint64 {
	if t.Resumptions == nil {
		return t.Handshakes.Count
	}
	return t.Handshakes.Count + t.Resumptions.Count
}
