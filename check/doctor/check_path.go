package doctor

import (
	"fmt"
	"strings"

	"ceiling/internal/unit"
)

// noTarget is the finding of checks that need a target.
func (f *Facts) noTarget() (Finding, bool) {
	t := &f.Target
	switch {
	case t.URL == "":
		return unknown("no URL given: ceiling doctor URL checks the path to it", ""), true
	case t.Unix:
		return ok("a unix socket: no network is in the way"), true
	case t.Iface == "" && t.Err == "":
		return unknown("the interface that leads there is not known", ""), true
	case t.Err != "":
		return unknown(t.Err, ""), true
	}
	return Finding{}, false
}

func checkInterface(f *Facts) Finding {
	if answer, none := f.noTarget(); none {
		return answer
	}
	switch t := &f.Target; {
	case t.Namespace > 0:
		return warn(fmt.Sprintf("%s, to another network namespace of this host (process %d's): both sides share these cores, and watching the server needs root", t.Iface, t.Namespace), "run ceiling as root; pin both sides apart with --pin-generator and --pin-server")
	case t.Iface == "lo":
		return ok("lo: generator and server are on one host and share its cores")
	default:
		return ok(t.Iface)
	}
}

// largeAnswer is the response size for which the link's bound is stated.
const largeAnswer = 4500

func checkSpeed(f *Facts) Finding {
	if answer, none := f.noTarget(); none {
		return answer
	}
	t := &f.Target
	switch {
	case t.Iface == "lo":
		return ok("loopback has none: memory is the limit")
	case t.SpeedMbit <= 0:
		return warn("the kernel does not know the speed of "+t.Iface+": a full link would not be recognised", "pass --link-speed 10Gbps")
	case t.Duplex == "half":
		return bad(fmt.Sprintf("%s runs at half duplex", t.Iface),
			"ethtool -s "+t.Iface+" duplex full autoneg on (as root), and look at the cable")
	}
	speed := unit.BitsPerSecond(float64(t.SpeedMbit) * 1e6)
	what := fmt.Sprintf("%s has %s: limits 4.5 kB responses to %s/s", t.Iface, speed,
		unit.FormatCount(int64(float64(speed.Bytes())/largeAnswer)))
	if t.SpeedMbit < 1000 {
		return warn(what, "use a faster link, or answers that are small")
	}
	return ok(what)
}

func checkMTU(f *Facts) Finding {
	if answer, none := f.noTarget(); none {
		return answer
	}
	t := &f.Target
	what := fmt.Sprintf("%d bytes on %s", t.MTU, t.Iface)
	switch {
	case t.MTU < 0:
		return unknown("the MTU of "+t.Iface+" could not be read", "")
	case t.Iface == "lo" && t.MTU < 16384:
		return warn(what+": loopback has 65536 unless set otherwise, and each packet costs", "ip link set lo mtu 65536 (as root)")
	case t.MTU < 1500:
		return warn(what+": more packets for the same bytes than the usual 1500",
			"ip link set "+t.Iface+" mtu 1500 (as root), unless a tunnel needs it so")
	}
	return ok(what)
}

func checkShaping(f *Facts) Finding {
	if answer, none := f.noTarget(); none {
		return answer
	}
	t := &f.Target
	if t.QdiscErr != "" {
		return unknown("the queues of "+t.Iface+" could not be read: "+t.QdiscErr, "tc qdisc show dev "+t.Iface)
	}
	q, fix := t.Qdisc, "tc qdisc del dev "+t.Iface+" root (as root), unless it is what you measure"
	switch q.Kind {
	case "tbf", "htb":
		if q.BytesPerSecond > 0 {
			return warn(fmt.Sprintf("%s limits %s to %s", q.Kind, t.Iface, unit.BytesPerSecond(q.BytesPerSecond).Bits()), fix)
		}
		return warn(q.Kind+" limits "+t.Iface, fix)
	case "netem", "hfsc", "cake", "cbq", "ets", "drr":
		return warn(q.Kind+" on "+t.Iface+" may delay, drop or limit its packets", fix)
	case "":
		return ok("no queue on " + t.Iface)
	}
	return ok(fmt.Sprintf("none on %s (%s)", t.Iface, q.Kind))
}

func checkQueues(f *Facts) Finding {
	if answer, none := f.noTarget(); none {
		return answer
	}
	t := &f.Target
	cores := int64(f.Env.CoresOnline)
	switch {
	case t.Iface == "lo":
		return ok("loopback has no interrupts")
	case t.RxQueues < 0:
		return unknown("the queues of "+t.Iface+" could not be counted", "")
	case t.RxQueues == 1 && cores > 2 && !t.RPS:
		return warn(fmt.Sprintf("%s has one receive queue for %d cores: one of them handles every packet", t.Iface, cores),
			fmt.Sprintf("ethtool -L %s combined %d, or spread it: echo %s > /sys/class/net/%s/queues/rx-0/rps_cpus (as root)", t.Iface,
				min(cores, 16), mask(min(cores, 32)), t.Iface)+tuned("rps-rfs"))
	}
	what := fmt.Sprintf("%d receive queues for %d cores", t.RxQueues, cores)
	if t.RPS {
		what += ", spread by RPS"
	}
	return ok(what)
}

// mask returns the mask of the first n CPUs, n up to 32, in rps_cpus format.
func mask(n int64) string { return fmt.Sprintf("%x", uint64(1)<<n-1) }

func checkIRQBalance(f *Facts) Finding {
	switch {
	case f.Activity.Err != "":
		return unknown(f.Activity.Err, "")
	case !f.Activity.IRQBalance:
		return ok("does not run")
	case f.Target.Iface == "lo" || f.Target.Unix:
		return ok("runs; loopback has no interrupts to move")
	}
	return warn("moves the NIC's interrupts from core to core, also during a run",
		"systemctl stop irqbalance (as root), for the time of the run"+tuned("irq-pinned"))
}

func checkCongestion(f *Facts) Finding {
	name := f.Env.Sysctls["net.ipv4.tcp_congestion_control"]
	fix := "sysctl -w net.ipv4.tcp_congestion_control=cubic (as root)"
	switch {
	case f.Target.Unix:
		return ok("a unix socket has none")
	case name == "":
		return unknown("net.ipv4.tcp_congestion_control could not be read", "")
	case strings.HasPrefix(name, "bbr") && !f.Target.remote():
		return warn(name+" paces every connection with a timer, even on loopback: extra CPU and delay on small responses", fix)
	case name == "cubic" || name == "reno" || strings.HasPrefix(name, "bbr") || name == "dctcp":
		return ok(name)
	}
	return warn(name+": not what servers usually have", fix)
}
