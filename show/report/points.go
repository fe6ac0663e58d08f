package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"ceiling/internal/lazy"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/verdict/audit"
	"ceiling/verdict/prose"
)

// pointsWidth is the width of the page that points are written on.
const pointsWidth = 128

// WritePoints writes what published measurements prove: a table per entry; then reasons,
// evidence, caveats and next steps, each sentence once with its points; the contradictions within
// and between points; the parts of the file that were not understood; and the number of points
// per outcome.
func WritePoints(w io.Writer, file *record.PointsFile, v *audit.PointsVerdict, l Layout) error {
	if len(file.Points) != len(v.Points) {
		return fmt.Errorf("write points: %d points, %d verdicts", len(file.Points), len(v.Points))
	}
	p := &printer{w: w, Layout: l}
	for _, e := range pointEntries(file.Points) {
		pointTable(p, e, file, v)
	}
	pointSections(p, file, v)
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

func pointTable(p *printer, e *pointEntry, file *record.PointsFile, v *audit.PointsVerdict) {
	head := "entry " + e.name
	if e.name == "" {
		head = "no entry"
	}
	p.line("%s", head)
	rows := [][]string{{"ID", "WHAT", "RATE", "VERDICT", "BASED ON"}}
	for _, i := range e.points {
		q := &file.Points[i]
		rate := "-"
		if q.RPS.Known {
			rate = unit.FormatRate(q.RPS.Value)
		}
		rows = append(rows, []string{oneLine(q.Label()), pointWhat(q), rate, pointVerdict(&v.Points[i].Verdict), pointBasis(&v.Points[i])})
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for c := range widths {
			widths[c] = max(widths[c], utf8.RuneCountInString(row[c]))
		}
	}
	p.narrow(widths)
	for _, row := range rows {
		var line strings.Builder
		line.WriteString("  ")
		for c, width := range widths {
			cell := ansi.Truncate(row[c], width, "…")
			pad := strings.Repeat(" ", width-utf8.RuneCountInString(cell))
			if c == 2 { // align rates right
				line.WriteString(pad + cell + "  ")
			} else {
				line.WriteString(cell + pad + "  ")
			}
		}
		p.line("%s", strings.TrimRight(line.String(), " "))
	}
	p.line("")
}

// narrow makes a table of points fit a screen: it cuts the measurements first, then the verdict's
// basis, then the verdict. In a pipe it cuts nothing.
func (p *printer) narrow(widths []int) {
	over := 2 - p.Width()
	for _, width := range widths {
		over += width + 2
	}
	for _, c := range []struct{ at, least int }{{1, 16}, {4, 6}, {3, 16}, {1, 8}, {0, 8}} {
		if cut := min(over, widths[c.at]-c.least); p.Screen && cut > 0 {
			widths[c.at] -= cut
			over -= cut
		}
	}
}

// pointBasis returns the source of the figures behind a verdict.
func pointBasis(v *audit.PointVerdict) string {
	switch {
	case len(v.From) > 0:
		return oneLine(strings.Join(v.From, ", "))
	case v.Verdict.Bottleneck == record.Inconclusive && v.Verdict.Outcome != record.Invalid:
		return ""
	}
	return "itself"
}

// pointWhat names a run by its request, server and load.
func pointWhat(q *record.Point) string {
	// A server's name can be a sentence; it is cut at the column's width.
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
	case v.Bottleneck == record.Inconclusive && v.Outcome == record.Invalid:
		return "invalid"
	case v.Outcome == record.Invalid:
		return string(v.Bottleneck) + " (invalid)"
	}
	return string(v.Bottleneck)
}

// said is a sentence and the points that it applies to.
type said struct {
	head   string // a word in front, or ""
	text   string // the first point's
	points []int
}

// figuresIn matches the figures in which the sentences of two points may differ.
var figuresIn = lazy.Regexp(`[\d][\d.,]*(?: ?(?:ns|µs|ms|s|k|M|G|kB|MB|GB|B))?\b`)

// fold merges sentences that differ only in their figures, and keeps the figures of the first.
func fold(list []said) []*said {
	var out []*said
	at := map[string]*said{}
	for i := range list {
		s := &list[i]
		key := s.head + "\x00" + figuresIn().ReplaceAllString(s.text, "#")
		if first := at[key]; first != nil {
			if !slices.Contains(first.points, s.points[0]) {
				first.points = append(first.points, s.points...)
			}
			continue
		}
		at[key] = s
		out = append(out, s)
	}
	return out
}

// pointSection writes sentences under a title, each with its points.
func pointSection(p *printer, title string, file *record.PointsFile, list []said) {
	folded := fold(list)
	if len(folded) == 0 {
		return
	}
	p.line("%s", title)
	width := 0
	for _, s := range folded {
		width = max(width, utf8.RuneCountInString(pointRanges(file.Points, s.points)))
	}
	width = min(width, pointsColumn)
	for _, s := range folded {
		of := pointRanges(file.Points, s.points)
		if s.head != "" {
			of = fmt.Sprintf("%-*s  %-12s", width, of, s.head)
		}
		text := s.text
		if len(s.points) > 1 {
			text += fmt.Sprintf(" (%d points; figures of point %s)", len(s.points), oneLine(file.Points[s.points[0]].Label()))
		}
		head := fmt.Sprintf("  %-*s  ", width, of)
		if n := utf8.RuneCountInString(head); n > width+4 && s.head == "" {
			// A long list of points gets its own line.
			p.line("%s", strings.TrimRight(head, " "))
			head = strings.Repeat(" ", width+4)
		}
		hanging(p, head, width+4+headWidth(s.head), text)
	}
	p.line("")
}

func headWidth(head string) int {
	if head == "" {
		return 0
	}
	return 14
}

// pointsColumn is the width from which a list of points gets its own line.
const pointsColumn = 24

// pointSections writes the reasons, evidence, caveats and next steps of all points.
func pointSections(p *printer, file *record.PointsFile, v *audit.PointsVerdict) {
	var because, evidence, caveats, next []said
	for i := range v.Points {
		one := &v.Points[i].Verdict
		at := []int{i}
		because = append(because, said{text: prose.Reason(one), points: at})
		for _, e := range one.Evidence {
			evidence = append(evidence, said{text: prose.Text(e.Says), points: at})
		}
		for _, d := range one.Caveats {
			if d.Code != audit.OwnFigures { // said under because of the points that are open
				caveats = append(caveats, said{text: prose.Text(d), points: at})
			}
		}
		next = append(next, said{text: prose.Sentence(one.Next), points: at})
	}
	pointSection(p, "because", file, because)
	pointSection(p, "evidence", file, evidence)
	pointSection(p, "caveats", file, caveats)
	pointSection(p, "next", file, next)
}

func pointInconsistencies(p *printer, file *record.PointsFile, v *audit.PointsVerdict) {
	var list []said
	for i := range v.Points {
		for _, x := range v.Points[i].Inconsistencies {
			list = append(list, said{head: x.Kind, text: prose.Text(x.Says), points: []int{i}})
		}
	}
	pointSection(p, "inconsistencies", file, list)
	if len(v.Between) == 0 {
		return
	}
	p.line("between points")
	for _, x := range v.Between {
		head := fmt.Sprintf("  %-12s  ", x.Kind)
		hanging(p, head, utf8.RuneCountInString(head), pointLabels(file.Points, x.Points)+": "+prose.Text(x.Says))
	}
	p.line("")
}

// pointRanges lists points, consecutive integers as "8–12", at most ten parts.
func pointRanges(points []record.Point, which []int) string {
	const most = 10
	var parts []string
	for k := 0; k < len(which); {
		end := k
		for end+1 < len(which) && follows(points[which[end]].ID, points[which[end+1]].ID) {
			end++
		}
		text := oneLine(points[which[k]].Label())
		switch {
		case end == k+1:
			end = k
		case end > k:
			text += "–" + oneLine(points[which[end]].Label())
		}
		if len(parts) == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(which)-k))
			break
		}
		parts = append(parts, text)
		k = end + 1
	}
	return strings.Join(parts, ", ")
}

// follows reports whether two ids are consecutive integers.
func follows(a, b string) bool {
	x, err := strconv.Atoi(a)
	y, err2 := strconv.Atoi(b)
	return err == nil && err2 == nil && y == x+1
}

// PointsJudgement is the JSON document of a file of points.
type PointsJudgement struct {
	Schema string `json:"schema"`
	audit.PointsVerdict
	NotUnderstood []record.UnknownKey `json:"not_understood"`
	Mistakes      []record.Mistake    `json:"mistakes"`
}

// WritePointsJSON writes the document, without merging sentences.
func WritePointsJSON(w io.Writer, file *record.PointsFile, v *audit.PointsVerdict) error {
	d := PointsJudgement{Schema: "ceiling.points/1", NotUnderstood: file.NotUnderstood, Mistakes: file.Mistakes}
	d.Points, d.Between = make([]audit.PointVerdict, len(v.Points)), spellAll(v.Between)
	for i := range v.Points {
		d.Points[i] = spell(v.Points[i])
	}
	if d.NotUnderstood == nil {
		d.NotUnderstood = []record.UnknownKey{}
	}
	if d.Mistakes == nil {
		d.Mistakes = []record.Mistake{}
	}
	return writeDocument(w, d)
}

// spell returns a verdict with its statements' sentences added to their codes.
func spell(v audit.PointVerdict) audit.PointVerdict {
	v.Verdict, v.Inconsistencies = prose.Spell(v.Verdict), spellAll(v.Inconsistencies)
	return v
}

func spellAll(list []audit.Inconsistency) []audit.Inconsistency {
	list = slices.Clone(list)
	for i := range list {
		list[i].Says.Text = prose.Text(list[i].Says)
	}
	return list
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

// pointsNotRead lists the parts of the file that the verdicts ignore.
func pointsNotRead(p *printer, file *record.PointsFile) {
	for _, m := range file.Mistakes {
		hanging(p, "", 2, fmt.Sprintf("line %d: %s: %s", m.Line, oneLine(m.Key), m.Says))
		p.line("%s", m.Excerpt)
	}
	if len(file.Mistakes) > 0 {
		p.line("These figures are ignored.")
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

func pointSummary(p *printer, v *audit.PointsVerdict) {
	counts := map[string]int{}
	var names []string
	inconsistent, doubtful, own, others := 0, 0, 0, 0
	for i := range v.Points {
		name := pointVerdict(&v.Points[i].Verdict)
		if counts[name] == 0 {
			names = append(names, name)
		}
		counts[name]++
		if len(v.Points[i].Inconsistencies) > 0 {
			inconsistent++
		}
		switch one := &v.Points[i]; {
		case len(one.From) > 0:
			others++
		case one.Verdict.Bottleneck != record.Inconclusive:
			own++
		case slices.Contains(one.Missing, "client_cpu_pct"):
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
	hanging(p, "", 2, fmt.Sprintf("%s: %s", unit.Plural(len(v.Points), "point", "points"), strings.Join(parts, " · ")))
	hanging(p, "", 2, fmt.Sprintf("%d named by their own figures, %d from other points; %d open because the generator's CPU is not stated",
		own, others, doubtful))
	hanging(p, "", 2, fmt.Sprintf("%d with figures that contradict each other or mislead, %s between them", inconsistent,
		unit.Plural(len(v.Between), "contradiction", "contradictions")))
}

// hanging writes head and then text, with continuation lines indented to column indent.
func hanging(p *printer, head string, indent int, text string) {
	room := max(pointsWidth, indent+40)
	if p.Screen {
		room, indent = p.Width(), min(indent, 6)
		head = ansi.Truncate(head, room-indent-2, "…")
	}
	line, used := head, utf8.RuneCountInString(head)
	empty := true
	for _, word := range strings.Fields(oneLine(text)) {
		if p.Screen {
			word = ansi.Truncate(word, room-indent, "…")
		}
		n := utf8.RuneCountInString(word)
		if p.Screen && empty && used+n > room {
			p.line("%s", strings.TrimRight(line, " "))
			line, used = strings.Repeat(" ", indent), indent
		}
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
