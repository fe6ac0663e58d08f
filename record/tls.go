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
	// Before are the times of the handshakes before the window, Handshakes of those
	// in it: from the connection's being established to the end of the handshake.
	// Those that failed are errors of PhaseTLS.
	Before     Quantiles `json:"before_window"`
	Handshakes Quantiles `json:"handshakes"`
	// CPUNs is the generator's CPU time for the handshakes in the window, without
	// its system calls.
	CPUNs int64 `json:"handshake_cpu_ns"`
}
