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
	for i := range list {
		linkUse(&list[i], ours(f, series.Observed.NetDevs))
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
	u.IRQ, u.SoftIRQ = share(func(c *coreUse) float64 { return c.irq }), share(func(c *coreUse) float64 { return c.soft - c.irq })
	u.Steal, u.Idle = share(stolen), share(idle)
	return u
}

// linkUse adds the interface toward the other end: that of the end's own side where both are on one
// host, in namespaces.
func linkUse(u *record.HostUse, rows []*record.NetDevRow) {
	seconds := 0.0
	for _, row := range rows {
		if !row.Target || row.Bad != "" || row.WidthNs <= 0 || row.Host != u.Host || row.Iface == "lo" || row.Side != "" && row.Side != u.End ||
			u.Link != "" && row.Iface != u.Link {
			continue
		}
		u.Link = row.Iface
		u.RxBytesPerS += float64(max(row.RxBytes, 0))
		u.TxBytesPerS += float64(max(row.TxBytes, 0))
		u.RxPacketsPerS += float64(max(row.RxPackets, 0))
		u.TxPacketsPerS += float64(max(row.TxPackets, 0))
		seconds += float64(row.WidthNs) / 1e9
	}
	if seconds > 0 {
		u.RxBytesPerS, u.TxBytesPerS = u.RxBytesPerS/seconds, u.TxBytesPerS/seconds
		u.RxPacketsPerS, u.TxPacketsPerS = u.RxPacketsPerS/seconds, u.TxPacketsPerS/seconds
	}
}
