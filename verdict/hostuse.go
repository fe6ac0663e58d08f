package verdict

import (
	"ceiling/experiment/spec"
	"ceiling/record"
)

// hostsOf returns what the CPUs of both ends did by category, and what their links carried.
func hostsOf(f *cpuFacts, links []*record.LinkSum) (list []record.HostUse) {
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
	for i := range list {
		linkUse(&list[i], links)
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
	share := func(categories ...int) float64 {
		return h.over(cpus, func(c *coreUse) (sum float64) {
			for _, i := range categories {
				sum += c.CPUTime[i]
			}
			return sum
		}) / n
	}
	u.User, u.System = share(record.CPUUser, record.CPUNice), share(record.CPUSystem)
	u.IRQ, u.SoftIRQ = share(record.CPUIRQ), share(record.CPUSoftIRQ)
	u.Steal, u.Idle = share(record.CPUSteal), share(record.CPUIOWait, record.CPUIdle)
	return u
}

// linkUse adds the interface toward the other end that carried most: of the end's own side where both
// are on one host, in namespaces.
func linkUse(u *record.HostUse, links []*record.LinkSum) {
	most := 0.0
	for _, s := range links {
		carried := s.Bytes[0] + s.Bytes[1]
		if s.Host != u.Host || s.Iface == loopback || s.Side != "" && s.Side != u.End || s.Seconds <= 0 || u.Link != "" && carried <= most {
			continue
		}
		most, u.Link = carried, s.Iface
		u.RxBytesPerS, u.TxBytesPerS = s.Bytes[0]/s.Seconds, s.Bytes[1]/s.Seconds
		u.RxPacketsPerS, u.TxPacketsPerS = s.Packets[0]/s.Seconds, s.Packets[1]/s.Seconds
	}
}
