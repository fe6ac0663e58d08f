package chart

import (
	"reflect"
	"testing"

	"ceiling/record"
)

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
