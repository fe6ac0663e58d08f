package lua

import (
	"math"
	"slices"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// Summary is what a script's function for the end is told of a run.
type Summary struct {
	DurationUs, Requests, Bytes                       float64
	ErrConnect, ErrRead, ErrWrite, ErrStatus, ErrTime float64
	// Latency in µs, Requests/s of a thread: each value with how often it was seen, in order.
	Latency, Rates []Counted
	// Of them: exact where the values are those of a histogram's buckets.
	LatencyMin, LatencyMax, LatencyMean, LatencyStdev float64
}

// Counted is a value, and how often it was seen.
type Counted struct {
	Value float64
	Count uint64
}

// Finish calls the script's function for the end.
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
	latency := stats{m.Latency, m.LatencyMin, m.LatencyMax, m.LatencyMean, m.LatencyStdev}
	return s.main.call("done", summary, latency.object(l), of(m.Rates).object(l))
}

// stats is one of wrk's statistics objects.
type stats struct {
	list                   []Counted
	min, max, mean, spread float64
}

// of computes what the values alone say.
func of(list []Counted) stats {
	s := stats{list: list}
	n, sum, squares := 0.0, 0.0, 0.0
	for _, c := range list {
		k := float64(c.Count)
		n, sum, squares = n+k, sum+k*c.Value, squares+k*c.Value*c.Value
	}
	if n > 0 {
		s.min, s.max, s.mean = list[0].Value, list[len(list)-1].Value, sum/n
		s.spread = math.Sqrt(max(squares/n-s.mean*s.mean, 0))
	}
	return s
}

// percentile is the smallest value that p percent do not exceed.
func (s *stats) percentile(p float64) float64 {
	total := uint64(0)
	for _, c := range s.list {
		total += c.Count
	}
	rank, seen := uint64(math.Round(p/100*float64(total)+0.5)), uint64(0)
	for _, c := range s.list {
		if seen += c.Count; seen >= rank {
			return c.Value
		}
	}
	return s.max
}

// object is what the script sees: fields, percentile, a length, and each value by its number.
func (s stats) object(l *lua.LState) *lua.LUserData {
	u := l.NewUserData()
	meta := l.NewTable()
	fields := map[string]float64{"min": s.min, "max": s.max, "mean": s.mean, "stdev": s.spread}
	meta.RawSetString("__index", l.NewFunction(func(l *lua.LState) int {
		name := l.CheckString(2)
		if name == "percentile" {
			l.Push(l.NewFunction(func(l *lua.LState) int {
				l.Push(lua.LNumber(s.percentile(float64(l.CheckNumber(2)))))
				return 1
			}))
			return 1
		}
		if v, ok := fields[name]; ok {
			l.Push(lua.LNumber(v))
			return 1
		}
		l.RaiseError("statistics have min, max, mean, stdev and percentile, not %s", strings.TrimSpace(name))
		return 0
	}))
	meta.RawSetString("__len", l.NewFunction(func(l *lua.LState) int {
		l.Push(lua.LNumber(len(s.list)))
		return 1
	}))
	meta.RawSetString("__call", l.NewFunction(func(l *lua.LState) int {
		at := l.CheckInt(2) - 1
		if at < 0 || at >= len(s.list) {
			return 0
		}
		l.Push(lua.LNumber(s.list[at].Value))
		l.Push(lua.LNumber(s.list[at].Count))
		return 2
	}))
	u.Metatable = meta
	return u
}

// Rates counts rates of a thread, in order.
func Rates(perS []float64) []Counted {
	perS = slices.Clone(perS)
	slices.Sort(perS)
	var list []Counted
	for _, v := range perS {
		v = math.Floor(v)
		if last := len(list) - 1; last >= 0 && list[last].Value == v {
			list[last].Count++
			continue
		}
		list = append(list, Counted{v, 1})
	}
	return list
}
