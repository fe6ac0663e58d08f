package terminal

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/layout"
	"ceiling/show/live"
	"ceiling/show/path"
)

// History is the rate over the whole run, for the sparkline.
type History struct {
	// AtS is the end of each interval on the run's clock, in seconds.
	AtS, PerS []float64
}

// line is a line of a frame. If there are too few rows, lines with the highest rank are dropped
// first; rank 0 is always kept.
type line struct {
	text string
	rank int
}

// frame is a frame under construction.
type frame struct {
	s     *live.Snapshot
	trail History
	width int
	names int // width of the names on the left
	lines []line
}

// Frame renders a snapshot in at most height lines of less than width columns, with ANSI colours.
func Frame(s *live.Snapshot, trail History, width, height int) []string {
	// Leave the last column free: some terminals wrap as soon as it is written.
	f := &frame{s: s, trail: trail, width: max(width-1, 10), names: 10}
	if f.width >= namesFrom {
		f.names = path.NameWidth + 1
	}
	f.head()
	f.figures()
	f.path()
	f.machines()
	f.verdict()
	return f.fit(max(height, 1))
}

// namesFrom is the width from which the left column has room for the names of a path.
const namesFrom = 48

func (f *frame) add(rank int, text string) {
	f.lines = append(f.lines, line{layout.Truncate(text, f.width, "…"), rank})
}

func (f *frame) blank() { f.lines = append(f.lines, line{"", 9}) }

// named adds a line with a name in the first column.
func (f *frame) named(rank int, name, text string) {
	if layout.TextWidth(name) >= f.names {
		name = ""
	}
	f.add(rank, quiet.of(fmt.Sprintf("%-*s", f.names, name))+text)
}

// fit drops lines that do not fit, least important first and from the bottom.
func (f *frame) fit(height int) []string {
	for len(f.lines) > height {
		at := 0
		for i := range f.lines {
			if f.lines[i].rank >= f.lines[at].rank {
				at = i
			}
		}
		f.lines = append(f.lines[:at], f.lines[at+1:]...)
	}
	out := make([]string, len(f.lines))
	for i := range f.lines {
		out[i] = f.lines[i].text
	}
	return out
}

func (f *frame) head() {
	s := f.s
	f.add(1, strong.of(clean(s.Title())))
	if load := s.Load(); load != "" {
		f.add(6, quiet.of(load))
	}
	if plan := s.PlanSays(); plan != "" {
		f.add(1, clean(plan))
		if s.Plan.Doing != "" && s.Plan.Answer == "" {
			f.add(4, quiet.of(clean(s.Plan.Doing)))
		}
	}
	says := clean(s.Doing())
	if t := s.Time(); t != "" {
		if says == "running" {
			says = t
		} else {
			says += " · " + t
		}
	}
	bar := min(f.width-layout.TextWidth(says)-2, 48)
	if bar >= 10 && s.Progress.Share >= 0 {
		says = f.bar(s.Progress.Share, bar) + "  " + says
	}
	f.add(0, says)
	f.blank()
}

// bar draws a share of a width.
func (f *frame) bar(share float64, width int) string {
	full := int(math.Round(min(max(share, 0), 1) * float64(width)))
	return blue.of(strings.Repeat("━", full)) + quiet.of(strings.Repeat("─", width-full))
}

func (f *frame) figures() {
	s := f.s
	if s.Last == nil {
		f.named(0, "rate", "no data yet")
		return
	}
	rate := fmt.Sprintf("%-13s", unit.FormatRate(s.LastPerS))
	so := ""
	if s.SoFar.Intervals > 0 && f.width >= 60 {
		so = fmt.Sprintf("  %s in the window", unit.FormatRate(s.SoFar.PerS))
	}
	room := f.width - f.names - layout.TextWidth(rate) - 1 - layout.TextWidth(so)
	f.named(0, "rate", strong.of(rate)+" "+blue.of(f.spark(min(max(room, 0), 40)))+quiet.of(so))
	f.times()
	if text := s.HandshakesSay(); text != "" {
		f.named(3, "handshakes", text)
	}
	if s.SoFar.Failed > 0 {
		f.named(1, "failed", red.of(fmt.Sprintf("%s errors", unit.FormatCount(int64(s.SoFar.Failed)))))
	}
	if s.SoFar.Late > 0 {
		f.named(5, "late", fmt.Sprintf("%d of %d samples late", s.SoFar.Late, s.SoFar.Intervals))
	}
	f.blank()
}

// times shows the response times of the last interval and of the window.
func (f *frame) times() {
	cell := 10
	if f.width < f.names+4*cell {
		cell = (f.width - f.names) / 4
	}
	row := func(texts ...string) string {
		var b strings.Builder
		for _, t := range texts {
			fmt.Fprintf(&b, "%*s", cell, strings.ReplaceAll(t, " ", map[bool]string{true: " ", false: ""}[cell == 10]))
		}
		return b.String()
	}
	last := func(ns int64) string { return live.Quantile(f.s.Last.Answered, ns) }
	f.named(1, "response", quiet.of(row("p50", "p90", "p99", "max")))
	p := f.s.Last
	f.named(1, "  last", row(last(p.P50Ns), last(p.P90Ns), last(p.P99Ns), last(p.MaxNs)))
	if q := &f.s.SoFar.Response; q.Count > 0 {
		f.named(2, "  window", row(q.Text(.5), q.Text(.9), q.Text(.99), q.Text(1)))
	}
}

// spark draws the rate over the whole run; empty columns are time to come.
func (f *frame) spark(width int) string {
	t := &f.trail
	if width < 4 || len(t.AtS) == 0 {
		return ""
	}
	from := min(-f.s.Spec.Warmup.Seconds(), t.AtS[0])
	to := max(f.s.Spec.Duration.Seconds(), t.AtS[len(t.AtS)-1])
	if f.s.Spec.Duration == 0 {
		to = t.AtS[len(t.AtS)-1]
	}
	column := func(at float64) int {
		return min(max(int(math.Ceil((at-from)/max(to-from, 1e-9)*float64(width)))-1, 0), width-1)
	}
	sums, counts := make([]float64, width), make([]float64, width)
	first := 0
	for i, at := range t.AtS {
		last := column(at)
		for col := min(first, last); col <= last; col++ {
			sums[col] += t.PerS[i]
			counts[col]++
		}
		first = last + 1
	}
	most := 0.0
	for i := range sums {
		sums[i] /= max(counts[i], 1)
		most = max(most, sums[i])
	}
	var b strings.Builder
	for i := range width {
		if counts[i] == 0 {
			b.WriteByte(' ')
		} else {
			b.WriteRune(eighth(sums[i], most))
		}
	}
	return b.String()
}

// eighth returns a block whose height is a value relative to the maximum.
func eighth(v, most float64) rune {
	if most <= 0 {
		return '▁'
	}
	return []rune("▁▂▃▄▅▆▇█")[min(max(int(math.Ceil(8*v/most))-1, 0), 7)]
}

// marks distinguish the stations without colours.
func marks() []string { return []string{"█", "·", "▓", "▒", "·", "░"} }

// marksApartFrom is the width from which a space separates a box's mark from its name.
const marksApartFrom = 100

// path shows where the time of a request goes: a bar to scale, and below it the same boxes as in
// every view.
func (f *frame) path() {
	p := f.s.Path()
	if len(p.Places) == 0 {
		f.named(3, "time goes", quiet.of(f.s.PathUnknown()))
		f.blank()
		return
	}
	p.Places = slices.Clone(p.Places)
	for i := range p.Places {
		at := &p.Places[i]
		at.Name, at.Uses = clean(at.Name), slices.Clone(at.Uses)
		for n := range at.Uses {
			at.Uses[n].Name = clean(at.Uses[n].Name)
		}
	}
	mark := func(i, n int) string {
		return turn(i, blue, grey, yellow, red, grey, cyan).of(strings.Repeat(marks()[i%len(marks())], n))
	}
	var b strings.Builder
	for i, n := range shares(p.Places, min(f.width-f.names, 60)) {
		b.WriteString(mark(i, n))
	}
	f.named(0, "time goes", b.String())
	apart := ""
	if f.width >= marksApartFrom {
		apart = " "
	}
	style := path.Style{Mark: func(i int) string { return mark(i, 1) + apart },
		Strong: strong.of}
	for _, l := range path.Lines(p, f.width-f.names, style) {
		rank := 1
		if l.Name == "busy" {
			rank = 3
		}
		f.named(rank, l.Name, l.Text)
	}
	f.blank()
}

// shares divides a width among the places so that it is filled.
func shares(places []record.Place, width int) []int {
	out := make([]int, len(places))
	sum := 0.0
	for i := range places {
		sum += places[i].Share
	}
	if sum <= 0 {
		return out
	}
	upTo, filled := 0.0, 0
	for i := range places {
		upTo += places[i].Share / sum
		out[i] = int(math.Round(upTo*float64(width))) - filled
		filled += out[i]
	}
	return out
}

// flow joins parts on lines as long as they fit.
func flow(parts []string, between string, width int) []string {
	var lines []string
	text := ""
	for _, p := range parts {
		switch {
		case text == "":
			text = p
		case layout.TextWidth(text)+len(between)+layout.TextWidth(p) <= width:
			text += between + p
		default:
			lines = append(lines, text)
			text = p
		}
	}
	return append(lines, text)
}

func (f *frame) machines() {
	e := &f.s.Ends
	f.named(2, "generator", e.Generator.CoresSay())
	server := e.Server.CoresSay()
	if e.Server.Name != "" {
		server = clean(e.Server.Name) + ": " + server
	}
	f.named(2, "server", server)
	f.agents()
	for i := range e.Hosts {
		f.host(&e.Hosts[i], len(e.Hosts) > 1)
	}
	for i := range f.s.Links {
		l := &f.s.Links[i]
		parts := []string{"in " + live.Carried(&l.Received), "out " + live.Carried(&l.Sent)}
		if l.Sent.Limit.From == "" {
			parts = append(parts, quiet.of("link speed unknown"))
		}
		for n, text := range flow(parts, "  ", f.width-f.names) {
			f.named(3+n, []string{clean(l.Iface), ""}[min(n, 1)], text)
		}
	}
	f.blank()
}

// agentsMost limits the agents in a frame.
const agentsMost = 8

// agents shows a line per agent.
func (f *frame) agents() {
	for i := range f.s.Agents {
		a := &f.s.Agents[i]
		if i == agentsMost-1 && len(f.s.Agents) > agentsMost {
			f.named(3, "", quiet.of(fmt.Sprintf("and %d more agents", len(f.s.Agents)-i)))
			return
		}
		f.named(3, layout.Truncate(clean(a.Name), f.names-1, "…"), a.Says())
	}
}

// manyCores is the number of cores from which each gets one column instead of a bar.
const manyCores = 8

// host draws its cores.
func (f *frame) host(h *live.Host, named bool) {
	name := "cores"
	if named {
		name = clean(h.Name)
	}
	var parts []string
	for i := range h.Cores {
		c := &h.Cores[i]
		switch {
		case len(h.Cores) > manyCores && c.Bad:
			parts = append(parts, "?")
		case len(h.Cores) > manyCores:
			parts = append(parts, string(eighth(c.Busy(), 1)))
		case c.Bad:
			parts = append(parts, fmt.Sprintf("%d does not add up", c.CPU))
		default:
			text := fmt.Sprintf("%d %s %4s", c.CPU, f.core(c, 14), unit.Percent(c.Busy()))
			if c.Shares[3] >= 0.01 {
				text += red.of(" " + unit.Percent(c.Shares[3]) + " stolen")
			}
			parts = append(parts, text)
		}
	}
	between := "  "
	if len(h.Cores) > manyCores {
		between = ""
	}
	for n, text := range flow(parts, between, f.width-f.names) {
		f.named(3+min(n, 2), []string{name, ""}[min(n, 1)], text)
	}
}

// core is a bar of its parts: user, system, interrupts, stolen.
func (f *frame) core(c *live.Core, width int) string {
	var b strings.Builder
	upTo, filled := 0.0, 0
	for i, mark := range []string{"█", "▓", "▒", "!"} {
		upTo += c.Shares[i]
		n := int(math.Round(upTo*float64(width))) - filled
		filled += n
		b.WriteString(turn(i, blue, cyan, magenta, red).of(strings.Repeat(mark, n)))
	}
	return b.String() + quiet.of(strings.Repeat("─", max(width-filled, 0)))
}

// becauseLines limits the lines of the verdict's reason.
const becauseLines = 3

func (f *frame) verdict() {
	s := f.s
	if s.Formed == nil {
		f.named(1, "verdict", quiet.of(s.VerdictBasis()))
		return
	}
	v := &s.Formed.Verdict
	name := "so far"
	if s.Formed.Final {
		name = "verdict"
	}
	basis, _, _ := strings.Cut(s.VerdictBasis(), " (")
	f.named(0, name, strong.of(outcomeColour(v.Outcome).of(string(v.Outcome)))+" · "+strong.of(
		clean(string(v.Bottleneck)))+quiet.of("  "+basis))
	lines := layout.Output{Screen: true}.Wrap(clean(s.Formed.Because()), f.width-f.names)
	for i, text := range lines[:min(len(lines), becauseLines)] {
		if i == becauseLines-1 && len(lines) > becauseLines {
			text = layout.Truncate(text, f.width-f.names-2, "") + " …"
		}
		f.named(2+i, "", text)
	}
}

// clean makes a text safe for a terminal: some texts come from the server, and escape sequences
// could write anywhere on the screen.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == unicode.ReplacementChar {
			return '·'
		}
		return r
	}, text)
}

// style is the escape sequence before a text, which another ends.
type style string

// The colours are the terminal's own, which suit its background.
const (
	strong  style = "\x1b[1m"
	quiet   style = "\x1b[2m"
	red     style = "\x1b[31m"
	green   style = "\x1b[32m"
	yellow  style = "\x1b[33m"
	blue    style = "\x1b[34m"
	magenta style = "\x1b[35m"
	cyan    style = "\x1b[36m"
	grey    style = "\x1b[90m"
)

func (s style) of(text string) string {
	if text == "" {
		return ""
	}
	return string(s) + text + "\x1b[m"
}

// turn is the style of the i-th of many.
func turn(i int, styles ...style) style { return styles[i%len(styles)] }

func outcomeColour(is record.Outcome) style {
	switch is {
	case record.Pass, record.Valid:
		return green
	case record.Fail:
		return red
	}
	return yellow
}

// Colours returns what removes the colours from a frame, if the environment asks for none, and leaves the
// rest of the styles.
func Colours(environ []string) *strings.Replacer {
	var none []string
	if slices.ContainsFunc(environ, func(v string) bool { return strings.HasPrefix(v, "NO_COLOR=") && v != "NO_COLOR=" }) {
		for _, s := range []style{red, green, yellow, blue, magenta, cyan, grey} {
			none = append(none, string(s), "")
		}
	}
	return strings.NewReplacer(none...)
}
