package doctor

import (
	"fmt"
	"slices"
	"strings"

	"ceiling/experiment/spec"
)

func checkCores(f *Facts) Finding {
	n, online := f.Env.CoresAllowed, f.Env.CoresOnline
	what := fmt.Sprintf("%d of %d cores", n, online)
	switch {
	case n <= 0:
		return unknown("the CPUs that this process may use are not known", "")
	case n == 1 && f.Target.URL != "" && !f.Target.remote():
		return bad(what+": generator and server share the only one, so the result reflects both", "load from another machine")
	case n == 1:
		return warn(what, "allow more: taskset -pc 0-"+fmt.Sprint(max(online-1, 1))+" $$")
	case n < online:
		return ok(what + " allowed (affinity or cpuset limits it)")
	}
	return ok(what)
}

func checkQuota(f *Facts) Finding {
	q := f.Env.CgroupCPUs
	switch {
	case q == 0:
		return ok("no CPU quota")
	case q >= float64(f.Env.CoresAllowed):
		return ok(fmt.Sprintf("a quota of %.3g cores, not below the %d allowed", q, f.Env.CoresAllowed))
	}
	return bad(fmt.Sprintf("this cgroup may use %.3g of %d cores and is stopped for the rest of every period, up to 100 ms at a time", q,
		f.Env.CoresAllowed),
		"run outside of it, or raise it: docker run --cpus, kubernetes resources.limits.cpu, systemctl set-property UNIT CPUQuota=")
}

// checkSiblings: two threads of one core do about 1.2 cores' worth of work together.
func checkSiblings(f *Facts) Finding {
	if len(f.Env.Siblings) == 0 {
		return ok("no two CPUs share a core")
	}
	what := fmt.Sprintf("%d cores have two or more CPUs each: a busy CPU slows its sibling down", len(f.Env.Siblings))
	if len(f.Env.Siblings) < 2 || f.Target.remote() {
		return warn(what, "switch the siblings off: echo off > /sys/devices/system/cpu/smt/control (as root)")
	}
	half := len(f.Env.Siblings) / 2
	return warn(what, fmt.Sprintf("give each side whole cores: --pin-generator %s --pin-server %s", joined(f.Env.Siblings[:half]),
		joined(f.Env.Siblings[half:])))
}

// joined merges CPU lists into one, with ranges.
func joined(lists []string) string {
	cpus, err := spec.ParseCPUList(strings.Join(lists, ","))
	if err != nil {
		return strings.Join(lists, ",")
	}
	return spec.FormatCPUList(cpus)
}

func checkNUMA(f *Facts) Finding {
	switch n := len(f.Files.Nodes); {
	case n == 0:
		return unknown("NUMA nodes unknown", "")
	case n == 1:
		return ok("one memory node")
	default:
		return warn(fmt.Sprintf("%d memory nodes: traffic between them costs more, and the scheduler moves threads across", n),
			fmt.Sprintf("keep each side on one: --pin-generator %s --pin-server %s", f.Files.Nodes[0], f.Files.Nodes[1]))
	}
}

func checkGovernor(f *Facts) Finding {
	g, driver := f.Env.Governor, f.Files.ScalingDriver
	fix := "cpupower frequency-set -g performance (as root)"
	// With intel_pstate and amd-pstate-epp in active mode "powersave" adapts the clock; with
	// every other driver it keeps the lowest (Documentation/admin-guide/pm/intel_pstate.rst).
	adapts := strings.HasPrefix(driver, "intel_pstate") || strings.HasPrefix(driver, "amd-pstate-epp") ||
		strings.HasPrefix(driver, "amd_pstate_epp")
	switch {
	case g == "" && f.Env.Virtual != "":
		return unknown("CPU frequency is controlled by the hypervisor", "")
	case g == "":
		return unknown("the kernel does not control the clock (no cpufreq)", "")
	case g == "performance":
		return ok("performance")
	case g == "powersave" && !adapts:
		return bad("powersave holds the lowest clock", fix)
	}
	return warn(fmt.Sprintf("%s (%s): the clock follows the load, so half a load costs more than half a core", g, orUnknown(driver)), fix)
}

func orUnknown(text string) string {
	if text == "" {
		return "unknown driver"
	}
	return text
}

func checkTurbo(f *Facts) Finding {
	switch f.Files.Turbo {
	case "on":
		fix := "echo 0 > /sys/devices/system/cpu/cpufreq/boost (as root)"
		if strings.HasPrefix(f.Files.ScalingDriver, "intel_pstate") {
			fix = "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo (as root)"
		}
		return warn("on: the clock depends on heat and on how many cores work", fix)
	case "off":
		return ok("off")
	}
	return unknown("not reported by the kernel", "")
}

func checkThrottling(f *Facts) Finding {
	now, since := f.Activity.Throttles, f.Files.Throttles
	switch {
	case since < 0:
		return unknown("the kernel does not count thermal throttling", "")
	case now > 0:
		return bad(fmt.Sprintf("the CPUs were slowed down by heat %d times in %.1f s", now, f.Activity.WidthS),
			"let the machine cool, and look at its fans")
	case since > 0:
		return warn(fmt.Sprintf("the CPUs were slowed down by heat %d times since boot", since),
			"watch the temperature during the run, or set turbo off")
	}
	return ok("never slowed down by heat since boot")
}

func checkPower(f *Facts) Finding {
	switch f.Files.Power {
	case "battery":
		return bad("on battery: the firmware holds the clock down", "plug it in")
	case "mains":
		return ok("on mains")
	}
	return ok("no battery")
}

func checkVirtual(f *Facts) Finding {
	if f.Env.Virtual == "" {
		return ok("none known: bare metal")
	}
	name := f.Env.Virtual
	if name == "unnamed" {
		name = "of an unnamed hypervisor"
	}
	return warn("a virtual machine ("+name+"): noisy neighbours are visible only as steal time",
		"compare interleaved runs only, or use your own machine")
}

// checkClock: a source that the vDSO cannot read costs a system call per clock reading, and hpet
// or acpi_pm a slow bus access as well.
func checkClock(f *Facts) Finding {
	switch source := f.Env.ClockSource; source {
	case "":
		return unknown("clock source unknown", "")
	case "tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "riscv_clocksource", "timebase":
		return ok(source)
	case "hpet", "acpi_pm", "jiffies", "refined-jiffies":
		fix := "see why the kernel dropped TSC: dmesg | grep -i tsc"
		if slices.Contains(strings.Fields(f.Files.ClockSources), "tsc") {
			fix = "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource (as root)"
		}
		return bad(source+": each clock read costs a microsecond or more", fix)
	default:
		return warn(source+": each clock read may be a system call",
			"see /sys/devices/system/clocksource/clocksource0/available_clocksource")
	}
}
