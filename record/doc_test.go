package record

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/unit"
)

// documented reads the first column of every table of docs/record.md, by the
// heading above it.
func documented(t *testing.T) map[string][]string {
	text, err := os.ReadFile("../docs/record.md")
	if err != nil {
		t.Fatal(err)
	}
	cell := regexp.MustCompile("^\\| `([^`]+)` \\|")
	fields := map[string][]string{}
	heading := ""
	for line := range strings.SplitSeq(string(text), "\n") {
		if strings.HasPrefix(line, "#") {
			heading = strings.TrimSpace(strings.TrimLeft(line, "#"))
		} else if m := cell.FindStringSubmatch(line); m != nil {
			fields[heading] = append(fields[heading], m[1])
		}
	}
	return fields
}

// keys lists the JSON names below a type as paths: a.b, and a[].b below a list.
// Types with a table of their own are not gone into.
func keys(prefix string, of reflect.Type, own ...reflect.Type) []string {
	own = append(own,
		reflect.TypeFor[Quantiles](), reflect.TypeFor[spec.Spec](), reflect.TypeFor[Environment](), reflect.TypeFor[NotMeasured](),
		reflect.TypeFor[time.Time](), reflect.TypeFor[unit.Rate](), reflect.TypeFor[spec.SLO](),
		reflect.TypeFor[spec.Expect](), reflect.TypeFor[ObservedHead](),
		reflect.TypeFor[spec.Experiment](), reflect.TypeFor[Estimate](), reflect.TypeFor[Measured](),
		reflect.TypeFor[Sweep](), reflect.TypeFor[Search](), reflect.TypeFor[Proof](), reflect.TypeFor[Comparison](),
		reflect.TypeFor[Factorial](),
		reflect.TypeFor[[]Agent](), reflect.TypeFor[Statement](), reflect.TypeFor[[]Statement](),
	)
	var names []string
	for i := range of.NumField() {
		field := of.Field(i)
		if field.Tag.Get("json") == "-" || !field.IsExported() {
			continue
		}
		name := prefix + strings.Split(field.Tag.Get("json"), ",")[0]
		inner, list := field.Type, ""
		if inner.Kind() == reflect.Slice && !slices.Contains(own, inner) {
			inner, list = inner.Elem(), "[]"
		}
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case field.Anonymous && inner == reflect.TypeFor[ObservedHead](): // has its own table
		case field.Anonymous:
			names = append(names, keys(prefix, inner, own...)...)
		case inner.Kind() == reflect.Struct && !slices.Contains(own, inner):
			names = append(names, keys(name+list+".", inner, own...)...)
		default:
			names = append(names, name)
		}
	}
	return names
}

// Every field of the record is in docs/record.md, and everything in its tables
// is a field.
func TestEveryFieldIsDocumented(t *testing.T) {
	tables := map[string]reflect.Type{
		"result":        reflect.TypeFor[Run](),
		"quantiles":     reflect.TypeFor[Quantiles](),
		"statement":     reflect.TypeFor[Statement](),
		"run":           reflect.TypeFor[Start](),
		"spec":          reflect.TypeFor[spec.Spec](),
		"environment":   reflect.TypeFor[Environment](),
		KindLoad:        reflect.TypeFor[LoadRow](),
		"Observed rows": reflect.TypeFor[ObservedHead](),
		"plan":          reflect.TypeFor[Plan](),
		"estimate":      reflect.TypeFor[Estimate](),
		"measured":      reflect.TypeFor[Measured](),
		"sweep":         reflect.TypeFor[Sweep](),
		"search":        reflect.TypeFor[Search](),
		"proof":         reflect.TypeFor[Proof](),
		"comparison":    reflect.TypeFor[Comparison](),
		"factorial":     reflect.TypeFor[Factorial](),
	}
	for _, kind := range []string{
		KindCPU, KindSubject, KindProcess, KindSockets, KindListener, KindTCPInfo, KindTimes, KindPeers, KindTCP, KindNetDev, KindSoftnet,
		KindSoftirq, KindIRQ, KindNIC, KindPSI, KindDisk, KindTitles, KindThrottle, KindFreq, KindObserver, KindStatus, KindDatabase,
	} {
		row, ok := NewObservedRow(kind)
		if !ok {
			t.Fatalf("no row of kind %s", kind)
		}
		tables[kind] = reflect.TypeOf(row).Elem()
	}
	doc := documented(t)
	for heading, of := range tables {
		compareFields(t, heading, keys("", of), doc[heading])
	}
	compareFields(t, "agent", keys("", reflect.TypeFor[Agent](), reflect.TypeFor[Load](), reflect.TypeFor[Requests](),
		reflect.TypeFor[Rate](), reflect.TypeFor[Bytes](), reflect.TypeFor[[]Error](),
		reflect.TypeFor[Latency](), reflect.TypeFor[Generator]()), doc["agent"])
	compareFields(t, KindNotMeasured, append([]string{"kind"}, keys("", reflect.TypeFor[NotMeasured]())...), doc[KindNotMeasured])
}

func compareFields(t *testing.T, heading string, have, documented []string) {
	t.Helper()
	for _, name := range have {
		if !slices.Contains(documented, name) {
			t.Errorf("docs/record.md: the table of %s has no `%s`; add it with its unit", heading, name)
		}
	}
	for _, name := range documented {
		if !slices.Contains(have, name) {
			t.Errorf("docs/record.md: the table of %s has `%s`, which is no field", heading, name)
		}
	}
}
