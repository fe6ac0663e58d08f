package export

import (
	"bufio"
	"fmt"
	"io"
	"math"
)

// ticksPerHalfDistance is HdrHistogram's default for this table.
const ticksPerHalfDistance = 5

// HGRM writes HdrHistogram's percentile table of one latency ("response", "service" or "lag"), as
// HdrHistogram's plotter and wrk2's readers expect it. Values are milliseconds with six decimals,
// so that nanoseconds show; the last line, a comment, says so.
func HGRM(out io.Writer, s *Source, of string) error {
	h, err := s.Histogram(of)
	if err != nil {
		return err
	}
	const ms = 1e6
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "%12s %14s %10s %14s\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)")
	for _, b := range h.CumulativeDistributionWithTicks(ticksPerHalfDistance) {
		share := b.Quantile / 100
		inverse := "inf"
		if x := 1 / (1 - share); !math.IsInf(x, 0) {
			inverse = fmt.Sprintf("%.2f", x)
		}
		fmt.Fprintf(w, "%12.6f %14.12f %10d %14s\n", float64(b.ValueAt)/ms, share, b.Count, inverse)
	}
	fmt.Fprintf(w, "#[Mean    = %12.6f, StdDeviation   = %12.6f]\n", h.Mean()/ms, h.StdDev()/ms)
	fmt.Fprintf(w, "#[Max     = %12.6f, Total count    = %12d]\n", float64(h.Max())/ms, h.TotalCount())
	fmt.Fprintf(w, "#[Unit    = ms, %s time of run %s]\n", of, s.Run.ID)
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write percentiles: %w", err)
	}
	return nil
}
