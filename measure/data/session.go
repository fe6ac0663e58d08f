package data

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/condition"
	"ceiling/measure/load"
)

// Sessions does a session over and over, as encoded in the steps of mix, for a number of workers: a
// user begins a step when the one before was answered. Users are as many as requests are in flight, or
// wait. Each session takes the next row of feed, which may be nil.
func Sessions(s *spec.Session, mix []load.Request, feed *Feed, workers int, seed uint64) (*load.Composing, error) {
	var columns []string
	if feed != nil {
		columns = slices.Clone(feed.Columns)
	}
	given := len(columns)
	unknown := func(name string) error {
		have := "no column and no value is known before it"
		if len(columns) > 0 {
			have = "there are " + strings.Join(columns, ", ")
		}
		return fmt.Errorf("{{.%s}}: neither an earlier step captures it, nor is it a column of --feed; %s", name, have)
	}
	all := make([]step, len(mix))
	for i := range mix {
		t, err := compile(mix[i].Bytes, columns, unknown)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i+1, err)
		}
		if !bytes.Contains(mix[i].Bytes, []byte("\r\nCookie:")) {
			t.head = slices.Insert(t.head, len(t.head)-1, segment{kind: cookie})
		}
		all[i] = step{template: t, think: s.Steps[i].Think, name: s.Steps[i].Request}
		for _, captured := range slices.Sorted(maps.Keys(s.Steps[i].Capture)) {
			at := slices.Index(columns, captured)
			if at >= 0 && at < given {
				return nil, fmt.Errorf("step %d: capture %s: %s has a column of that name", i+1, captured, feed.Name)
			}
			if at < 0 {
				at = len(columns)
				columns = append(columns, captured)
			}
			all[i].captures = append(all[i].captures, capture{at: at, name: captured, from: s.Steps[i].Capture[captured], once: new(atomic.Bool)})
		}
	}
	c := &load.Composing{What: spec.OriginSession, Answers: true, Thinks: true, Targets: len(mix)}
	c.New = func(number int) (load.Source, error) {
		rng := rand.New(rand.NewPCG(seed, uint64(number)))
		return &users{steps: all, columns: len(columns),
			source: source{feed: feed, step: uint64(workers), at: uint64(number), row: row{rng: rng}}}, nil
	}
	return c, nil
}

// step is one request of a session.
type step struct {
	*template
	name     string
	think    spec.Span
	captures []capture
}

// capture is a value that a step takes from its response.
type capture struct {
	at   int // among the values
	name string
	from condition.Selector
	once *atomic.Bool // a response had it
}

// users are those of one worker.
type users struct {
	source
	steps   []step
	columns int
	list    []user
	ready   []uint32 // numbers of users that wait for nothing
}

// user is somewhere in a session.
type user struct {
	step    int
	fresh   bool // its first request does not wait
	number  uint64
	values  []string
	cookies []string // name=value
}

// Next takes the answers to where their users are, and returns n requests of those that are ready.
func (u *users) Next(seen []load.Answer, n int) ([]load.Composed, error) {
	for _, a := range seen {
		if err := u.answered(a); err != nil {
			return nil, err
		}
		u.ready = append(u.ready, a.Tag)
	}
	u.row.now = time.Now()
	list := make([]load.Composed, 0, n)
	for range n {
		if u.stopped.Load() {
			return nil, load.ErrStopped
		}
		one, err := u.request()
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}

// request returns the next one of a user that is ready, or of another.
func (u *users) request() (c load.Composed, err error) {
	if len(u.ready) == 0 {
		u.list = append(u.list, user{fresh: true})
		u.ready = append(u.ready, uint32(len(u.list)-1))
	}
	c.Tag, u.ready = u.ready[0], u.ready[1:]
	one := &u.list[c.Tag]
	if one.step == 0 {
		if err := u.fill(); err != nil {
			return c, err
		}
		one.number, one.cookies = u.at, one.cookies[:0]
		one.values = append(append(one.values[:0], u.row.values...), make([]string, u.columns-len(u.row.values))...)
		u.at += u.source.step
	}
	s := &u.steps[one.step]
	r := row{number: one.number, values: one.values, cookies: one.cookies, rng: u.row.rng, now: u.row.now}
	if c.Bytes, err = s.render(nil, &r, &u.scratch); err != nil {
		return c, fmt.Errorf("step %d (%s): %w", one.step+1, s.name, err)
	}
	c.NoBody, c.Target = s.noBody, uint32(one.step)
	if !one.fresh {
		c.Delay = s.think.Low
		if more := s.think.High - s.think.Low; more > 0 {
			c.Delay += time.Duration(u.row.rng.Int64N(int64(more) + 1))
		}
	}
	one.fresh = false
	return c, nil
}

// answered moves a user on to the next step; to the first if the session is over, or cannot go on: its
// request failed, the status is an error, or a value is missing. A value that no response has ever had
// is a mistake in the file.
func (u *users) answered(a load.Answer) error {
	one := &u.list[a.Tag]
	s := &u.steps[one.step]
	at := one.step + 1
	one.step = 0
	status, head, body := a.Parts()
	if status == 0 || status >= 400 {
		return nil
	}
	one.cookies = takeCookies(one.cookies, head)
	for i := range s.captures {
		k := &s.captures[i]
		value, has := k.from.In(&condition.Response{Head: head, Body: body})
		if !has && !k.once.Load() {
			return fmt.Errorf("step %d (%s): capture %s: the response of status %d has no %s", at, s.name, k.name, status, k.from.String())
		}
		if !has {
			return nil
		}
		k.once.Store(true)
		one.values[k.at] = value
	}
	if at < len(u.steps) {
		one.step = at
	}
	return nil
}

// takeCookies adds the cookies of a response to a user's (RFC 6265, section 5.2). There is one host, and
// sessions are short: Domain, Path and Expires are ignored, Max-Age=0 removes.
func takeCookies(list []string, head []byte) []string {
	for value := range condition.Fields(head, "Set-Cookie") {
		pair, attributes, _ := strings.Cut(value, ";")
		key, _, found := strings.Cut(pair, "=")
		if !found || key == "" {
			continue
		}
		list = slices.DeleteFunc(list, func(have string) bool { return strings.HasPrefix(have, key+"=") })
		if !strings.Contains(strings.ToLower(strings.ReplaceAll(attributes, " ", "")), "max-age=0") {
			list = append(list, pair)
		}
	}
	return list
}
