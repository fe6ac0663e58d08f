package record

// TLS is what the connections of a run negotiated, and their handshakes.
type TLS struct {
	// Version and Cipher by name, as in "TLS 1.3" and "TLS_AES_128_GCM_SHA256", from the last
	// handshake.
	Version string `json:"version"`
	Cipher  string `json:"cipher"`
	// KeyExchange is its group, as in "X25519"; "" for plain RSA.
	KeyExchange string `json:"key_exchange,omitempty"`
	// Protocol that the server chose (ALPN); "" if none.
	Protocol string `json:"alpn,omitempty"`
	// Resumed: the handshake resumed an earlier session.
	Resumed bool `json:"resumed"`
	// Before has the times of the full handshakes before the window, Handshakes of those in it:
	// from the established connection to the end of the handshake. Failed ones are errors of
	// PhaseTLS.
	Before     Quantiles `json:"before_window"`
	Handshakes Quantiles `json:"handshakes"`
	// ResumedBefore and Resumptions are the resumed ones; nil if resumption was not requested.
	ResumedBefore *Quantiles `json:"resumed_before_window,omitempty"`
	Resumptions   *Quantiles `json:"resumed_handshakes,omitempty"`
	// PerS is handshakes per second in the window, full and resumed.
	PerS float64 `json:"handshakes_per_s"`
	// CPUNs is the generator's CPU time for the handshakes in the window, without its system
	// calls; ResumedCPUNs is the resumed ones' part of it.
	CPUNs        int64 `json:"handshake_cpu_ns"`
	ResumedCPUNs int64 `json:"resumed_cpu_ns,omitempty"`
}

// RowHandshakes are the TLS handshakes of an interval, full and resumed, and the generator CPU
// they took without its system calls.
type RowHandshakes struct {
	Handshakes     uint64 `json:"handshakes,omitempty"`
	HandshakeCPUNs int64  `json:"handshake_cpu_ns,omitempty"` // of the generator's threads, without their system calls
}

// Count returns the number of handshakes in the window, full and resumed.
func (t *TLS) Count() uint64 {
	if t.Resumptions == nil {
		return t.Handshakes.Count
	}
	return t.Handshakes.Count + t.Resumptions.Count
}
