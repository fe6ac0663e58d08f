package hist

import (
	"fmt"
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// HDR converts h to an HdrHistogram of 1 ns to 1 h with three significant digits. Each bucket is
// recorded at its middle, except one count each for the exact minimum and maximum. Values over an
// hour are recorded as an hour. It allocates about 190 KiB.
//
// HdrHistogram counts in int64; HDR panics if more than 2^63−1 values were recorded (29,000 years
// at ten million a second).
func (h *Hist) HDR() *hdrhistogram.Histogram {
	out := hdrhistogram.New(1, int64(time.Hour), 3)
	record := func(ns int64, n uint64) {
		if err := out.RecordValues(min(ns, int64(time.Hour)), int64(n)); err != nil {
			panic(fmt.Sprintf("hist: record %d × %d ns in HdrHistogram: %v", n, ns, err))
		}
	}
	if h.n == 0 {
		return out
	}
	lo, hi := h.used()
	for i := lo; i <= hi; i++ {
		n := h.counts[i]
		// With a single value, Min and Max are the same one.
		if i == lo && n > 0 {
			record(h.Min(), 1)
			n--
		}
		if i == hi && n > 0 {
			record(h.Max(), 1)
			n--
		}
		if n > 0 {
			record(h.middle(i), n)
		}
	}
	return out
}

// FromHDR converts o to a Hist, for merging what another process has encoded: each bucket of o
// counts at its middle. Counts per bucket of a Hist that was sent as HDR come back unchanged up
// to an hour; Min and Max come back within one part in 1024, Sum within the bucket widths.
func FromHDR(o *hdrhistogram.Histogram) *Hist {
	h := new(Hist)
	lowest, highest := int64(math.MaxInt64), int64(0)
	for _, bar := range o.Distribution() {
		if bar.Count <= 0 {
			continue
		}
		h.RecordN(bar.From+(bar.To-bar.From)/2, uint64(bar.Count))
		lowest, highest = min(lowest, bar.From), max(highest, bar.To)
	}
	if h.n > 0 {
		h.minC, h.max = max(h.minC, ^uint64(lowest)), max(h.max, uint64(highest))
	}
	return h
}

// EncodeV2 encodes h as HdrHistogram's base64 text of the compressed V2 format, the common
// interchange format. It takes about a millisecond: never call it on a load thread.
func (h *Hist) EncodeV2() (string, error) {
	text, err := h.HDR().EncodeV2()
	if err != nil {
		return "", fmt.Errorf("encode histogram: %w", err)
	}
	return string(text), nil
}

// DecodeV2 decodes the output of EncodeV2, or of any other writer of HdrHistogram V2 compressed
// base64. Use FromHDR to merge it.
func DecodeV2(text string) (*hdrhistogram.Histogram, error) {
	h, err := hdrhistogram.Decode([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("decode histogram: %w", err)
	}
	return h, nil
}
