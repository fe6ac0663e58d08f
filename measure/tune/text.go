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
		for i := range p.Changes {
			c := &p.Changes[i]
			if i == 0 || c.Why != p.Changes[i-1].Why {
				fmt.Fprintf(&b, "# %s; now %s\n", c.Why, shown(c.Before))
			}
			b.WriteString(p.host.command(c) + "\n")
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
	_, err := io.WriteString(out, b.String())
	return err
}

// command returns the command that makes a change: to read, or to run as root if this program may
// not.
func (h *Host) command(c *Change) string {
	line := command(c)
	if h.Namespace != "" {
		return "ip netns exec " + h.Namespace + " sh -c " + text.Word(line)
	}
	return line
}

func command(c *Change) string {
	switch c.Kind {
	case KindService:
		verb := map[string]string{running: "start", stopped: "stop"}[c.After]
		return "systemctl " + verb + " " + c.Path + ".service"
	case KindNIC:
		return ethtoolCommand(c)
	}
	if isSysctl(c.Knob) {
		return "sysctl -w " + c.Knob + "=" + text.Word(c.After)
	}
	return "echo " + text.Word(c.After) + " > /" + c.Path
}

func ethtoolCommand(c *Change) string {
	name, param, _ := strings.Cut(c.Path, "/")
	if feature, is := strings.CutPrefix(param, nicOffloadPre); is {
		return fmt.Sprintf("ethtool -K %s %s %s", name, feature, c.After)
	}
	option := map[string]string{
		nicQueues: "-L %s combined %s", nicRxRing: "-G %s rx %s", nicTxRing: "-G %s tx %s",
		nicRxUsecs: "-C %s rx-usecs %s", nicTxUsecs: "-C %s tx-usecs %s", nicAdaptive: "-C %s adaptive-rx %s",
	}[param]
	value := c.After
	if param == nicAdaptive {
		value = map[string]string{"0": "off", "1": "on"}[value]
	}
	return "ethtool " + fmt.Sprintf(option, name, value)
}
