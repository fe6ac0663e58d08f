//go:build linux

package tune

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"ceiling/internal/sys"
	"ceiling/measure/cores"
)

// ShowSchema names the version of a Shown.
const ShowSchema = "ceiling.tune/2"

// Shown is the tuning of a host, and what each profile would change.
type Shown struct {
	Schema string `json:"schema"`
	Host   string `json:"host"`
	Kernel string `json:"kernel"`
	Cores  Cores  `json:"cores"`
	// InForce is the tuning in force; nil: none.
	InForce *Tuning `json:"in_force,omitempty"`
	Plans   []*Plan `json:"plans"`
	// Refused are profiles that do not apply to this host, and why.
	Refused []Skipped `json:"refused,omitempty"`
}

// Show reads what is set and what the profiles would change. It changes nothing.
func (h *Host) Show(o Options) (*Shown, error) {
	s := &Shown{Schema: ShowSchema, Host: sys.FileText(h.tree(), "proc/sys/kernel/hostname"), Kernel: sys.FileText(h.tree(), "proc/sys/kernel/osrelease")}
	var err error
	if s.InForce, err = h.InForce(); err != nil {
		return nil, err
	}
	profiles, err := Profiles()
	if err != nil {
		return nil, err
	}
	for _, p := range profiles {
		plan, err := h.Plan(p, o)
		if err != nil {
			s.Refused = append(s.Refused, Skipped{p.Name, err.Error()})
			continue
		}
		s.Cores, s.Plans = plan.Cores, append(s.Plans, plan)
	}
	return s, nil
}

// Text writes it for the user: the plans as the commands that they come to.
func (s *Shown) Text(out io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s, Linux %s, %s\ncores          interrupts on %s, workers on %s (as the profiles mean these words)\nin force       %s\n", s.Host,
		s.Kernel, cores.Name(s.Cores.All), cores.Name(s.Cores.Interrupts), cores.Name(s.Cores.Workers), s.InForce)
	for _, r := range s.Refused {
		fmt.Fprintf(&b, "not here       %s: %s\n", r.Knob, r.Why)
	}
	for _, p := range s.Plans {
		b.WriteByte('\n')
		if err := p.Text(&b, true); err != nil {
			return err
		}
	}
	_, err := b.WriteTo(out)
	return err
}

// String describes the tuning in force in one line.
func (t *Tuning) String() string {
	if t == nil {
		return "nothing: no tuning was applied here"
	}
	text := fmt.Sprintf("profile %s, %d changes, by %s at %s UTC; undo: ceiling tune revert", t.Profile, len(t.Changes), t.Who, t.When.Format("2006-01-02 15:04:05"))
	if !t.Complete {
		text += " (it is being made, or was killed before its end)"
	}
	return text
}

// TextReverted writes what was undone.
func TextReverted(out io.Writer, done []Reverted) error {
	var b strings.Builder
	for i := range done {
		r := &done[i]
		switch {
		case r.Gone != "":
			fmt.Fprintf(&b, "  %-44s nothing to undo: %s\n", &r.Change, r.Gone)
		case r.Found != "":
			fmt.Fprintf(&b, "  %-44s %s again; another program had made it %s\n", &r.Change, shown(r.Before), shown(r.Found))
		default:
			fmt.Fprintf(&b, "  %-44s %s again\n", &r.Change, shown(r.Before))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}
