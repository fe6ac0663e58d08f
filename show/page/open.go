package page

import (
	"strings"

	"ceiling/internal/hist"
	"ceiling/record"
	"ceiling/show/chart"
)

// RunsMost limits the runs on a page: more lines are indistinguishable.
const RunsMost = 12

// Open reads a run with everything a page shows of it. It skips a damaged histogram and lists it
// as not measured. The error is one line.
func Open(f record.File) (chart.Run, error) {
	run, _, err := OpenCopy(f)
	return run, err
}

// OpenCopy is Open for a copy; it also returns what the copy lacks.
func OpenCopy(f record.File) (chart.Run, []record.Omission, error) {
	c, err := record.Read(f)
	if err != nil {
		return chart.Run{}, nil, err
	}
	r := c.Run
	run := chart.Run{Run: r, Series: &c.Series, ProfileFiles: map[string][]byte{}}
	if r.Profiling != nil {
		for i := range c.Attachments {
			run.ProfileFiles[c.Attachments[i].Name] = c.Attachments[i].Bytes()
		}
	}
	for _, one := range []struct {
		name string
		into **hist.Hist
		text string
	}{
		{"response", &run.Response, r.Latency.Response.HDR},
		{"service", &run.Service, r.Latency.Service.HDR},
		{"lag", &run.Lag, r.Latency.Lag.HDR},
	} {
		if c.Histograms[one.name] == "" {
			c.Histograms[one.name] = one.text // the document may contain it
		}
		h, err := c.Histogram(one.name)
		if err != nil {
			r.NotMeasured = append(r.NotMeasured, record.NotMeasured{What: one.name + " time by percentile", Why: err.Error()})
			continue
		}
		*one.into = h
	}
	if !r.Unfinished && len(c.Series.Problems) > 0 {
		r.NotMeasured = append(r.NotMeasured, record.NotMeasured{What: "series", Why: strings.Join(c.Series.Problems, "; "), Part: true})
	}
	return run, c.LeftOut, nil
}
