package page

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ceiling/internal/hist"
	"ceiling/record"
	"ceiling/show/chart"
)

// RunsMost is how many runs one page takes: more lines than that cannot be told
// apart.
const RunsMost = 12

// histogramMost bounds a .hdr file. One of every bucket between 1 ns and 1 h is
// 60 kB.
const histogramMost = 4 << 20

// Open reads a run with everything a page shows of it. A histogram that is
// damaged is left out, and named among what was not measured. The error is of
// one line.
func Open(dir string) (chart.Run, error) {
	r, series, err := record.Open(dir)
	if err != nil {
		return chart.Run{}, err
	}
	run := chart.Run{Run: r, Series: &series}
	for _, one := range []struct {
		name string
		into **hist.Hist
		text string
	}{
		{"response", &run.Response, r.Latency.Response.HDR},
		{"service", &run.Service, r.Latency.Service.HDR},
		{"lag", &run.Lag, r.Latency.Lag.HDR},
	} {
		h, err := histogram(filepath.Join(dir, one.name+".hdr"), one.text)
		if err != nil {
			r.NotMeasured = append(r.NotMeasured, record.NotMeasured{What: one.name + " time by percentile", Why: err.Error()})
			continue
		}
		*one.into = h
	}
	if !r.Unfinished && len(series.Problems) > 0 {
		r.NotMeasured = append(r.NotMeasured, record.NotMeasured{What: "series", Why: strings.Join(series.Problems, "; "), Part: true})
	}
	return run, nil
}

// histogram reads a .hdr file, or the text that a record carries in its place.
// A file that is not there is no error: an unfinished run has none.
func histogram(path, text string) (*hist.Hist, error) {
	if data, err := readFile(path); err == nil {
		text = data
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if text == "" {
		return nil, nil
	}
	h, err := hist.DecodeV2(strings.TrimSpace(text))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return hist.FromHDR(h), nil
}

func readFile(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > histogramMost {
		return "", fmt.Errorf("read %s: no file of at most %d bytes", path, histogramMost)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, histogramMost))
	return string(data), err
}
