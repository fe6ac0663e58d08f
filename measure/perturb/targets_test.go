//go:build linux

package perturb

import (
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/needs"
	"ceiling/internal/sys"
	"ceiling/measure/cores"
	"ceiling/record"
)

// wish is a proof against an idle process of this host.
func wish(t *testing.T) Request {
	t.Helper()
	return Request{Share: 0.25, PIDs: []int{start(t, "idle").cmd.Process.Pid},
		Condition: spec.Condition{Connections: 64, Pipelining: 1}, Program: os.Args[0]}
}

func step(resource string, share float64, connections int) *record.Step {
	return &record.Step{Perturb: record.Perturbation{Resource: resource, Share: share},
		Condition: spec.Condition{Connections: connections, Pipelining: 1}}
}

func TestSceneTakesAndGivesBack(t *testing.T) {
	needs.Time(t)
	needs.CPUs(t, 2)
	stateDir(t)
	s, err := Survey(wish(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(cores.Both(s.Generator, s.Server)) > 0 || s.Says == "" || s.PinGenerator != cores.Format(s.Generator) ||
		s.PinServer != cores.Format(s.Server) || s.Threads != min(2, len(s.Generator)) {
		t.Errorf("%+v", s)
	}
	for _, c := range []struct {
		step *record.Step
		left float64
		near float64
	}{
		{step("", 0, 64), 1, 0},
		{step(record.PerturbConcurrency, 0.25, 48), 0.75, 0},
		{step(record.PerturbGenerator, 0.25, 64), 0.75, 0.25}, // without real time it may get less
		{step(record.PerturbServer, 0.25, 64), 0.75, 0.25},
	} {
		taking, err := s.Begin(t.Context(), c.step)
		if err != nil {
			t.Fatal(err)
		}
		if taking.theft != nil {
			waitFor(t, "some samples", func() bool {
				used, err := sys.ProcessClockNs(taking.theft.PID)
				return err != nil || used > 100e6 // its own start is in it: 10 to 60 ms under the race detector
			})
		}
		taken, err := taking.End(time.Time{}, 0)
		if err != nil || math.Abs(taken.Left-c.left) > c.near || taken.Perturbation != c.step.Perturb ||
			(taken.How == "") != (c.step.Perturb.Resource == "") {
			t.Errorf("%s: %+v (%v)", c.step.Perturb.Resource, taken, err)
		}
		if taking.PinServer != s.PinServer && s.ordinary == nil {
			t.Errorf("%s: server on %s", c.step.Perturb.Resource, taking.PinServer)
		}
	}
	if why := s.Lacks(record.PerturbLink); !strings.Contains(why, "--interface") {
		t.Errorf("link: %q", why)
	}
	if _, err := s.Begin(t.Context(), step(record.PerturbLink, 0.25, 64)); err == nil {
		t.Error("took from a link that was not named")
	}
	if _, err := s.Begin(t.Context(), step("disk", 0.25, 64)); err == nil {
		t.Error("took from nothing")
	}
	nothingNoted(t)
}

func TestSceneOfALink(t *testing.T) {
	stateDir(t)
	space := linkIn(t, 4)
	w := Request{Share: 0.2, Condition: spec.Condition{Connections: 1, Pipelining: 1},
		Interface: "lo", Namespace: space, LinkBitsPerS: 1e9, Program: os.Args[0]}
	s, err := Survey(w)
	if err != nil {
		t.Fatal(err)
	}
	if s.Server != nil || s.PinServer != "" || s.Lacks(record.PerturbServer) == "" || s.Lacks(record.PerturbConcurrency) == "" ||
		s.Lacks(record.PerturbLink) != "" {
		t.Errorf("%+v", s)
	}
	before := rootOf(t, space)
	taking, err := s.Begin(t.Context(), step(record.PerturbLink, 0.2, 1))
	if err != nil {
		t.Fatal(err)
	}
	taken, err := taking.End(time.Now(), 1)
	if err != nil || math.Abs(taken.Left-0.8) > 1e-3 || !strings.Contains(taken.How, "800") {
		t.Errorf("%+v (%v)", taken, err)
	}
	if !same(before, rootOf(t, space)) {
		t.Error("the link is not as it was")
	}
}

func TestSceneWithoutRealTime(t *testing.T) {
	s := &Targets{Server: []int{0, 1, 2, 3, 8, 9, 10, 11}, PinServer: "0-3,8-11", ordinary: errors.New("not allowed"), wish: Request{}}
	for _, c := range []struct {
		share float64
		pin   string
		left  float64
	}{{0.25, "0-3,8-9", 0.75}, {0.01, "0-3,8-10", 0.875}, {0.8, "0-1", 0.25}} {
		taking, err := s.Begin(t.Context(), step(record.PerturbServer, c.share, 64))
		if err != nil {
			t.Fatal(err)
		}
		taken, err := taking.End(time.Time{}, 0)
		if err != nil || taking.PinServer != c.pin || taken.Left != c.left || !strings.Contains(taken.How, "not allowed") {
			t.Errorf("%v: server on %s, %+v (%v)", c.share, taking.PinServer, taken, err)
		}
	}
}

func TestSurveyRefuses(t *testing.T) {
	for _, c := range []struct {
		change func(*Request)
		want   string
	}{
		{func(w *Request) { w.Share = 0 }, "above 0"},
		{func(w *Request) { w.Share = 0.9 }, "at most"},
		{func(w *Request) { w.PinGenerator = "x" }, "CPU list"},
		{func(w *Request) { w.PinGenerator, w.PinServer = "0", "0" }, "--pin-server"},
	} {
		w := wish(t)
		c.change(&w)
		if _, err := Survey(w); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", w, err, c.want)
		}
	}
}
