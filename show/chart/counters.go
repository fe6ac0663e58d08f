package chart

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"ceiling/internal/unit"
	"ceiling/record"
)

// Peer is one address that the subject has connections to, with means over the samples of the
// window.
type Peer struct {
	Addr     string
	Sockets  float64
	Unread   float64
	Awaiting float64 // NaN if unknown
}

// Peers returns peers by descending number of connections, at most 16.
func Peers(run *Run) []Peer {
	by := map[string]*Peer{}
	samples := 0.0
	for _, r := range run.observed().Peers {
		if !run.InWindow(&r.ObservedHead) {
			continue
		}
		samples++
		for i := range r.Peers {
			p := &r.Peers[i]
			if by[p.Addr] == nil {
				by[p.Addr] = &Peer{Addr: p.Addr}
			}
			sum := by[p.Addr]
			sum.Sockets, sum.Unread = sum.Sockets+float64(p.Sockets), sum.Unread+float64(p.Unread)
			if p.Awaiting < 0 {
				sum.Awaiting = math.NaN()
			} else {
				sum.Awaiting += float64(p.Awaiting)
			}
		}
	}
	var list []Peer
	for _, addr := range slices.Sorted(maps.Keys(by)) {
		p := *by[addr]
		list = append(list, Peer{p.Addr, p.Sockets / samples, p.Unread / samples, p.Awaiting / samples})
	}
	slices.SortStableFunc(list, func(a, b Peer) int { return cmp.Compare(b.Sockets, a.Sockets) })
	const most = 16
	return list[:min(len(list), most)]
}

// Counter is a counter's name and its formatted value.
type Counter struct{ Name, Text string }

// TCPCounters returns the kernel's TCP counters over the window that always indicate trouble,
// plus the round-trip times of the run's own connections.
func TCPCounters(run *Run) []Counter {
	var list []Counter
	rows := slices.DeleteFunc(slices.Clone(run.observed().TCP), func(r *record.TCPRow) bool {
		return r.WidthNs <= 0 || !run.InWindow(&r.ObservedHead)
	})
	for _, c := range []struct {
		name string
		of   func(*record.TCPRow) int64
	}{
		{"segments sent", func(r *record.TCPRow) int64 { return r.OutSegs }},
		{"TCP retransmits", func(r *record.TCPRow) int64 { return r.RetransSegs }},
		{"retransmission timeouts", func(r *record.TCPRow) int64 { return r.Timeouts }},
		{"active opens", func(r *record.TCPRow) int64 { return r.ActiveOpens }},
		{"accept queue overflows", func(r *record.TCPRow) int64 { return r.ListenOverflows }},
		{"connections reset", func(r *record.TCPRow) int64 { return r.EstabResets }},
	} {
		if len(rows) > 0 {
			list = append(list, Counter{c.name, sum(rows, c.of)})
		}
	}
	return append(list, trips(run)...)
}

// sum adds up a counter; -1 in a row means that this kernel does not have it.
func sum(rows []*record.TCPRow, of func(*record.TCPRow) int64) string {
	total := int64(0)
	for _, r := range rows {
		n := of(r)
		if n < 0 {
			return "not kept by this kernel"
		}
		if total += n; total < 0 {
			return "too large to add up"
		}
	}
	return unit.FormatCount(total)
}

// trips returns the round-trip time seen by each end: the median over the samples of the median
// over the connections.
func trips(run *Run) []Counter {
	var list []Counter
	for _, end := range []struct {
		name string
		of   func(*record.TCPInfoRow) *record.EndTCPInfo
	}{
		{"generator", func(r *record.TCPInfoRow) *record.EndTCPInfo { return &r.Client }},
		{"server", func(r *record.TCPInfoRow) *record.EndTCPInfo { return &r.Server }},
	} {
		var rtt []int64
		for _, r := range run.observed().TCPInfo {
			if e := end.of(r); e.Sockets > 0 && r.TNs >= 0 {
				rtt = append(rtt, e.RTTp50Us)
			}
		}
		if len(rtt) == 0 {
			continue
		}
		slices.Sort(rtt)
		us := min(max(rtt[(len(rtt)-1)/2], 0), math.MaxInt64/1000)
		list = append(list, Counter{fmt.Sprintf("smoothed RTT, %s side (median)", end.name), unit.FormatNs(us * 1000)})
	}
	return list
}

// ObserverCost returns the monitoring overhead as a share of one core.
func ObserverCost(run *Run) (share float64, ok bool) {
	var cpu, width float64
	for _, r := range run.observed().Observer {
		if r.WidthNs > 0 {
			cpu, width = cpu+float64(r.CPUNs), width+float64(r.WidthNs)
		}
	}
	if width == 0 {
		return 0, false
	}
	return cpu / width, true
}
