//go:build linux

package tune

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"ceiling/internal/nic"
	"ceiling/internal/sys"
	"ceiling/internal/text"
	"ceiling/measure/cores"
)

// ShowSchema names the version of a Shown.
const ShowSchema = "ceiling.tune/1"

// Shown is the current settings of a host, and what the profiles would change.
type Shown struct {
	Schema string `json:"schema"`
	Host   string `json:"host"`
	Kernel string `json:"kernel"`
	// NIC is the interface shown; nil: none, see NICErr.
	NIC    *nic.Interface `json:"nic,omitempty"`
	NICErr string         `json:"nic_err,omitempty"`
	Cores  Cores          `json:"cores"`
	// InForce is the tuning in force; nil: none.
	InForce *Tuning `json:"in_force,omitempty"`
	// For says which profiles concern this host for a load; "": no URL was given.
	For   string      `json:"for,omitempty"`
	Knobs []KnobShown `json:"knobs"`
	// Refused are profiles that do not apply to this host, and why.
	Refused []Skipped `json:"refused,omitempty"`
}

// KnobShown is one knob on a host.
type KnobShown struct {
	Knob
	// Now has the current values, by what they belong to; if empty, Missing says why.
	Now     []Value  `json:"now"`
	Missing string   `json:"missing,omitempty"`
	Wanted  []Wanted `json:"wanted"`
}

// Value is the value of a queue, an interrupt or a CPU; Of is "" for the host's.
type Value struct {
	Of    string `json:"of,omitempty"`
	Value string `json:"value"`
}

// Wanted is what a profile would set a knob to.
type Wanted struct {
	Profile string `json:"profile"`
	// Values are those that would change; none: all are set already.
	Values []Value `json:"values"`
	Why    string  `json:"why"`
}

// Show reads the current settings and what the profiles would change. It changes nothing.
func (h *Host) Show(o Options) (*Shown, error) {
	s := &Shown{Schema: ShowSchema, Host: sys.FileText(h.tree(), "proc/sys/kernel/hostname"), Kernel: sys.FileText(h.tree(), "proc/sys/kernel/osrelease")}
	var err error
	if s.InForce, err = h.InForce(); err != nil {
		return nil, err
	}
	for _, k := range Knobs() {
		s.Knobs = append(s.Knobs, KnobShown{Knob: k, Now: []Value{}, Wanted: []Wanted{}})
	}
	if err := h.inside(func(h *Host) error { return s.read(h, o) }); err != nil {
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
		s.want(&p, plan)
	}
	return s, nil
}

// read fills in the current values.
func (s *Shown) read(h *Host, o Options) error {
	k, err := h.planner(o)
	if err != nil {
		return err
	}
	s.Cores = k.cores
	if s.NIC = &k.nic; k.noNIC != nil {
		s.NIC, s.NICErr = nil, withoutAbsent(k.noNIC)
	}
	for i := range s.Knobs {
		knob := &s.Knobs[i]
		if knob.Name == knobOffload { // one of dozens: a profile says which
			knob.Missing = "ethtool -k lists them"
			continue
		}
		changes, err := k.resolve(&Setting{Set: knob.Name, To: k.anyValue(knob.Name)})
		for j := range changes {
			c := &changes[j]
			now, failed := k.host.read(c)
			if failed == nil && c.Kind != KindFile {
				knob.Now = append(knob.Now, Value{c.Of, now})
			}
			err = errors.Join(err, failed)
		}
		switch {
		case knob.Name == knobFiles:
			knob.Now = []Value{{Value: openFilesHere(k.tree)}}
		case len(knob.Now) == 0 && err != nil:
			knob.Missing = text.FirstLine(withoutAbsent(err))
		case len(knob.Now) == 0:
			knob.Missing = "not on this host"
		}
	}
	return nil
}

// anyValue returns a value that resolve accepts: only what it applies to matters here.
func (k *planner) anyValue(knob string) string {
	switch knob {
	case knobRPS, knobXPS:
		return "none"
	case knobIRQ:
		return "all"
	case knobIRQBalance:
		return stopped
	case knobGovernor:
		return sys.FileText(k.tree, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
	case knobFiles:
		return "1024"
	}
	return "0"
}

// want records what a plan would change.
func (s *Shown) want(p *Profile, plan *Plan) {
	for i := range p.Settings {
		set := &p.Settings[i]
		w := Wanted{Profile: p.Name, Why: set.Why, Values: []Value{}}
		here := false
		for _, c := range plan.Changes {
			if c.Knob == set.Set {
				w.Values = append(w.Values, Value{c.Of, c.After})
			}
		}
		for _, c := range plan.Already {
			here = here || c.Knob == set.Set
		}
		for j := range s.Knobs {
			if s.Knobs[j].Name == set.Set && (here || len(w.Values) > 0) {
				s.Knobs[j].Wanted = append(s.Knobs[j].Wanted, w)
			}
		}
	}
}

// Text writes it for the user.
func (s *Shown) Text(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, Linux %s, %s\n", s.Host, s.Kernel, cores.Name(s.Cores.All))
	if s.NIC != nil {
		fmt.Fprintf(&b, "interface      %s\n", s.NIC)
	} else {
		fmt.Fprintf(&b, "interface      %s\n", s.NICErr)
	}
	fmt.Fprintf(&b, "cores          interrupts on %s, workers on %s (as the profiles mean these words)\n", cores.Name(s.Cores.Interrupts),
		cores.Name(s.Cores.Workers))
	fmt.Fprintf(&b, "in force       %s\n", s.InForce)
	if s.For != "" {
		fmt.Fprintf(&b, "profiles       %s\n", s.For)
	}
	for _, r := range s.Refused {
		fmt.Fprintf(&b, "not here       %s: %s\n", r.Knob, r.Why)
	}
	for i := range s.Knobs {
		k := &s.Knobs[i]
		now := Summary(k.Now)
		if len(k.Now) == 0 {
			now = "– " + k.Missing
		}
		fmt.Fprintf(&b, "\n%-38s %s\n    %s · %s\n", k.Name, now, k.Does, k.Doc)
		for _, w := range k.Wanted {
			if len(w.Values) > 0 {
				fmt.Fprintf(&b, "    %s: %s, because %s\n", w.Profile, Summary(w.Values), w.Why)
			}
		}
	}
	_, err := io.WriteString(out, b.String())
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

// summaryGroups is how many distinct values a line shows.
const summaryGroups = 3

// Summary formats values in a line: a common one once, several with what they belong to.
func Summary(values []Value) string {
	var order []string
	of := map[string][]string{}
	for _, v := range values {
		text := shown(v.Value)
		if of[text] == nil {
			order = append(order, text)
		}
		of[text] = append(of[text], v.Of)
	}
	if len(order) == 1 {
		if n := len(values); n > 1 {
			return fmt.Sprintf("%s (all %d)", order[0], n)
		}
		return order[0]
	}
	var parts []string
	for i, text := range order {
		if i == summaryGroups {
			return strings.Join(parts, ", ") + fmt.Sprintf(", … %d values in all", len(order))
		}
		who := of[text][0]
		if n := len(of[text]); n > 1 {
			who += fmt.Sprintf(" and %d more", n-1)
		}
		parts = append(parts, fmt.Sprintf("%s (%s)", text, who))
	}
	return strings.Join(parts, ", ")
}

func withoutAbsent(err error) string { return strings.TrimSuffix(err.Error(), ": "+errAbsent.Error()) }
