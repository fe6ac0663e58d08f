package journal

import (
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"reflect"
	"slices"
	"strings"
	"text/template/parse"

	"ceiling/experiment/plan"
	"ceiling/internal/text"
	"ceiling/show/page"
)

// A reference is one {{…}} of a text, a pipeline as text/template parses it. It starts with one of
// the functions below and ends in a figure, by its name among those that the function returns.

// answer is the value of a reference: text within a sentence, or blocks.
type answer struct {
	// Figure is the text; Interval is what follows it, "" for nothing.
	Figure, Interval string
	// Pending: the record is still to be measured. Typed: the value was typed by hand.
	Pending, Typed bool
	From           []*Record

	kind *form // nil of a text
	// number and its interval are in the unit of the kind; low and high are equal if there is no
	// interval.
	number, low, high float64
	blocks            []page.Block
	html              template.HTML // in place of blocks
	isBlock           bool          // in a paragraph of its own
	warning           string
	wrong             error // why the record has no such figure
}

func (a answer) full() string { return strings.TrimSpace(a.Figure + " " + a.Interval) }

// CSV is the path of the points that its blocks show, "" if they show none.
func (a answer) CSV() string {
	if len(a.blocks) == 0 {
		return ""
	}
	return a.From[0].CSV()
}

// Page is the page of its record, "" if that is still to be measured.
func (a answer) Page() string {
	if len(a.From) == 0 || a.Pending {
		return ""
	}
	return a.From[len(a.From)-1].Page()
}

// function is what a reference may start with: how it is written, and what it does.
type function struct {
	usage string
	call  any
}

// functions are the functions available to an entry's references.
func (e *Entry) functions() map[string]function {
	return map[string]function{
		"run":         {`{{(run "NAME").Rate}}`, e.run},
		"plan":        {`{{(plan "NAME").Count}}`, e.plan},
		"curve":       {`{{(curve "NAME" "SERVER" "MIX").Rate}}`, e.curve},
		"cell":        {`{{(cell "NAME" "LEVEL" "LEVEL").Rate}}`, e.cell},
		"effect":      {`{{(effect "NAME" "FACTOR" "LEVEL").Rate}}`, e.effect},
		"resource":    {`{{(resource "NAME" "server CPU").Elasticity}}`, e.resource},
		"metric":      {`{{(metric "NAME" "rps").Change}}`, e.metric},
		"reported":    {`{{(reported "records/wrk.txt").Rate}}`, e.reported},
		"compare":     {`{{compare (run "A").Rate (run "B").Rate}}`, func(a, b answer) (answer, error) { return against(kindChange, a, b) }},
		"times":       {`{{times (run "A").Rate (run "B").Rate}}`, func(a, b answer) (answer, error) { return against(kindTimes, a, b) }},
		"typed":       {`{{typed "5 ms"}}`, func(text string) answer { return answer{Figure: page.Text(text), Typed: true} }},
		"table":       {`{{table "NAME"}} or {{table "NAME" "KIND"}}`, func(args ...string) (answer, error) { return e.blocks("table", args) }},
		"figure":      {`{{figure "NAME" "KIND"}}`, func(name, kind string) (answer, error) { return e.blocks("figure", []string{name, kind}) }},
		"little":      {`{{little (run "NAME")}}`, sumOf(little)},
		"shareOfLink": {`{{shareOfLink (run "NAME") "10Gbit/s"}}`, shareOfLink},
		"utilization": {`{{utilization (run "NAME")}}`, sumOf(utilization)},
		"ends":        {`{{ends (run "NAME")}}`, about(ends)},
		"workers":     {`{{workers (run "NAME")}}`, about(workers)},
		"path":        {`{{path (run "NAME")}}`, about(pathOf)},
	}
}

// misuse is a mistake in how a reference is written, which the usage of its function explains.
type misuse struct{ error }

// answer evaluates the text between {{ and }}.
func (e *Entry) answer(inside string) (answer, error) {
	inside = strings.TrimSpace(inside)
	functions := e.functions()
	if inside == "" {
		return answer{}, fmt.Errorf("{{}} is empty; %s takes a figure from a record", functions["run"].usage)
	}
	found, err := evaluate(inside, functions)
	if err == nil {
		switch found := found.(type) {
		case answer:
			if err = found.wrong; err == nil {
				return found, nil
			}
		case figures:
			names := found.names()
			return answer{}, fmt.Errorf("{{%s}} has figures; name one, as in {{(%s).%s}}; there is %s", clip(inside), clip(inside),
				names[0], strings.Join(names, ", "))
		default:
			err = errNoFigure
		}
	}
	var wrong misuse
	if !errors.As(err, &wrong) {
		return answer{}, fmt.Errorf("{{%s}}: %w", clip(inside), err)
	}
	verb, _, _ := strings.Cut(strings.TrimLeft(inside, "( "), " ")
	usage := cmp.Or(functions[verb].usage, functions["run"].usage)
	return answer{}, fmt.Errorf("{{%s}}: %w; it is written as %s", clip(inside), wrong, usage)
}

var errNoFigure = misuse{errors.New("is not a figure of a record")}

// evaluate evaluates a pipeline.
func evaluate(inside string, functions map[string]function) (any, error) {
	tree := parse.New("")
	tree.Mode = parse.SkipFuncCheck // an unknown name has an error of its own
	if _, err := tree.Parse("{{("+inside+")}}", "", "", map[string]*parse.Tree{}); err != nil {
		return nil, misuse{errors.New(strings.TrimPrefix(text.Line(err.Error()), "template: :1: "))}
	}
	action, ok := tree.Root.Nodes[0].(*parse.ActionNode)
	if !ok || len(tree.Root.Nodes) > 1 {
		return nil, errNoFigure
	}
	return operand(action.Pipe, functions)
}

// operand evaluates a part of a pipeline: a literal, a function, a figure by its name, or commands of which
// each has the result of the one before it as its last argument.
func operand(n parse.Node, functions map[string]function) (result any, err error) {
	switch n := n.(type) {
	case *parse.StringNode:
		return n.Text, nil
	case *parse.NumberNode:
		return n.Float64, nil
	case *parse.IdentifierNode:
		if f, known := functions[n.Ident]; known {
			return f.call, nil
		}
		return nil, fmt.Errorf("unknown {{%s}}%s", clip(n.Ident), nearTo(n.Ident, slices.Sorted(maps.Keys(functions))))
	case *parse.ChainNode:
		result, err = operand(n.Node, functions)
		for _, name := range n.Field {
			if err == nil {
				result, err = ask(result, name)
			}
		}
		return result, err
	case *parse.PipeNode:
		for i, one := range n.Cmds {
			var list []any // the function and its arguments
			for k, part := range one.Args {
				v, err := operand(part, functions)
				if err == nil && k > 0 {
					v, err = call(part.String(), v)
				}
				if err != nil {
					return nil, err
				}
				list = append(list, v)
			}
			if i > 0 {
				list = append(list, result)
			}
			if result, err = call(one.Args[0].String(), list[0], list[1:]...); err != nil {
				return nil, err
			}
		}
		return result, nil
	}
	return nil, errNoFigure
}

// ask returns a figure by its name, which may be a function.
func ask(of any, name string) (any, error) {
	of, err := call(name, of)
	if err != nil {
		return nil, err
	}
	f, ok := of.(figures)
	if !ok {
		return nil, fmt.Errorf("a figure has no parts, and no .%s", clip(name))
	}
	if v, there := f.by[name]; there {
		return v, nil
	}
	return nil, fmt.Errorf("unknown .%s%s", clip(name), nearTo(name, f.names()))
}

// call calls a function; any other value stands for itself.
func call(name string, v any, args ...any) (any, error) {
	f := reflect.ValueOf(v)
	if f.Kind() != reflect.Func {
		if len(args) > 0 {
			return nil, misuse{fmt.Errorf("%s takes no arguments", clip(name))}
		}
		return v, nil
	}
	t := f.Type()
	least, most := t.NumIn(), t.NumIn()
	if t.IsVariadic() {
		least, most = least-1, len(args)
	}
	if len(args) < least || len(args) > most {
		return nil, misuse{fmt.Errorf("wrong number of args for %s: want %d got %d", clip(name), least, len(args))}
	}
	var in []reflect.Value
	for i, arg := range args {
		want := t.In(min(i, t.NumIn()-1))
		if t.IsVariadic() && i >= least {
			want = want.Elem()
		}
		if !reflect.TypeOf(arg).AssignableTo(want) {
			return nil, misuse{fmt.Errorf("%s cannot take its argument %d", clip(name), i+1)}
		}
		in = append(in, reflect.ValueOf(arg))
	}
	out := f.Call(in)
	if len(out) == 2 && !out[1].IsNil() {
		return nil, out[1].Interface().(error)
	}
	return out[0].Interface(), nil
}

// run returns the figures of a run of the entry, or with NAME/ID of a run of a plan.
func (e *Entry) run(name string) (figures, error) {
	of, err := e.resolve(name)
	if err != nil {
		return figures{}, err
	}
	if of.Plan != nil {
		return figures{}, fmt.Errorf(`%s is a plan: write (plan %q)`, of.Name, of.Name)
	}
	return runOf(of), nil
}

// plan returns the figures of a plan of the entry.
func (e *Entry) plan(name string) (figures, error) {
	of, err := e.planNamed(name)
	if err != nil {
		return figures{}, err
	}
	return planOf(of), nil
}

func (e *Entry) planNamed(name string) (*Record, error) {
	of, err := e.resolve(name)
	if err == nil && of.Run != nil {
		return nil, fmt.Errorf(`%s is a run: write (run %q)`, of.Name, of.Name)
	}
	return of, err
}

// against compares B with A, as a change or as a ratio. The interval, if either has one, spans
// the extremes: wider than that of a test, and never narrower.
func against(as *form, a, b answer) (answer, error) {
	out := answer{From: slices.Concat(a.From, b.From)}
	err := cmp.Or(a.wrong, b.wrong)
	switch {
	case err != nil:
		return out, err
	case a.Pending || b.Pending:
		return pending(out.From...), nil
	case a.kind == nil || b.kind == nil:
		return out, errors.New("only numbers can be compared")
	case a.kind != b.kind:
		return out, fmt.Errorf("%s and %s are not of one kind", a.full(), b.full())
	case !(a.number > 0) || !(a.low > 0):
		return out, fmt.Errorf("nothing can be compared with %s", a.full())
	}
	if len(a.From) == 0 || len(b.From) == 0 {
		out.warning = "one of them is another tool's report, which does not say under what conditions"
	} else if out.warning, err = comparable(a.From[0], b.From[0]); err != nil {
		return out, err
	}
	show := func(ratio float64) string {
		if as == kindChange {
			ratio--
		}
		return as.format(ratio)
	}
	out.Figure = show(b.number / a.number)
	if a.high > a.low || b.high > b.low {
		out.Interval = interval(show(b.low/a.high), show(b.high/a.low), 0.95)
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
