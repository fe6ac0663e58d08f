package tune

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/safchain/ethtool"
)

// NIC is a network interface as far as it is tuned.
type NIC struct {
	Name string `json:"name"`
	// Driver as sysfs names it, "" for a device without hardware (veth, lo).
	Driver string `json:"driver,omitempty"`
	// Rx and Tx are the numbers of queues.
	Rx int `json:"rx_queues"`
	Tx int `json:"tx_queues"`
	// Node is the NUMA node, -1 where there is one node or the kernel does not say.
	Node int `json:"numa_node"`
	// IRQs of its queues, by ascending number.
	IRQs []IRQ `json:"irqs,omitempty"`
}

// IRQ is the interrupt of a queue.
type IRQ struct {
	Number int    `json:"irq"`
	Name   string `json:"name"` // as /proc/interrupts has it: "ena-eth0-Tx-Rx-3"
}

// queue is the number of the queue that it serves, as its name ends: "eth0-Tx-Rx-3",
// "virtio2-input.0", "mlx5_comp7@pci:0000:3b:00.0"; 0 for one without a number.
func (i *IRQ) queue() int {
	name, _, _ := strings.Cut(i.Name, "@")
	digits := name[len(strings.TrimRight(name, "0123456789")):]
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return n
}

// String says what it is in a line.
func (n *NIC) String() string {
	text := n.Name
	switch n.Driver {
	case "":
		text += " (no hardware"
	default:
		text += " (" + n.Driver
	}
	text += fmt.Sprintf(", %d receive and %d transmit queues", n.Rx, n.Tx)
	if len(n.IRQs) > 0 {
		text += fmt.Sprintf(", %d interrupts", len(n.IRQs))
	}
	if n.Node >= 0 {
		text += fmt.Sprintf(", NUMA node %d", n.Node)
	}
	return text + ")"
}

// defaultNIC is the interface of the default route, from /proc/net/route (fib_trie.c,
// fib_route_seq_show); "" without one.
func defaultNIC(root fs.FS) string {
	text, err := fs.ReadFile(root, "proc/thread-self/net/route")
	if err != nil {
		text, err = fs.ReadFile(root, "proc/net/route")
	}
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 7 && f[1] == "00000000" && f[7] == "00000000" {
			return f[0]
		}
	}
	return ""
}

// readNICFacts looks at an interface below a root.
func readNICFacts(root fs.FS, name string) (NIC, error) {
	n := NIC{Name: name, Node: -1}
	dir := "sys/class/net/" + name
	if strings.ContainsAny(name, "/*?[\\") || name == "" {
		return n, fmt.Errorf("%q is no name of an interface; ip link lists them", name)
	}
	if _, err := fs.Stat(root, dir); err != nil {
		return n, fmt.Errorf("there is no interface %s; ip link lists them", name)
	}
	n.Rx, n.Tx = len(queues(root, name, "rx")), len(queues(root, name, "tx"))
	for line := range strings.Lines(fileText(root, dir+"/device/uevent")) {
		if driver, is := strings.CutPrefix(strings.TrimSpace(line), "DRIVER="); is {
			n.Driver = driver
		}
	}
	if node, err := strconv.Atoi(fileText(root, dir+"/device/numa_node")); err == nil {
		n.Node = node
	}
	n.IRQs = irqsOf(root, name)
	return n, nil
}

// queues are an interface's directories rx-0, rx-1, ... by number.
func queues(root fs.FS, name, way string) []string {
	found, err := fs.Glob(root, "sys/class/net/"+name+"/queues/"+way+"-[0-9]*")
	if err != nil {
		return nil
	}
	slices.SortFunc(found, func(a, b string) int { return numberAtEnd(a) - numberAtEnd(b) })
	return found
}

func numberAtEnd(text string) int {
	n, err := strconv.Atoi(text[strings.LastIndexByte(text, '-')+1:])
	if err != nil {
		return -1
	}
	return n
}

func fileText(root fs.FS, name string) string {
	data, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// irqsOf are the interrupts of an interface's queues: those that sysfs lists for its
// device, or for the one above it (a virtio device hangs below the PCI device that has
// them), or else those that carry its name. Left out are interrupts that serve no
// queue: drivers call them config, mgmnt, async, control.
func irqsOf(root fs.FS, name string) []IRQ {
	device := "sys/class/net/" + name + "/device"
	listed := map[string]bool{}
	for _, dir := range []string{device, device + "/.."} {
		entries, err := fs.Glob(root, path.Clean(dir)+"/msi_irqs/*")
		if dir != device {
			entries, err = parentIRQs(root, name)
		}
		if err != nil || len(entries) == 0 {
			continue
		}
		for _, e := range entries {
			listed[path.Base(e)] = true
		}
		break
	}
	var irqs []IRQ
	for line := range strings.Lines(fileText(root, "proc/interrupts")) {
		fields := strings.Fields(line)
		if len(fields) < 3 || !strings.HasSuffix(fields[0], ":") {
			continue
		}
		number, label := strings.TrimSuffix(fields[0], ":"), fields[len(fields)-1]
		n, err := strconv.Atoi(number)
		if err != nil {
			continue
		}
		words := strings.FieldsFunc(label, func(r rune) bool { return r == '-' || r == '@' })
		mine := listed[number] || len(listed) == 0 && slices.Contains(words, name)
		if mine && servesQueue(label) {
			irqs = append(irqs, IRQ{n, label})
		}
	}
	return irqs
}

func servesQueue(label string) bool {
	lower := strings.ToLower(label)
	for _, other := range []string{"config", "mgmnt", "async", "control", "event", "admin", "cmd", "misc", "aeq", "ceq-0"} {
		if strings.Contains(lower, other) {
			return false
		}
	}
	return true
}

// parentIRQs are those of the device above an interface's. An fs.FS follows the link
// of the interface, but its ".." would be that of the link.
func parentIRQs(root fs.FS, name string) ([]string, error) {
	reader, is := root.(fs.ReadLinkFS)
	if !is {
		return nil, nil
	}
	link, err := reader.ReadLink("sys/class/net/" + name)
	if err != nil {
		return nil, nil // an interface without a device, or a fixture without links
	}
	// ../../devices/pci0000:00/0000:00:03.0/virtio2/net/eth0
	above := path.Join("sys/class/net", link, "../../..")
	return fs.Glob(root, above+"/msi_irqs/*")
}

// Parameters by ethtool.
const (
	nicQueues     = "queues"
	nicRxRing     = "rx_ring"
	nicTxRing     = "tx_ring"
	nicRxUsecs    = "rx_usecs"
	nicTxUsecs    = "tx_usecs"
	nicAdaptive   = "adaptive_rx"
	nicOffloadPre = "offload "
)

var errHostOnly = errors.New("ethtool reaches the NICs of this host only")

// withNIC opens ethtool's socket, in the calling thread's network namespace.
func withNIC(root, where string, f func(e *ethtool.Ethtool, name, param string) error) error {
	name, param, _ := strings.Cut(where, "/")
	if root != "/" {
		return errHostOnly
	}
	e, err := ethtool.NewEthtool()
	if err != nil {
		return err
	}
	defer e.Close()
	err = f(e, name, param)
	if errors.Is(err, syscall.EOPNOTSUPP) {
		driver, failed := e.DriverName(name)
		if failed != nil {
			driver = "unknown"
		}
		return fmt.Errorf("driver %s has no %s to set: %w", driver, param, err)
	}
	return err
}

func readNIC(root, where string) (value string, err error) {
	err = withNIC(root, where, func(e *ethtool.Ethtool, name, param string) error {
		value, err = nicValue(e, name, param)
		return err
	})
	return value, err
}

func nicValue(e *ethtool.Ethtool, name, param string) (string, error) {
	number := func(n uint32, err error) (string, error) { return strconv.FormatUint(uint64(n), 10), err }
	if feature, is := strings.CutPrefix(param, nicOffloadPre); is {
		all, err := e.Features(name)
		on, known := all[feature]
		switch {
		case err != nil:
			return "", err
		case !known:
			return "", fmt.Errorf("%s has no offload %q; ethtool -k lists those it has: %w", name, feature, fs.ErrNotExist)
		case on:
			return "on", nil
		}
		return "off", nil
	}
	switch param {
	case nicQueues:
		c, err := e.GetChannels(name)
		return number(*channelCounts(&c)[0], err)
	case nicRxRing, nicTxRing:
		r, err := e.GetRing(name)
		if param == nicTxRing {
			return number(r.TxPending, err)
		}
		return number(r.RxPending, err)
	}
	c, err := e.GetCoalesce(name)
	switch param {
	case nicRxUsecs:
		return number(c.RxCoalesceUsecs, err)
	case nicTxUsecs:
		return number(c.TxCoalesceUsecs, err)
	}
	return number(c.UseAdaptiveRxCoalesce, err)
}

// channelCounts are the numbers of queues: combined, or of receiving and sending where a
// driver has them apart.
func channelCounts(c *ethtool.Channels) []*uint32 {
	if c.MaxCombined > 0 {
		return []*uint32{&c.CombinedCount}
	}
	return []*uint32{&c.RxCount, &c.TxCount}
}

func writeNIC(root, where, value string) error {
	return withNIC(root, where, func(e *ethtool.Ethtool, name, param string) error { return setNIC(e, name, param, value) })
}

func setNIC(e *ethtool.Ethtool, name, param, value string) error {
	if feature, is := strings.CutPrefix(param, nicOffloadPre); is {
		return e.Change(name, map[string]bool{feature: value == "on"})
	}
	wide, err := strconv.ParseUint(value, 10, 32)
	if err != nil {
		return fmt.Errorf("%s takes a number, not %q", param, value)
	}
	n := uint32(wide)
	switch param {
	case nicQueues:
		c, err := e.GetChannels(name)
		if err != nil {
			return err
		}
		for _, count := range channelCounts(&c) {
			*count = n
		}
		_, err = e.SetChannels(name, c)
		return err
	case nicRxRing, nicTxRing:
		r, err := e.GetRing(name)
		if err != nil {
			return err
		}
		if param == nicTxRing {
			r.TxPending = n
		} else {
			r.RxPending = n
		}
		_, err = e.SetRing(name, r)
		return err
	}
	c, err := e.GetCoalesce(name)
	if err != nil {
		return err
	}
	switch param {
	case nicRxUsecs:
		c.RxCoalesceUsecs = n
	case nicTxUsecs:
		c.TxCoalesceUsecs = n
	default:
		c.UseAdaptiveRxCoalesce = n
	}
	_, err = e.SetCoalesce(name, c)
	return err
}
