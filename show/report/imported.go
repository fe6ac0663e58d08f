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
	"ceiling/record"
	"ceiling/show/importer"
)

// Imported writes another tool's result, and whether its figures can be used.
func Imported(w io.Writer, name string, r *importer.Result, l Layout) error {
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
	verdict, target := record.Valid, "URL"
	if r.Invalid {
		verdict = record.Invalid
	}
	if r.Target != "" {
		target = oneLine(secret.Plain().URL(r.Target))
	}
	p.fact("verdict", string(verdict))
	p.fact("bottleneck", string(record.Inconclusive)+": no tool prints the CPU of both hosts and the use of the link")
	importedFact(p, "next", "measure both ends: ceiling run "+target)
	for i, text := range r.Caveats {
		importedFact(p, []string{"caveats", ""}[min(i, 1)], text)
	}
	return p.err
}

// WriteImportedJSON writes the JSON document of one result.
func WriteImportedJSON(w io.Writer, name string, r *importer.Result) error {
	shown := *r
	shown.Target = secret.Plain().URL(r.Target)
	return writeDocument(w, struct {
		Schema string           `json:"schema"`
		File   string           `json:"file"`
		Result *importer.Result `json:"result"`
	}{"ceiling.judged/2", name, &shown})
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

// oneLine strips control characters from a file's text, which could otherwise control the
// terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}
