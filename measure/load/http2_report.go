package load

import (
	"encoding/binary"

	"ceiling/internal/http2"
)

// H2Report is what HTTP/2 adds to a run's result. It counts the frames and stalls of the window.
type H2Report struct {
	// Connections that spoke it, over the whole run.
	Connections uint64
	// Sent and Received frames by type. A received header block in several frames counts as one
	// HEADERS.
	Sent, Received [http2.Types]uint64
	// Stalls counts how often a connection had request bodies to send and the server's windows were
	// closed; StalledNs is the duration, summed over the connections.
	Stalls    uint64
	StalledNs int64
	// Pings left as stalls began and were answered after PingNs, while those stalls took PingedNs:
	// both are sums.
	Pings            uint64
	PingNs, PingedNs int64
	// Allowed is the largest window that a connection had, in bytes, if bodies were sent.
	Allowed uint32
	// The server's settings, as last announced. Streams is its limit of concurrent streams per
	// connection, 2^32-1 if it sets none.
	Streams, Window, Frame uint32
}

// announced records the server's settings.
func (r *H2Report) announced(s *http2.Settings) {
	r.Streams, r.Window, r.Frame = s.MaxConcurrentStreams, s.InitialWindowSize, s.MaxFrameSize
}

// windowOpens drops what was counted before the window.
func (r *H2Report) windowOpens() {
	*r = H2Report{Connections: r.Connections, Allowed: r.Allowed, Streams: r.Streams, Window: r.Window, Frame: r.Frame}
}

// report returns the worker's counts so far; nil if no connection spoke HTTP/2.
func (h *h2) report() *H2Report {
	if h == nil || h.Connections == 0 {
		return nil
	}
	so := h.H2Report
	return &so
}

// limited reports whether the server allows fewer streams than should be in flight.
func (h *h2) limited(pipelining int) bool {
	return h != nil && h.Connections > 0 && h.Streams < uint32(pipelining)
}

// add adds another worker's counts.
func (r *H2Report) add(one *H2Report) {
	for _, n := range []struct{ to, from *[http2.Types]uint64 }{{&r.Sent, &one.Sent}, {&r.Received, &one.Received}} {
		for i := range n.to {
			n.to[i] += n.from[i]
		}
	}
	r.Connections += one.Connections
	r.Stalls += one.Stalls
	r.StalledNs += one.StalledNs
	r.Pings += one.Pings
	r.PingNs += one.PingNs
	r.PingedNs += one.PingedNs
	r.Allowed = max(r.Allowed, one.Allowed)
	if one.Frame > 0 {
		r.Streams, r.Window, r.Frame = one.Streams, one.Window, one.Frame
	}
}

// append adds the report, or its absence, to the binary form of a result.
func (r *H2Report) append(b []byte) []byte {
	if r == nil {
		return append(b, 0)
	}
	b = append(b, 1)
	for _, n := range r.counts() {
		b = binary.AppendUvarint(b, *n)
	}
	for _, n := range r.settings() {
		b = binary.AppendUvarint(b, uint64(*n))
	}
	for _, n := range r.times() {
		b = binary.AppendUvarint(b, uint64(*n))
	}
	return b
}

func (r *H2Report) counts() []*uint64 {
	list := []*uint64{&r.Connections, &r.Stalls, &r.Pings}
	for i := range r.Sent {
		list = append(list, &r.Sent[i], &r.Received[i])
	}
	return list
}

func (r *H2Report) settings() []*uint32 {
	return []*uint32{&r.Streams, &r.Window, &r.Frame, &r.Allowed}
}

func (r *H2Report) times() []*int64 { return []*int64{&r.StalledNs, &r.PingNs, &r.PingedNs} }

// readH2 reads what append wrote.
func (r *reader) readH2() *H2Report {
	if !r.bool() {
		return nil
	}
	report := &H2Report{}
	for _, n := range report.counts() {
		*n = r.uint()
	}
	for _, n := range report.settings() {
		v := r.uint()
		r.refuse(v > 1<<32-1)
		*n = uint32(v)
	}
	for _, n := range report.times() {
		*n = r.time()
	}
	if r.err != nil {
		return nil
	}
	return report
}
