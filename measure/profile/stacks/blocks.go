//go:build linux

package stacks

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/google/pprof/profile"

	"ceiling/internal/profiles"
	"ceiling/measure/profile/symbol"
)

// mark begins a block, or the time between two.
type mark struct {
	block  int
	paused bool
	done   chan struct{}
}

// Mark counts the following samples for a block, from 0. When it returns, all earlier samples have
// been counted.
func (c *CPUSampler) Mark(block int) { c.send(mark{block: block, done: make(chan struct{})}) }

// Pause stops taking samples until the next Mark.
func (c *CPUSampler) Pause() { c.send(mark{block: noBlock, paused: true, done: make(chan struct{})}) }

func (c *CPUSampler) send(m mark) {
	if c.marks == nil {
		return
	}
	select {
	case c.marks <- m:
		<-m.done
	case <-c.done:
	}
}

// turn switches to another block.
func (c *CPUSampler) turn(m mark) {
	for _, e := range c.events {
		if m.paused {
			c.err = errors.Join(c.err, e.Disable())
		}
	}
	c.drain()
	c.table.block = m.block
	for _, e := range c.events {
		if !m.paused {
			c.err = errors.Join(c.err, e.Enable())
		}
	}
}

// Mark counts the following waits for a block, from 0. It does not cut a burst.
func (o *OffSampler) Mark(block int) {
	o.turn.Lock()
	defer o.turn.Unlock()
	o.block, o.paused = block, false
}

// Pause stops sampling until the next Mark.
func (o *OffSampler) Pause() {
	o.turn.Lock()
	defer o.turn.Unlock()
	o.block, o.paused = noBlock, true
}

// profile returns the samples in pprof's format; nil if the run had no blocks.
func (c *CPUSampler) profile(stacks []named) *profile.Profile {
	period := int64(1e9) / int64(c.hz)
	b := newBuilder(&profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: period, DurationNanos: int64(c.lasted),
	})
	for i := range stacks {
		b.add(&stacks[i], func(n int64) []int64 { return []int64{n, n * period} })
	}
	return b.result()
}

// profile returns the waits in pprof's format; nil if the run had no blocks.
func (o *OffSampler) profile(stacks []named) *profile.Profile {
	b := newBuilder(&profile.Profile{
		SampleType: []*profile.ValueType{{Type: "delay", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "delay", Unit: "nanoseconds"}, Period: 1, DurationNanos: o.burstNs,
	})
	for i := range stacks {
		b.add(&stacks[i], func(ns int64) []int64 { return []int64{ns} })
	}
	return b.result()
}

// builder builds a profile of named stacks.
type builder struct {
	p         *profile.Profile
	objects   map[string]*profile.Mapping
	functions map[[2]string]*profile.Function
	locations map[placeKey]*profile.Location
	blocks    bool
}

type placeKey struct {
	name, pkg, file string
	line            int
}

func newBuilder(p *profile.Profile) *builder {
	return &builder{p: p, objects: map[string]*profile.Mapping{}, functions: map[[2]string]*profile.Function{},
		locations: map[placeKey]*profile.Location{}}
}

// add adds a stack: a sample for each of its blocks, and one for the rest.
func (b *builder) add(n *named, values func(int64) []int64) {
	rest := n.value
	for block, v := range n.blocks {
		if v > 0 {
			b.sample(n, values(v), block)
			b.blocks = true
			rest -= v
		}
	}
	if rest > 0 {
		b.sample(n, values(rest), noBlock)
	}
}

func (b *builder) sample(n *named, values []int64, block int) {
	s := &profile.Sample{Value: values, Label: map[string][]string{profiles.Process: {fmt.Sprint(n.space.PID)}}}
	if n.thread != "" {
		s.Label["thread"] = []string{n.thread}
	}
	if n.reason != "" {
		s.Label["reason"] = []string{n.reason}
	}
	if n.idle {
		s.Label[profiles.Idle] = []string{"yes"}
	}
	if block != noBlock {
		s.NumLabel = map[string][]int64{profiles.Block: {int64(block) + 1}}
	}
	for i := range n.frames {
		s.Location = append(s.Location, b.location(&n.frames[i]))
	}
	b.p.Sample = append(b.p.Sample, s)
}

func (b *builder) location(f *symbol.Frame) *profile.Location {
	k := placeKey{cmp.Or(f.Name, "["+f.Package+"]"), f.Package, f.File, f.Line}
	if l := b.locations[k]; l != nil {
		return l
	}
	fk := [2]string{k.name, cmp.Or(f.File, f.Package)}
	function := b.functions[fk]
	if function == nil {
		function = &profile.Function{ID: uint64(len(b.p.Function) + 1), Name: k.name, SystemName: k.name, Filename: fk[1]}
		b.functions[fk] = function
		b.p.Function = append(b.p.Function, function)
	}
	object := b.objects[f.Package]
	if object == nil {
		object = &profile.Mapping{ID: uint64(len(b.p.Mapping) + 1), File: f.Package, HasFunctions: true}
		b.objects[f.Package] = object
		b.p.Mapping = append(b.p.Mapping, object)
	}
	l := &profile.Location{ID: uint64(len(b.p.Location) + 1), Mapping: object, Line: []profile.Line{{Function: function, Line: int64(f.Line)}}}
	b.locations[k] = l
	b.p.Location = append(b.p.Location, l)
	return l
}

func (b *builder) result() *profile.Profile {
	if !b.blocks {
		return nil
	}
	return b.p
}
