package journal

import (
	"errors"
	"fmt"
	"html/template"
	"reflect"
	"slices"
	"strings"
	texttemplate "text/template"

	"ceiling/experiment/plan"
	"ceiling/internal/lazy"
	"ceiling/show/page"
)

// A reference is one {{…}} of a text, a text/template pipeline. It starts with one of the
// functions below and ends in a figure, a method of the function's result.

// answer is the value of a reference: text within a sentence, or blocks.
type answer struct {
	text string
	// short is the text without its interval.
	short string
	kind  kind
	// number and its interval are in the unit of the kind; low and high are equal if there is no
	// interval.
	number, low, high float64
	// of are the source records.
	of     []*Record
	blocks []page.Block
	html   template.HTML // in place of blocks
	// pending: the record is still to be measured. typed: the value was typed by hand.
	pending, typed bool
	isBlock        bool // in a paragraph of its own
	warning        string
}

// interval returns a figure's interval, "" if it has none.
func (a answer) interval() string { return strings.TrimSpace(strings.TrimPrefix(a.text, a.short)) }

// usages is the syntax of each function.
var usages = map[string]string{
	"run": `{{(run "NAME").Rate}}`, "plan": `{{(plan "NAME").Count}}`, "curve": `{{(curve "NAME" "SERVER" "MIX").Rate}}`,
	"cell": `{{(cell "NAME" "LEVEL" "LEVEL").Rate}}`, "effect": `{{(effect "NAME" "FACTOR" "LEVEL").Rate}}`,
	"resource": `{{(resource "NAME" "server CPU").Elasticity}}`, "metric": `{{(metric "NAME" "rps").Change}}`,
	"compare": `{{compare (run "A").Rate (run "B").Rate}}`, "times": `{{times (run "A").Rate (run "B").Rate}}`,
	"typed": `{{typed "5 ms"}}`, "table": `{{table "NAME"}} or {{table "NAME" "KIND"}}`, "figure": `{{figure "NAME" "KIND"}}`,
	"little": `{{little (run "NAME")}}`, "shareOfLink": `{{shareOfLink (run "NAME") "10Gbit/s"}}`, "utilization": `{{utilization (run "NAME")}}`,
	"regime": `{{(regime "kv-quorum").Rate}}`, "ladder": `{{ladder}}`, "reported": `{{(reported "records/wrk.txt").Rate}}`,
	"ends": `{{ends (run "NAME")}}`, "workers": `{{workers (run "NAME")}}`, "path": `{{path (run "NAME")}}`,
} // read-only

// functions are the functions available to an entry's references.
func (e *Entry) functions() texttemplate.FuncMap {
	return texttemplate.FuncMap{
		"run": e.run, "plan": e.plan, "curve": e.curveOf, "resource": e.resource, "metric": e.metric,
		"cell": func(name string, levels ...string) (*cellFigures, error) { return cellOf(e, name, levels...) },
		"effect": func(name, factor, level string, given ...string) (*effectFigures, error) {
			return effectOf(e, name, factor, level, given...)
		},
		"regime":   func(name string) (*regimeFigures, error) { return regimeOf(e, name) },
		"reported": func(file string) (*reportedFigures, error) { return reportedIn(e, file) },
		"ladder":   func() (answer, error) { return ladderBlock(e) },
		"compare":  func(a, b answer) (answer, error) { return against(kindChange, a, b) },
		"times":    func(a, b answer) (answer, error) { return against(kindTimes, a, b) },
		"typed":    func(text string) answer { return answer{text: text, short: text, typed: true} },
		"table":    func(args ...string) (answer, error) { return e.blocks("table", args) },
		"little":   e.little, "shareOfLink": e.shareOfLink, "utilization": e.utilization, "ends": e.ends, "workers": e.workers,
		"path":   e.pathOf,
		"figure": func(name, kind string) (answer, error) { return e.blocks("figure", []string{name, kind}) },
	}
}

// answer evaluates the text between {{ and }}.
func (e *Entry) answer(inside string) (out answer, err error) {
	inside = strings.TrimSpace(inside)
	if inside == "" {
		return out, fmt.Errorf("{{}} is empty; %s takes a figure from a record", usages["run"])
	}
	var found any
	functions := e.functions()
	functions["found"] = func(v any) string { found = v; return "" }
	t, err := texttemplate.New("").Funcs(functions).Parse("{{found (" + inside + ")}}")
	if err == nil {
		err = t.Execute(new(strings.Builder), nil)
	}
	if err != nil {
		return out, said(inside, err)
	}
	out, ok := found.(answer)
	if !ok {
		if figures := methods(reflect.TypeOf(found)); len(figures) > 0 {
			return out, fmt.Errorf("{{%s}} has figures; name one, as in {{(%s).%s}}; there is %s", clip(inside), clip(inside),
				figures[0], strings.Join(figures, ", "))
		}
		return out, fmt.Errorf("{{%s}} is not a figure of a record; write it as in %s", clip(inside), usages["run"])
	}
	return out, nil
}

var (
	noFunction = lazy.Regexp(`function "([^"]*)" not defined`)
	noFigure   = lazy.Regexp(`can't evaluate field (\w+) in type \*?journal\.(\w+)`)
	inTemplate = lazy.Regexp(`^(template: |error calling )`)
	atPlace    = lazy.Regexp(`^template: :\d+(:\d+)?: (executing "" at <.*>: )?`)
)

// figureTypes are the result types of the functions, by type name.
func figureTypes() map[string]reflect.Type {
	types := map[string]reflect.Type{}
	for _, v := range []any{&runFigures{}, &planFigures{}, &curveFigures{}, &pointFigures{}, &resourceFigures{}, &metricFigures{},
		&cellFigures{}, &effectFigures{},
		&regimeFigures{}, &reportedFigures{}, quantiles{}} {
		t := reflect.TypeOf(v)
		name := t.Name()
		if t.Kind() == reflect.Pointer {
			name = t.Elem().Name()
		}
		types[name] = t
	}
	return types
}

// methods returns the figures of a type, by name.
func methods(t reflect.Type) []string {
	var names []string
	for i := 0; t != nil && i < t.NumMethod(); i++ {
		names = append(names, t.Method(i).Name)
	}
	return names
}

// said explains what is wrong with a reference, in this package's words where they are clearer
// than the template's.
func said(inside string, err error) error {
	text := err.Error()
	if m := noFunction().FindStringSubmatch(text); m != nil {
		return fmt.Errorf("unknown {{%s}}%s", clip(m[1]), nearTo(m[1], slices.Sorted(slices.Values(keysOf(usages)))))
	}
	if m := noFigure().FindStringSubmatch(text); m != nil {
		if near := nearTo(m[1], methods(figureTypes()[m[2]])); near != "" {
			return fmt.Errorf("{{%s}}: unknown .%s%s", clip(inside), clip(m[1]), near)
		}
		return fmt.Errorf("{{%s}}: a figure has no parts, and no .%s", clip(inside), clip(m[1]))
	}
	own := err
	for next := own; next != nil; next = errors.Unwrap(next) {
		if own = next; !inTemplate().MatchString(own.Error()) {
			break // already this package's words
		}
	}
	usage := ""
	if inTemplate().MatchString(own.Error()) || own == err || strings.Contains(text, "wrong number of args") {
		verb, _, _ := strings.Cut(strings.TrimLeft(inside, "( "), " ")
		if usage = usages[verb]; usage == "" {
			usage = usages["run"]
		}
		usage = "; it is written as " + usage
	}
	return fmt.Errorf("{{%s}}: %s%s", clip(inside), strings.ReplaceAll(atPlace().ReplaceAllString(own.Error(), ""), "\n", " "), usage)
}

// run returns a run of the entry, or with NAME/ID a run of a plan.
func (e *Entry) run(name string) (*runFigures, error) {
	of, err := e.resolve(name)
	if err != nil {
		return nil, err
	}
	if of.Plan != nil {
		return nil, fmt.Errorf(`%s is a plan: write (plan %q)`, of.Name, of.Name)
	}
	return e.runOf(of), nil
}

func (e *Entry) plan(name string) (*planFigures, error) {
	of, err := e.resolve(name)
	if err != nil {
		return nil, err
	}
	if of.Run != nil {
		return nil, fmt.Errorf(`%s is a run: write (run %q)`, of.Name, of.Name)
	}
	return e.planOf(of), nil
}

// against compares B with A, as a change or as a ratio. The interval, if either has one, spans
// the extremes: wider than that of a test, and never narrower.
func against(as kind, a, b answer) (answer, error) {
	out := answer{of: slices.Concat(a.of, b.of)}
	if a.pending || b.pending {
		out.pending, out.text, out.short = true, "not measured yet", "not measured yet"
		return out, nil
	}
	var err error
	switch {
	case a.kind == kindText || b.kind == kindText:
		return out, errors.New("only numbers can be compared")
	case a.kind != b.kind:
		return out, fmt.Errorf("%s and %s are not of one kind", a.text, b.text)
	case !(a.number > 0) || !(a.low > 0):
		return out, fmt.Errorf("nothing can be compared with %s", a.text)
	}
	if len(a.of) == 0 || len(b.of) == 0 {
		out.warning = "one of them is another tool's report, which does not say under what conditions"
	} else if out.warning, err = comparable(a.of[0], b.of[0]); err != nil {
		return out, err
	}
	show := func(ratio float64) string {
		if as == kindChange {
			ratio--
		}
		return as.format(ratio)
	}
	out.text = show(b.number / a.number)
	out.short = out.text
	if a.high > a.low || b.high > b.low {
		out.text += " " + interval(show(b.low/a.high), show(b.high/a.low), 0.95)
	}
	return out, nil
}

// comparable reports whether two records may be compared: two runs need the same definition,
// unless they belong to one plan, which varies it deliberately. For two plans it returns a
// warning and leaves the judgement to the author.
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
