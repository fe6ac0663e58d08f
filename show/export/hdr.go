package export

import (
	"bufio"
	"fmt"
	"io"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// HDR writes an HdrHistogram log (version 1.3) with one interval, the whole
// run, for each of the latencies asked for, tagged with its name. Values are
// nanoseconds; the maximum that stands before a histogram is milliseconds, as
// the format wants it.
func HDR(out io.Writer, s *Source, latencies ...string) error {
	buf := bufio.NewWriter(out)
	w := hdrhistogram.NewHistogramLogWriter(buf)
	startMs := s.Run.Started.UnixMilli()
	w.SetBaseTime(startMs)
	for _, write := range []func() error{
		func() error { return w.OutputComment("[ceiling run " + s.Run.ID + ", values in nanoseconds]") },
		w.OutputLogFormatVersion,
		func() error { return w.OutputBaseTime(startMs) },
		func() error { return w.OutputStartTime(startMs) },
		w.OutputLegend,
	} {
		if err := write(); err != nil {
			return fmt.Errorf("write log: %w", err)
		}
	}
	for _, of := range latencies {
		h, err := s.Histogram(of)
		if err != nil {
			return err
		}
		h.SetTag(of)
		h.SetStartTimeMs(startMs)
		h.SetEndTimeMs(startMs + int64(s.Run.ElapsedS*1e3))
		if err := w.OutputIntervalHistogram(h); err != nil {
			return fmt.Errorf("write log: %w", err)
		}
	}
	if err := buf.Flush(); err != nil {
		return fmt.Errorf("write log: %w", err)
	}
	return nil
}
