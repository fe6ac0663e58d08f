//go:build linux

package tune

import (
	"fmt"
	"io"
	"strings"

	"ceiling/internal/text"
	"ceiling/internal/unit"
)

// Text writes a plan for the user: as commands if they are still to be run, otherwise as the
// changes made.
func (p *Plan) Text(out io.Writer, commands bool) error {
	var b strings.Builder
	switch {
	case len(p.Changes) == 0:
		fmt.Fprintf(&b, "profile %s: nothing to change, %s already so\n", p.Profile, unit.Plural(len(p.Already), "value", "values"))
	case commands:
		fmt.Fprintf(&b, "# profile %s: %s, %d already so\n", p.Profile, unit.Plural(len(p.Changes), "change", "changes"), len(p.Already))
		for i, text := range p.Commands() {
			if c := &p.Changes[i]; i == 0 || c.Why != p.Changes[i-1].Why {
				fmt.Fprintf(&b, "# %s; now %s\n", c.Why, shown(c.Before))
			}
			b.WriteString(text + "\n")
		}
	default:
		fmt.Fprintf(&b, "profile %s: %s made, %d already so; undo: ceiling tune revert\n", p.Profile, unit.Plural(len(p.Changes), "change", "changes"), len(p.Already))
		for i := range p.Changes {
			c := &p.Changes[i]
			fmt.Fprintf(&b, "  %-44s %s → %s\n", c, shown(c.Before), shown(c.After))
		}
	}
	for _, s := range p.Skipped {
		why := text.FirstLine(s.Why)
		if !strings.Contains(why, s.Knob) {
			why = s.Knob + ": " + why
		}
		fmt.Fprintf(&b, "# left out: %s\n", why)
	}
	for _, n := range p.Notes {
		fmt.Fprintf(&b, "# %s\n", n)
	}
	_, err := io.WriteString(out, b.String())
	return err
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

// Text writes the evidence, failures first.
func (v *Verified) Text(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "profile %s, by %s; counters of the kernel over %.1f s\n", v.Tuning.Profile, v.Tuning.Who, v.Seconds)
	counts := map[string]int{}
	for _, effect := range []string{SetBack, NotInEffect, InEffect, NotShown} {
		for i := range v.Evidence {
			if e := &v.Evidence[i]; e.Effect == effect {
				counts[effect]++
				name := Change{Knob: e.Knob, Of: e.Of}
				fmt.Fprintf(&b, "%-13s  %s = %s\n%13s  %s\n", e.Effect, &name, shown(e.Set), "", e.What)
			}
		}
	}
	fmt.Fprintf(&b, "\n%d in effect, %d not in effect, %d set back, %d not shown\n", counts[InEffect], counts[NotInEffect], counts[SetBack], counts[NotShown])
	_, err := io.WriteString(out, b.String())
	return err
}
