package spec

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Kinds of an Experiment.
const (
	KindSweep     = "sweep"
	KindFind      = "find"
	KindProve     = "prove"
	KindCompare   = "compare"
	KindFactorial = "factorial"
)

// kind describes one kind of experiment: what it accepts, and its defaults.
type kind struct {
	name, noun string
	// searches: each rate depends on the runs so far. sides: it compares servers A and B. blocks: it
	// repeats in blocks. shares: it takes a share of a resource away.
	searches, sides, blocks, shares bool
	runTime                         time.Duration // of a run: a proof and a comparison do many short ones
	repeats                         int
	// single names the lists that may have only one value; remedy says what to do with more.
	single []string
	remedy string
	// settings returns the part of an Experiment that only this kind has; nil for none.
	settings func(*Experiment) any
	// check runs before the checks of all kinds, parts after them.
	check, parts func(*Experiment) error
}

// loads are the lists that make a sweep.
func loads() (names []string) {
	for i := range dimensions {
		names = append(names, string(dimensions[i].Dimension))
	}
	return names
}

func allKinds() []kind {
	const sweepInstead = "a list makes a sweep"
	alone := append(loads(), "requests", "servers")
	return []kind{
		{name: KindSweep, noun: "sweep", runTime: 5 * time.Second, repeats: 3},
		{name: KindFind, noun: "search", searches: true, runTime: 5 * time.Second, single: alone, remedy: sweepInstead,
			settings: func(e *Experiment) any { return e.Find }, check: (*Experiment).checkSearch},
		{name: KindProve, noun: "proof", shares: true, blocks: true, runTime: 3 * time.Second, single: alone, remedy: sweepInstead,
			settings: func(e *Experiment) any { return e.Prove }, check: (*Experiment).checkProof},
		{name: KindCompare, noun: "comparison", sides: true, blocks: true, runTime: 2 * time.Second, single: append(loads(), "requests"), remedy: sweepInstead,
			settings: func(e *Experiment) any { return e.Compare }, check: (*Experiment).checkComparison},
		{name: KindFactorial, noun: "factorial experiment", runTime: 2 * time.Second, single: loads(), remedy: "give them as the levels of a factor",
			settings: func(e *Experiment) any { return e.Factorial }, parts: (*Experiment).checkFactorial},
	}
}

// Kinds returns the names of the kinds of experiments.
func Kinds() (names []string) {
	for _, k := range allKinds() {
		names = append(names, k.name)
	}
	return names
}

// kind returns the experiment's kind; an unknown one has no name.
func (e *Experiment) kind() kind {
	for _, k := range allKinds() {
		if k.name == e.Kind {
			return k
		}
	}
	return kind{runTime: 5 * time.Second}
}

// Noun names the experiment by its kind: a search, a proof.
func (e *Experiment) Noun() string { return e.kind().noun }

// Searches reports whether the runs so far choose the rate of the next one.
func (e *Experiment) Searches() bool { return e.kind().searches }

// HasSides reports whether the experiment compares two servers, A and B.
func (e *Experiment) HasSides() bool { return e.kind().sides }

// TakesAway reports whether runs take a share of a resource away.
func (e *Experiment) TakesAway() bool { return e.kind().shares }

// InBlocks reports whether the experiment repeats in blocks, whose number is not that of repeats.
func (e *Experiment) InBlocks() bool { return e.kind().blocks }

func (e *Experiment) checkKind() error {
	k := e.kind()
	if k.name == "" {
		names := Kinds()
		last := len(names) - 1
		return fmt.Errorf("invalid kind %s (use %s or %s)", quoteShort(e.Kind), strings.Join(names[:last], ", "), names[last])
	}
	given := map[string]int{"requests": len(e.Requests), "servers": len(e.Servers)}
	for i := range dimensions {
		given[string(dimensions[i].Dimension)] = dimensions[i].values(&e.Load.Lists)
	}
	if k.check != nil {
		if err := k.check(e); err != nil {
			return err
		}
	}
	for _, list := range k.single {
		if given[list] > 1 {
			return fmt.Errorf("%s: %d are given and kind %s takes one; %s", list, given[list], e.Kind, k.remedy)
		}
	}
	return nil
}

// checkParts rejects settings of another kind of experiment, which would have no effect.
func (e *Experiment) checkParts() error {
	for _, k := range allKinds() {
		if k.settings != nil && k.name != e.Kind && !reflect.ValueOf(k.settings(e)).IsZero() {
			return fmt.Errorf("%s: these are settings of kind %[1]s, and the kind is %[2]s; remove them, or give kind: %[1]s", k.name, e.Kind)
		}
	}
	return nil
}

func (e *Experiment) checkSearch() error {
	switch {
	case len(e.SLO) == 0:
		return errors.New("slo: a search needs an SLO; give --slo 'p99<5ms,errors<0.1%'")
	case len(e.Load.Rate) > 0:
		return errors.New("rate: a search chooses the rates itself; give the first with --start and the highest with --max-rate")
	}
	return nil
}

func (e *Experiment) checkProof() error {
	if len(e.Load.Rate) > 0 {
		return errors.New("rate: a proof perturbs a closed loop; remove the rate")
	}
	return nil
}

func (e *Experiment) checkComparison() error {
	switch {
	case len(e.Servers) != 2:
		return fmt.Errorf("servers: a comparison has two, not %d", len(e.Servers))
	case e.Repeats != 0:
		return errors.New("repeats: a comparison repeats in blocks; give compare.blocks in place of it")
	}
	return nil
}
