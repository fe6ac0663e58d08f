package chart

import (
	"reflect"
	"strings"
	"testing"

	"ceiling/experiment/spec"
	"ceiling/record"
)

// The number of sockets that share an address is that of one moment, whatever it is: 4 workers that
// were restarted have 4, not 8. A copy without rows has it from the result.
func TestSharedListeners(t *testing.T) {
	row := func(first, n int) *record.ListenerRow {
		r := &record.ListenerRow{Listeners: []record.Listener{{Inode: 1000, Addr: "127.0.0.1:9"}},
			Connections: []record.ProcessConnections{{PID: 7, Connections: 40}, {PID: 8, Connections: 24}}}
		for i := range n {
			r.Listeners = append(r.Listeners, record.Listener{Inode: uint64(first + i), Addr: "127.0.0.1:8080"})
		}
		return r
	}
	for _, n := range []int{2, 3, 4, 16} {
		run := &Run{Run: &record.Run{}, Series: &record.Series{}}
		run.Series.Observed.Add(row(1, n))
		run.Series.Observed.Add(row(100, n))
		if got, addr := SharedListeners(run); got != n || addr != "127.0.0.1:8080" {
			t.Errorf("%d sockets on %s, want %d", got, addr, n)
		}
	}
	one := &Run{Run: &record.Run{}, Series: &record.Series{}}
	one.Series.Observed.Add(row(1, 1))
	if n, _ := SharedListeners(one); n != 0 {
		t.Errorf("one socket is shared by %d", n)
	}
	held := 24
	copied := &Run{Run: &record.Run{Subject: &record.Subject{Address: "127.0.0.1:8080", Sharing: 4,
		Processes: []record.SubjectProcess{{PID: 8, Connections: &held}}}}}
	if n, addr := SharedListeners(copied); n != 4 || addr != "127.0.0.1:8080" || ConnectionsOf(copied)[8] != 24 {
		t.Errorf("%d on %s, %v", n, addr, ConnectionsOf(copied))
	}
}

// The axes of a run of events or messages have their unit.
func TestRateIsInTheUnitOfTheRun(t *testing.T) {
	for _, kind := range []spec.LoadKind{spec.Requests, spec.Messages} {
		rows := []record.LoadRow{{TNs: 1e8, WidthNs: 1e8, Completed: 10}, {TNs: 2e8, WidthNs: 1e8, Completed: 20}}
		r := Run{Run: &record.Run{}, Series: &record.Series{Load: rows}}
		r.Spec.Kind = kind
		p, ok := Rate([]Run{r}, 100)
		if !ok || p.Y.Name != kind.Many()+"/s" || !strings.HasPrefix(strings.ToLower(p.Says), kind.Many()+" per second") {
			t.Errorf("%s: %q, %q", kind, p.Y.Name, p.Says)
		}
	}
}

// TestInterrupts: of the window alone, per second, by CPU; what was not taken is left out.
func TestInterrupts(t *testing.T) {
	row := func(host string, at int64, lines ...record.IRQLine) *record.IRQRow {
		return &record.IRQRow{ObservedHead: record.ObservedHead{Kind: record.KindIRQ, Host: host, TNs: at * 1e9, WidthNs: 1e9}, Lines: lines}
	}
	queue := func(n int, counts ...record.IRQCPU) record.IRQLine {
		return record.IRQLine{IRQ: 40 + n, Name: "eth0-Tx-Rx-" + string(rune('0'+n)), CPUs: counts}
	}
	run := &Run{Run: &record.Run{ElapsedS: 2}, Series: new(record.Series)}
	run.Series.Observed.Add(row("h", 0, queue(1, record.IRQCPU{CPU: 7, Count: 900})), // the warm-up
		row("h", 1, queue(1, record.IRQCPU{CPU: 2, Count: 90}), queue(0, record.IRQCPU{CPU: 0, Count: 10}), queue(2)),
		row("h", 2, queue(1, record.IRQCPU{CPU: 2, Count: 60}, record.IRQCPU{CPU: 3, Count: 50})),
		row("other", 1, queue(1, record.IRQCPU{CPU: 9, Count: 1})))
	want := []Interrupt{
		{IRQ: 40, Name: "eth0-Tx-Rx-0", PerS: 5, CPUs: []InterruptShare{{0, 1}}},
		{IRQ: 41, Name: "eth0-Tx-Rx-1", PerS: 100, CPUs: []InterruptShare{{2, .75}, {3, .25}}},
	}
	if got := Interrupts(run, "h"); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
