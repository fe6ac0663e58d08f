package live

import (
	"math"
	"math/rand/v2"
	"testing"

	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/verdict"
)

// TestReadersAgreeOnProcesses: the verdict, a page's table and the live view have the same cores and the same
// busiest thread, of processes of which some came late, rows that are missing and readings that went backwards.
func TestReadersAgreeOnProcesses(t *testing.T) {
	for seed := range uint64(50) {
		chance := rand.New(rand.NewPCG(seed, 3))
		run, series := fixture(t, 2e9)
		var list []*record.ProcessRow
		board := rows{latestNs: 1e9}
		for i := range 10 {
			for pid := 1; pid <= 2; pid++ {
				if pid == 2 && i < 5 || chance.IntN(8) == 0 {
					continue
				}
				row := &record.ProcessRow{Role: record.RoleSubject, PID: pid, Comm: "srv", CPUNs: chance.Int64N(1e8) - 1e6, QueueNs: chance.Int64N(1e6)}
				row.Busiest = []record.ThreadUse{{TID: 10 * pid, RunNs: row.CPUNs / 2}, {TID: 10*pid + chance.IntN(3), RunNs: row.CPUNs / 4}}
				row.ObservedHead = record.ObservedHead{Kind: record.KindProcess, Host: run.Environment.Host, TNs: int64(i+1) * 1e8, WidthNs: 1e8}
				list = append(list, row)
				board.addObserved(row)
			}
		}
		series.Observed.Processes = list
		screen := endsOf(&board, run.Environment.Host).Server
		var cores, busiest float64
		for _, p := range chart.Processes(&chart.Run{Run: run, Series: series}) {
			cores, busiest = cores+p.Cores, max(busiest, p.Busiest)
		}
		var judged, thread float64
		for _, u := range verdict.Judge(run, series).Uses {
			switch u.What {
			case record.UseOfCores:
				judged = u.Used
			case record.UseOfThread:
				thread = u.Used
			}
		}
		if math.Abs(screen.Cores-cores) > 1e-9 || math.Abs(screen.Cores-judged) > 1e-9 {
			t.Errorf("seed %d: %g cores on the screen, %g on the page, %g by the verdict", seed, screen.Cores, cores, judged)
		}
		if math.Abs(screen.Busiest-busiest) > 1e-9 || math.Abs(busiest-thread) > 1e-9 {
			t.Errorf("seed %d: busiest thread %g on the screen, %g on the page, %g by the verdict", seed, screen.Busiest, busiest, thread)
		}
	}
}
