package verdict

import (
	"ceiling/experiment/spec"
	"ceiling/record"
)

// hostsOf returns what the CPUs of both ends did by category, and what their links carried.
func hostsOf(f *cpuFacts, series *record.Series) (list []record.HostUse) {
	if f.server.host.known && len(f.server.cpus) > 0 {
		end := "server"
		if f.together {
			end = "both"
		}
		list = append(list, f.server.host.use(end, f.server.cpus))
	}
	if f.generator.home.known && len(f.generator.cpus) > 0 && !f.together && len(f.generator.agents) == 0 {
		list = append(list, f.generator.home.use("generator", f.generator.cpus))
	}
	by, keys := interfacesOf(f, series)
	for i := range list {
		linkUse(&list[i], by, keys)
	}
	return list
}

// use sums up some CPUs.
func (h *hostFacts) use(end string, cpus []int) record.HostUse {
	u := record.HostUse{End: end, Host: h.name, CPUs: spec.FormatCPUList(cpus)}
	n := h.over(cpus, func(c *coreUse) float64 { return c.total }) // CPUs
	if n == 0 {
		return u
	}
	share := func(of func(*coreUse) float64) float64 { return h.over(cpus, of) / n }
	u.User, u.System = share(func(c *coreUse) float64 { return c.user }), share(func(c *coreUse) float64 { return c.system })
	u.IRQ, u.SoftIRQ = share(func(c *coreUse) float64 { return c.irq }), share(func(c *coreUse) float64 { return c.softirq })
	u.Steal, u.Idle = share(stolen), share(idle)
	return u
}

// linkUse adds the interface toward the other end that carried most: of the end's own side where both
// are on one host, in namespaces.
func linkUse(u *record.HostUse, by map[ifaceKey]*ifaceSums, keys []ifaceKey) {
	most := 0.0
	for _, key := range keys {
		s := by[key]
		carried := s.bytes[0] + s.bytes[1]
		if key.host != u.Host || key.iface == "lo" || key.side != "" && key.side != u.End || s.seconds <= 0 || u.Link != "" && carried <= most {
			continue
		}
		most, u.Link = carried, key.iface
		u.RxBytesPerS, u.TxBytesPerS = s.bytes[0]/s.seconds, s.bytes[1]/s.seconds
		u.RxPacketsPerS, u.TxPacketsPerS = s.packets[0]/s.seconds, s.packets[1]/s.seconds
	}
}
