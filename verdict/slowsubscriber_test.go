package verdict

import (
	"strings"
	"testing"

	"ceiling/experiment/spec"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// streaming is a run of 10 s whose subscribers get 1000 events/s until a time and a rate from then on; a socket of the server
// is held up by its receiver's window from 5 s on.
func streaming(afterPerS, window float64, others int) (*record.Run, *record.Series) {
	r := &record.Run{
		ElapsedS: 10, WarmupS: 1, Spec: spec.Spec{Connections: 4, Pipelining: 1, Wire: spec.Wire{Kind: spec.Events}},
		Requests: record.Requests{Sent: 7500, Completed: 7500}, Rate: record.Rate{CompletedPerS: 750},
		Environment: record.Environment{Host: "here"},
		Load: record.Load{Connections: 4, Established: 4, Threads: 1, Pipelining: 1,
			Streams: &record.Streams{Numbered: 7500, FirstSeq: 1, LastSeq: 1875}},
	}
	s := new(record.Series)
	for i := range 100 {
		perS := 1000.0
		if i >= 40 {
			perS = afterPerS
		}
		s.Load = append(s.Load, record.LoadRow{Kind: "load", TNs: int64(i+1) * 1e8, WidthNs: 1e8, Completed: uint64(perS / 10)})
	}
	for i := range 10 {
		row := &record.TCPInfoRow{ObservedHead: record.ObservedHead{Kind: record.KindTCPInfo, Host: "here", TNs: int64(i+1) * 1e9, WidthNs: 1e9}}
		row.Server.Sockets = 5
		if i >= 5 {
			row.Server.Held = []record.HeldSocket{{Peer: "10.0.0.7:4242", UnsentBytes: 2e6, HeldNs: int64(window * 1e9)}}
			for range others {
				row.Server.Held = append(row.Server.Held, record.HeldSocket{Peer: "10.0.0.8:1", UnsentBytes: 1, HeldNs: 1e9})
			}
		}
		s.Observed.TCPInfo = append(s.Observed.TCPInfo, row)
	}
	return r, s
}

// A subscriber that does not read is named, as what all wait for or as one that misses events, by what the others get.
func TestSlowSubscriber(t *testing.T) {
	for name, c := range map[string]struct {
		afterPerS, window float64
		others            int
		blocked, caveat   bool
	}{
		"all wait for it":           {100, 0.98, 0, true, false},
		"its events are dropped":    {990, 0.98, 0, false, true},
		"it reads most of the time": {100, 0.2, 0, false, false},
		"nobody reads":              {100, 0.98, 4, false, false},
	} {
		v := Judge(streaming(c.afterPerS, c.window, c.others))
		if blocked := v.Bottleneck == record.Subscribers; blocked != c.blocked {
			t.Errorf("%s: %s: %s", name, v.Bottleneck, prose.Reason(&v))
		}
		if c.blocked && !strings.Contains(prose.Reason(&v), "waits for subscriber 10.0.0.7:4242, which does not read: its socket accepted no data 98%") {
			t.Errorf("%s: %s", name, prose.Reason(&v))
		}
		var caveats []string
		for _, one := range v.Caveats {
			caveats = append(caveats, prose.Text(one))
		}
		if all := strings.Join(caveats, "\n"); strings.Contains(all, "subscriber 10.0.0.7:4242 does not read") != c.caveat {
			t.Errorf("%s:\n%s", name, all)
		}
	}
}
