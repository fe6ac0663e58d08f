package spec

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

func TestParseExpect(t *testing.T) {
	for _, c := range []struct {
		text, back string
		has, not   []int
	}{
		{"", "", []int{200, 204, 302, 304, 399}, []int{400, 404, 500, 999}},
		{" 2xx , 304", "2xx,304", []int{200, 299, 304}, []int{199, 300, 302, 404, 500}},
		{"404", "404", []int{404}, []int{200, 403, 405}},
		{"200-204,5XX", "200-204,5xx", []int{200, 204, 503}, []int{205, 404}},
		{"400-499", "4xx", []int{400, 499}, []int{399, 500}},
	} {
		e, err := ParseExpect(c.text)
		if err != nil || e.String() != c.back {
			t.Fatalf("%q is %q, %v; want %q", c.text, e.String(), err, c.back)
		}
		for _, status := range c.has {
			if !e.Has(status) {
				t.Errorf("%q does not expect %d", c.text, status)
			}
		}
		for _, status := range c.not {
			if e.Has(status) {
				t.Errorf("%q expects %d", c.text, status)
			}
		}
	}
	for _, text := range []string{",", "2xx,", "20", "2000", "xxx", "0xx", "300-200", "200-", "-200", "+20", "099", "ok"} {
		if e, err := ParseExpect(text); err == nil {
			t.Errorf("%q is read as %q", text, e)
		}
	}
}

// TestExpectIsText holds that a spec and an experiment keep it as it was typed.
func TestExpectIsText(t *testing.T) {
	s := good()
	s.Expect = Expect{Statuses: []StatusRange{{200, 299}, {304, 304}}}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if want := `"expect":"2xx,304"`; !strings.Contains(string(text), want) {
		t.Errorf("%s lacks %s", text, want)
	}
	var back Spec
	if err := json.Unmarshal(text, &back); err != nil || back.Expect.String() != "2xx,304" {
		t.Errorf("read back as %q, %v", back.Expect, err)
	}
	var e Experiment
	if err := yaml.Unmarshal([]byte("expect: 2xx,404\n"), &e); err != nil || !e.Expect.Has(404) {
		t.Errorf("YAML is read as %q, %v", e.Expect, err)
	}
	if err := yaml.Unmarshal([]byte("expect: 404\n"), &e); err != nil || !e.Expect.Has(404) || e.Expect.Has(200) {
		t.Errorf("a number in YAML is read as %q, %v", e.Expect, err)
	}
	s.Expect = Expect{Statuses: []StatusRange{{200, 99}}}
	if s.Check() == nil {
		t.Error("an empty range passes")
	}
}

func TestSLOFailsBy(t *testing.T) {
	for _, c := range []struct {
		slo   string
		share float64
		fails bool
	}{
		{"", 0, false}, {"", 0.009, false}, {"", 0.01, true}, {"p99<50ms", 1, true}, {"p99<50ms", 0.002, false},
		{"errors<5%", 0.04, false}, {"errors<5%", 0.06, true}, {"errors<0.1%", 0.002, true}, {"errors<90%", 0.4, false},
		{"errors<90%", 0.6, true},
	} {
		slo, err := ParseSLO(c.slo)
		if err != nil {
			t.Fatal(err)
		}
		if slo.FailsBy(c.share) != c.fails {
			t.Errorf("%g of errors under %q: %v", c.share, c.slo, !c.fails)
		}
	}
}
