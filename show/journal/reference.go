package journal

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ceiling/experiment/plan"
	"ceiling/show/page"
)

// reference is one {{…}} of a text: a verb and its arguments.
type reference struct {
	verb string
	args []string
	line int
}

// Verbs: run, plan, compare, times and typed stand within a sentence; table and
// figure in a paragraph of their own.
const (
	verbRun     = "run"
	verbPlan    = "plan"
	verbCompare = "compare"
	verbTimes   = "times"
	verbTyped   = "typed"
	verbTable   = "table"
	verbFigure  = "figure"
)

// usages are how each verb is written.
var usages = map[string]string{
	verbRun: `{{run "NAME" "FIELD"}}`, verbPlan: `{{plan "NAME" "FIELD"}}`,
	verbCompare: `{{compare "A" "B" "FIELD"}} or {{compare "A" "FIELD" "B" "FIELD"}}`,
	verbTimes:   `{{times "A" "B" "FIELD"}} or {{times "A" "FIELD" "B" "FIELD"}}`,
	verbTyped:   `{{typed "5 ms"}}`, verbTable: `{{table "NAME"}} or {{table "NAME" "KIND"}}`, verbFigure: `{{figure "NAME" "KIND"}}`,
} // read-only

// block tells a reference that has to stand by itself. A comparison does where
// it names a record alone.
func (r *reference) block() bool {
	return r.verb == verbTable || r.verb == verbFigure || r.verb == verbCompare && len(r.args) == 1
}

func (r *reference) String() string {
	text := "{{" + r.verb
	for _, a := range r.args {
		text += " " + strconv.Quote(a)
	}
	return text + "}}"
}

// parseReference reads what stands between {{ and }}.
func parseReference(text string) (reference, error) {
	var r reference
	words, err := words(text)
	if err != nil {
		return r, err
	}
	if len(words) == 0 {
		return r, errors.New(`{{}} is empty; {{run "NAME" "FIELD"}} takes a figure from a record`)
	}
	r.verb, r.args = words[0], words[1:]
	usage, known := usages[r.verb]
	if !known {
		return r, fmt.Errorf("there is no {{%s}}%s", clip(r.verb), nearTo(r.verb, slices.Sorted(slices.Values(keysOf(usages)))))
	}
	n := len(r.args)
	ok := map[string]bool{verbRun: n == 2, verbPlan: n == 2, verbCompare: n == 1 || n == 3 || n == 4, verbTimes: n == 3 || n == 4,
		verbTyped: n == 1,
		verbTable: n >= 1, verbFigure: n == 2}[r.verb]
	if !ok || slices.Contains(r.args, "") {
		return r, fmt.Errorf("%s: it is written as %s", clip(r.String()), usage)
	}
	return r, nil
}

// words divides a text at blanks; what is quoted is one word.
func words(text string) ([]string, error) {
	var list []string
	for {
		text = strings.TrimLeft(text, " \t\n\r")
		if text == "" {
			return list, nil
		}
		if text[0] == '"' {
			quoted, err := strconv.QuotedPrefix(text)
			if err != nil {
				return nil, fmt.Errorf("a quote is not closed in {{%s}}", clip(text))
			}
			word, err := strconv.Unquote(quoted)
			if err != nil {
				return nil, fmt.Errorf("%s is no quoted text", clip(quoted))
			}
			list, text = append(list, word), text[len(quoted):]
			continue
		}
		end := strings.IndexAny(text, " \t\n\r\"")
		if end < 0 {
			end = len(text)
		}
		list, text = append(list, text[:end]), text[end:]
	}
}

// answer is what a reference comes to: a text within a sentence, or blocks.
type answer struct {
	text string
	// of are the records that it was taken from, field what was asked of them.
	of     []*Record
	field  string
	blocks []page.Block
	// pending: the record is still to be measured, typed: a person wrote it.
	pending, typed bool
	warning        string
}

// answer works out a reference of an entry's text.
func (e *Entry) answer(r *reference) (answer, error) {
	switch r.verb {
	case verbTyped:
		return answer{text: r.args[0], typed: true}, nil
	case verbRun, verbPlan:
		return e.figure(r)
	case verbCompare, verbTimes:
		if len(r.args) > 1 {
			return e.ratio(r)
		}
	}
	return e.blocks(r)
}

// figure is a value of one record.
func (e *Entry) figure(r *reference) (answer, error) {
	of, err := e.resolve(r.args[0])
	if err != nil {
		return answer{}, err
	}
	a := answer{of: []*Record{of}, field: r.args[1]}
	if of.Pending() {
		// NAME/ID is a run of a plan, whatever the verb.
		if err := couldHave(r.args[1], r.verb == verbPlan); err != nil {
			return a, fmt.Errorf("%s %q: %w", r.verb, r.args[0], err)
		}
		a.pending, a.text = true, "not measured yet"
		return a, nil
	}
	if isPlan := of.Plan != nil; isPlan != (r.verb == verbPlan) {
		return a, fmt.Errorf("%s is a %s: write {{%s …}}", of.Name, kindName(of), map[bool]string{true: verbPlan, false: verbRun}[isPlan])
	}
	v, err := of.lookUp(r.args[1])
	if err != nil {
		return a, fmt.Errorf("%s %q: %w", r.verb, r.args[0], err)
	}
	a.text = v.text
	return a, nil
}

func kindName(r *Record) string {
	if r.Plan != nil {
		return "plan"
	}
	return "run"
}

// ratio holds one figure against another: of the same field of two records, or
// of two fields.
func (e *Entry) ratio(r *reference) (answer, error) {
	nameA, fieldA, nameB, fieldB := r.args[0], r.args[len(r.args)-1], r.args[1], r.args[len(r.args)-1]
	if len(r.args) == 4 {
		nameA, fieldA, nameB, fieldB = r.args[0], r.args[1], r.args[2], r.args[3]
	}
	a, err := e.resolve(nameA)
	if err != nil {
		return answer{}, err
	}
	b, err := e.resolve(nameB)
	if err != nil {
		return answer{}, err
	}
	out := answer{of: []*Record{a, b}, field: fieldB}
	if fieldA != fieldB {
		out.field = fieldB + " against " + fieldA
	}
	if a.Pending() || b.Pending() {
		out.pending, out.text = true, "not measured yet"
		return out, errors.Join(pendingField(a, fieldA), pendingField(b, fieldB))
	}
	va, err := a.lookUp(fieldA)
	if err != nil {
		return out, fmt.Errorf("%s %q: %w", r.verb, nameA, err)
	}
	vb, err := b.lookUp(fieldB)
	if err != nil {
		return out, fmt.Errorf("%s %q: %w", r.verb, nameB, err)
	}
	if out.warning, err = comparable(a, b); err != nil {
		return out, err
	}
	out.text, err = held(r.verb, va, vb)
	return out, err
}

// pendingField checks a field of a record that may be either when it comes.
func pendingField(r *Record, field string) error {
	if !r.Pending() || couldHave(field, true) == nil {
		return nil
	}
	return couldHave(field, false)
}

// held is B against A, as a change or as a ratio. The interval, where both have
// one, is that of the least against the most: wider than a test would have it,
// and never narrower.
func held(verb string, a, b value) (string, error) {
	switch {
	case !a.isNumber || !b.isNumber:
		return "", errors.New("only numbers can be compared")
	case a.kind != b.kind:
		return "", fmt.Errorf("%s and %s are not of one kind", a.text, b.text)
	case !(a.number > 0) || !(a.low > 0):
		return "", fmt.Errorf("nothing can be compared with %s", a.text)
	}
	show := func(ratio float64) string { return kindChange.format(ratio - 1) }
	if verb == verbTimes {
		show = kindTimes.format
	}
	text := show(b.number / a.number)
	if a.high > a.low || b.high > b.low {
		text += " " + interval(show(b.low/a.high), show(b.high/a.low), nil)
	}
	return text, nil
}

// comparable tells whether two records may be held against each other: what was
// asked of two runs must be the same, but for runs of one plan, which were made
// to differ in what it asks. Of two plans that is for the reader to see, and
// said to the writer.
func comparable(a, b *Record) (warning string, err error) {
	if a.ID == b.ID || a.of != nil && a.of == b.of {
		return "", nil
	}
	if a.Run == nil || b.Run == nil {
		return fmt.Sprintf("%s and %s were not measured in one plan: what else differs between them is not known here", a.Name, b.Name), nil
	}
	c := plan.CompareRuns([]plan.Kept{{Run: a.Run.Run}}, []plan.Kept{{Run: b.Run.Run}})
	for _, d := range c.Differences {
		if d.Weight == plan.WeightForbids {
			return "", fmt.Errorf("%s and %s cannot be compared: %s: %s in one, %s in the other", a.Name, b.Name, d.What, d.A, d.B)
		}
	}
	return "", nil
}
