package face

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// WrkBegin writes what wrk prints before a run.
func WrkBegin(w io.Writer, r *Run) error {
	_, err := fmt.Fprintf(w, "Running %s test @ %s\n  %d threads and %d connections\n", wrkSeconds(r.Asked), r.URL, r.Threads, r.Done.Spec.Connections)
	return err
}

// WrkEnd writes wrk's report; latency adds its distribution (--latency). Req/Sec is per thread, as in
// wrk: here the rate of all, divided by the threads that were asked for.
func WrkEnd(w io.Writer, r *Run, latency bool) error {
	var b strings.Builder
	q, spread, threads := &r.Done.Latency.Response, &r.Done.Rate.Spread, float64(max(r.Threads, 1))
	fmt.Fprintf(&b, "  Thread Stats%6s%11s%8s%12s\n", "Avg", "Stdev", "Max", "+/- Stdev")
	wrkLine(&b, "Latency", wrkTime, q.MeanNs/1e3, q.StdevNs/1e3, float64(q.MaxNs)/1e3, q.WithinStdev)
	wrkLine(&b, "Req/Sec", wrkMetric, r.Done.Rate.CompletedPerS/threads, spread.StdevPerS/threads, spread.MaxPerS/threads, spread.WithinStdev)
	if latency {
		b.WriteString("  Latency Distribution\n")
		for _, p := range []struct {
			percent int
			ns      int64
		}{{50, q.P50Ns}, {75, q.P75Ns}, {90, q.P90Ns}, {99, q.P99Ns}} {
			fmt.Fprintf(&b, "%7d%%%s\n", p.percent, wrkPadded(wrkTime(float64(p.ns)/1e3), 10))
		}
	}
	fmt.Fprintf(&b, "  %d requests in %s, %sB read\n", r.Done.Requests.Completed, wrkTime(r.Done.ElapsedS*1e6), wrkBinary(float64(r.Done.Bytes.Read)))
	if f := r.Failures(); f.Connect+f.Read+f.Write+f.Timeout > 0 {
		fmt.Fprintf(&b, "  Socket errors: connect %d, read %d, write %d, timeout %d\n", f.Connect, f.Read, f.Write, f.Timeout)
	}
	if n := r.Failures().Status; n > 0 {
		fmt.Fprintf(&b, "  Non-2xx or 3xx responses: %d\n", n)
	}
	perS := 0.0
	if r.Done.ElapsedS > 0 {
		perS = float64(r.Done.Bytes.Read) / r.Done.ElapsedS
	}
	fmt.Fprintf(&b, "Requests/sec: %9.2f\nTransfer/sec: %10sB\n", r.Done.Rate.CompletedPerS, wrkBinary(perS))
	_, err := io.WriteString(w, b.String())
	return err
}

func wrkLine(b *strings.Builder, name string, unit func(float64) string, mean, stdev, most, within float64) {
	fmt.Fprintf(b, "    %-10s%s%s%s%8.2f%%\n", name, wrkPadded(unit(mean), 8), wrkPadded(unit(stdev), 10), wrkPadded(unit(most), 9), 100*within)
}

// wrkPadded aligns numbers whatever the length of their units: each takes two columns.
func wrkPadded(text string, width int) string {
	digits := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzGKMPT")
	pad := max(2-(len(text)-len(digits)), 0)
	return fmt.Sprintf("%*s%*s", width-pad, text, pad, "")
}

// wrkUnits scales a number: from 85 % of the next unit on it is written in that.
func wrkUnits(n, scale float64, digits int, units ...string) string {
	at := 0
	for ; at < len(units)-1 && n >= 0.85*scale; at++ {
		n /= scale
	}
	return fmt.Sprintf("%.*f%s", digits, n, units[at])
}

// wrkTime writes microseconds.
func wrkTime(us float64) string {
	if us >= 1e6 {
		return wrkUnits(us/1e6, 60, 2, "s", "m")
	}
	return wrkUnits(us, 1000, 2, "us", "ms")
}

func wrkMetric(n float64) string { return wrkUnits(n, 1000, 2, "", "k", "M", "G", "T") }
func wrkBinary(n float64) string { return wrkUnits(n, 1024, 2, "", "K", "M", "G", "T") }

func wrkSeconds(d time.Duration) string { return wrkUnits(d.Seconds(), 60, 0, "s", "m") }
