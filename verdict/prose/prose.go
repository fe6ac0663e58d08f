// Package prose renders the codes of a verdict as English sentences. It is the only source of
// sentences for the terminal, the pages, the journal and the exports. The sentences are the
// templates (*.tmpl) in this directory, one per code.
//
// An unknown code (from a newer version), or one whose values do not fit, renders as the code
// with its values; nothing in a record is an error here.
package prose

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"

	"ceiling/internal/lazy"
	"ceiling/internal/unit"
	"ceiling/record"
)

//go:embed *.tmpl
var files embed.FS

// sentences reads the templates on first use. Each is parsed when it is needed: all 1,000 take 9 ms of
// CPU, and a report has a few dozen.
var sentences = sync.OnceValue(readLibrary) // read-only

// library has the texts of the templates by code, and what those that were needed parse to.
type library struct {
	texts  map[string]string
	parsed sync.Map
}

// define begins a template, and a line.
const define = "\n{{define \""

// readLibrary splits the files at their definitions.
func readLibrary() *library {
	l := &library{texts: make(map[string]string, 1000)}
	names, err := fs.Glob(files, "*.tmpl")
	if err != nil {
		panic(err) // the pattern is above
	}
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err) // it is embedded
		}
		for _, part := range strings.Split("\n"+string(text), define)[1:] {
			code, _, _ := strings.Cut(part, `"`)
			l.texts[code] = part
		}
	}
	return l
}

// template returns the template of a code, nil for an unknown one.
func (l *library) template(code string) *template.Template {
	if l.texts[code] == "" {
		return nil
	}
	t, have := l.parsed.Load(code)
	if !have {
		t, _ = l.parsed.LoadOrStore(code, l.parse(code))
	}
	return t.(*template.Template)
}

func (l *library) parse(code string) *template.Template {
	t := template.New("").Option("missingkey=error").Funcs(functions())
	for _, text := range l.withOthers(code, nil) {
		t = template.Must(t.Parse(define[1:] + text))
	}
	return t.Lookup(code)
}

// others finds the templates that a text calls.
var others = lazy.Regexp(`{{-? ?template "([^"]+)"`)

// withOthers returns the texts of a code and of all that it calls.
func (l *library) withOthers(code string, have []string) []string {
	text := l.texts[code]
	if slices.Contains(have, text) {
		return have
	}
	have = append(have, text)
	for _, m := range others().FindAllStringSubmatch(text, -1) {
		have = l.withOthers(m[1], have)
	}
	return have
}

// Text returns the sentence of a statement, without a final full stop.
func Text(s record.Statement) string {
	t := sentences().template(s.Code)
	if t == nil {
		return bare(s)
	}
	values := make(map[string]any, len(s.With))
	for name, v := range s.With {
		values[name] = shown(v)
	}
	var out strings.Builder
	if err := t.Execute(&out, values); err != nil {
		return bare(s)
	}
	if unit, other := s.With["counted"].(string); other {
		return inUnit(strings.TrimSpace(out.String()), unit)
	}
	return strings.TrimSpace(out.String())
}

// Texts returns the sentences of a list, one per statement.
func Texts(list []record.Statement) []string {
	texts := make([]string, len(list))
	for i := range list {
		texts[i] = Text(list[i])
	}
	return texts
}

// Sentence joins statements into one sentence.
func Sentence(list []record.Statement) string { return strings.Join(Texts(list), "; ") }

// Reason returns why the verdict is what it is, without the leading bottleneck name of sentences
// that predate codes.
func Reason(v *record.Verdict) string {
	return strings.TrimPrefix(Sentence(v.Because), string(v.Bottleneck)+": ")
}

// Spell returns a copy of a document (a verdict, a run, a plan or a part of one) with the
// sentence in every statement, as in printed output.
func Spell[T any](document T) T {
	spell(reflect.ValueOf(&document).Elem())
	return document
}

// spell writes the sentences below a value, into copies of what it points to.
func spell(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			own := reflect.New(v.Type().Elem())
			own.Elem().Set(v.Elem())
			spell(own.Elem())
			v.Set(own)
		}
	case reflect.Slice:
		if kind := v.Type().Elem().Kind(); v.IsNil() || kind != reflect.Struct && kind != reflect.Pointer {
			return
		}
		own := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(own, v)
		for i := range own.Len() {
			spell(own.Index(i))
		}
		v.Set(own)
	case reflect.Struct:
		if s, is := v.Addr().Interface().(*record.Statement); is {
			s.Text = Text(*s)
			return
		}
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() && field.Tag.Get("json") != "-" {
				spell(v.Field(i))
			}
		}
	}
}

// number is a figure that a template prints as is: whole numbers without a decimal point.
type number float64

func (n number) String() string { return strconv.FormatFloat(float64(n), 'f', -1, 64) }

// shown converts a value for a template: a nested statement becomes its sentence.
func shown(v any) any {
	switch v := v.(type) {
	case float64:
		return number(v)
	case record.Statement:
		return Text(v)
	case []record.Statement:
		return Texts(v)
	case nil:
		return ""
	}
	return v
}

// bare renders a statement without its sentence.
func bare(s record.Statement) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(s.With)) {
		parts = append(parts, fmt.Sprintf("%s=%v", name, shown(s.With[name])))
	}
	if parts == nil {
		return s.Code
	}
	return s.Code + " (" + strings.Join(parts, ", ") + ")"
}

// functions are what a template may call on its values. Each formats a unit.
func functions() template.FuncMap {
	return template.FuncMap{
		"percent": func(share number) string { return unit.Percent(float64(share)) },
		"time":    func(ns number) string { return unit.FormatNsFloat(float64(ns)) },
		"rate":    func(perS number) string { return unit.FormatRate(float64(perS)) },
		"bits":    func(perS number) string { return unit.FormatBits(unit.BitsPerSecond(min(max(perS, 0), 1<<62))) },
		"count":   func(n number) string { return unit.FormatCount(int64(math.Round(min(max(float64(n), 0), 1<<62)))) },
		"si":      func(v number) string { return unit.FormatSI(float64(v)) },
		// digits keeps n significant digits, fixed n decimals.
		"seconds": func(s number) string { return unit.FormatNsFloat(1e9 * float64(s)) },
		"digits":  func(n int, v number) string { return unit.Digits(float64(v), n) },
		"fixed":   func(n int, v number) string { return fmt.Sprintf("%.*f", n, float64(v)) },
		"bytes":   func(n number) string { return unit.FormatBytesSI(int64(min(max(n, 0), 1<<62))) },
		// signed is a share with its sign, multiple a factor, atonce a possibly fractional count.
		"signed": func(share number) string {
			return unit.Minus(pick(share < 0, "", "+") + unit.Digits(float64(share)*100, 2) + "%")
		},
		// change is a signed share that may exceed one.
		"change": func(share number) string {
			return pick(share < 0, "−", "+") + unit.Percent(math.Abs(float64(share)))
		},
		"multiple": func(times number) string { return unit.Times(float64(times)) },
		"atonce": func(n number) string {
			return pick(n >= 10, fmt.Sprintf("%.0f", float64(n)), unit.Digits(float64(n), 2))
		},
		// precisely is a share with four digits; fixedpercent has n decimals.
		"precisely":     func(share number) string { return unit.PercentDigits(float64(share), 4) },
		"fixedpercent":  func(n int, share number) string { return fmt.Sprintf("%.*f%%", n, 100*float64(share)) },
		"signedpercent": func(share number) string { return unit.Change(float64(share)) },
		"minus":         func(n number) number { return -n },
		"cost":          func(n number, of string) string { return Cost(float64(n), of) },
		"listed":        listed,
		// between, dash and to are ranges, or the one figure that both ends are.
		"between": func(low, high string) string { return pick(low == high, "about "+low, "between "+low+" and "+high) },
		"dash":    func(low, high string) string { return unit.Range(low, "–", high) },
		"to":      func(low, high string) string { return unit.Range(low, " to ", high) },
		"plural":  func(v number, one, many string) string { return unit.Plural(int(v), one, many) },
		"of":      func(v number, one, many string) string { return pick(v == 1, one, many) },
		"join":    func(by string, list []string) string { return strings.Join(list, by) },
		"upper":   upper,
	}
}

func pick[T any](is bool, one, other T) T {
	if is {
		return one
	}
	return other
}

// Cost formats what one request costs, in a profile's unit.
func Cost(v float64, of string) string {
	switch of {
	case "nanoseconds":
		return unit.FormatNsFloat(v)
	case "bytes":
		if v < 1024 {
			return fmt.Sprintf("%.0f B", v)
		}
		return unit.FormatBytesIEC(int64(min(v, 1<<62)))
	}
	return fmt.Sprintf("%.2f", v)
}

// listed joins names: "a", "a and b", "a, b and c".
func listed(names []string) string {
	n := len(names)
	if n < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
}

// upper capitalises a sentence.
func upper(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// ofRequests matches the words for what most runs count.
var ofRequests = lazy.Regexp(`\b[Rr]equests?\b|\breq/s\b`) // read-only

// inUnit rewrites a sentence about requests in the unit of a run that counts something else:
// "messages".
func inUnit(text, unit string) string {
	return ofRequests().ReplaceAllStringFunc(text, func(word string) string {
		switch word {
		case "req/s":
			return unit + "/s"
		case "request":
			return strings.TrimSuffix(unit, "s")
		case "Request":
			return upper(strings.TrimSuffix(unit, "s"))
		case "Requests":
			return upper(unit)
		}
		return unit
	})
}
