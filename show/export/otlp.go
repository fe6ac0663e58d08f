package export

import (
	"encoding/json"
	"io"
	"strconv"
	"time"
)

// The body of an OTLP/HTTP metrics request in JSON (opentelemetry-proto 1, collector/metrics/v1):
// protobuf's JSON mapping, so 64-bit integers are strings and enumerations numbers.
// docs/decisions/020-otlp-by-hand.md explains why it is written by hand.
type (
	otlpRequest struct {
		ResourceMetrics []otlpResourceMetrics `json:"resourceMetrics"`
	}
	otlpResourceMetrics struct {
		Resource     otlpResource       `json:"resource"`
		ScopeMetrics []otlpScopeMetrics `json:"scopeMetrics"`
	}
	otlpResource struct {
		Attributes []otlpAttribute `json:"attributes"`
	}
	otlpAttribute struct {
		Key   string    `json:"key"`
		Value otlpValue `json:"value"`
	}
	otlpValue struct {
		StringValue string `json:"stringValue"`
	}
	otlpScopeMetrics struct {
		Scope   otlpScope    `json:"scope"`
		Metrics []otlpMetric `json:"metrics"`
	}
	otlpScope struct {
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
	}
	otlpMetric struct {
		Name        string         `json:"name"`
		Description string         `json:"description,omitempty"`
		Unit        string         `json:"unit,omitempty"`
		Gauge       *otlpGauge     `json:"gauge,omitempty"`
		Sum         *otlpSum       `json:"sum,omitempty"`
		Histogram   *otlpHistogram `json:"histogram,omitempty"`
	}
	otlpGauge struct {
		DataPoints []otlpNumber `json:"dataPoints"`
	}
	otlpSum struct {
		DataPoints  []otlpNumber `json:"dataPoints"`
		Temporality int          `json:"aggregationTemporality"`
		Monotonic   bool         `json:"isMonotonic"`
	}
	otlpHistogram struct {
		DataPoints  []otlpSpread `json:"dataPoints"`
		Temporality int          `json:"aggregationTemporality"`
	}
	otlpNumber struct {
		Attributes []otlpAttribute `json:"attributes,omitempty"`
		Start      string          `json:"startTimeUnixNano,omitempty"`
		Time       string          `json:"timeUnixNano"`
		Double     float64         `json:"asDouble"`
	}
	otlpSpread struct {
		Attributes []otlpAttribute `json:"attributes,omitempty"`
		Start      string          `json:"startTimeUnixNano,omitempty"`
		Time       string          `json:"timeUnixNano"`
		Count      string          `json:"count"`
		Sum        float64         `json:"sum"`
		Counts     []string        `json:"bucketCounts"`
		Bounds     []float64       `json:"explicitBounds"`
	}
)

// cumulative is AGGREGATION_TEMPORALITY_CUMULATIVE.
const cumulative = 2

// OTLP writes the body to post to a collector's /v1/metrics.
func OTLP(out io.Writer, s *Source) error {
	r := s.Run
	end := r.Started.Add(time.Duration(r.ElapsedS * 1e9))
	return json.NewEncoder(out).Encode(otlpOf(figuresOf(s), about{run: r.ID, version: r.Environment.Version, host: r.Environment.Host},
		r.Started, end))
}

// about identifies the sender of a request.
type about struct{ run, version, host string }

// otlpOf returns a request with one resource: this run.
func otlpOf(list figures, a about, start, now time.Time) otlpRequest {
	t := otlpTimes{nanos(start), nanos(now)}
	metrics := make([]otlpMetric, 0, len(list))
	for i := range list {
		metrics = append(metrics, t.metric(&list[i]))
	}
	return otlpRequest{[]otlpResourceMetrics{{
		Resource: otlpResource{attributes([]label{
			{"service.name", "ceiling"}, {"service.version", a.version}, {"service.instance.id", a.run}, {"host.name", a.host},
		})},
		ScopeMetrics: []otlpScopeMetrics{{Scope: otlpScope{Name: "ceiling", Version: a.version}, Metrics: metrics}},
	}}}
}

// otlpTimes is the interval of all data points.
type otlpTimes struct{ start, now string }

func nanos(t time.Time) string {
	if t.IsZero() {
		return "0"
	}
	return strconv.FormatInt(t.UnixNano(), 10)
}

func (t otlpTimes) metric(f *figure) otlpMetric {
	m := otlpMetric{Name: "ceiling." + f.name, Description: f.help, Unit: unitUCUM(f.unit)}
	if f.kind == histogram {
		m.Histogram = &otlpHistogram{Temporality: cumulative}
		for _, p := range f.points {
			m.Histogram.DataPoints = append(m.Histogram.DataPoints, t.spread(&p))
		}
		return m
	}
	var points []otlpNumber
	for _, p := range f.points {
		n := otlpNumber{Attributes: attributes(p.labels), Time: t.now, Double: p.value}
		if f.kind == counter {
			n.Start = t.start
		}
		points = append(points, n)
	}
	if f.kind == counter {
		m.Sum = &otlpSum{DataPoints: points, Temporality: cumulative, Monotonic: true}
	} else {
		m.Gauge = &otlpGauge{DataPoints: points}
	}
	return m
}

func (t otlpTimes) spread(p *point) otlpSpread {
	s := otlpSpread{
		Attributes: attributes(p.labels), Start: t.start, Time: t.now,
		Count: strconv.FormatUint(p.spread.count, 10), Sum: p.spread.sum,
		Counts: []string{}, Bounds: append([]float64{}, p.spread.bounds...),
	}
	for _, n := range p.spread.counts {
		s.Counts = append(s.Counts, strconv.FormatUint(n, 10))
	}
	return s
}

// attributes drops labels without a value.
func attributes(labels []label) []otlpAttribute {
	var list []otlpAttribute
	for _, l := range labels {
		if l.value != "" {
			list = append(list, otlpAttribute{l.name, otlpValue{l.value}})
		}
	}
	return list
}

// unitUCUM converts an OpenMetrics unit to UCUM, which OTLP uses.
func unitUCUM(unit string) string {
	switch unit {
	case "seconds":
		return "s"
	case "bytes":
		return "By"
	}
	return "1"
}
