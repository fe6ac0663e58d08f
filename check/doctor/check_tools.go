package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// checkKernel: the engine's io_uring features need 6.1, waiting for several completions 6.12.
// Run-queue delay, sock_diag and TCP_INFO predate 4.19, the oldest kernel still maintained
// anywhere.
func checkKernel(f *Facts) Finding {
	major, minor, known := kernelVersion(f.Env.Kernel)
	at := 100*major + minor
	switch {
	case !known:
		return unknown(fmt.Sprintf("invalid kernel version %q", f.Env.Kernel), "")
	case at < 419:
		return bad(f.Env.Kernel+": too old to observe what a verdict needs", "use Linux 6.12 or later")
	case at < 601:
		return warn(f.Env.Kernel+": without the io_uring that the generator needs (6.1); it costs a third more CPU/request",
			"use Linux 6.12 or later")
	case at < 612:
		return ok(f.Env.Kernel + "; from 6.12 on the generator costs a quarter less (io_uring can wait for several answers)")
	}
	return ok(f.Env.Kernel)
}

// wanted are the io_uring features that the engine uses.
func wanted() []string {
	return []string{"SINGLE_ISSUER", "DEFER_TASKRUN", "MULTISHOT_RECV", "PBUF_RING", "NO_SQARRAY", "MIN_TIMEOUT", "REGISTERED_RING"}
}

func checkEngine(f *Facts) Finding {
	e := &f.Engine
	if e.Err != "" {
		return bad("neither io_uring nor epoll can be opened: "+e.Err, "raise the limit of open files: ulimit -n 4096")
	}
	if e.Name == "" {
		return unknown("the engine was not probed", "")
	}
	if e.Name != "uring" {
		disabled, known := f.sysctl("kernel.io_uring_disabled")
		fix := "use Linux 6.1 or later"
		switch {
		case known && disabled > 0:
			fix = "sysctl -w kernel.io_uring_disabled=0 (as root)"
		case strings.Contains(e.Why, "operation not permitted"):
			fix = "a container's seccomp profile refuses it: docker run --security-opt seccomp=unconfined"
		case strings.Contains(e.Why, "cannot allocate memory"):
			fix = "ulimit -l unlimited (as root)"
		}
		return warn("not available; epoll is used instead and costs a third more CPU/request: "+e.Why, fix)
	}
	var missing []string
	for _, name := range wanted() {
		if !slices.Contains(e.Features, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return ok("available, without " + strings.Join(missing, ", "))
	}
	return ok("available, all required features present")
}

func checkRunDelay(f *Facts) Finding {
	if f.Files.SchedStat {
		return ok("the kernel keeps how long threads wait for a CPU")
	}
	return warn("the kernel does not keep how long threads wait for a CPU: a starved generator shows only in its rate",
		"a kernel with CONFIG_SCHED_INFO")
}

func checkCalibration(f *Facts) Finding {
	if f.Calibration == "" {
		return ok("saved, matches this machine")
	}
	return warn("runs inconclusive the generator's headroom: "+f.Calibration, "ceiling doctor --calibrate")
}

// checkServer checks whether the server can be monitored.
func checkServer(f *Facts) Finding {
	t := &f.Target
	switch {
	case t.URL == "":
		return unknown("no URL was given: ceiling doctor URL looks for its server", "")
	case t.Err != "":
		return unknown(t.Err, "")
	case t.remote():
		return unknown("the server is on another host: not observable from here", "look at it there: ceiling doctor, on that host")
	case t.ServerErr != "":
		return unknown(t.ServerErr, "")
	case len(t.Server) > 0:
		var names []string
		for _, p := range t.Server {
			if text := fmt.Sprintf("%s (%d)", p.Comm, p.PID); !slices.Contains(names, text) {
				names = append(names, text)
			}
		}
		return ok(fmt.Sprintf("found, and can be watched: %s", list(names, foreignShown)))
	case t.Listeners == 0:
		return bad("nothing is listening there", "start the server first")
	}
	why := "its processes belong to another user"
	if f.Files.HidePID {
		why = "/proc hides other users' processes (hidepid)"
	}
	return warn("it listens, but cannot be watched: "+why, "run ceiling as the server's user, or as root: sudo ceiling run …")
}
