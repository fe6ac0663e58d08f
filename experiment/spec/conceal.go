package spec

import (
	"slices"

	"ceiling/internal/secret"
)

// HiddenBody replaces a redacted body.
type HiddenBody struct {
	// Bytes of the body.
	Bytes int `json:"bytes"`
	// Digest distinguishes bodies, as made by internal/secret.
	Digest string `json:"digest"`
}

// Concealed returns the spec with secrets redacted, for display and storage: secrets of URLs and
// header fields are replaced, and bodies reduced to size and digest. Parts already redacted stay
// unchanged.
func (s *Spec) Concealed(h *secret.Hider) Spec {
	c := *s
	c.Targets = slices.Clone(s.Targets)
	for i := range c.Targets {
		c.Targets[i].conceal(h)
	}
	c.Pprof, c.Proxy = eachPprof(s.Pprof, h.URL), ProxyURL(h.URL(string(s.Proxy)))
	c.TLS = s.TLS.concealed()
	return c
}

func (t *Target) conceal(h *secret.Hider) {
	t.URL = h.URL(t.URL)
	t.Header = slices.Clone(t.Header)
	for i := range t.Header {
		f := &t.Header[i]
		f.Value = h.Field(f.Name, f.Value)
	}
	if len(t.Body) > 0 {
		t.Body, t.BodyHidden = nil, hiddenBody(h, t.Body)
	}
}

func hiddenBody(h *secret.Hider, body []byte) *HiddenBody {
	return &HiddenBody{Bytes: len(body), Digest: h.Body(body)}
}

// bodyBytes returns the size of a body, redacted or not.
func (t *Target) bodyBytes() int {
	if t.BodyHidden != nil {
		return t.BodyHidden.Bytes
	}
	return len(t.Body)
}

// Concealed is Spec.Concealed for an experiment, including its servers' commands and environment.
// hidden is set if something was redacted, so that the result cannot be used to send requests.
func (e *Experiment) Concealed(h *secret.Hider) (c Experiment, hidden bool) {
	c = *e
	was := func(now, before string) string {
		hidden = hidden || now != before
		return now
	}
	c.Servers = slices.Clone(e.Servers)
	for i := range c.Servers {
		s := &c.Servers[i]
		s.URL, s.Serve = was(h.URL(s.URL), s.URL), was(h.Shell(s.Serve), s.Serve)
		s.Env = slices.Clone(s.Env)
		for n := range s.Env {
			s.Env[n] = was(h.Variable(s.Env[n]), s.Env[n])
		}
	}
	c.Requests = slices.Clone(e.Requests)
	for i := range c.Requests {
		m := &c.Requests[i]
		m.MixRequest.conceal(h, was)
		m.Mix = slices.Clone(m.Mix)
		for n := range m.Mix {
			m.Mix[n].conceal(h, was)
		}
	}
	if c.Load.TLS = e.Load.TLS.concealed(); c.Load.TLS != nil {
		was(c.Load.TLS.Key, e.Load.TLS.Key)
	}
	c.Load.Pprof = was(eachPprof(e.Load.Pprof, h.URL), e.Load.Pprof)
	c.Load.Proxy = ProxyURL(was(h.URL(string(e.Load.Proxy)), string(e.Load.Proxy)))
	// Names last: they may repeat a secret.
	for i := range c.Servers {
		c.Servers[i].Name = was(h.Text(c.Servers[i].Name), c.Servers[i].Name)
	}
	for i := range c.Requests {
		c.Requests[i].Name = was(h.Text(c.Requests[i].Name), c.Requests[i].Name)
	}
	c.Question, c.Hypothesis = was(h.Text(e.Question), e.Question), was(h.Text(e.Hypothesis), e.Hypothesis)
	c.Factorial = e.concealFactorial(&c, h, was)
	return c, hidden
}

// concealFactorial redacts the factors of an experiment whose servers and requests are redacted
// already. Names derived from labels stay valid.
func (e *Experiment) concealFactorial(shown *Experiment, h *secret.Hider, was func(now, before string) string) Factorial {
	c := e.Factorial
	c.Factors = slices.Clone(c.Factors)
	for i := range c.Factors {
		f := &c.Factors[i]
		f.Name, f.Levels = was(h.Text(f.Name), f.Name), slices.Clone(f.Levels)
		for n := range f.Levels {
			l := &f.Levels[n]
			l.Name, l.Args = was(h.Text(l.Name), l.Name), was(h.Shell(l.Args), l.Args)
			if at := e.serverCalled(l.Server); l.Server != "" && at >= 0 {
				l.Server = shown.Servers[at].Label()
			}
			if at := e.mixCalled(l.Request); l.Request != "" && at >= 0 {
				l.Request = shown.Requests[at].Label()
			}
			l.Env = slices.Clone(l.Env)
			for v := range l.Env {
				l.Env[v] = was(h.Variable(l.Env[v]), l.Env[v])
			}
		}
	}
	c.Cells = nil
	for _, names := range e.Factorial.Cells {
		levels, err := e.Factorial.levelsOf(names)
		if err != nil {
			continue // Check rejects it
		}
		for i, at := range levels {
			names = slices.Clone(names)
			names[i] = c.Factors[i].Label(at)
		}
		c.Cells = append(c.Cells, names)
	}
	return c
}

func (r *MixRequest) conceal(h *secret.Hider, was func(now, before string) string) {
	r.Path = was(h.URL(r.Path), r.Path)
	r.Header = slices.Clone(r.Header)
	for i := range r.Header {
		r.Header[i] = was(h.FieldLine(r.Header[i]), r.Header[i])
	}
	body := r.Content
	if body == nil && r.Body != "" {
		body = []byte(r.Body)
	}
	if len(body) == 0 || r.BodyHidden != nil {
		return
	}
	r.BodyHidden, r.Content = hiddenBody(h, body), nil
	was("", string(body))
	if r.Body == "" || r.Body[0] != '@' { // a file name reveals nothing about the content
		r.Body = ""
	}
}
