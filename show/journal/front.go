package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"ceiling/internal/lazy"
	"ceiling/internal/text"
	"ceiling/record"
)

// Front is the front matter of an entry: YAML between two lines of ---.
type Front struct {
	Title string `yaml:"title"`
	// Date is in the form 2026-11-21; Updated is the date of the last change, "" if the same.
	Date       string `yaml:"date"`
	Updated    string `yaml:"updated"`
	Question   string `yaml:"question"`
	Hypothesis string `yaml:"hypothesis"`
	Status     Status `yaml:"status"`
	// Finding is the result, in a sentence or two; Hero is its main figure and what it counts;
	// Next is what to measure next. Their figures are references.
	Finding string `yaml:"finding"`
	Hero    string `yaml:"hero"`
	Next    string `yaml:"next"`
	// Regime is the bottleneck that the entry is about: one of the verdict's.
	Regime string `yaml:"regime"`
	// Tags are small words.
	Tags mentions `yaml:"tags"`
	// Runs are the records that the text refers to, by name.
	Runs mentions `yaml:"runs"`
	// BuildsOn names other entries.
	BuildsOn mentions `yaml:"builds_on"`
	// Corrects names other entries, which say so in turn.
	Corrects mentions `yaml:"corrects"`
	// RetractedBecause is set if and only if the entry is retracted.
	RetractedBecause string `yaml:"retracted_because"`

	text []byte // the front matter, with the file's lines
}

// Named is a front matter text with its line and its name.
type Named struct {
	Name, Text string
	Line       int
}

// mentions are a list of texts, each its own name, or a table of texts by name.
type mentions []Named

// UnmarshalYAML implements yaml.NodeUnmarshaler: only the tree has the lines.
func (n *mentions) UnmarshalYAML(of ast.Node) error {
	switch of := of.(type) {
	case *ast.SequenceNode:
		for _, v := range of.Values {
			*n = append(*n, Named{v.GetToken().Value, v.GetToken().Value, v.GetToken().Position.Line})
			if _, ok := v.(ast.ScalarNode); !ok || v.Type() == ast.NullType {
				return Mistake{Line: v.GetToken().Position.Line, Says: "it takes names, each a text"}
			}
		}
	case ast.MapNode:
		for pair := of.MapRange(); pair.Next(); {
			name, v := pair.Key().GetToken(), pair.Value()
			one := Named{name.Value, v.GetToken().Value, name.Position.Line}
			if v.Type() == ast.NullType {
				one.Text = "" // to come
			}
			if _, ok := v.(ast.ScalarNode); !ok {
				return Mistake{Line: one.Line, Says: fmt.Sprintf("%s takes an ID or a path", clip(one.Name))}
			}
			bad := func(c rune) bool { return c == '/' || c == '"' || unicode.IsSpace(c) || unicode.IsControl(c) }
			if one.Name == "" || strings.ContainsFunc(one.Name, bad) {
				return Mistake{Line: one.Line, Says: fmt.Sprintf("invalid name %q; use letters, digits and dashes", clip(one.Name))}
			}
			*n = append(*n, one)
		}
	default:
		return Mistake{Line: of.GetToken().Position.Line, Says: "it takes a list, as in [one, another]"}
	}
	return nil
}

// keyLine returns the line of a key in the file; 1 if the key is absent.
func (f *Front) keyLine(key string) int { return lineOf(f.text, key, "") }

// lineOf returns the line of a front matter from a key on that contains a text; the key's own line if the
// text spans several lines, 1 if the key is absent.
func lineOf(front []byte, key, text string) int {
	n, from := 0, 0
	for line := range bytes.Lines(front) {
		n++
		if from == 0 && bytes.HasPrefix(line, []byte(key+":")) {
			from = n
		}
		if from > 0 && bytes.Contains(line, []byte(text)) {
			return n
		}
	}
	return max(from, 1)
}

// frontMatter matches a front matter and the lines around it.
var frontMatter = lazy.Regexp(`(?s)\A---[ \t\r]*\n(.*?\n)?---[ \t\r]*(?:\n|\z)`)

// splitFront splits a text. Both parts keep its lines and the body its offsets: blanks replace what
// is before them.
func splitFront(text []byte) (front, body []byte, err error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	at := frontMatter().FindSubmatchIndex(text)
	switch {
	case at != nil:
	case bytes.HasPrefix(text, []byte("---")):
		return nil, nil, errors.New("the front matter is not closed by a line of ---")
	default:
		return nil, nil, errors.New("an entry begins with a front matter between two lines of ---")
	}
	body = bytes.Clone(text)
	for i := range body[:at[1]] {
		if body[i] != '\n' {
			body[i] = ' '
		}
	}
	if at[2] >= 0 {
		front = text[at[2]:at[3]]
	}
	return append([]byte("\n"), front...), body, nil
}

// tooDeep matches brackets and indents deeper than a front matter needs: the YAML parser recurses.
var tooDeep = lazy.Regexp(`(?m)^[ \t]{51}|(?:(?:[\[{]|[-?] ).*?){51}`)

// decodeFront decodes a front matter whose line numbers match the file's; ok is false if it has mistakes.
func decodeFront[T any](file string, front []byte, into *T, wrong *Mistakes) (ok bool) {
	if at := tooDeep().FindIndex(front); at != nil {
		wrong.add(file, lineAt(front, at[0]), "nested too deep for a front matter")
		return false
	}
	err := yaml.UnmarshalWithOptions(front, into, yaml.Strict())
	var keys []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if key, there := f.Tag.Lookup("yaml"); there {
			keys = append(keys, key)
		}
	}
	// keyAt is the key whose value has a line.
	keyAt := func(line int) (key string) {
		for _, k := range keys {
			if at := lineOf(front, k, ""); at <= line && at >= lineOf(front, key, "") {
				key = k
			}
		}
		return key
	}
	var (
		own     Mistake
		unknown *yaml.UnknownFieldError
		kind    *yaml.TypeError
		at      yaml.Error
	)
	switch {
	case err == nil:
	case errors.As(err, &own):
		wrong.add(file, own.Line, "%s: %s", keyAt(own.Line), own.Says)
	case errors.As(err, &unknown):
		wrong.add(file, unknown.Token.Position.Line, "unknown key %q%s", clip(unknown.Token.Value), nearTo(unknown.Token.Value, keys))
	case errors.As(err, &kind):
		wrong.add(file, kind.Token.Position.Line, "%s: it takes a text", keyAt(kind.Token.Position.Line))
	case errors.As(err, &at):
		wrong.add(file, at.GetToken().Position.Line, "%s", text.Line(at.GetMessage()))
	default:
		wrong.add(file, 1, "%s", text.Line(err.Error()))
	}
	return err == nil
}

// parseFront parses an entry's front matter.
func parseFront(file string, front []byte, wrong *Mistakes) Front {
	f := Front{text: front}
	if !decodeFront(file, front, &f, wrong) {
		return f
	}
	for _, value := range []*string{&f.Title, &f.Date, &f.Updated, &f.Question, &f.Hypothesis, (*string)(&f.Status), &f.Finding, &f.Hero,
		&f.Next, &f.Regime, &f.RetractedBecause} {
		*value = text.Line(*value)
	}
	f.check(func(key, format string, args ...any) { wrong.add(file, f.keyLine(key), format, args...) })
	f.checkTags(file, wrong)
	return f
}

// check validates the values against each other; add records a mistake at a key.
func (f *Front) check(add func(key, format string, args ...any)) {
	for _, need := range []struct{ key, value string }{{"title", f.Title}, {"date", f.Date}, {"question", f.Question},
		{"status", string(f.Status)}} {
		if need.value == "" {
			add(need.key, "the front matter has no %s", need.key)
		}
	}
	for _, d := range []struct{ key, value string }{{"date", f.Date}, {"updated", f.Updated}} {
		if _, err := time.Parse(time.DateOnly, d.value); err != nil && d.value != "" {
			add(d.key, "%s: invalid date %q; write it as in 2026-11-21", d.key, clip(d.value))
		}
	}
	if f.Updated != "" && f.Updated < f.Date {
		add("updated", "updated: %s is before the entry's date, %s", f.Updated, f.Date)
	}
	switch statuses := namesOf(Statuses()); {
	case f.Status == "":
	case !slices.Contains(statuses, string(f.Status)):
		add("status", "status: unknown status %q; use one of %s", clip(string(f.Status)), strings.Join(statuses, ", "))
	case f.Status == Retracted && f.RetractedBecause == "":
		add("status", "a retracted entry says why: retracted_because")
	case f.Status != Retracted && f.RetractedBecause != "":
		add("retracted_because", "retracted_because goes with status: retracted, not with %s", f.Status)
	}
	if f.Status == Done && f.RetractedBecause == "" {
		if f.Hypothesis == "" {
			add("status", "a done entry needs the hypothesis stated before measuring")
		}
		if f.Finding == "" {
			add("status", "a done entry says what came out: finding")
		}
	}
	if known := namesOf(record.Bottlenecks()); f.Regime != "" && !slices.Contains(known, f.Regime) {
		add("regime", "regime: unknown bottleneck %q%s", clip(f.Regime), nearTo(f.Regime, known))
	}
}

// namesOf returns names as texts.
func namesOf[T ~string](list []T) (names []string) {
	for _, one := range list {
		names = append(names, string(one))
	}
	return names
}

// tagWord is the syntax of a tag, which names an anchor.
var tagWord = lazy.Regexp(`^[a-z0-9]+(?:[-.][a-z0-9]+)*$`)

func (f *Front) checkTags(file string, wrong *Mistakes) {
	for i, t := range f.Tags {
		switch {
		case !tagWord().MatchString(t.Text):
			wrong.add(file, t.Line, "tags: invalid tag %q; use lower-case letters, digits and dashes", clip(t.Text))
		case slices.ContainsFunc(f.Tags[:i], func(other Named) bool { return other.Text == t.Text }):
			wrong.add(file, t.Line, "tags: %s appears twice", t.Text)
		}
	}
}

// aboutFile describes a journal: a front matter, and below it the premise, shown at the top of
// the index.
const aboutFile = "index.md"

// About is a journal's description of itself. A journal without an index.md has none.
type About struct {
	// Title is that of the journal and its feed; Author is that of its entries.
	Title  string `yaml:"title"`
	Author string `yaml:"author"`
	// URL is where the pages will be published, with a trailing slash; "" if unknown.
	URL string `yaml:"url"`

	premise *Entry // its body, if it has one
}

// webFolder matches the address of a folder.
var webFolder = lazy.Regexp(`^https?://[^/?#\s]+/(?:[^?#\s]*/)?$`)

// readAbout reads a journal's index.md.
func readAbout(dir string, wrong *Mistakes) About {
	file := filepath.Join(dir, aboutFile)
	a := About{Title: "Journal", Author: "ceiling", premise: &Entry{Dir: dir, File: file}}
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return a
	}
	front, body, ok := readText(dir, aboutFile, wrong)
	if !ok {
		return a
	}
	a.premise.body = body
	if decodeFront(file, front, &a, wrong) && a.URL != "" && !webFolder().MatchString(a.URL) {
		wrong.add(file, lineOf(front, "url", ""), "url: %q must be a folder of a web server, as in https://example.org/journal/", clip(a.URL))
	}
	return a
}
