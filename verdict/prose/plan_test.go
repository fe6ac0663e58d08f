package prose

import (
	"encoding/json"
	"reflect"
	"testing"

	"ceiling/record"
)

// fill sets every statement below a value, one in each list, and makes what is nil.
func fill(v reflect.Value) {
	switch statement := reflect.ValueOf(record.State("plan.complete", record.Values{"runs": 3})); {
	case v.Type() == statement.Type():
		v.Set(statement)
	case v.Kind() == reflect.Pointer:
		if v.IsNil() && v.CanSet() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		fill(v.Elem())
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && v.Type().Field(i).Tag.Get("json") != "-" {
				fill(v.Field(i))
			}
		}
	}
}

// statements counts those of a document, and those with a sentence.
func counted(doc any) (all, with int) {
	switch doc := doc.(type) {
	case map[string]any:
		if doc["code"] == "plan.complete" {
			all++
			if doc["text"] == "all 3 runs are done" {
				with++
			}
		}
		for _, one := range doc {
			a, w := counted(one)
			all, with = all+a, with+w
		}
	case []any:
		for _, one := range doc {
			a, w := counted(one)
			all, with = all+a, with+w
		}
	}
	return all, with
}

// What is printed of a plan has the sentence of every statement, wherever it stands; the
// plan itself stays without.
func TestSpell(t *testing.T) {
	var p record.Plan
	p.Because = record.State("plan.complete", record.Values{"runs": 3})
	for _, part := range []any{&p.CPUs, &p.Runs, &p.Sweep, &p.Search, &p.Proof, &p.Comparison} {
		fill(reflect.ValueOf(part).Elem())
	}
	count := func(p record.Plan) (all, with int) {
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var doc any
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		return counted(doc)
	}
	all, with := count(Spell(p))
	if all < 25 || with != all {
		t.Errorf("%d of %d statements have their sentence", with, all)
	}
	if _, with := count(p); with > 0 {
		t.Errorf("%d sentences were written into the plan itself", with)
	}
}
