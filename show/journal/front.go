package journal

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"ceiling/internal/lazy"
	"ceiling/record"
)

// Front is the front matter of an entry: YAML between two lines of ---.
type Front struct {
	Title string
	// Date is in the form 2026-11-21; Updated is the date of the last change, "" if the same.
	Date, Updated string
	Question      string
	Hypothesis    string
	Status        Status
	// Finding is the result, in a sentence or two; Hero is its main figure and what it counts;
	// Next is what to measure next. Their figures are references.
	Finding, Hero, Next string
	// Regime is the bottleneck that the entry is about: one of the verdict's.
	Regime string
	// Tags are small words.
	Tags []Named
	// Runs are the records that the text refers to, by name.
	Runs []Named
	// Ladder is a file of the entry's folder with a ladder of regimes; "" if there is none.
	Ladder string
	// BuildsOn names other entries.
	BuildsOn []Named
	// Corrects and CorrectedBy name other entries; each is the other's inverse.
	Corrects, CorrectedBy []Named
	// RetractedBecause is set if and only if the entry is retracted.
	RetractedBecause string

	lines map[string]int // of every key
	text  []byte         // the front matter, with the file's lines
}

// Named is a front matter text with its line and its name.
type Named struct {
	Name, Text string
	Line       int
}

// Line returns the line of a key in the file; 1 if the key is absent.
func (f *Front) Line(key string) int { return max(f.lines[key], 1) }

// frontKeys are the keys allowed in a front matter.
var frontKeys = []string{"title", "date", "updated", "question", "hypothesis", "status", "finding", "hero", "next", "regime", "tags", "runs", "ladder",
	"builds_on", "corrects", "corrected_by", "retracted_because"} // read-only

const fence = "---"

// splitFront splits a text. The body keeps its offsets and lines: blanks replace the front
// matter.
func splitFront(text []byte) (front, body []byte, err error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if !bytes.Equal(bytes.TrimRight(firstLine(text), " \t\r\n"), []byte(fence)) {
		return nil, nil, errors.New("an entry begins with a front matter between two lines of ---")
	}
	at := len(firstLine(text))
	for rest := text[at:]; len(rest) > 0; rest = text[at:] {
		line := firstLine(rest)
		if bytes.Equal(bytes.TrimRight(line, " \t\r\n"), []byte(fence)) {
			body = bytes.Clone(text)
			for i := range body[:at+len(line)] {
				if body[i] != '\n' {
					body[i] = ' '
				}
			}
			// The first line is blank, so that line numbers match the file.
			return append([]byte("\n"), text[len(firstLine(text)):at]...), body, nil
		}
		at += len(line)
	}
	return nil, nil, errors.New("the front matter is not closed by a line of ---")
}

// firstLine returns the first line of a text with its newline.
func firstLine(text []byte) []byte {
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		return text[:i+1]
	}
	return text
}

// frontReader collects the mistakes in a front matter.
type frontReader struct {
	file  string
	wrong Mistakes
	front Front
}

// parseFront parses a front matter whose line numbers match the file.
func parseFront(file string, text []byte) (Front, Mistakes) {
	r := frontReader{file: file, front: Front{lines: map[string]int{}, text: text}}
	r.pairs(text)
	if len(r.wrong) == 0 || len(r.front.lines) > 0 {
		r.check()
	}
	return r.front, r.wrong
}

// pairs parses the keys and their values.
func (r *frontReader) pairs(text []byte) {
	file := r.file
	if line := deepAt(text); line > 0 {
		r.wrong.add(file, line, "nested too deep for a front matter")
		return
	}
	tree, err := parser.ParseBytes(text, 0)
	if err != nil {
		var at yaml.Error
		if errors.As(err, &at) && at.GetToken() != nil {
			r.wrong.add(file, at.GetToken().Position.Line, "%s", strings.ReplaceAll(at.GetMessage(), "\n", " "))
		} else {
			r.wrong.add(file, 1, "%s", strings.ReplaceAll(err.Error(), "\n", " "))
		}
		return
	}
	if len(tree.Docs) != 1 || tree.Docs[0].Body == nil {
		r.wrong.add(file, 1, "the front matter is empty; it has %s", strings.Join(frontKeys, ", "))
		return
	}
	pairs, ok := mapping(tree.Docs[0].Body)
	if !ok {
		r.wrong.add(file, 1, "the front matter is a list of keys and values, as in title: What it asks")
		return
	}
	for _, pair := range pairs {
		r.pair(pair)
	}
}

// deepAt returns the line where brackets nest deeper than allowed in a front matter, or 0: the
// YAML parser recurses.
func deepAt(text []byte) int {
	const most = 50
	n := 0
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		n++
		depth := bytes.Count(line, []byte("[")) + bytes.Count(line, []byte("{")) + bytes.Count(line, []byte("- ")) +
			bytes.Count(line, []byte("? "))
		if depth > most || len(line)-len(bytes.TrimLeft(line, " \t")) > most {
			return n
		}
	}
	return 0
}

func mapping(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

func lineOf(n ast.Node) int {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return 1
	}
	return n.GetToken().Position.Line
}

// scalar returns the text of a plain value; a null is "".
func scalar(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return "", true
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return strings.TrimSpace(n.Value.Value), true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true // as written
	}
	return "", false
}

func (r *frontReader) pair(pair *ast.MappingValueNode) {
	key, line := pair.Key.GetToken().Value, lineOf(pair.Key)
	if _, twice := r.front.lines[key]; twice {
		r.wrong.add(r.file, line, "%s appears twice", clip(key))
		return
	}
	r.front.lines[key] = line
	switch key {
	case "runs":
		r.front.Runs = r.named(key, pair.Value, true)
		return
	}
	f := &r.front
	if into := map[string]*[]Named{"builds_on": &f.BuildsOn, "corrects": &f.Corrects, "corrected_by": &f.CorrectedBy, "tags": &f.Tags}[key]; into != nil {
		*into = r.named(key, pair.Value, false)
		return
	}
	into := map[string]*string{"title": &f.Title, "date": &f.Date, "updated": &f.Updated, "question": &f.Question,
		"hypothesis": &f.Hypothesis, "status": (*string)(&f.Status), "finding": &f.Finding, "hero": &f.Hero, "next": &f.Next,
		"regime": &f.Regime, "ladder": &f.Ladder, "retracted_because": &f.RetractedBecause}[key]
	if into == nil {
		r.wrong.add(r.file, line, "unknown key %q%s", clip(key), nearTo(key, frontKeys))
		return
	}
	text, ok := scalar(pair.Value)
	if !ok {
		r.wrong.add(r.file, line, "%s takes a text", key)
		return
	}
	*into = strings.Join(strings.Fields(text), " ")
}

// named parses a list of texts or, if table is set, a table of them.
func (r *frontReader) named(key string, value ast.Node, table bool) []Named {
	if pairs, ok := mapping(value); ok && table {
		return r.table(pairs)
	}
	seq, ok := value.(*ast.SequenceNode)
	if !ok {
		if text, plain := scalar(value); plain && text == "" {
			return nil // nothing yet
		}
		r.wrong.add(r.file, r.front.lines[key], "%s takes a list, as in [%s]", key,
			cmp.Or(map[string]string{"runs": "20261121-093012-x7f2", "tags": "pipelining, fasthttp"}[key], "0001-a-title"))
		return nil
	}
	var list []Named
	for _, n := range seq.Values {
		text, ok := scalar(n)
		if !ok || text == "" {
			r.wrong.add(r.file, lineOf(n), "%s takes names, each a text", key)
			continue
		}
		list = append(list, Named{Name: text, Text: text, Line: lineOf(n)})
	}
	return list
}

func (r *frontReader) table(pairs []*ast.MappingValueNode) []Named {
	var list []Named
	seen := map[string]bool{}
	for _, pair := range pairs {
		name, line := pair.Key.GetToken().Value, lineOf(pair.Key)
		text, ok := scalar(pair.Value)
		switch {
		case !ok:
			r.wrong.add(r.file, line, "runs: %s takes an ID or a path", clip(name))
		case seen[name]:
			r.wrong.add(r.file, line, "runs: %s appears twice", clip(name))
		case strings.ContainsFunc(name, func(c rune) bool { return c == '/' || c == '"' || unicode.IsSpace(c) || unicode.IsControl(c) }) ||
			name == "":
			r.wrong.add(r.file, line, "runs: invalid name %q; use letters, digits and dashes", clip(name))
		default:
			seen[name] = true
			list = append(list, Named{Name: name, Text: text, Line: line})
		}
	}
	return list
}

// check validates the values against each other.
func (r *frontReader) check() {
	f := &r.front
	for _, need := range []struct{ key, value string }{{"title", f.Title}, {"date", f.Date}, {"question", f.Question},
		{"status", string(f.Status)}} {
		if need.value == "" {
			r.wrong.add(r.file, f.Line(need.key), "the front matter has no %s", need.key)
		}
	}
	for _, d := range []struct{ key, value string }{{"date", f.Date}, {"updated", f.Updated}} {
		if _, err := time.Parse(time.DateOnly, d.value); err != nil && d.value != "" {
			r.wrong.add(r.file, f.Line(d.key), "%s: invalid date %q; write it as in 2026-11-21", d.key, clip(d.value))
		}
	}
	if f.Updated != "" && f.Updated < f.Date {
		r.wrong.add(r.file, f.Line("updated"), "updated: %s is before the entry's date, %s", f.Updated, f.Date)
	}
	r.checkStatus()
	r.checkLabels()
}

// checkStatus validates the status against the fields that it requires or excludes.
func (r *frontReader) checkStatus() {
	f, known := &r.front, false
	var names []string
	for _, s := range Statuses() {
		known = known || s == f.Status
		names = append(names, string(s))
	}
	switch {
	case f.Status == "":
	case !known:
		r.wrong.add(r.file, f.Line("status"), "status: unknown status %q; use one of %s", clip(string(f.Status)), strings.Join(names, ", "))
	case f.Status == Retracted && f.RetractedBecause == "":
		r.wrong.add(r.file, f.Line("status"), "a retracted entry says why: retracted_because")
	case f.Status != Retracted && f.RetractedBecause != "":
		r.wrong.add(r.file, f.Line("retracted_because"), "retracted_because goes with status: retracted, not with %s", f.Status)
	case f.Status == Done:
		if f.Hypothesis == "" {
			r.wrong.add(r.file, f.Line("status"), "a done entry needs the hypothesis stated before measuring")
		}
		if f.Finding == "" {
			r.wrong.add(r.file, f.Line("status"), "a done entry says what came out: finding")
		}
	}
}

// tagWord is the syntax of a tag, which names an anchor.
var tagWord = lazy.Regexp(`^[a-z0-9]+(?:[-.][a-z0-9]+)*$`)

// checkLabels validates the regime, the tags and similar labels.
func (r *frontReader) checkLabels() {
	f := &r.front
	var names []string
	for _, b := range record.Bottlenecks() {
		names = append(names, string(b))
	}
	if f.Regime != "" && !slices.Contains(names, f.Regime) {
		r.wrong.add(r.file, f.Line("regime"), "regime: unknown bottleneck %q%s", clip(f.Regime), nearTo(f.Regime, names))
	}
	seen := map[string]bool{}
	for _, t := range f.Tags {
		switch {
		case !tagWord().MatchString(t.Text):
			r.wrong.add(r.file, t.Line, "tags: invalid tag %q; use lower-case letters, digits and dashes", clip(t.Text))
		case seen[t.Text]:
			r.wrong.add(r.file, t.Line, "tags: %s appears twice", t.Text)
		}
		seen[t.Text] = true
	}
}

// clip shortens a text that a message quotes.
func clip(text string) string {
	const most = 60
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}

// nearTo returns the names most similar to an unknown one.
func nearTo(name string, names []string) string {
	near := nearest(name, names)
	if len(near) == 0 {
		return ""
	}
	return fmt.Sprintf("; near: %s", strings.Join(near, ", "))
}
