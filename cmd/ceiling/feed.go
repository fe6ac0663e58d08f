package main

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"ceiling/experiment/spec"
	"ceiling/measure/data"
	"ceiling/measure/load"
)

// asItIs is the value of --feed that sends {{…}} as it is.
const asItIs = "none"

// fillIn marks the targets whose places are filled in during the run, and opens the data.
func (f *runFlags) fillIn(list []spec.Target, sh *shell) error {
	if f.load.from.feed == asItIs || f.script != nil && f.load.from.feed == "" {
		return nil
	}
	if f.session != nil && f.load.from.feed == "" {
		return nil
	}
	if f.script != nil {
		return errors.New("--feed: a script reads its data itself (io.lines); remove it, or --lua")
	}
	o := &spec.Origin{What: spec.OriginData}
	if f.load.from.feed != "" {
		var err error
		if f.feed, err = data.Open(f.load.from.feed, sh.Stdin); err != nil {
			return fmt.Errorf("--feed: %w", err)
		}
		o.Name, o.SHA256 = f.feed.Name, f.feed.SHA256
	}
	if f.session != nil {
		return nil // its steps have an origin
	}
	for i := range list {
		t := &list[i]
		f.fills = f.fills || data.Fills([]byte(t.URL)) || data.Fills(t.Body)
		for _, h := range t.Header {
			f.fills = f.fills || data.Fills([]byte(h.Value))
		}
	}
	switch {
	case f.feed != nil && !f.fills:
		return fmt.Errorf("--feed: no request uses a column; write {{.%s}} in the URL, a header field or the body", f.feed.Columns[0])
	case f.composes() == "":
		return nil
	}
	for i := range list {
		list[i].From = o
	}
	return nil
}

// composes is the flag by which requests are made during the run; "": they are there before it.
func (f *runFlags) composes() string {
	switch {
	case f.session != nil:
		return "--session"
	case f.replay != nil:
		return "-R log"
	case f.load.from.once:
		return "--once"
	case f.fills && f.feed != nil:
		return "--feed"
	case f.fills:
		return "{{…}}"
	}
	return ""
}

// composed adds what makes the requests during the runs to the order: a script, or data.
func (o *order) composed(f *runFlags) error {
	if f.script != nil {
		return o.scripted(f)
	}
	name := f.composes()
	switch {
	case name == "":
		return nil
	case f.fleet.agents != 0:
		return fmt.Errorf("%s: agents do not receive its data; remove --agents", name)
	case o.plan.Load.Kind != spec.Requests:
		return fmt.Errorf("%s: templates work in HTTP requests only, not in messages or events; --feed none sends {{…}} unchanged", name)
	case o.plan.Load.HTTP == spec.HTTP2:
		return fmt.Errorf("%s: requests generated during the run need HTTP/1.1; remove --http", name)
	}
	o.plan.Load.HTTP = spec.HTTP11
	if o.one != nil {
		o.one.HTTP = spec.HTTP11
	}
	if f.session != nil {
		o.compose = func(mix []load.Request, threads int, seed uint64) (*load.Composing, error) {
			return data.Sessions(f.session, mix, f.feed, threads, seed)
		}
		if _, err := data.Sessions(f.session, sample(o.plan.Requests[0].All()), f.feed, 1, 0); err != nil {
			return fmt.Errorf("--session: %s: %w", f.load.from.session, err)
		}
		return nil
	}
	if f.replay != nil {
		return o.logged(f)
	}
	if f.load.from.once {
		if err := o.once(f); err != nil {
			return err
		}
	}
	ordered := f.load.from.once
	o.compose = func(mix []load.Request, threads int, seed uint64) (*load.Composing, error) {
		return data.Composing(mix, f.feed, threads, seed, ordered)
	}
	// What is wrong with the places is said before anything starts.
	_, err := data.Composing(sample(o.plan.Requests[0].All()), f.feed, 1, rand.Uint64(), ordered)
	return err
}

// sample is the requests, as far as their places go.
func sample(list []spec.MixRequest) (mix []load.Request) {
	for _, r := range list {
		text := "GET " + r.Path + " HTTP/1.1\r\n"
		for _, h := range r.Header {
			text += h + "\r\n"
		}
		mix = append(mix, load.Request{Bytes: append([]byte(text+"\r\n"), append(r.Content, r.Body...)...), Weight: 1})
	}
	return mix
}

// once makes the run end when each row, or each target, was sent.
func (o *order) once(f *runFlags) error {
	n := uint64(0)
	for i := range o.plan.Requests {
		for _, r := range o.plan.Requests[i].All() {
			n += uint64(r.Weight)
		}
	}
	if f.feed != nil {
		if n = f.feed.Rows; n == 0 {
			return fmt.Errorf("--once: %s is too large to count its rows before the run; give -n", f.feed.Name)
		}
	}
	switch {
	case o.one == nil:
		return errors.New("--once: it works in a single run; remove the list and --repeats")
	case o.one.Requests != 0:
		return errors.New("--once: the rows end the run; remove -n")
	case o.one.Open() && !o.one.Rate.Constant():
		return errors.New("--once: a ramp ends by time; give one rate")
	}
	o.one.Requests, o.one.Warmup = n, 0
	if !f.changed("duration") {
		o.one.Duration = 0
	}
	return o.one.Check()
}
