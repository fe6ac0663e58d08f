package live

import (
	"fmt"
	"strings"
	"time"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// The texts that the terminal and the page share.

// Title returns the target.
func (s *Snapshot) Title() string {
	switch {
	case s.Target == "":
		return "no run yet"
	case s.Targets > 1:
		return fmt.Sprintf("%s and %d more", s.Target, s.Targets-1)
	}
	return s.Target
}

// Load describes the load: "64 connections · closed loop".
func (s *Snapshot) Load() string {
	if s.Target == "" {
		return ""
	}
	c := &s.Spec
	parts := []string{unit.Plural(c.Connections, "connection", "connections")}
	if c.Pipelining > 1 {
		parts = append(parts, fmt.Sprintf("%d in flight on each", c.Pipelining))
	}
	if text := c.NewConnections.Says(c.Kind); text != "" {
		parts = append(parts, text)
	}
	if c.Open() {
		parts = append(parts, "open loop at "+c.Rate.String()+" "+c.Kind.PerSecond())
	} else {
		parts = append(parts, "closed loop")
	}
	return strings.Join(parts, " · ")
}

// Doing describes the run's current activity.
func (s *Snapshot) Doing() string {
	switch s.Phase {
	case Connecting:
		return fmt.Sprintf("connecting: %s of %s established", unit.FormatCount(int64(s.Established)), unit.FormatCount(int64(s.Asked)))
	case WarmingUp:
		return "warming up (excluded)"
	case Running:
		if s.QuietS >= quietAfterS {
			return fmt.Sprintf("no data for %.0f s: paused or killed", s.QuietS)
		}
		return "running"
	case Between:
		return "cooling down"
	case Ended:
		switch {
		case s.Killed:
			return "lost: its process was killed, and the record ends here"
		case s.Interrupted:
			return "interrupted"
		case s.Unfinished:
			return "cut off before it finished"
		case s.GaveUp != "":
			return "ended early: " + s.GaveUp
		}
		return "ended"
	}
	return "waiting for the run to start"
}

// quietAfterS is the silence after which a run is no longer called running: records are written
// twice a second, and a busy machine may be late.
const quietAfterS = 5

// Time returns the run's progress: "6.2 of 10 s, 3.8 s left".
func (s *Snapshot) Time() string {
	p := &s.Progress
	switch {
	case s.Phase == Ended && p.ElapsedS > 0:
		return span(p.ElapsedS) + " measured"
	case s.Phase < Running:
		if p.LeftS > 0 {
			return span(p.LeftS) + " left"
		}
		return ""
	case s.Spec.Requests > 0:
		text := fmt.Sprintf("%s of %s %s", unit.FormatCount(int64(s.SoFar.Completed)), unit.FormatCount(int64(s.Spec.Requests)), s.Spec.Kind.Many())
		if p.LeftS >= 0 {
			text += ", ~" + span(p.LeftS) + " left"
		}
		return text
	case p.TotalS > 0:
		return fmt.Sprintf("%s of %s, %s left", span(p.ElapsedS), span(p.TotalS), span(p.LeftS))
	}
	return span(p.ElapsedS)
}

// HandshakesSay returns the rate of TLS handshakes and their cost: "1.2k/s, 310 µs generator CPU
// each"; "" if none.
func (s *Snapshot) HandshakesSay() string {
	if s.SoFar.HandshakesPerS == 0 {
		return ""
	}
	return fmt.Sprintf("%s/s, %s generator CPU each", unit.FormatSI(s.SoFar.HandshakesPerS), unit.FormatNs(s.SoFar.HandshakeCPUNs))
}

// PlanSays returns the plan's progress: "sweep: step 3 of 12, ~41 s left".
func (s *Snapshot) PlanSays() string {
	p := s.Plan
	if p == nil {
		return ""
	}
	if p.Answer != "" {
		return fmt.Sprintf("%s, %s: %s", p.Kind, unit.Plural(s.Finished, "run", "runs"), p.Answer)
	}
	text := fmt.Sprintf("%s: step %d", p.Kind, p.Number)
	switch {
	case p.All > 0:
		text += fmt.Sprintf(" of %d", p.All)
	case p.LeftRuns > 0:
		text += fmt.Sprintf(" of ~%d", p.Number-1+p.LeftRuns)
	}
	if s.Progress.PlanLeftS > 0 {
		text += ", ~" + span(s.Progress.PlanLeftS) + " left"
	}
	return text
}

// span formats a time for reading at a glance: 6.2 s, 41 s, 3 min 20 s.
func span(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case s < 10:
		return fmt.Sprintf("%.1f s", s)
	case s < 100:
		return fmt.Sprintf("%.0f s", s)
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}

// VerdictName returns the verdict's heading.
func (s *Snapshot) VerdictName() string {
	if s.Formed != nil && !s.Formed.Final {
		return "preliminary verdict"
	}
	return "verdict"
}

// VerdictBasis returns what the verdict is based on.
func (s *Snapshot) VerdictBasis() string {
	f := s.Formed
	switch {
	case f == nil && s.Phase < Running:
		return "appears 1 s into the measurement"
	case f == nil:
		return "collecting data…"
	case s.Killed:
		return fmt.Sprintf("until it was killed, after %s", span(f.ElapsedS))
	case f.Final:
		return fmt.Sprintf("whole run, %s", span(f.ElapsedS))
	}
	text := fmt.Sprintf("last %s (final verdict when the run ends", span(f.ElapsedS))
	if !f.Quantiles && len(s.Spec.SLO) > 0 {
		text += ", with the SLO check"
	}
	return text + ")"
}

// Because returns the verdict's reason without the leading name of the bottleneck.
func (f *Formed) Because() string { return prose.Reason(&f.Verdict) }

// CoresSay returns an end's CPU use: "fasthttp 1.02 cores, busiest thread 98 %".
func (e *End) CoresSay() string {
	if !e.Known {
		return "not observed"
	}
	text := fmt.Sprintf("%.2f cores", e.Cores)
	if e.Processes > 1 {
		text += fmt.Sprintf(" in %d processes", e.Processes)
	}
	return text + ", busiest thread " + unit.Percent(e.Busiest)
}

// Carried formats a direction relative to its limit: "2.10 Gbit/s of 10.0 Gbit/s, 21%".
func Carried(w *record.LinkWay) string {
	text := unit.FormatBits(unit.BitsPerSecond(w.BitsPerS))
	if share := w.Share(); share >= 0 {
		return fmt.Sprintf("%s of %s, %s", text, unit.FormatBits(unit.BitsPerSecond(w.Limit.BitsPerS)), unit.Percent(share))
	}
	return text
}

// LimitSays returns the source of the link's limit.
func (l *Link) LimitSays() string {
	switch {
	case l.Received.Limit.From != "" && l.Received.Limit.From != l.Sent.Limit.From:
		return fmt.Sprintf("limits: received by %s, sent by %s", l.Received.Limit.Says(), l.Sent.Limit.Says())
	case l.Sent.Limit.From != "":
		return "limit: " + l.Sent.Limit.Says()
	}
	return "link speed unknown (set --link-speed)"
}

// Quantile formats a response time, "–" if there is none.
func Quantile(count bool, ns int64) string {
	if !count {
		return "–"
	}
	return unit.FormatNs(ns)
}
