package record

import (
	"encoding/json"
	"reflect"
	"testing"
)

// An observer uses its row again: a copy shares no memory with it.
func TestClone(t *testing.T) {
	_, s, err := Open(File{Path: "../show/live/testdata/run.ndjson"})
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[reflect.Type]bool{}
	for _, row := range s.Observed.All() {
		kinds[reflect.TypeOf(row)] = true
		before, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		c := Clone(row)
		scribble(reflect.ValueOf(row).Elem())
		after, err := json.Marshal(c)
		if err != nil || string(before) != string(after) {
			t.Fatalf("%T shares memory with its copy: %s is now %s", row, before, after)
		}
	}
	if len(kinds) < 10 {
		t.Errorf("only %d kinds of rows", len(kinds))
	}
	for _, kind := range ObservedKinds() {
		row, ok := NewObservedRow(kind)
		if !ok || Clone(row) == nil {
			t.Errorf("rows of kind %s are lost", kind)
		}
	}
}

// scribble writes over all that lists hold.
func scribble(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			scribble(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			scribble(v.Index(i))
		}
	case reflect.Int, reflect.Int64:
		v.SetInt(-77)
	}
}
