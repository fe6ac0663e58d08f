package face

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// GoWrkBegin writes what go-wrk prints before a run.
func GoWrkBegin(w io.Writer, r *Run) error {
	_, err := fmt.Fprintf(w, "Running %vs test @ %v\n  %v goroutine(s) running concurrently\n", r.Asked.Seconds(), r.URL, r.Done.Spec.Connections)
	return err
}

// GoWrkEnd writes go-wrk's report. Its percentiles are a hundredth of what they are called (it asks
// its histogram for 0.5 where 50 is meant); these are what they are called.
func GoWrkEnd(w io.Writer, r *Run) error {
	var b strings.Builder
	f := r.Failures()
	errors := f.Connect + f.Read + f.Write + f.Timeout + f.Status
	counts := func() {
		fmt.Fprintf(&b, "Number of Errors:\t%v\n", errors)
		if errors > 0 {
			var list []string
			for _, cause := range slices.Sorted(maps.Keys(f.ByCause)) {
				list = append(list, fmt.Sprintf("%s=%d", cause, f.ByCause[cause]))
			}
			fmt.Fprintf(&b, "Error Counts:\t\t%s\n", strings.Join(list, ","))
		}
	}
	good := r.Done.Requests.Completed - min(f.Status, r.Done.Requests.Completed)
	if good == 0 {
		b.WriteString("Error: No statistics collected / no requests found\n")
		counts()
		_, err := io.WriteString(w, b.String())
		return err
	}
	h := r.Response
	took := time.Duration(h.Mean() * float64(h.Count()) / float64(max(r.Done.Spec.Connections, 1))).Round(time.Nanosecond) // of a goroutine
	perS := func(n uint64, of time.Duration) float64 { return float64(n) / max(of.Seconds(), 1e-9) }
	fmt.Fprintf(&b, "%v requests in %v, %v read\n", good, took, goWrkBytes(float64(r.Done.Bytes.Read)))
	fmt.Fprintf(&b, "Requests/sec:\t\t%.2f\nTransfer/sec:\t\t%v\n", perS(good, took), goWrkBytes(perS(r.Done.Bytes.Read, took)))
	fmt.Fprintf(&b, "Overall Requests/sec:\t%.2f\nOverall Transfer/sec:\t%v\n", perS(good, r.elapsed()), goWrkBytes(perS(r.Done.Bytes.Read, r.elapsed())))
	us := func(ns int64) time.Duration { return time.Duration(ns).Truncate(time.Microsecond) }
	fmt.Fprintf(&b, "Fastest Request:\t%v\nAvg Req Time:\t\t%v\nSlowest Request:\t%v\n", us(h.Min()), us(int64(h.Mean())), us(h.Max()))
	counts()
	for _, p := range []struct {
		line string
		q    float64
	}{{"10%:\t\t\t", .1}, {"50%:\t\t\t", .5}, {"75%:\t\t\t", .75}, {"99%:\t\t\t", .99}, {"99.9%:\t\t\t", .999}, {"99.9999%:\t\t", .999999},
		{"99.99999%:\t\t", .9999999}} {
		fmt.Fprintf(&b, "%s%v\n", p.line, us(h.Quantile(p.q)))
	}
	deviation, _ := h.Deviation()
	fmt.Fprintf(&b, "stddev:\t\t\t%v\n", us(int64(deviation)))
	_, err := io.WriteString(w, b.String())
	return err
}

func goWrkBytes(n float64) string {
	for _, u := range []struct {
		above  float64
		suffix string
	}{{1 << 30, "GB"}, {1 << 20, "MB"}, {1 << 10, "KB"}} {
		if n > u.above {
			return fmt.Sprintf("%.2f%s", n/u.above, u.suffix)
		}
	}
	return fmt.Sprintf("%.2fbytes", n)
}
