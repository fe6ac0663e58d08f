package verdict

import (
	"ceiling/experiment/spec"
	"ceiling/record"
)

// ruleSource asks whether what makes the requests sets the pace: a script or data that make them too
// slowly, or a script that asks for delays between them.
func ruleSource(b *runFacts) finding {
	s := b.run.Generator.Source
	out := finding{bottleneck: record.LoadGenerator, next: just("source.next.script", nil)}
	if s == nil {
		return out
	}
	switch s.What {
	case spec.OriginData:
		out.next = just("source.next.data", nil)
	case spec.OriginSession:
		out.next = just("source.next.session", nil)
	}
	l := &b.run.Latency
	lag := 0.0
	if l.Response.MeanNs > 0 {
		lag = l.Lag.MeanNs / l.Response.MeanNs
	}
	facts := with{"what": s.What, "requests": s.Requests, "busy": s.Busy, "waited": s.WaitedShare, "lag": lag,
		"cpu_ns": float64(s.CPUNs) / float64(max(b.run.Requests.Completed, 1))}
	out.pro = []record.Evidence{record.NewEvidence("generator.source.busy", s.Busy, "share", say("source.cost", facts))}
	if b.run.Requests.Completed == 0 && s.WaitedShare >= mostOf {
		out.answer, out.because, out.next = matched, just("source.none", facts), just("source.none.next", nil)
		return out
	}
	if delayed := float64(s.DelayedNs) / 1e9 / b.elapsedS / b.slots; b.elapsedS > 0 && b.slots > 0 && delayed >= mostOf {
		out.answer, out.bottleneck = matched, record.Concurrency
		facts["delayed"] = min(delayed, 1)
		out.because, out.next = just("source.delays", facts), just("source.delays.next", facts)
		return out
	}
	if s.WaitedShare >= mostOf && (s.Busy >= generatorFull || lag >= mostOf) {
		out.answer, out.because = matched, just("source.slow", facts)
	}
	return out
}
