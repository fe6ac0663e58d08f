package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"ceiling/internal/unit"
	"ceiling/record"
	judged "ceiling/verdict"
)

// pointsWidth is the width of the page that points are written on.
const pointsWidth = 128

// WritePoints writes what published measurements prove: a table for each
// entry, the contradictions of each point and between points, what was not
// understood of the file, and how many came out as what.
func WritePoints(w io.Writer, file *record.PointsFile, v *judged.PointsVerdict) error {
	if len(file.Points) != len(v.Points) {
		return fmt.Errorf("write points: %d points, %d verdicts", len(file.Points), len(v.Points))
	}
	p := &printer{w: w}
	for _, e := range pointEntries(file.Points) {
		pointTable(p, e, file, v)
	}
	pointInconsistencies(p, file, v)
	pointsNotRead(p, file)
	pointSummary(p, v)
	return p.err
}

// pointEntry is the points of one journal page.
type pointEntry struct {
	name   string
	points []int
}

func pointEntries(points []record.Point) []*pointEntry {
	var list []*pointEntry
	index := map[string]*pointEntry{}
	for i := range points {
		name := oneLine(points[i].Entry)
		if index[name] == nil {
			index[name] = &pointEntry{name: name}
			list = append(list, index[name])
		}
		index[name].points = append(index[name].points, i)
	}
	return list
}

func pointTable(p *printer, e *pointEntry, file *record.PointsFile, v *judged.PointsVerdict) {
	head := "entry " + e.name
	if e.name == "" {
		head = "no entry"
	}
	p.line("%s", head)
	rows := [][]string{{"ID", "WHAT", "RATE", "VERDICT", "BECAUSE"}}
	for _, i := range e.points {
		q := &file.Points[i]
		rate := "-"
		if q.RPS.Known {
			rate = unit.FormatRate(q.RPS.Value)
		}
		rows = append(rows, []string{oneLine(q.Label()), pointWhat(q), rate, pointVerdict(&v.Points[i].Verdict), pointBecause(&v.Points[i].Verdict)})
	}
	widths := make([]int, len(rows[0])-1)
	for _, row := range rows {
		for c := range widths {
			widths[c] = max(widths[c], utf8.RuneCountInString(row[c]))
		}
	}
	indent := 2
	for _, width := range widths {
		indent += width + 2
	}
	for _, row := range rows {
		var line strings.Builder
		line.WriteString("  ")
		for c, width := range widths {
			pad := strings.Repeat(" ", width-utf8.RuneCountInString(row[c]))
			if c == 2 { // rates stand right
				line.WriteString(pad + row[c] + "  ")
			} else {
				line.WriteString(row[c] + pad + "  ")
			}
		}
		hanging(p, line.String(), indent, row[len(row)-1])
	}
	p.line("")
}

// pointWhat names a run by its load: what was asked of which server.
func pointWhat(q *record.Point) string {
	// The name of a server can be a sentence; it is cut where columns end.
	const most = 30
	kind := []rune(oneLine(q.ServerKind))
	if len(kind) > most {
		kind = append(kind[:most-1], '…')
	}
	text := strings.TrimSpace(string(kind) + " " + oneLine(q.Route))
	if q.Connections.Known {
		text += fmt.Sprintf(" · %s", unit.FormatCount(int64(q.Connections.Value)))
		if q.Pipelining.Known && q.Pipelining.Value != 1 {
			text += fmt.Sprintf("×%s", unit.FormatCount(int64(q.Pipelining.Value)))
		}
	}
	if q.TargetRPS.Known {
		text += " · asked " + unit.FormatSI(q.TargetRPS.Value)
	}
	return strings.TrimPrefix(text, " · ")
}

func pointVerdict(v *record.Verdict) string {
	switch {
	case v.Ceiling == judged.Undetermined && v.Outcome == record.Void:
		return "void"
	case v.Outcome == record.Void:
		return v.Ceiling + " (void)"
	}
	return v.Ceiling
}

// pointBecause leaves out what the column before has said.
func pointBecause(v *record.Verdict) string { return strings.TrimPrefix(v.Because, "undetermined: ") }

func pointInconsistencies(p *printer, file *record.PointsFile, v *judged.PointsVerdict) {
	said := false
	title := func() {
		if !said {
			p.line("inconsistencies")
			said = true
		}
	}
	width := 0
	for i := range v.Points {
		width = max(width, utf8.RuneCountInString(oneLine(v.Points[i].Label)))
	}
	for i := range v.Points {
		for k, x := range v.Points[i].Inconsistencies {
			title()
			label := oneLine(v.Points[i].Label)
			if k > 0 {
				label = ""
			}
			head := fmt.Sprintf("  %-*s  %-12s", width, label, x.Kind)
			hanging(p, head, utf8.RuneCountInString(head), x.Says)
		}
	}
	for _, x := range v.Between {
		title()
		head := fmt.Sprintf("  %-*s  %-12s", width, "", x.Kind)
		hanging(p, head, utf8.RuneCountInString(head), pointLabels(file.Points, x.Points)+": "+x.Says)
	}
	if said {
		p.line("")
	}
}

// pointLabels lists points, at most ten by name.
func pointLabels(points []record.Point, which []int) string {
	const most = 10
	var parts []string
	for k, i := range which {
		if k == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(which)-most))
			break
		}
		parts = append(parts, oneLine(points[i].Label()))
	}
	return strings.Join(parts, ", ")
}

// pointsNotRead names what of the file did not enter the verdicts.
func pointsNotRead(p *printer, file *record.PointsFile) {
	for _, m := range file.Mistakes {
		p.line("line %d: %s: %s", m.Line, oneLine(m.Key), m.Says)
		p.line("%s", m.Excerpt)
	}
	if len(file.Mistakes) > 0 {
		p.line("These figures count as not stated.")
		p.line("")
	}
	var parts []string
	for _, k := range file.NotUnderstood {
		text := fmt.Sprintf("%s (line %d", oneLine(k.Key), k.Line)
		if k.Times > 1 {
			text += fmt.Sprintf(", %d times", k.Times)
		}
		parts = append(parts, text+")")
	}
	if len(parts) > 0 {
		hanging(p, "not understood, and not used: ", 2, strings.Join(parts, ", "))
		p.line("")
	}
}

func pointSummary(p *printer, v *judged.PointsVerdict) {
	counts := map[string]int{}
	var names []string
	inconsistent, doubtful := 0, 0
	for i := range v.Points {
		name := pointVerdict(&v.Points[i].Verdict)
		if counts[name] == 0 {
			names = append(names, name)
		}
		counts[name]++
		if len(v.Points[i].Inconsistencies) > 0 {
			inconsistent++
		}
		if slices.Contains(v.Points[i].Missing, "client_cpu_pct") {
			doubtful++
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	var parts []string
	for _, name := range names {
		parts = append(parts, fmt.Sprintf("%d %s", counts[name], name))
	}
	if len(parts) == 0 {
		p.line("no points")
		return
	}
	p.line("%s: %s", plural(len(v.Points), "point"), strings.Join(parts, " · "))
	p.line("%d with figures that contradict each other or mislead, %s between them; %d open for want of the generator's CPU",
		inconsistent, plural(len(v.Between), "contradiction"), doubtful)
}

// hanging writes head and then text, whose further lines begin at column
// indent.
func hanging(p *printer, head string, indent int, text string) {
	line, used := head, utf8.RuneCountInString(head)
	empty := true
	room := max(pointsWidth, indent+40)
	for _, word := range strings.Fields(oneLine(text)) {
		n := utf8.RuneCountInString(word)
		if !empty && used+1+n > room {
			p.line("%s", strings.TrimRight(line, " "))
			line, used, empty = strings.Repeat(" ", indent), indent, true
		}
		if !empty {
			line, used = line+" ", used+1
		}
		line, used, empty = line+word, used+n, false
	}
	p.line("%s", strings.TrimRight(line, " "))
}

// oneLine takes control characters out of a text from a file, which could
// otherwise write to the terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}
