package hist

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

const hour = int64(time.Hour)

func TestHDRRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOf(rapid.OneOf(rapid.Int64Range(0, 5000), rapid.Int64Range(0, hour))).Draw(t, "values")
		h := histOf(values)
		text, err := h.EncodeV2()
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := DecodeV2(text)
		if err != nil {
			t.Fatal(err)
		}
		if !decoded.Equals(h.HDR()) {
			t.Fatal("the decoded histogram differs from the encoded one")
		}
		back := FromHDR(decoded)
		if back.counts != h.counts || back.Count() != h.Count() {
			t.Fatal("counts changed on the way")
		}
		check := func(what string, got, want float64) {
			if d := got - want; d > want/256 || -d > want/256 {
				t.Fatalf("%s came back as %v, was %v", what, got, want)
			}
		}
		if back.Min() > h.Min() || back.Max() < h.Max() {
			t.Fatalf("%d..%d came back as %d..%d, which does not hold it", h.Min(), h.Max(), back.Min(), back.Max())
		}
		check("min", float64(back.Min()), float64(h.Min()))
		check("max", float64(back.Max()), float64(h.Max()))
		check("mean", back.Mean(), h.Mean())
	})
}

func TestHDRAgreesOnQuantiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := histOf(rapid.SliceOfN(rapid.Int64Range(0, hour), 1, 200).Draw(t, "values"))
		hdr := h.HDR()
		if hdr.TotalCount() != int64(h.Count()) {
			t.Fatalf("HDR counts %d, want %d", hdr.TotalCount(), h.Count())
		}
		// The ends, not those between: HdrHistogram rounds a rank to the nearest, we round it up.
		for _, q := range []float64{0, 1} {
			ours, theirs := h.Quantile(q), hdr.ValueAtPercentile(100*q)
			if d := max(ours, theirs) - min(ours, theirs); d > ours/1000 {
				t.Fatalf("quantile %v: ours %d, HDR %d", q, ours, theirs)
			}
		}
	})
}

func TestHDRClampsToAnHour(t *testing.T) {
	h := histOf([]int64{1, 2 * hour, 3 * hour})
	hdr := h.HDR()
	if got := hdr.Max(); got < hour || got > hour+hour/1000 || hdr.TotalCount() != 3 {
		t.Errorf("HDR max %d, count %d", got, hdr.TotalCount())
	}
}

func FuzzDecodeV2(f *testing.F) {
	for _, values := range [][]int64{nil, {1}, {0, 500, 1_000_000, hour}} {
		text, err := histOf(values).EncodeV2()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add("HISTFAAA")
	f.Fuzz(func(t *testing.T, text string) {
		decoded, err := DecodeV2(text)
		if err != nil {
			return
		}
		h := FromHDR(decoded)
		if h.Count() != uint64(decoded.TotalCount()) {
			t.Fatalf("decoded %d counts, took over %d", decoded.TotalCount(), h.Count())
		}
		sum := new(Hist)
		sum.Merge(h)
		if *sum != *h {
			t.Fatal("merging a decoded histogram into an empty one differs from it")
		}
		if h.Count() > 0 && (h.Quantile(0.5) < h.Min() || h.Quantile(0.5) > h.Max()) {
			t.Fatalf("median %d outside %d..%d", h.Quantile(0.5), h.Min(), h.Max())
		}
	})
}
