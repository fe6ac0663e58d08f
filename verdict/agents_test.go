package verdict

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"ceiling/record"
	"ceiling/verdict/prose"
)

// home is the host that a fixture's generator runs on.
func home(run *record.Run, series *record.Series) string {
	for _, row := range series.Observed.All() {
		if p, ok := row.(*record.ProcessRow); ok && p.Role == record.RoleGenerator {
			return p.Host
		}
	}
	return run.Environment.Host
}

// account is the whole run as one agent's part.
func account(run *record.Run, name string) record.Agent {
	return record.Agent{
		Name: name, Loads: true, Observes: true, Share: record.AgentShare{Count: 1, Of: 1},
		Load: run.Load, ElapsedS: run.ElapsedS, Requests: run.Requests, Rate: run.Rate, Bytes: run.Bytes,
		Statuses: run.Statuses, Errors: run.Errors, Latency: run.Latency, Generator: run.Generator, Environment: run.Environment,
	}
}

// TestFleetOfOne: a run that one agent did by itself has the verdict that it
// has without.
func TestFleetOfOne(t *testing.T) {
	for _, f := range fixtures(t) {
		run, series := f.read(t)
		if len(run.Agents) > 0 {
			continue
		}
		want := Judge(run, series)
		name := home(run, series)
		run.Agents, run.Fleet = []record.Agent{account(run, name)}, &record.Fleet{Bed: "bed"}
		for _, row := range series.Load {
			row.Kind, row.Host = record.KindAgent, name
			series.Agents = append(series.Agents, row)
		}
		got := Judge(run, series)
		// What a fleet refuses it is not advised to do.
		for _, flag := range []string{"--separate-cpus", "--pin-", "ceiling prove"} {
			if texts := strings.Join(append(prose.Texts(got.Caveats), prose.Texts(got.Next)...), "\n"); strings.Contains(texts, flag) {
				t.Errorf("%s: a fleet is told of %s: %s", f.path, flag, texts)
			}
		}
		want.Next, got.Next = nil, nil
		for i := range want.Caveats {
			if of := want.Caveats[i].With; want.Caveats[i].Code == "caveat.shared-cores" {
				of["apart"], of["who"] = false, got.Caveats[i].With["who"]
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: as a fleet of one\n%s\nin place of\n%s", f.path, asText(t, got), asText(t, want))
		}
	}
}

// spread makes three agents in network namespaces of one machine, and an
// observer in a fourth, of a run that one host did: every agent has the
// generator's account with a third of the work, and all read the same CPUs.
func spread(run *record.Run, series *record.Series) (*record.Run, *record.Series) {
	const n = 3
	where := home(run, series)
	name := func(i uint64) string { return fmt.Sprintf("load%d", i) }
	run.Environment.BootID = "one"
	whole := account(run, "")
	for i := range uint64(n) {
		a := whole
		part := func(v uint64) uint64 { return v*(i+1)/n - v*i/n }
		a.Name, a.Share, a.Observes = name(i), record.AgentShare{First: i, Count: 1, Of: n}, false
		a.Clock.Pings = 9
		a.Load.Established, a.Load.Connections = int(part(uint64(run.Load.Established))), int(part(uint64(run.Load.Connections)))
		r := &a.Requests
		r.Completed, r.Failed, r.InFlight, r.InFlightAtStart = part(r.Completed), part(r.Failed), part(r.InFlight), part(r.InFlightAtStart)
		r.Sent, r.Due, r.Unsent, r.LateAtEnd = r.Completed+r.Failed+r.InFlight, part(r.Due), part(r.Unsent), part(r.LateAtEnd)
		a.Rate.CompletedPerS /= n
		a.Generator.UserNs, a.Generator.SystemNs = a.Generator.UserNs/n, a.Generator.SystemNs/n
		a.Generator.Workers = nil
		for _, w := range run.Generator.Workers {
			w.RunDelay /= n // of all of them the wait is what it was
			a.Generator.Workers = append(a.Generator.Workers, w)
		}
		run.Agents = append(run.Agents, a)
	}
	run.Agents = append(run.Agents, record.Agent{Name: "web", Observes: true, Environment: run.Environment,
		Clock: record.AgentClock{Pings: 9}})
	run.Fleet = &record.Fleet{Bed: "bed"}
	out := &record.Series{Load: series.Load, NotMeasured: series.NotMeasured}
	for _, row := range series.Observed.All() {
		if row.Observed().Host != where {
			out.Observed.Add(row)
			continue
		}
		for i := range uint64(n) {
			if own := ofGenerator(row, name(i), n); own != nil {
				out.Observed.Add(own)
			}
		}
		if own := ofServer(row); own != nil {
			out.Observed.Add(own)
		}
	}
	return run, out
}

// ofGenerator is what an agent in its own namespace sees of a row: the CPUs, its
// own process, and its own sockets, 1/n of all.
func ofGenerator(row record.ObservedRow, name string, n int) record.ObservedRow {
	switch r := row.(type) {
	case *record.CPURow:
		own := *r
		own.Host = name
		return &own
	case *record.SubjectRow:
		own := *r
		own.Host = name
		if r.Role == record.RoleGenerator {
			return &own
		}
	case *record.ProcessRow:
		own := *r
		own.Host, own.CPUNs = name, r.CPUNs/int64(n)
		if r.Role == record.RoleGenerator {
			return &own
		}
	case *record.ThrottleRow:
		own := *r
		own.Host = name
		return &own
	case *record.SocketsRow:
		own := *r
		own.Host, own.Client, own.Server = name, scaled(r.Client, 1/float64(n)), record.EndQueues{}
		return &own
	}
	return nil
}

// ofServer is what the observer beside the server sees.
func ofServer(row record.ObservedRow) record.ObservedRow {
	head := row.Observed()
	switch r := row.(type) {
	case *record.SubjectRow:
		if r.Role == record.RoleGenerator {
			return nil
		}
	case *record.ProcessRow:
		if r.Role == record.RoleGenerator {
			return nil
		}
	case *record.SocketsRow:
		own := *r
		own.Host, own.Client = "web", record.EndQueues{}
		return &own
	}
	head.Host = "web"
	return row
}

// TestSeveralOnOneMachine: what limits a run is the same whether one process
// loads or three that share the machine with the server, whatever namespaces
// they are in.
func TestSeveralOnOneMachine(t *testing.T) {
	judged := 0
	for _, f := range fixtures(t) {
		run, series := f.read(t)
		want := Judge(run, series)
		if len(run.Agents) > 0 || home(run, series) != "h" || run.Load.Established < 30 || len(run.Errors) > 0 {
			continue // too few connections to share out, or errors that are
		}
		judged++
		got := Judge(spread(run, series))
		if got.Outcome != want.Outcome || got.Bottleneck != want.Bottleneck {
			t.Errorf("%s: three agents: %s, %s: %s\nin place of %s, %s: %s", f.path, got.Outcome, got.Bottleneck, got.Because, want.Outcome,
				want.Bottleneck, want.Because)
		}
	}
	if judged < 30 {
		t.Errorf("only %d fixtures were tried", judged)
	}
}
