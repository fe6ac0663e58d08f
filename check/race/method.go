package race

import (
	"cmp"
	"fmt"

	"ceiling/internal/unit"
)

// fact is one line of the method.
type fact struct{ name, text string }

// method is what was equal for all contestants, and how each figure was measured.
func (r *Result) method() []fact {
	s, e := &r.Settings, &r.Environment
	return []fact{
		{"equal", fmt.Sprintf("%s per contestant; %d keep-alive connections; one request, byte for byte; one backend, `ceiling serve floor`, with one thread and keep-alive connections; %s of %s, each with the contestants in random order (seed %d), after one that is discarded",
			unit.Plural(s.Workers, "worker", "workers"), s.Connections, unit.Plural(s.Rounds, "round", "rounds"), unit.FormatNs(int64(s.DurationS*1e9)), s.Seed)},
		{"checked", "before every case: the request that each contestant forwards, by a backend that records it, and its response; in every round: errors, and the backend's count against the generator's"},
		{"CPU", "of all processes of a contestant, by the CPU clock of each process, divided by the requests of a closed loop; /nginx is the ratio of pairs from one round with its 95% interval"},
		{"open p99", fmt.Sprintf("at %s req/s for all, unless the case says otherwise, from when a request was due", unit.FormatSI(float64(s.PerS)))},
		{"MB", "proportional set size of all processes"},
		{"host", fmt.Sprintf("%s, %s, Linux %s; generator, backend and contestant share them", e.CPUModel, unit.Plural(e.CoresAllowed, "CPU", "CPUs"), e.Kernel)},
	}
}

// entrants are who took part: version and program, or why not.
func (r *Result) entrants() (list []fact) {
	for _, e := range r.Entrants {
		text := fmt.Sprintf("%s, program %s", e.Version, e.Binary)
		if e.Differs != "" {
			text += "; " + e.Differs
		}
		list = append(list, fact{e.Name, cmp.Or(e.Missing, text)})
	}
	return list
}
