package page

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"ceiling/show/chart"
)

// Markdown writes the page as GitHub Flavored Markdown: tables instead of pictures, and
// sparklines of block characters.
func Markdown(w io.Writer, d Document) error {
	d = clean(d)
	var m markdown
	m.line("# %s", Escape(d.Subtitle))
	if d.Lead != "" {
		m.line("")
		m.line("%s", Escape(d.Lead))
	}
	for _, s := range d.Sections {
		m.line("")
		m.line("## %s", Escape(s.Title))
		m.blocks(s.Blocks)
	}
	m.line("")
	m.line("---")
	m.line("")
	m.line("%s", Escape(d.Footer))
	_, err := w.Write(m.out.Bytes())
	return err
}

// markdown collects lines. Text from a record goes through escape.
type markdown struct{ out bytes.Buffer }

func (m *markdown) line(format string, args ...any) { fmt.Fprintf(&m.out, format+"\n", args...) }

func (m *markdown) blocks(list []Block) {
	for _, b := range list {
		m.line("")
		b.markdown(m)
	}
}

// Escape escapes text for Markdown: CommonMark 0.31, section 2.4, allows a backslash before any
// ASCII punctuation. < and & become references, for readers that accept HTML.
func Escape(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch r {
		case '<':
			b.WriteString("&lt;")
		case '>':
			b.WriteString("&gt;")
		case '&':
			b.WriteString("&amp;")
		case '\\', '`', '*', '_', '[', ']', '|', '~', '$', '#':
			b.WriteString(`\` + string(r))
		case ':': // a bare URL would become a link
			if strings.HasPrefix(s[i:], "://") {
				b.WriteString(`\`)
			}
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// codeSpan puts text between backquotes. Nothing can be escaped there, and a bar or a backslash
// can end a table cell early, so text with special characters is written as plain text.
func codeSpan(s string) string {
	if s == "" || strings.ContainsAny(s, "`\\|<>&") || strings.TrimSpace(s) != s {
		return Escape(s)
	}
	return "`" + s + "`"
}

func (p Paragraph) markdown(m *markdown) { m.line("%s", Escape(p.Text)) }
func (h Heading) markdown(m *markdown)   { m.line("### %s", Escape(h.Text)) }
func (n Notice) markdown(m *markdown)    { m.line("> **%s**", Escape(n.Text)) }

func (c Code) markdown(m *markdown) {
	fence := "```"
	for strings.Contains(c.Text, fence) {
		fence += "`"
	}
	m.line("%sconsole\n$ %s\n%s", fence, c.Text, fence)
}

func (l List) markdown(m *markdown) {
	if l.Title != "" {
		m.line("**%s**", Escape(l.Title))
		m.line("")
	}
	for _, item := range l.Items {
		if item.From != "" {
			m.line("- %s (%s)", Escape(item.Text), codeSpan(item.From))
		} else {
			m.line("- %s", Escape(item.Text))
		}
	}
}

func (t Table) markdown(m *markdown) {
	m.line("%s:", Escape(t.Caption))
	m.line("")
	var names, rules []string
	for i, c := range t.Columns {
		if t.pictures(i) {
			continue
		}
		names = append(names, Escape(c.Name))
		rules = append(rules, map[bool]string{true: "---:", false: "---"}[c.Figure])
	}
	m.line("| %s |", strings.Join(names, " | "))
	m.line("| %s |", strings.Join(rules, " | "))
	for _, row := range t.Rows {
		var cells []string
		for i, c := range row {
			switch {
			case t.pictures(i):
			case c.Spark != nil:
				cells = append(cells, blockLine(c.Spark.Values, c.Spark.At, 24))
			case c.Code:
				cells = append(cells, codeSpan(c.Text))
			default:
				cells = append(cells, Escape(c.Text))
			}
		}
		m.line("| %s |", strings.Join(cells, " | "))
	}
}

// pictures reports whether a column only draws what other columns state.
func (t *Table) pictures(column int) bool {
	return len(t.Rows) > 0 && column < len(t.Rows[0]) && t.Rows[0][column].Range != nil
}

func (t Tiles) markdown(m *markdown) {
	m.line("| figure | value | |")
	m.line("| --- | ---: | --- |")
	for _, tile := range t.Tiles {
		m.line("| %s | %s | %s |", Escape(tile.Name), Escape(tile.Value), Escape(tile.Note))
	}
}

func (v Verdict) markdown(m *markdown) {
	if v.Run != "" {
		m.line("### %s", Escape(v.Run))
		m.line("")
		m.line("%s", Escape(v.Load))
		m.line("")
	}
	text := fmt.Sprintf("**%s** (%s)", Escape(v.Outcome), Escape(v.Gloss))
	if v.Figure != "" {
		text += fmt.Sprintf(": **%s %s**", Escape(v.Figure), Escape(v.Unit))
	}
	if v.Spread != "" {
		text += " (" + Escape(v.Spread) + ")"
	}
	if v.Bottleneck != "" {
		text += ", bottleneck: **" + Escape(v.Bottleneck) + "**"
	}
	m.line("%s", text)
	if v.Because != "" {
		m.line("")
		m.line("%s", Escape(v.Because))
	}
}

// barWidth is the width of a full bar, in characters.
const barWidth = 50

func (f Figure) markdown(m *markdown) {
	m.line("### %s", Escape(f.Plot.Title))
	m.line("")
	if f.Plot.X.Unit == chart.Seconds {
		m.line("```text")
		for i := range f.Plot.Groups {
			g := &f.Plot.Groups[i]
			for _, line := range g.Lines {
				m.line("%s %s", blockLine(line.Mid, f.Plot.Y.At, 60), strings.ReplaceAll(line.Name, "`", "'"))
			}
		}
		m.line("```")
		m.line("")
	}
	m.line("%s", Escape(f.Note))
	if f.Table != nil {
		m.line("")
		f.Table.markdown(m)
	}
}

// blockLine draws values with at most `wide` block characters, each the maximum of its part. at
// returns the position of a value between 0 and 1.
func blockLine(values chart.Values, at func(float64) float64, wide int) string {
	levels := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	each := max((len(values)+wide-1)/max(wide, 1), 1)
	for i := 0; i < len(values); i += each {
		top := math.NaN()
		for _, v := range values[i:min(i+each, len(values))] {
			if !(v <= top) && !math.IsNaN(v) {
				top = v
			}
		}
		if math.IsNaN(top) {
			b.WriteRune(' ')
			continue
		}
		b.WriteRune(levels[int(math.Round(at(top)*float64(len(levels)-1)))])
	}
	return b.String()
}

func (h HeatMaps) markdown(m *markdown) {
	m.line("### %s", Escape(h.Title))
	m.line("")
	m.line("%s", Escape(h.Note))
	m.line("")
	h.Table.markdown(m)
}

func (f Flame) markdown(m *markdown) {
	m.line("### %s", Escape(f.Title))
	m.line("")
	if f.Note != "" {
		m.line("%s", Escape(f.Note))
		m.line("")
	}
	f.Table.markdown(m)
}

func (f Fold) markdown(m *markdown) {
	m.line("### %s", Escape(f.Title))
	m.blocks(f.Blocks)
}

func (c Columns) markdown(m *markdown) {
	for i, b := range slices.Concat(c.Of...) {
		if i > 0 {
			m.line("")
		}
		b.markdown(m)
	}
}
