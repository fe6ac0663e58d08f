package export

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// vegetaReport is what `vegeta report -type=json` prints (vegeta 12,
// lib/metrics.go). Durations are nanoseconds.
type vegetaReport struct {
	Latencies  vegetaLatencies   `json:"latencies"`
	BytesIn    vegetaBytes       `json:"bytes_in"`
	BytesOut   vegetaBytes       `json:"bytes_out"`
	Earliest   time.Time         `json:"earliest"`
	Latest     time.Time         `json:"latest"`
	End        time.Time         `json:"end"`
	Duration   time.Duration     `json:"duration"`
	Wait       time.Duration     `json:"wait"`
	Requests   uint64            `json:"requests"`
	Rate       float64           `json:"rate"`
	Throughput float64           `json:"throughput"`
	Success    float64           `json:"success"`
	Statuses   map[string]uint64 `json:"status_codes"`
	Errors     []string          `json:"errors"`
}

type vegetaLatencies struct {
	Total int64 `json:"total"`
	Mean  int64 `json:"mean"`
	P50   int64 `json:"50th"`
	P90   int64 `json:"90th"`
	P95   int64 `json:"95th"`
	P99   int64 `json:"99th"`
	Max   int64 `json:"max"`
	Min   int64 `json:"min"`
}

type vegetaBytes struct {
	Total uint64  `json:"total"`
	Mean  float64 `json:"mean"`
}

// Vegeta writes vegeta's JSON report. Latencies are response times. Three differences from
// vegeta's own are reported in s.Problems: bytes include heads and framing, requests in flight at
// the end are not counted as requests, and the time of the last request is the end of the
// configured duration.
func Vegeta(out io.Writer, s *Source) error {
	r := s.Run
	if r.ElapsedS <= 0 || r.Requests.Completed+r.Requests.Failed == 0 {
		return errors.New("vegeta's report needs a request that has ended; this run has none")
	}
	h, err := s.Histogram("response")
	if err != nil {
		return fmt.Errorf("vegeta's report has the 95th percentile: %w", err)
	}
	q := &r.Latency.Response
	n := r.Requests.Completed + r.Requests.Failed
	elapsed := time.Duration(r.ElapsedS * 1e9)
	duration := elapsed
	if r.Spec.Open() && r.Spec.Duration > 0 {
		duration = min(duration, r.Spec.Duration)
	}
	report := vegetaReport{
		Latencies: vegetaLatencies{
			Total: int64(q.MeanNs * float64(q.Count)), Mean: int64(q.MeanNs),
			P50: q.P50Ns, P90: q.P90Ns, P95: h.ValueAtPercentile(95), P99: q.P99Ns, Max: q.MaxNs, Min: q.MinNs,
		},
		BytesIn:  vegetaBytes{r.Bytes.Read, float64(r.Bytes.Read) / float64(n)},
		BytesOut: vegetaBytes{r.Bytes.Written, float64(r.Bytes.Written) / float64(n)},
		Earliest: r.Started, Latest: r.Started.Add(duration), End: r.Started.Add(elapsed),
		Duration: duration, Wait: elapsed - duration,
		Requests: n, Rate: float64(n) / duration.Seconds(),
		Statuses: map[string]uint64{}, Errors: s.vegetaErrors(),
	}
	var good uint64
	for status, count := range r.Statuses {
		report.Statuses[status] = count
		if code, err := strconv.Atoi(status); err == nil && code >= 200 && code < 400 {
			good += count
		}
	}
	if r.Requests.Failed > 0 {
		report.Statuses["0"] = r.Requests.Failed // vegeta's key for "no response"
	}
	report.Throughput, report.Success = float64(good)/elapsed.Seconds(), float64(good)/float64(n)
	s.Problems = append(s.Problems, "bytes_in and bytes_out have heads and framing in them, which vegeta leaves out")
	if r.Requests.InFlight > 0 {
		s.Problems = append(s.Problems, fmt.Sprintf("%d requests in flight at the end are not in it", r.Requests.InFlight))
	}
	return json.NewEncoder(out).Encode(&report)
}

// vegetaErrors returns the distinct errors of the window in vegeta's form: statuses with their
// text, other errors in ceiling's words.
func (s *Source) vegetaErrors() []string {
	list := []string{}
	for _, e := range s.Run.Errors {
		if e.BeforeWindow {
			continue
		}
		text := e.Cause + " (" + e.Phase + ")"
		if code, err := strconv.Atoi(e.Cause); e.Phase == "status" && err == nil {
			text = e.Cause + " " + http.StatusText(code)
		}
		if !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return list
}
