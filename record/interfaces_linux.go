package record

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/nic"
)

// irqBalance looks for the daemon among the processes; "" if no processes are visible.
func (h host) irqBalance() string {
	processes, err := fs.ReadDir(h.root, "proc")
	if err != nil {
		return ""
	}
	state := ""
	for _, p := range processes {
		if name := p.Name(); name[0] < '0' || name[0] > '9' {
			continue
		}
		if h.text(path.Join("proc", p.Name(), "comm")) == "irqbalance" {
			return "running"
		}
		state = "stopped"
	}
	return state
}

// interfaces reads those with a hardware device or with packet steering.
func (h host) interfaces() []Interface {
	names, err := fs.Glob(h.root, "sys/class/net/*")
	if err != nil {
		return nil
	}
	var all []Interface
	for _, name := range names {
		one := h.network(path.Base(name))
		if (one.Driver != "" || one.RPS != "" || one.XPS != "") && len(all) < MaxInterfaces {
			all = append(all, one)
		}
	}
	return all
}

func (h host) network(name string) Interface {
	one := Interface{Name: name}
	found, err := nic.Read(h.root, name)
	if err != nil {
		return one // removed in the meantime, or an unsafe name
	}
	dir := "sys/class/net/" + name + "/"
	one.Driver, one.RxQueues, one.TxQueues = found.Driver, found.Rx, found.Tx
	one.MTU, one.NAPIDefer, one.GROFlushNs = h.number(dir+"mtu"), h.number(dir+"napi_defer_hard_irqs"), h.number(dir+"gro_flush_timeout")
	one.RPS = h.steering(name, "rx", "rps_cpus", cpusOfMask)
	one.RFS = h.steering(name, "rx", "rps_flow_cnt", func(text string) string { return strings.TrimPrefix(text, "0") })
	one.XPS = h.steering(name, "tx", "xps_cpus", cpusOfMask)
	var irqs []string
	for _, irq := range found.IRQs {
		if cpus := h.text("proc/irq/" + strconv.Itoa(irq.Number) + "/smp_affinity_list"); cpus != "" {
			irqs = append(irqs, irq.Name+":"+cpus)
		}
	}
	one.IRQs = strings.Join(irqs, " ")
	return one
}

func (h host) number(name string) int {
	n, err := strconv.Atoi(h.text(name))
	if err != nil {
		return 0
	}
	return n
}

// cpusOfMask returns "" for an empty mask.
func cpusOfMask(text string) string {
	cpus, err := nic.ParseMask(text)
	if err != nil {
		return ""
	}
	return spec.FormatCPUList(cpus)
}

// steering joins one file of all queues, listing each value once, in order of its first queue.
func (h host) steering(name, way, file string, value func(string) string) string {
	var order []string
	of := map[string][]int{}
	for i, dir := range nic.Queues(h.root, name, way) {
		text := value(h.text(path.Join(dir, file)))
		if text != "" && !slices.Contains(order, text) {
			order = append(order, text)
		}
		of[text] = append(of[text], i)
	}
	var parts []string
	for _, text := range order {
		parts = append(parts, spec.FormatCPUList(of[text])+":"+text)
	}
	return strings.Join(parts, " ")
}
