// Package nic reads network interfaces from /sys and /proc: queues, interrupts and their CPU
// masks.
package nic

import (
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"ceiling/internal/sys"
)

// Interface is a network interface and its queues.
type Interface struct {
	Name string `json:"name"`
	// Driver as sysfs names it, "" for a device without hardware (veth, lo).
	Driver string `json:"driver,omitempty"`
	// Rx and Tx are the numbers of queues.
	Rx int `json:"rx_queues"`
	Tx int `json:"tx_queues"`
	// Node is the NUMA node, -1 on a single-node machine or if unknown.
	Node int `json:"numa_node"`
	// IRQs of its queues, by ascending number.
	IRQs []IRQ `json:"irqs,omitempty"`
}

// IRQ is the interrupt of a queue.
type IRQ struct {
	Number int    `json:"irq"`
	Name   string `json:"name"` // as in /proc/interrupts: "ena-eth0-Tx-Rx-3"
}

// Queue returns the number of its queue, from the end of its name: "eth0-Tx-Rx-3",
// "virtio2-input.0", "mlx5_comp7@pci:0000:3b:00.0"; 0 without a number.
func (i *IRQ) Queue() int {
	name, _, _ := strings.Cut(i.Name, "@")
	digits := name[len(strings.TrimRight(name, "0123456789")):]
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return n
}

// Default returns the interface of the default route, from /proc/net/route (fib_trie.c,
// fib_route_seq_show); "" if none.
func Default(root fs.FS) string {
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

// Read reads an interface below a root that contains /proc and /sys.
func Read(root fs.FS, name string) (Interface, error) {
	n := Interface{Name: name, Node: -1}
	dir := "sys/class/net/" + name
	if strings.ContainsAny(name, "/*?[\\") || name == "" {
		return n, fmt.Errorf("invalid interface name %q; ip link lists them", name)
	}
	if _, err := fs.Stat(root, dir); err != nil {
		return n, fmt.Errorf("no interface %s; ip link lists them", name)
	}
	n.Rx, n.Tx = len(Queues(root, name, "rx")), len(Queues(root, name, "tx"))
	for line := range strings.Lines(sys.FileText(root, dir+"/device/uevent")) {
		if driver, is := strings.CutPrefix(strings.TrimSpace(line), "DRIVER="); is {
			n.Driver = driver
		}
	}
	if node, err := strconv.Atoi(sys.FileText(root, dir+"/device/numa_node")); err == nil {
		n.Node = node
	}
	n.IRQs = IRQsOf(root, name)
	return n, nil
}

// Queues returns an interface's directories rx-0, rx-1, ... by number.
func Queues(root fs.FS, name, way string) []string {
	found, err := fs.Glob(root, "sys/class/net/"+name+"/queues/"+way+"-[0-9]*")
	if err != nil {
		return nil
	}
	slices.SortFunc(found, func(a, b string) int { return NumberAtEnd(a) - NumberAtEnd(b) })
	return found
}

// NumberAtEnd returns the number of a queue's directory, rx-3; -1 without one.
func NumberAtEnd(text string) int {
	n, err := strconv.Atoi(text[strings.LastIndexByte(text, '-')+1:])
	if err != nil {
		return -1
	}
	return n
}

// IRQsOf returns the interrupts of an interface's queues: those that sysfs lists for its device,
// or for the parent device (a virtio device is below the PCI device that has them), or else those
// that carry its name. It omits interrupts that serve no queue: drivers call them config, mgmnt,
// async, control.
func IRQsOf(root fs.FS, name string) []IRQ {
	device := "sys/class/net/" + name + "/device"
	if _, err := fs.Stat(root, device); err != nil {
		return nil // a software interface: a host with containers has hundreds
	}
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
	for line := range strings.Lines(sys.FileText(root, "proc/interrupts")) {
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

// parentIRQs returns the interrupts of the parent of an interface's device. An fs.FS follows the
// interface's link, but not ".." from its target.
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

// Mask formats CPUs as a mask for /sys: comma-separated hexadecimal words of 32 bits
// (lib/bitmap.c).
func Mask(cpus []int) string {
	words := 1
	for _, cpu := range cpus {
		words = max(words, cpu/32+1)
	}
	bits := make([]uint32, words)
	for _, cpu := range cpus {
		bits[cpu/32] |= 1 << (cpu % 32)
	}
	var b strings.Builder
	for i := words - 1; i >= 0; i-- {
		if i == words-1 {
			fmt.Fprintf(&b, "%x", bits[i])
		} else {
			fmt.Fprintf(&b, ",%08x", bits[i])
		}
	}
	return b.String()
}

// ParseMask parses a mask, with any leading zeros.
func ParseMask(text string) ([]int, error) {
	var cpus []int
	words := strings.Split(strings.TrimSpace(text), ",")
	for i, word := range words {
		bits, err := strconv.ParseUint(word, 16, 32)
		if err != nil {
			return nil, fmt.Errorf("CPU mask %q: %q is not a hexadecimal word of 32 bits", text, word)
		}
		for bit := range 32 {
			if bits&(1<<bit) != 0 {
				cpus = append(cpus, (len(words)-1-i)*32+bit)
			}
		}
	}
	slices.Sort(cpus)
	return cpus, nil
}

// With returns the interface that has an address.
func With(addr netip.Addr) (string, error) {
	all, err := net.Interfaces()
	if err != nil {
		return "", fmt.Errorf("list interfaces: %w", err)
	}
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil {
			return "", fmt.Errorf("list addresses of %s: %w", i.Name, err)
		}
		for _, a := range addrs {
			prefix, err := netip.ParsePrefix(a.String())
			if err != nil {
				continue // not an address with a mask
			}
			if prefix.Addr() == addr || addr.IsLoopback() && prefix.Contains(addr) {
				return i.Name, nil
			}
		}
	}
	return "", fmt.Errorf("no interface has the address %s", addr)
}

// Mbits returns the speed of an interface in 10⁶ bit/s; 0 if it has none: the file says -1, or cannot
// be read (Documentation/ABI/testing/sysfs-class-net).
func Mbits(name string) int {
	n, err := strconv.Atoi(sys.FileText(os.DirFS("/sys/class/net"), name+"/speed"))
	if err != nil {
		return 0
	}
	return max(n, 0)
}
