package face

import (
	"math"
	"slices"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/hist"
	"ceiling/record"
)

// TestResultsOfARun: as many results as responses, each latency within 0.2 % of one that was measured,
// each end within its interval, and the statuses in their numbers.
func TestResultsOfARun(t *testing.T) {
	r := &Run{Hits: &Hits{}, Done: &record.Run{Started: time.Unix(1000, 0), Spec: spec.Spec{Targets: []spec.Target{{Method: "GET", URL: "http://h/"}}},
		Requests: record.Requests{Completed: 290, Failed: 10}, Bytes: record.Bytes{Read: 2900},
		Statuses: map[string]uint64{"200": 200, "204": 60, "503": 30},
		Errors:   []record.Error{{Phase: record.PhaseStatus, Cause: "503", Count: 30}, {Phase: record.PhaseResponse, Cause: "timeout", Count: 10}}}}
	var measured []int64
	for i := range 3 {
		var h hist.Hist
		for k := range 100 {
			ns := int64(1000 * (1 + k*k*(i+1)))
			measured = append(measured, ns)
			h.Record(ns)
		}
		row := &record.LoadRow{TNs: int64(i+1) * 1e8, WidthNs: 1e8, Completed: 100, Bad: 10, Failed: uint64(i) * 10 / 3}
		if i == 2 {
			row.Failed = 7
		}
		r.Add(row, &h)
	}
	codes, errs := map[uint16]int{}, map[string]int{}
	var got []int64
	ends := map[int]int{}
	err := r.Hits.Each(r, "a", func(x *Result) error {
		got = append(got, int64(x.Latency))
		codes[x.Code]++
		errs[x.Error]++
		ends[int(x.Timestamp.Add(x.Latency).Sub(r.Done.Started)/(100*time.Millisecond))]++
		if x.Seq != uint64(len(got)-1) || x.BytesIn != 10 || x.Attack != "a" || x.Method != "GET" || x.URL != "http://h/" {
			t.Errorf("%+v", x)
		}
		return nil
	})
	if err != nil || len(got) != 300 || ends[0] != 100 || ends[1] != 100 || ends[2] != 100 {
		t.Fatalf("%d results, %v, ends by interval %v", len(got), err, ends)
	}
	if slices.IsSorted(got[:100]) {
		t.Error("within an interval the latencies rise")
	}
	slices.Sort(got)
	slices.Sort(measured)
	for i := range got {
		if off := math.Abs(float64(got[i]-measured[i])) / float64(measured[i]); off > 0.002 {
			t.Fatalf("%d ns where %d were measured", got[i], measured[i])
		}
	}
	if codes[503] != 30 || codes[0] != 10 || codes[200]+codes[204] != 260 || codes[204] < 59 || codes[204] > 61 || errs["response: timeout"] != 10 ||
		errs["503 Service Unavailable"] != 30 {
		t.Errorf("%v, %v", codes, errs)
	}
}
