package verdict

import (
	"strings"
	"testing"
	"time"

	"ceiling/record"
	"ceiling/verdict/prose"
)

// onSharedCores is a run whose server and generator use so much of the two cores that both may use,
// and other processes the rest.
func onSharedCores(server, generator, others float64) *watchedRun {
	w := watched(1e6, server)
	each(w, func(r *record.ProcessRow) {
		r.QueueNs = int64(1e9)
		r.Busiest = []record.ThreadUse{{TID: 100, RunNs: r.CPUNs / 2, QueueNs: r.QueueNs / 2},
			{TID: 101, RunNs: r.CPUNs / 2, QueueNs: r.QueueNs / 2}}
	})
	each(w, func(r *record.CPURow) {
		for i := range r.Cores {
			busy := int64(50 * (server + generator + others))
			r.Cores[i] = record.CoreTicks{CPU: i, User: busy, Idle: 100 - busy}
		}
	})
	g := &w.run.Generator
	g.BusiestWorker, g.RunDelay = generator, .1
	g.UserNs, g.SystemNs = int64(generator*float64(5*time.Second)), int64(generator*float64(5*time.Second))
	g.Workers = []record.Worker{{Thread: 9, Connections: 64, Completed: 1, Busy: generator, RunDelay: .1}}
	return w
}

// A server that takes nearly all of the cores it shares with its generator is named, with what the
// generator's part of them costs; one that takes half of its cores beside other processes is not.
func TestSharesOfTheSameCores(t *testing.T) {
	for _, c := range []struct {
		name                      string
		server, generator, others float64
		is                        record.Bottleneck
		says                      string
	}{
		{"84 to 16", 1.68, .32, 0, record.ServerCPU, "up to 1.19× this rate on its own cores"},
		{"76 to 24", 1.52, .48, 0, record.ServerCPU, "up to 1.32× this rate on its own cores"},
		{"70 to 30", 1.40, .60, 0, record.SharedCPU, "(server 70% of their CPU time, generator 30%)"},
		{"97 to 3", 1.94, .06, 0, record.ServerCPU, "server process srv used 1.9 of 2 cores"},
		{"half of it others'", 1.0, .06, .94, record.SharedCPU, "other processes used 0.94 of 2 cores"},
	} {
		v := onSharedCores(c.server, c.generator, c.others).judge()
		if text := prose.Sentence(v.Because); v.Bottleneck != c.is || !strings.Contains(text, c.says) {
			t.Errorf("%s: %s, lacks %q", c.name, sayings(v), c.says)
		}
		allSaid(t, v)
	}
}
