package verdict

import "ceiling/record"

// streams is how many requests can be in flight on a connection: with HTTP/2 no more
// than the server allows.
func streams(l *record.Load) float64 {
	n := float64(l.Pipelining)
	if l.HTTP2 != nil && l.HTTP2.MaxStreams > 0 {
		n = min(n, float64(l.HTTP2.MaxStreams))
	}
	return max(n, 1)
}

// ofTheStreams is what the server's HTTP/2 settings did to the load: fewer streams than
// were asked for, and windows that held uploads back.
func (d *caveats) ofTheStreams(run *record.Run) {
	l := &run.Load
	h := l.HTTP2
	if h == nil {
		return
	}
	if streams(l) < float64(l.Pipelining) {
		d.add("caveat.h2-streams", with{"allowed": h.MaxStreams, "asked": l.Pipelining})
	}
	ns := run.ElapsedS * 1e9 * float64(l.Connections)
	if share := positive(float64(h.StalledNs)); ns > 0 && share/ns >= h2WindowMatters {
		d.add("caveat.h2-window", with{"share": min(share/ns, 1), "window": h.InitialWindow, "stalls": h.Stalls})
	}
}
