package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// printEntry prints a run as text. The caller's next print reports an error of w.
func printEntry(w io.Writer, e *Entry) {
	dirty := ""
	if e.Dirty {
		dirty = " with changes"
	}
	fmt.Fprintf(w, "commit %.12s%s · Linux %s · %s, %d CPUs · %s · %.0f s\n", e.Commit, dirty, e.Host.Kernel, e.Host.CPU, e.Host.Cores,
		e.Host.Go, e.TookS)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	printSpeed(t, e)
	printUser(t, e)
	printStartup(t, e)
	printTargets(t, e)
	if err := t.Flush(); err != nil {
		return
	}
	if e.Race != nil {
		fmt.Fprintln(w)
		if err := e.Race.Write(w); err != nil {
			return
		}
	}
	for _, caveat := range e.Caveats {
		fmt.Fprintln(w, "doubt:", caveat)
	}
}

func head(w io.Writer, title string, columns ...string) {
	fmt.Fprintf(w, "\n%s\n%s\t\n", title, strings.Join(columns, "\t"))
}

// ranged prints median [min–max], only the median for a single value, and nothing for none.
func ranged(s *Spread, format string) string {
	switch {
	case s == nil:
		return ""
	case s.N == 1:
		return fmt.Sprintf(format, s.Median)
	}
	return fmt.Sprintf(format+" ["+format+"–"+format+"]", s.Median, s.Min, s.Max)
}

// micro prints nanoseconds as microseconds: median [min–max].
func micro(s *Spread) string {
	if s != nil {
		s = &Spread{s.Median / 1e3, s.Min / 1e3, s.Max / 1e3, s.N}
	}
	return ranged(s, "%.3g")
}

func printSpeed(w io.Writer, e *Entry) {
	if len(e.Speed) == 0 {
		return
	}
	head(w, fmt.Sprintf("CPU per request, µs: median [min–max] of %d rounds of %.0f s, %d connections, one thread, against %s (seed %d)",
		e.Settings.Rounds, e.Settings.DurationS, e.Settings.Connections, e.Settings.Server, e.Settings.Seed),
		"work", "tool", "generator", "in the window", "outside it, ms a run", "server", "host", "ours / this", "our window / this", "server, ours / this", "requests/s", "ours / this", "seen")
	last := ""
	for _, r := range e.Speed {
		name, seen := r.Work, "?"
		if name == last {
			name = ""
		}
		last = r.Work
		if r.SeenByServer != nil {
			seen = fmt.Sprintf("%.4f", r.SeenByServer.Median)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%.3g\t%s\t%s\t%s\t%.0f\t%s\t%s\t\n", name, r.Tool, micro(&r.GeneratorNsPerRequest),
			micro(r.WindowNsPerRequest), ranged(r.OutsideMs, "%.0f"), micro(&r.ServerNsPerRequest), r.HostNsPerRequest.Median/1e3,
			ranged(r.OursToThis, "%.3f"), ranged(r.WindowToThis, "%.3f"), ranged(r.ServerToThis, "%.3f"), r.PerS.Median,
			ranged(r.PerSToThis, "%.3f"), seen)
	}
}

func printUser(w io.Writer, e *Entry) {
	if len(e.User) == 0 {
		return
	}
	head(w, "User-space CPU of ceiling, ns per request", "work", "engine, sampled", "samples", "process, by the tick")
	for _, u := range e.User {
		sampled, samples := "?", "none"
		if u.SampledNs != nil {
			sampled, samples = fmt.Sprintf("%.0f", *u.SampledNs), fmt.Sprintf("%d of %d", u.UserSamples, u.Samples)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t\n", u.Work, sampled, samples, ranged(&u.ByTickNs, "%.0f"))
	}
}

func printStartup(w io.Writer, e *Entry) {
	if e.Startup != nil {
		fmt.Fprintf(w, "\nStart-up: %s ms, median of %d\nCPU of it: %s ms\n", ranged(e.Startup, "%.1f"), e.Startup.N,
			ranged(e.StartupCPU, "%.1f"))
	}
}

func printTargets(w io.Writer, e *Entry) {
	head(w, "Targets", "figure", "value", "at most", "")
	for _, t := range e.Targets {
		word := "missed"
		if t.Met {
			word = "met"
		}
		fmt.Fprintf(w, "%s\t%.3g\t%.3g %s\t%s\t\n", t.Name, t.Value, t.Limit, t.Unit, word)
	}
}
