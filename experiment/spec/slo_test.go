package spec

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
)

func TestParseSLO(t *testing.T) {
	latency := func(q, ns float64) Term { return Term{Metric: MetricResponse, Quantile: q, Less: true, Limit: ns} }
	service := func(q, ns float64) Term { return Term{Metric: MetricService, Quantile: q, Less: true, Limit: ns} }
	for _, c := range []struct {
		text string
		want SLO
		back string // how it prints; "" for as it was written
	}{
		{"p99<5ms,errors<0.1%,mean<2ms,max<1s,service.p99<3ms,rate>10k", SLO{
			latency(.99, 5e6), {Metric: MetricErrors, Less: true, Limit: .001}, latency(Mean, 2e6), latency(1, 1e9),
			service(.99, 3e6), {Metric: MetricRate, Limit: 10000},
		}, "p99<5ms,errors<0.1%,mean<2ms,max<1s,service.p99<3ms,rate>10000"},
		{"p50<1ms", SLO{latency(.5, 1e6)}, ""},
		{"p5<1ms", SLO{latency(.05, 1e6)}, ""},
		{"p99.9<5ms", SLO{latency(.999, 5e6)}, ""},
		{"p999<5ms", SLO{latency(.999, 5e6)}, "p99.9<5ms"},
		{"p99.99<5ms", SLO{latency(.9999, 5e6)}, ""},
		{"p9999<1.5s", SLO{latency(.9999, 1.5e9)}, "p99.99<1500ms"},
		{"p100<5us", SLO{latency(1, 5e3)}, "max<5us"},
		{" P99 <= 5ms , response.mean≤1ms", SLO{latency(.99, 5e6), latency(Mean, 1e6)}, "p99<5ms,mean<1ms"},
		{"errors<0.001", SLO{{Metric: MetricErrors, Less: true, Limit: .001}}, "errors<0.1%"},
		{"errors<=0", SLO{{Metric: MetricErrors, Less: true}}, "errors<0%"},
		{"errors<7%", SLO{{Metric: MetricErrors, Less: true, Limit: .07}}, ""},
		{"rate≥10k/s", SLO{{Metric: MetricRate, Limit: 10000}}, "rate>10000"},
		{"service.max<1s", SLO{service(1, 1e9)}, ""},
		{"", nil, ""},
	} {
		got, err := ParseSLO(c.text)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("ParseSLO(%q) = %+v, %v; want %+v", c.text, got, err, c.want)
			continue
		}
		want := c.back
		if want == "" {
			want = c.text
		}
		if got.String() != want {
			t.Errorf("ParseSLO(%q).String() = %q; want %q", c.text, got, want)
		}
		if again, err := ParseSLO(got.String()); err != nil || !reflect.DeepEqual(again, got) {
			t.Errorf("%q read again: %+v, %v; want %+v", got, again, err, got)
		}
	}
}

func TestParseSLORefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"p99<5ms,", "nothing between two commas"},
		{"p99", `SLO term "p99": no < or > in it; write p99<5ms`},
		{"p99=5ms", "= compares nothing; write p99<5ms"},
		{"p99==5ms", "== compares nothing"},
		{"p99>5ms", "stay below its limit; write p99<5ms"},
		{"rate<10k", "write rate>10000"},
		{"rate>fast", "write rate>10k"},
		{"p99<fast", "write p99<5ms"},
		{"p99<5", "write p99<5ms"},
		{"p99<0s", "no time is below 0"},
		{"p0<5ms", `unknown SLO metric "p0"; use p50`},
		{"p99.<5ms", `unknown SLO metric "p99."`},
		{"p999.9<5ms", "unknown SLO metric"},
		{"q99<5ms", "unknown SLO metric"},
		{"p(95)<200", `"p(95)" is k6's form; write p95<200ms`},
		{"p(x)<200", "unknown SLO metric"},
		{"p(95<200", "unknown SLO metric"},
		{"lag.p99<5ms", "unknown SLO metric"},
		{"errors<200%", "at most 1"},
		{"errors<5", "for per cent write errors<5%"},
		{"errors<-1%", "is not a share; write errors<1%"},
		{"errors<1e-3", "is not a share"},
		{"errors<%", "is not a share"},
		{"p99<5ms,p999<9ms,p99.9<8ms", "both p99.9<9ms and p99.9<8ms"},
		{strings.Repeat("p99<5ms,", 65) + "p99<5ms", "at most 64"},
	} {
		_, err := ParseSLO(c.text)
		checkError(t, c.text, err, c.want)
	}
}

func TestTermHolds(t *testing.T) {
	check := func(text string, value float64, want bool) {
		t.Helper()
		slo, err := ParseSLO(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := slo[0].Holds(value); got != want {
			t.Errorf("%s with %v: %v", text, value, got)
		}
	}
	check("p99<5ms", 4e6, true)
	check("p99<5ms", 5e6, true)
	check("p99<5ms", 5e6+1, false)
	check("errors<=0", 0, true)
	check("errors<=0", 1e-9, false)
	check("rate>10k", 10000, true)
	check("rate>10k", 9999.9, false)
	check("rate>10k", math.NaN(), false)
	check("p99<5ms", math.NaN(), false)
}

func TestSLOJSON(t *testing.T) {
	slo, err := ParseSLO("p99<5ms,errors<0.1%")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(struct {
		SLO SLO `json:"slo,omitempty"`
	}{slo})
	// encoding/json escapes < for the sake of HTML; it is the same text.
	if want := `{"slo":"p99\u003c5ms,errors\u003c0.1%"}`; err != nil || string(text) != want {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
	var back struct{ SLO SLO }
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back.SLO, slo) {
		t.Errorf("%+v, %v", back, err)
	}
	if _, err := json.Marshal(SLO{{Metric: "p99"}}); err == nil {
		t.Error("a term that does not read back was written")
	}
}

func FuzzParseSLO(f *testing.F) {
	for _, s := range []string{"p99<5ms,errors<0.1%,mean<2ms,max<1s,service.p99<3ms,rate>10k", "p999≤1.5s", "rate>=1M/s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		slo, err := ParseSLO(text)
		if err != nil {
			return
		}
		again, err := ParseSLO(slo.String())
		if err != nil || !reflect.DeepEqual(again, slo) {
			t.Errorf("ParseSLO(%q) = %+v prints %q, which reads %+v, %v", text, slo, slo, again, err)
		}
	})
}

// TestSLOHints: what a refusal says to write has the user's own number, and is accepted.
func TestSLOHints(t *testing.T) {
	for text, want := range map[string]string{
		"p99<5": "p99<5ms", "p99>7ms": "p99<7ms", "p99.9>=20ms": "p99.9<20ms", "p99=3us": "p99<3us", "p99<10%": "p99<10ms", "p50==0.5s": "p50<0.5s",
		"service.p99<250": "service.p99<250ms", "max<0ms": "max<5ms", "mean<fast": "mean<5ms", "errors<-1%": "errors<1%", "errors>2%": "errors<2%",
		"errors<5": "errors<5%", "errors<3ms": "errors<3%", "errors<200": "errors<0.1%", "rate<20k": "rate>20000", "rate=3k": "rate>3k",
		"rate>fast": "rate>10k", "rate>5.5": "rate>10k", "p99": "p99<5ms", "p99<1.5m": "",
	} {
		_, err := ParseSLO(text)
		if want == "" {
			if err != nil {
				t.Errorf("%q: %v", text, err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%q is accepted", text)
			continue
		}
		_, hint, _ := strings.Cut(err.Error(), "write ")
		hint, _, _ = strings.Cut(hint, ", ")
		if hint != want {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if _, err := ParseSLO(hint); err != nil {
			t.Errorf("%q: its hint %q: %v", text, hint, err)
		}
	}
}
