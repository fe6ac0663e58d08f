package report

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"ceiling/internal/secret"
	"ceiling/internal/unit"
	"ceiling/show/importer"
	"ceiling/verdict/audit"
	"ceiling/verdict/prose"
)

// Imported writes another tool's result and what the audit says about it.
func Imported(w io.Writer, name string, r *importer.Result, v *audit.PointVerdict, l Layout) error {
	p := &printer{w: w, Layout: l}
	p.text(0, oneLine(name)+" · "+importedLoad(r))
	p.line("")
	p.line("Requests/sec: %14.2f   %s in %s", r.CompletedPerS, responses(r.Requests), seconds(r.DurationS))
	p.line("")
	importedFact(p, "latency", importedLatency(r))
	importedFact(p, "statuses", importedStatuses(r))
	if len(r.Errors) == 0 {
		p.fact("errors", "none printed")
	}
	for i, e := range r.Errors {
		if i == 5 {
			p.fact("", fmt.Sprintf("%d more with --json", len(r.Errors)-i))
			break
		}
		importedFact(p, []string{"errors", ""}[min(i, 1)], fmt.Sprintf("%s × %s", unit.FormatCount(int64(e.Count)), oneLine(e.What)))
	}
	if r.BytesRead != nil {
		what := "with heads"
		if r.BodiesOnly {
			what = "bodies only"
		}
		text := fmt.Sprintf("%s (%s)", unit.FormatBytesSI(int64(*r.BytesRead)), what)
		if r.Requests > 0 {
			text += fmt.Sprintf(", %s each", unit.FormatBytesSI(int64(*r.BytesRead/r.Requests)))
		}
		p.fact("read", text)
	}
	p.line("")
	p.fact("verdict", string(v.Verdict.Outcome))
	importedFact(p, "bottleneck", string(v.Verdict.Bottleneck)+": "+prose.Reason(&v.Verdict))
	importedList(p, "evidence", evidenceTexts(v))
	importedList(p, "caveats", append(inconsistencyTexts(v), append(prose.Texts(v.Verdict.Caveats), r.Caveats...)...))
	importedList(p, "missing", missingTexts(v))
	importedFact(p, "next", prose.Sentence(v.Verdict.Next))
	return p.err
}

// ImportedJudgement is the JSON document of one audited result.
type ImportedJudgement struct {
	Schema string              `json:"schema"`
	File   string              `json:"file"`
	Result *importer.Result    `json:"result"`
	Judged *audit.PointVerdict `json:"judged"`
}

// WriteImportedJSON writes the document.
func WriteImportedJSON(w io.Writer, name string, r *importer.Result, v *audit.PointVerdict) error {
	shown := *r
	shown.Target = secret.Plain().URL(r.Target)
	judged := spell(*v)
	return writeDocument(w, ImportedJudgement{Schema: "ceiling.judged/1", File: name, Result: &shown, Judged: &judged})
}

func writeDocument(w io.Writer, document any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(document)
}

// importedFact writes a named text with hanging continuation lines.
func importedFact(p *printer, name, text string) {
	p.fact(name, oneLine(text))
}

func importedList(p *printer, name string, texts []string) {
	for i, text := range texts {
		importedFact(p, []string{name, ""}[min(i, 1)], text)
	}
}

func responses(n uint64) string {
	return unit.Plural(int(min(n, math.MaxInt)), "response", "responses")
}

// importedLoad describes the tool's load settings, as far as its output shows them.
func importedLoad(r *importer.Result) string {
	parts := []string{r.Tool}
	for _, n := range []struct {
		count int
		of    string
	}{{r.Workers, "thread"}, {r.Connections, "connection"}} {
		if n.count > 0 {
			parts = append(parts, unit.Plural(n.count, n.of, n.of+"s"))
		}
	}
	if r.Pipelining > 1 {
		parts = append(parts, fmt.Sprintf("%d in flight on each", r.Pipelining))
	}
	if r.Loop != "" {
		parts = append(parts, r.Loop+" loop")
	}
	if r.Target != "" {
		parts = append(parts, oneLine(secret.Plain().URL(r.Target)))
	}
	return strings.Join(parts, " · ")
}

func importedLatency(r *importer.Result) string {
	var parts []string
	for _, q := range r.Quantiles {
		text := "< " + unit.FormatNs(q.ResolutionNs)
		if q.Ns > 0 {
			text = unit.FormatNs(q.Ns)
		}
		parts = append(parts, "p"+strconv.FormatFloat(math.Round(q.Q*1e9)/1e7, 'f', -1, 64)+" "+text)
	}
	if r.MeanNs != nil {
		text := unit.FormatNs(*r.MeanNs)
		if *r.MeanNs == 0 {
			text = "< " + unit.FormatNs(max(r.MeanDigitNs, 1))
		}
		parts = append(parts, "mean "+text)
	}
	if r.MaxNs != nil {
		parts = append(parts, "max "+unit.FormatNs(*r.MaxNs))
	}
	if len(parts) == 0 {
		return "not printed"
	}
	from := "from sending"
	if r.From == importer.FromDue {
		from = "from when a request was due"
	}
	return strings.Join(parts, " · ") + " (" + from + ")"
}

func importedStatuses(r *importer.Result) string {
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(r.Statuses)) {
		parts = append(parts, fmt.Sprintf("%s × %s", oneLine(status), unit.FormatCount(int64(r.Statuses[status]))))
	}
	if len(parts) == 0 {
		return "not printed"
	}
	return strings.Join(parts, " · ")
}

func evidenceTexts(v *audit.PointVerdict) []string {
	var texts []string
	for _, e := range v.Verdict.Evidence {
		texts = append(texts, prose.Text(e.Says))
	}
	return texts
}

func inconsistencyTexts(v *audit.PointVerdict) []string {
	var texts []string
	for _, x := range v.Inconsistencies {
		if x.Kind != audit.KindResolution { // the tool's caveats already state it
			texts = append(texts, prose.Text(x.Says))
		}
	}
	return texts
}

// missingTexts states how to obtain each missing figure.
func missingTexts(v *audit.PointVerdict) []string {
	how := map[string]string{
		"client_cpu_pct": "CPU of the generator's host, every category: mpstat -P ALL 1, while it runs",
		"server_cpu_pct": "CPU of the server's host, every category: mpstat -P ALL 1, while it runs",
		"client_workers": "how many threads or processes the generator ran",
		"client_vcpus":   "how many CPUs its host has: nproc",
		"nic_gbps":       "speed of the link between the two: ethtool IFACE; none on loopback",
		"connections":    "how many connections it kept",
		"pipelining":     "how many requests were in flight on each connection (1 where the tool does not pipeline)",
		"p50_ms":         "the median latency",
		"nic_mb_s":       "bytes on the link (sar -n DEV 1), or of a response",
	}
	var texts []string
	for _, key := range v.Missing {
		if text := how[key]; text != "" {
			texts = append(texts, key+": "+text)
		}
	}
	if len(texts) > 0 {
		texts = append(texts, "add them to the rate in a points file and judge that: docs/points.md")
	}
	return texts
}
