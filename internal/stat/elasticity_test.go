package stat

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestElasticities(t *testing.T) {
	// A closed loop whose server takes 0.7 of the time, its generator 0.3:
	// whatever is taken from one, ln X falls by its share times that. All three
	// runs of a block share the noise of the untouched one.
	r := rand.New(rand.NewPCG(1, 5))
	const trials, blocks = 300, 10
	var server, generator, sum int
	for range trials {
		taken := []Taken{{Resource: "server", LnR: math.Log(0.75)}, {Resource: "generator", LnR: math.Log(0.5)}}
		for range blocks {
			shared := 0.02 * r.NormFloat64()
			for i, share := range []float64{0.7, 0.3} {
				taken[i].LnX = append(taken[i].LnX, share*taken[i].LnR+shared+0.01*r.NormFloat64())
			}
		}
		s, err := Elasticities(taken, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Each) != 2 || s.Each[0].Resource != "server" || math.Abs(s.Each[0].Value+s.Each[1].Value-s.Sum.Value) > 1e-12 {
			t.Fatalf("%+v", s)
		}
		for into, e := range map[*int]struct {
			Estimate
			truth float64
		}{&server: {s.Each[0].Estimate, 0.7}, &generator: {s.Each[1].Estimate, 0.3}, &sum: {s.Sum, 1}} {
			if e.Contains(e.truth) {
				*into++
			}
		}
		if s.Sum.Value < 0.7 || s.Sum.Value > 1.3 {
			t.Errorf("the sum is %v", s.Sum.Value)
		}
	}
	t.Logf("of %d: server %d, generator %d, sum %d", trials, server, generator, sum)
	// 97.5 % and 95 %, less three deviations.
	if server < trials*948/1000 || generator < trials*948/1000 || sum < trials*912/1000 {
		t.Errorf("intervals hold server %d, generator %d, sum %d of %d", server, generator, sum, trials)
	}
}

func TestElasticitiesRefuse(t *testing.T) {
	good := []float64{-0.1, -0.12, -0.11}
	for name, c := range map[string]struct {
		taken []Taken
		want  string
	}{
		"nothing":        {nil, "no resource"},
		"undisturbed":    {[]Taken{{"cores", 0.001, good}}, "nothing was taken"},
		"no blocks":      {[]Taken{{"cores", -1, nil}}, "elasticity of cores: no values"},
		"NaN":            {[]Taken{{"cores", -1, []float64{math.NaN()}}}, "elasticity of cores"},
		"NaN taken":      {[]Taken{{"cores", math.NaN(), good}}, "elasticity of cores"},
		"unlike blocks":  {[]Taken{{"cores", -1, good}, {"link", -1, good[:2]}}, "the sum needs the same ones"},
		"bad confidence": {[]Taken{{"cores", -1, good}}, ""},
	} {
		confidence := 0.95
		if name == "bad confidence" {
			confidence = 2
		}
		if _, err := Elasticities(c.taken, confidence); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s, err := Elasticities([]Taken{{"cores", -1, good}}, 0.95)
	if err != nil || len(s.Sum.Warnings) != 1 || s.Sum.Warnings[0].Code != "stat.few-blocks" {
		t.Errorf("three blocks: %+v, %v", s, err)
	}
}
