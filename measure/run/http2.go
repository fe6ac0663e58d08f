package run

import (
	"ceiling/internal/http2"
	"ceiling/measure/load"
	"ceiling/record"
)

// protocolName returns what the connections spoke, for the record.
func protocolName(l *load.Result) string {
	switch {
	case l.H2 == nil:
		return ""
	case l.Handshakes != nil:
		return "h2"
	}
	return "h2c"
}

// http2Of converts the engine's report for the record; nil if no connection spoke HTTP/2.
func http2Of(h *load.H2Report) *record.HTTP2 {
	if h == nil {
		return nil
	}
	out := &record.HTTP2{
		Connections: h.Connections, Sent: framesOf(&h.Sent), Received: framesOf(&h.Received), Stalls: h.Stalls, StalledNs: h.StalledNs,
		MaxStreams: h.Streams, InitialWindow: h.Window, MaxFrame: h.Frame, StallPings: h.Pings, ConnectionWindow: h.Allowed,
	}
	if h.Pings > 0 {
		out.StallPingNs, out.StallPingedNs = float64(h.PingNs)/float64(h.Pings), float64(h.PingedNs)/float64(h.Pings)
	}
	return out
}

func framesOf(n *[http2.Types]uint64) record.Frames {
	return record.Frames{
		Data: n[http2.Data], Headers: n[http2.Headers], Settings: n[http2.SettingsFrame], WindowUpdate: n[http2.WindowUpdate],
		Ping: n[http2.Ping], GoAway: n[http2.GoAway], ResetStream: n[http2.ResetStream],
	}
}
