package data

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/publicsuffix"

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
		at := url.URL{Scheme: "http", Host: "localhost"}
		if s.Secure {
			at.Scheme = "https"
		}
		for host := range condition.Fields(mix[i].Bytes, "Host") {
			at.Host = host
		}
		if !bytes.Contains(mix[i].Bytes, []byte("\r\nCookie:")) {
			t.head = slices.Insert(t.head, len(t.head)-1, segment{kind: cookie})
		}
		all[i] = step{template: t, at: at, think: s.Steps[i].Think, name: s.Steps[i].Request}
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
	at       url.URL // without a path
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
	step   int
	fresh  bool // its first request does not wait
	number uint64
	values []string
	jar    *cookiejar.Jar // nil: no cookie so far
	at     url.URL        // of its last request
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
		one.number, one.jar = u.at, nil
		one.values = append(append(one.values[:0], u.row.values...), make([]string, u.columns-len(u.row.values))...)
		u.at += u.source.step
	}
	s := &u.steps[one.step]
	one.at = s.at
	r := row{number: one.number, values: one.values, user: one, rng: u.row.rng, now: u.row.now}
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
	one.takeCookies(head)
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

// takeCookies puts the cookies of a response into the user's jar. Their values are kept as they came,
// which may be more than net/http accepts of one.
func (u *user) takeCookies(head []byte) {
	for field := range condition.Fields(head, "Set-Cookie") {
		pair, attributes, _ := strings.Cut(field, ";")
		name, value, found := strings.Cut(pair, "=")
		c, err := http.ParseSetCookie(strings.TrimSpace(name) + "=;" + attributes)
		if err != nil || !found {
			continue
		}
		if u.jar == nil {
			if u.jar, err = cookiejar.New(&cookiejar.Options{PublicSuffixList: publicsuffix.List}); err != nil {
				return
			}
		}
		c.Value = strings.TrimSpace(value)
		u.jar.SetCookies(&u.at, []*http.Cookie{c})
	}
}

// appendCookies appends the field with the cookies for a request, whose beginning is there.
func (u *user) appendCookies(b []byte) []byte {
	_, target, _ := bytes.Cut(b, []byte(" "))
	u.at.Path = string(target[:bytes.IndexAny(target, " ?")])
	if u.jar == nil {
		return b
	}
	before := "Cookie: "
	for _, c := range u.jar.Cookies(&u.at) {
		b = append(append(append(append(b, before...), c.Name...), '='), c.Value...)
		before = "; "
	}
	if before == "; " {
		b = append(b, "\r\n"...)
	}
	return b
}
