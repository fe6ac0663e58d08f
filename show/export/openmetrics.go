package export

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// contentType is the Content-Type of OpenMetrics 1.0 ("Protocol Negotiation").
const contentType = "application/openmetrics-text; version=1.0.0; charset=utf-8"

// Prometheus writes the run's metrics as OpenMetrics 1.0 text: names that begin with ceiling_,
// base units, "# EOF" at the end. It writes no timestamps: Prometheus' textfile collector and
// Pushgateway reject them.
func Prometheus(out io.Writer, s *Source) error {
	return writeOpenMetrics(out, figuresOf(s))
}

func writeOpenMetrics(out io.Writer, list figures) error {
	w := bufio.NewWriter(out)
	for _, f := range list {
		family := "ceiling_" + f.name
		if f.unit != "" {
			family += "_" + f.unit
		}
		fmt.Fprintf(w, "# TYPE %s %s\n", family, f.kind)
		if f.unit != "" {
			fmt.Fprintf(w, "# UNIT %s %s\n", family, f.unit)
		}
		fmt.Fprintf(w, "# HELP %s %s\n", family, escape(f.help))
		for _, p := range f.points {
			writePoint(w, family, &f, &p)
		}
	}
	w.WriteString("# EOF\n")
	if err := w.Flush(); err != nil { // a bufio.Writer keeps its first error
		return fmt.Errorf("write metrics: %w", err)
	}
	return nil
}

// String returns OpenMetrics' name of the kind.
func (k figureKind) String() string {
	return [...]string{"counter", "gauge", "info", "histogram"}[k]
}

func writePoint(w *bufio.Writer, family string, f *figure, p *point) {
	sample := func(suffix string, value string, more ...label) {
		w.WriteString(family + suffix)
		labels := append(p.labels[:len(p.labels):len(p.labels)], more...)
		for i, l := range labels {
			w.WriteString(map[bool]string{true: "{", false: ","}[i == 0] + l.name + `="` + escape(l.value) + `"`)
		}
		if len(labels) > 0 {
			w.WriteString("}")
		}
		w.WriteString(" " + value + "\n")
	}
	switch f.kind {
	case counter:
		sample("_total", number(p.value))
	case info:
		sample("_info", "1")
	case gauge:
		sample("", number(p.value))
	case histogram:
		var sum uint64
		for i, bound := range p.spread.bounds {
			sum += p.spread.counts[i]
			sample("_bucket", strconv.FormatUint(sum, 10), label{"le", bucketBound(bound)})
		}
		sample("_bucket", strconv.FormatUint(p.spread.count, 10), label{"le", "+Inf"})
		sample("_count", strconv.FormatUint(p.spread.count, 10))
		sample("_sum", number(p.spread.sum))
	}
}

// number formats a value with the fewest digits that preserve it; integers have no exponent up to
// 2^53, the limit of exact integers in a float64.
func number(v float64) string {
	if v == float64(int64(v)) && v < 1<<53 && v > -1<<53 {
		return strconv.FormatInt(int64(v), 10)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// bucketBound formats a bound in canonical form: with a point or an exponent.
func bucketBound(v float64) string {
	text := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return text
}

// escape escapes label values and help text (OpenMetrics 1.0, "escaped-string").
func escape(text string) string {
	if !strings.ContainsAny(text, "\\\n\"") {
		return text
	}
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`).Replace(text)
}
