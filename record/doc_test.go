package record

import (
	"reflect"
	"testing"

	"ceiling/internal/golden"
	"ceiling/internal/reference"
)

// TestFieldsAreDocumented: docs/record-fields.md is generated from the comments of the structs.
func TestFieldsAreDocumented(t *testing.T) {
	f, err := reference.Read("json", map[string]string{
		"unit.Rate": "text or number", "spec.PerConnection": "yes/no, or number", "time.Duration": "number, nanoseconds", "spec.Expect": "text, or list of text", "spec.SLO": "text",
	}, ".", "../experiment/spec")
	if err != nil {
		t.Fatal(err)
	}
	rows := []string{"record.LoadRow"}
	f.Title("record.LoadRow", KindLoad+" rows")
	for _, kind := range ObservedKinds() {
		row, ok := NewObservedRow(kind)
		if !ok {
			t.Fatalf("no row of kind %s", kind)
		}
		name := reflect.TypeOf(row).Elem().String()
		f.Title(name, kind+" rows")
		rows = append(rows, name)
	}
	page, err := f.Page("# The fields of a record\n\nMade from the comments of the structs in `record` and "+
		"`experiment/spec`; [record.md](record.md)\nsays how a record is read. Units are in the names, as there.\n",
		reference.Part{Heading: "A run", Roots: []string{"record.Run", "record.Start"}}, reference.Part{Heading: "Rows", Roots: rows},
		reference.Part{Heading: "A plan", Roots: []string{"record.Plan", "record.Measured"}})
	if err != nil {
		t.Fatal(err)
	}
	golden.Text(t, "../docs/record-fields.md", page)
}
