// Package doctor checks a host before a load test for problems that would spoil a run, and
// suggests fixes.
//
// Reading the host (Examine) is separate from judging it (Diagnose), a pure function, so that
// tests can judge other hosts from fixtures.
package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Schema is the version of a Report.
const Schema = "ceiling.doctor/2"

// Levels of a Finding, worst first.
const (
	Bad         = "bad"          // would spoil a run
	Warn        = "warn"         // makes a figure less certain, or limits the possible tests
	NotMeasured = "not measured" // could not be checked, and why
	OK          = "ok"
)

// Finding is the result of one check.
type Finding struct {
	Name  string `json:"name"`
	Level string `json:"level"`
	// What is the result, in one line.
	What string `json:"what"`
	// Fix is how to fix it, a command if there is one; "" if nothing needs fixing.
	Fix string `json:"fix,omitempty"`
}

// Report is the result of all checks, worst first.
type Report struct {
	Schema string    `json:"schema"`
	When   time.Time `json:"when"`
	Host   string    `json:"host"`
	Kernel string    `json:"kernel"`
	// Target is the URL that was checked; "" for the host alone.
	Target   string    `json:"target,omitempty"`
	Findings []Finding `json:"findings"`
}

// Count returns the number of findings of a level.
func (r *Report) Count(level string) int {
	n := 0
	for i := range r.Findings {
		if r.Findings[i].Level == level {
			n++
		}
	}
	return n
}

// checks returns all checks, in display order within a level.
func checks() []struct {
	name  string
	check func(*Facts) Finding
} {
	return []struct {
		name  string
		check func(*Facts) Finding
	}{
		{"server", checkServer},
		{"other processes", checkOtherProcesses}, {"steal", checkSteal}, {"virtual machine", checkVirtual},
		{"cores", checkCores}, {"cpu quota", checkQuota}, {"siblings", checkSiblings}, {"numa", checkNUMA},
		{"governor", checkGovernor}, {"turbo", checkTurbo}, {"throttling", checkThrottling}, {"power", checkPower},
		{"clock", checkClock}, {"memory", checkMemory}, {"swap", checkSwap},
		{"open files", checkFiles}, {"locked memory", checkMemlock}, {"local ports", checkPorts},
		{"accept queue", checkAcceptQueue}, {"conntrack", checkConntrack},
		{"interface", checkInterface}, {"link speed", checkSpeed}, {"mtu", checkMTU}, {"shaping", checkShaping},
		{"nic queues", checkQueues}, {"irqbalance", checkIRQBalance}, {"congestion", checkCongestion},
		{"kernel", checkKernel}, {"io_uring", checkEngine}, {"run delay", checkRunDelay}, {"calibration", checkCalibration},
	}
}

// Diagnose judges the facts.
func Diagnose(f *Facts) Report {
	r := Report{Schema: Schema, When: f.When, Host: f.Env.Host, Kernel: f.Env.Kernel, Target: f.Target.URL, Findings: []Finding{}}
	for _, c := range checks() {
		found := c.check(f)
		found.Name = c.name
		r.Findings = append(r.Findings, found)
	}
	order := []string{Bad, Warn, NotMeasured, OK}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return slices.Index(order, a.Level) - slices.Index(order, b.Level)
	})
	return r
}

func ok(what string) Finding          { return Finding{Level: OK, What: what} }
func warn(what, fix string) Finding   { return Finding{Level: Warn, What: what, Fix: fix} }
func bad(what, fix string) Finding    { return Finding{Level: Bad, What: what, Fix: fix} }
func unknown(why, fix string) Finding { return Finding{Level: NotMeasured, What: why, Fix: fix} }

// list joins at most n names.
func list(names []string, n int) string {
	if len(names) > n {
		return strings.Join(names[:n], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// tuned is a fix's reference to a profile that makes the same change and reverts it.
func tuned(profile string) string {
	return "; or, with a way back: ceiling tune apply " + profile
}

// Text writes a report, worst first, with the fix below each finding.
func Text(out io.Writer, r *Report) error {
	var b strings.Builder
	widest := 0
	for _, f := range r.Findings {
		widest = max(widest, utf8.RuneCountInString(f.Name))
	}
	on := r.Host + ", Linux " + r.Kernel
	if r.Target != "" {
		on += ", towards " + r.Target
	}
	fmt.Fprintf(&b, "%s\n\n", on)
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%-*s  %-*s  %s\n", len(NotMeasured), f.Level, widest, f.Name, printable(f.What))
		if f.Fix != "" {
			fmt.Fprintf(&b, "%-*s  %*s  %s\n", len(NotMeasured), "", widest, "fix", printable(f.Fix))
		}
	}
	fmt.Fprintf(&b, "\n%d bad, %d warnings, %d not measured, %d ok\n", r.Count(Bad), r.Count(Warn), r.Count(NotMeasured), r.Count(OK))
	_, err := io.WriteString(out, b.String())
	return err
}

// printable keeps a process's name, which may contain anything, from controlling the terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, text)
}

// WriteJSON writes a report as --json does.
func WriteJSON(out io.Writer, r *Report) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}
