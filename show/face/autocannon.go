package face

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"ceiling/internal/hist"
)

// Autocannon is what autocannon's command line says about its output.
type Autocannon struct {
	Title string
	// Table adds all percentiles (--latency), Quiet leaves the tables out (-n), Statuses adds the
	// count of each status code (--renderStatusCodes).
	Table, Quiet, Statuses bool
	Workers                int // as asked for; 0: none
}

// AutocannonBegin writes what autocannon prints before a run.
func AutocannonBegin(w io.Writer, r *Run, o *Autocannon) error {
	what := fmt.Sprintf("%d connections", r.Done.Spec.Connections)
	if r.Done.Spec.Pipelining > 1 {
		what += fmt.Sprintf(" with %d pipelining factor", r.Done.Spec.Pipelining)
	}
	if o.Workers > 0 {
		what += fmt.Sprintf("\n%d workers", o.Workers)
	}
	begins := fmt.Sprintf("Running %gs test @ %s", r.Asked.Seconds(), r.URL)
	if r.Done.Spec.Requests > 0 {
		begins = fmt.Sprintf("Running %d requests test @ %s", r.Done.Spec.Requests, r.URL)
	}
	_, err := fmt.Fprintf(w, "%s\n%s\n\n\n", begins, what)
	return err
}

// cannonPercentiles are those of its histograms.
func cannonPercentiles() []float64 {
	return []float64{0.001, 0.01, 0.1, 1, 2.5, 10, 25, 50, 75, 90, 97.5, 99, 99.9, 99.99, 99.999}
}

func cannonKey(percentile float64) string {
	return "p" + strings.ReplaceAll(strconv.FormatFloat(percentile, 'f', -1, 64), ".", "_")
}

// cannonStat is one of its histograms: of latencies in milliseconds, or of a count per second.
type cannonStat struct {
	mean, stddev, min, max float64
	at                     func(q float64) float64
}

func cannonLatency(h *hist.Hist) cannonStat {
	const ms = 1e6
	deviation, _ := h.Deviation()
	if h.Count() == 0 {
		return cannonStat{at: func(float64) float64 { return 0 }}
	}
	return cannonStat{h.Mean() / ms, deviation / ms, float64(h.Min()) / ms, float64(h.Max()) / ms,
		func(q float64) float64 { return float64(h.Quantile(q)) / ms }}
}

// cannonCounts is a histogram of what the seconds have.
func cannonCounts(seconds []Second, of func(Second) uint64) cannonStat {
	var h hist.Hist
	for _, s := range seconds {
		h.Record(int64(of(s)))
	}
	if h.Count() == 0 {
		return cannonStat{at: func(float64) float64 { return 0 }}
	}
	var squares float64
	for _, s := range seconds {
		squares += math.Pow(float64(of(s))-h.Mean(), 2)
	}
	return cannonStat{h.Mean(), math.Sqrt(squares / float64(len(seconds))), float64(h.Min()), float64(h.Max()),
		func(q float64) float64 { return float64(h.Quantile(q)) }}
}

// whole are the seconds that the run lasted; a last part of one is left out unless it is all.
func (r *Run) whole() []Second {
	if n := int(r.Done.ElapsedS + 0.05); n >= 1 && n < len(r.Seconds) {
		return r.Seconds[:n]
	}
	return r.Seconds
}

func (r *Run) cannonStats() (latency, requests, bytes cannonStat) {
	seconds := r.whole()
	return cannonLatency(r.Response), cannonCounts(seconds, func(s Second) uint64 { return s.Completed }),
		cannonCounts(seconds, func(s Second) uint64 { return s.Read })
}

func hundredths(x float64) float64 { return math.Round(100*x) / 100 }

func (s *cannonStat) object() map[string]any {
	m := map[string]any{"average": hundredths(s.mean), "mean": hundredths(s.mean), "stddev": hundredths(s.stddev), "min": hundredths(s.min),
		"max": hundredths(s.max)}
	for _, p := range cannonPercentiles() {
		m[cannonKey(p)] = hundredths(s.at(p / 100))
	}
	return m
}

// AutocannonJSON writes its document (--json).
func AutocannonJSON(w io.Writer, r *Run, o *Autocannon) error {
	latency, requests, bytes := r.cannonStats()
	f := r.Failures()
	m := map[string]any{
		"url": r.URL, "connections": r.Done.Spec.Connections, "sampleInt": 1000, "pipelining": r.Done.Spec.Pipelining, "duration": hundredths(r.Done.ElapsedS),
		"samples": len(r.whole()), "start": r.Done.Started.UTC().Format("2006-01-02T15:04:05.000Z07:00"),
		"finish": r.Done.Started.Add(r.elapsed()).UTC().Format("2006-01-02T15:04:05.000Z07:00"),
		"errors": f.Connect + f.Read + f.Write + f.Timeout, "timeouts": f.Timeout, "mismatches": f.Mismatch, "resets": 0,
		"latency": latency.object(), "requests": requests.object(), "throughput": bytes.object(),
	}
	m["latency"].(map[string]any)["totalCount"] = r.Response.Count()
	m["requests"].(map[string]any)["total"], m["requests"].(map[string]any)["sent"] = r.Done.Requests.Completed, r.Done.Requests.Sent
	m["throughput"].(map[string]any)["total"] = r.Done.Bytes.Read
	codes, classes := map[string]any{}, map[byte]uint64{}
	for code, n := range r.Done.Statuses {
		codes[code] = map[string]any{"count": n}
		classes[code[0]] += n
	}
	m["statusCodeStats"], m["non2xx"] = codes, r.Done.Requests.Completed-min(classes['2'], r.Done.Requests.Completed)
	for class := byte('1'); class <= '5'; class++ {
		m[string(class)+"xx"] = classes[class]
	}
	if o.Title != "" {
		m["title"] = o.Title
	}
	m["workers"] = o.Workers
	return json.NewEncoder(w).Encode(m)
}

// AutocannonEnd writes its tables.
func AutocannonEnd(w io.Writer, r *Run, o *Autocannon) error {
	if o.Quiet {
		return nil
	}
	latency, requests, bytes := r.cannonStats()
	var b strings.Builder
	ms := func(x float64) string { return cannonNumber(x) + " ms" }
	b.WriteString(cannonTable([][]string{{"Stat", "2.5%", "50%", "97.5%", "99%", "Avg", "Stdev", "Max"},
		{"Latency", ms(latency.at(.025)), ms(latency.at(.5)), ms(latency.at(.975)), ms(latency.at(.99)), ms(latency.mean), ms(latency.stddev),
			ms(latency.max)}}))
	row := func(name string, s *cannonStat, unit func(float64) string) []string {
		return []string{name, unit(s.at(.01)), unit(s.at(.025)), unit(s.at(.5)), unit(s.at(.975)), unit(s.mean), unit(s.stddev), unit(s.min)}
	}
	b.WriteString(cannonTable([][]string{{"Stat", "1%", "2.5%", "50%", "97.5%", "Avg", "Stdev", "Min"},
		row("Req/Sec", &requests, cannonGrouped), row("Bytes/Sec", &bytes, cannonBytes)}))
	fmt.Fprintf(&b, "\nReq/Bytes counts sampled once per second.\n# of samples: %d\n\n", len(r.whole()))
	if o.Table {
		rows := [][]string{{"Percentile", "Latency (ms)"}}
		for _, p := range cannonPercentiles() {
			rows = append(rows, []string{strconv.FormatFloat(p, 'f', -1, 64), cannonNumber(latency.at(p / 100))})
		}
		b.WriteString(cannonTable(rows) + "\n")
	}
	r.cannonCounts(&b, o)
	_, err := io.WriteString(w, b.String())
	return err
}

// cannonCounts writes the lines below the tables.
func (r *Run) cannonCounts(b *strings.Builder, o *Autocannon) {
	var good uint64
	rows := [][]string{{"Code", "Count"}}
	for code := 100; code < 600; code++ {
		n := r.Done.Statuses[strconv.Itoa(code)]
		if code/100 == 2 {
			good += n
		}
		if n > 0 {
			rows = append(rows, []string{strconv.Itoa(code), strconv.FormatUint(n, 10)})
		}
	}
	if o.Statuses {
		b.WriteString(cannonTable(rows) + "\n")
	}
	if bad := r.Done.Requests.Completed - min(good, r.Done.Requests.Completed); bad > 0 {
		fmt.Fprintf(b, "%d 2xx responses, %d non 2xx responses\n", good, bad)
	}
	fmt.Fprintf(b, "%s requests in %ss, %s read\n", cannonThousands(r.Done.Requests.Sent), cannonNumber(r.Done.ElapsedS), cannonBytes(float64(r.Done.Bytes.Read)))
	if f := r.Failures(); f.Connect+f.Read+f.Write+f.Timeout > 0 {
		fmt.Fprintf(b, "%s errors (%s timeouts)\n", cannonThousands(f.Connect+f.Read+f.Write+f.Timeout), cannonThousands(f.Timeout))
	}
}

// cannonGrouped writes a number with commas between thousands.
func cannonGrouped(x float64) string {
	text := cannonNumber(x)
	whole, rest, _ := strings.Cut(text, ".")
	for at := len(whole) - 3; at > 0; at -= 3 {
		whole = whole[:at] + "," + whole[at:]
	}
	if rest != "" {
		whole += "." + rest
	}
	return whole
}

func cannonNumber(x float64) string { return strconv.FormatFloat(hundredths(x), 'f', -1, 64) }

// cannonThousands shortens a count from 10,000 on.
func cannonThousands(n uint64) string {
	if n < 10_000 {
		return strconv.FormatUint(n, 10)
	}
	return fmt.Sprintf("%.0fk", float64(n)/1000)
}

// cannonBytes writes three digits and a decimal unit.
func cannonBytes(n float64) string {
	units, at := []string{"B", "kB", "MB", "GB", "TB"}, 0
	for ; n >= 1000 && at < len(units)-1; at++ {
		n /= 1000
	}
	return strconv.FormatFloat(n, 'g', 3, 64) + " " + units[at]
}

// cannonTable draws a table, the first row as its head.
func cannonTable(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell)+2)
		}
	}
	var b strings.Builder
	rule := func(left, cross, right string) {
		for i, n := range widths {
			if i > 0 {
				left = cross
			}
			b.WriteString(left + strings.Repeat("─", n))
		}
		b.WriteString(right + "\n")
	}
	rule("┌", "┬", "┐")
	for i, row := range rows {
		if i > 0 {
			rule("├", "┼", "┤")
		}
		for j, cell := range row {
			b.WriteString("│ " + cell + strings.Repeat(" ", widths[j]-1-utf8.RuneCountInString(cell)))
		}
		b.WriteString("│\n")
	}
	rule("└", "┴", "┘")
	return b.String()
}
