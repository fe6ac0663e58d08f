package record

// Conclusion is what a plan found: a *Sweep, *Search, *Proof, *Comparison or *Factorial, or NoAnswer.
type Conclusion interface {
	// Statement is the answer as one statement; empty if it has none.
	Statement() Statement
	// CaveatLists are where its caveats stand.
	CaveatLists() []*[]Statement
	// Summary is the answer in one row of a list.
	Summary() Summary
}

// Summary is an answer in one row.
type Summary struct {
	CompletedPerS float64
	P99Ns         int64
	P99AtLeast    bool
	Outcome       Outcome
	Bottleneck    Bottleneck
	Result        string // of a proof or a comparison
}

// Answer returns the plan's answer; NoAnswer if there is none yet.
func (p *Plan) Answer() Conclusion {
	switch {
	case p.Sweep != nil:
		return p.Sweep
	case p.Search != nil:
		return p.Search
	case p.Proof != nil:
		return p.Proof
	case p.Comparison != nil:
		return p.Comparison
	case p.Factorial != nil:
		return p.Factorial
	}
	return NoAnswer{}
}

// Says returns the answer as one statement; why the plan ended if there is none.
func (p *Plan) Says() Statement {
	if says := p.Answer().Statement(); !says.IsZero() {
		return says
	}
	return p.Because
}

// NoAnswer is that of a plan that has not found one.
type NoAnswer struct{}

func (NoAnswer) Statement() Statement        { return Statement{} }
func (NoAnswer) CaveatLists() []*[]Statement { return nil }
func (NoAnswer) Summary() Summary            { return Summary{} }

// Statement is that of the only curve, or how many there are.
func (s *Sweep) Statement() Statement {
	if len(s.Curves) == 1 {
		return s.Curves[0].Says
	}
	return State("plan.curves", Values{"curves": len(s.Curves)})
}

// CaveatLists are those of the curves.
func (s *Sweep) CaveatLists() (all []*[]Statement) {
	for i := range s.Curves {
		all = append(all, &s.Curves[i].Caveats)
	}
	return all
}

// Summary has the highest rate of all curves; none if no point counts.
func (s *Sweep) Summary() (e Summary) {
	for i := range s.Curves {
		c := &s.Curves[i]
		switch at := c.Top(); {
		case at == nil && e.Outcome == "":
			e.Outcome, e.Bottleneck = Invalid, c.Bottleneck
		case at == nil || at.PerS.Mid <= e.CompletedPerS:
		case at.Outcome == Invalid: // for its response times
			e = Summary{CompletedPerS: at.PerS.Mid, Outcome: Valid, Bottleneck: c.Bottleneck}
		default:
			q := at.Held()
			e = Summary{CompletedPerS: at.PerS.Mid, P99Ns: q.P99Ns, P99AtLeast: q.IsBound(.99), Outcome: at.Outcome, Bottleneck: c.Bottleneck}
		}
	}
	return e
}

// Top returns the point of a curve with the highest rate; nil if none counts.
func (c *Curve) Top() *CurvePoint {
	var top *CurvePoint
	for i := range c.Points {
		if at := &c.Points[i]; Counts(at) && (top == nil || at.PerS.Mid > top.PerS.Mid) {
			top = at
		}
	}
	return top
}

func (s *Search) Statement() Statement        { return s.Says }
func (s *Search) CaveatLists() []*[]Statement { return []*[]Statement{&s.Caveats} }

// Summary has the capacity.
func (s *Search) Summary() (e Summary) {
	e.CompletedPerS, e.Bottleneck, e.Outcome = s.Capacity.Mid, s.Bottleneck, Fail
	for i := range s.Rates {
		if r := &s.Rates[i]; r.PerS == s.Capacity.Mid && r.PerS > 0 {
			e.P99Ns, e.P99AtLeast, e.Outcome = r.Response.P99Ns, r.Response.IsBound(.99), Pass
		}
	}
	return e
}

func (p *Proof) Statement() Statement        { return p.Says }
func (p *Proof) CaveatLists() []*[]Statement { return []*[]Statement{&p.Caveats} }

// Summary has what was proved, or else suspected.
func (p *Proof) Summary() (e Summary) {
	e.CompletedPerS, e.Bottleneck, e.Result = p.PerS.Mid, Bottleneck(p.Proved), "proved"
	if p.Proved == "" {
		e.Bottleneck, e.Result = p.Passive, "not proved"
	}
	return e
}

func (c *Comparison) Statement() Statement        { return c.Says }
func (c *Comparison) CaveatLists() []*[]Statement { return []*[]Statement{&c.Caveats} }

// Summary has the decision on the first metric.
func (c *Comparison) Summary() (e Summary) {
	if len(c.Changes) > 0 {
		e.Result = c.Changes[0].Decision
	}
	return e
}

func (f *Factorial) Statement() Statement        { return State("factorial.says", Values{"answer": f.Answer}) }
func (f *Factorial) CaveatLists() []*[]Statement { return []*[]Statement{&f.Caveats} }
func (f *Factorial) Summary() Summary            { return Summary{} }
