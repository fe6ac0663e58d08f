package lua

import (
	"math"

	lua "github.com/yuin/gopher-lua"
)

// Summary is what a script's function for the end is told of a run.
type Summary struct {
	DurationUs, Requests, Bytes                       float64
	ErrConnect, ErrRead, ErrWrite, ErrStatus, ErrTime float64
	// Latency in µs: each value with how often it was seen, in order.
	Latency []Counted
	// Of them: exact where the values are those of a histogram's buckets.
	LatencyMin, LatencyMax, LatencyMean, LatencyStdev float64
}

// Counted is a value, and how often it was seen.
type Counted struct {
	Value float64
	Count uint64
}

// Finish calls the script's function for the end, with summary and latency.
func (s *Script) Finish(m *Summary) error {
	if !s.Done {
		return nil
	}
	l := s.main.vm
	table := func(of map[string]float64) *lua.LTable {
		t := l.NewTable()
		for name, v := range of {
			t.RawSetString(name, lua.LNumber(v))
		}
		return t
	}
	summary := table(map[string]float64{"duration": m.DurationUs, "requests": m.Requests, "bytes": m.Bytes})
	summary.RawSetString("errors", table(map[string]float64{"connect": m.ErrConnect, "read": m.ErrRead, "write": m.ErrWrite,
		"status": m.ErrStatus, "timeout": m.ErrTime}))
	latency := table(map[string]float64{"min": m.LatencyMin, "max": m.LatencyMax, "mean": m.LatencyMean, "stdev": m.LatencyStdev})
	latency.RawSetString("percentile", l.NewFunction(func(l *lua.LState) int {
		l.Push(lua.LNumber(m.percentile(float64(l.CheckNumber(2)))))
		return 1
	}))
	return s.main.call("done", summary, latency)
}

// percentile is the smallest latency that p percent do not exceed.
func (m *Summary) percentile(p float64) float64 {
	total := uint64(0)
	for _, c := range m.Latency {
		total += c.Count
	}
	rank, seen := uint64(math.Round(p/100*float64(total)+0.5)), uint64(0)
	for _, c := range m.Latency {
		if seen += c.Count; seen >= rank {
			return c.Value
		}
	}
	return m.LatencyMax
}
