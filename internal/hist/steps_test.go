package hist

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Every value is counted once, in the step between whose bounds it lies, but for the rounding of bounds to buckets.
func TestSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.OneOf(rapid.Int64Range(0, 600), rapid.Int64Range(0, topNs)), 1, 50).Draw(t, "values")
		first, counts := histOf(values).Steps()
		want := map[int]uint64{}
		for _, v := range values {
			step := 0
			if v > 0 {
				step = stepOf(index(uint64(v)))
			}
			want[step]++
			if v > 0 && (float64(v) < StepNs(step)*.997 || float64(v) > StepNs(step+1)*1.003) {
				t.Fatalf("%d ns is in the step from %.1f to %.1f", v, StepNs(step), StepNs(step+1))
			}
		}
		all := uint64(0)
		for i, n := range counts {
			if n != want[first+i] {
				t.Fatalf("step %d counts %d, want %d", first+i, n, want[first+i])
			}
			all += n
		}
		if all != uint64(len(values)) || counts[0] == 0 || counts[len(counts)-1] == 0 || first+len(counts) > StepsMost {
			t.Fatalf("%d of %d counted from step %d: %v", all, len(values), first, counts)
		}
	})
}

func TestStepsOfNothing(t *testing.T) {
	if first, counts := new(Hist).Steps(); first != 0 || counts != nil {
		t.Errorf("%d %v", first, counts)
	}
	if got := StepNs(8) / StepNs(4); math.Abs(got-2) > 1e-9 {
		t.Errorf("four steps are a factor of %v", got)
	}
}
