//go:build linux

package tune

import (
	"fmt"
	"path"
	"strings"
)

// Commands returns the commands that make the changes: to read, or to run as root if this program
// may not.
func (p *Plan) Commands() []string {
	var all []string
	for i := range p.Changes {
		all = append(all, p.host.command(&p.Changes[i]))
	}
	return all
}

func (h *Host) command(c *Change) string {
	text := command(c)
	if h.Namespace != "" {
		return "ip netns exec " + h.Namespace + " sh -c " + quoted(text)
	}
	return text
}

func command(c *Change) string {
	switch c.Kind {
	case KindService:
		verb := map[string]string{running: "start", stopped: "stop"}[c.After]
		return "systemctl " + verb + " " + c.Path + ".service"
	case KindNIC:
		return ethtoolCommand(c)
	case KindFile:
		file := "/" + c.Path
		return fmt.Sprintf("mkdir -p %s && printf %s > %s", path.Dir(file), quoted(strings.ReplaceAll(c.After, "\n", `\n`)), file)
	}
	if isSysctl(c.Knob) {
		return "sysctl -w " + c.Knob + "=" + quoted(c.After)
	}
	return "echo " + quoted(c.After) + " > /" + c.Path
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

// quoted quotes a word for a shell.
func quoted(text string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.,:/=", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !safe(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
