package live

import (
	"math"
	"testing"

	"ceiling/record"
)

// The live view's cores are those of the verdict: a process that came within the last second used
// nothing before.
func TestEndIsOneUseOfTheCPU(t *testing.T) {
	var r rows
	var list []*record.ProcessRow
	for i := range 10 {
		for pid := 1; pid <= 2; pid++ {
			if pid == 2 && i < 5 {
				continue
			}
			row := &record.ProcessRow{Role: record.RoleSubject, PID: pid, Comm: "srv", CPUNs: 8e7}
			row.ObservedHead = record.ObservedHead{Kind: record.KindProcess, Host: "h", TNs: int64(i+1) * 1e8, WidthNs: 1e8}
			list = append(list, row)
			r.addObserved(row)
		}
	}
	use := record.ProcessCPUOf(list)
	want := use.Cores(record.ProcessID{Host: "h", PID: 1}) + use.Cores(record.ProcessID{Host: "h", PID: 2})
	if got := endsOf(&r, "h").Server.Cores; math.Abs(got-want) > 1e-9 || math.Abs(want-1.2) > 1e-9 {
		t.Errorf("%v cores, want %v", got, want)
	}
}
