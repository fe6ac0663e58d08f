package record

// Environment is the host a run was made on, as far as it affects the figures. Text fields are ""
// and numbers 0 if unknown.
type Environment struct {
	Host string `json:"host"` // its name
	// BootID is the kernel's random ID of this boot (/proc/sys/kernel/random/boot_id). Namespaces
	// share it, so two containers or network namespaces with the same one share CPUs.
	BootID  string `json:"boot_id,omitempty"`
	Kernel  string `json:"kernel"`  // its release
	Arch    string `json:"arch"`    // GOARCH: "amd64"
	Version string `json:"version"` // version of this program
	Go      string `json:"go"`      // version of Go that built the program
	// CPUModel is from /proc/cpuinfo; CoresAllowed are those this process may use.
	CPUModel     string `json:"cpu_model"`
	CoresOnline  int    `json:"cores_online"`
	CoresAllowed int    `json:"cores_allowed"`
	// CPUsAllowed lists those, as in "0-3,8"; "" if unknown.
	CPUsAllowed string `json:"cpus_allowed,omitempty"`
	// Siblings lists the groups of CPUs that share a physical core, as CPU lists ("0,64"); empty
	// if no core is shared.
	Siblings []string `json:"siblings,omitempty"`
	// Governor of the CPU frequency; "mixed" if the CPUs differ.
	Governor string `json:"governor"`
	// IRQBalance is "running" or "stopped": the daemon that distributes interrupts.
	IRQBalance string `json:"irqbalance,omitempty"`
	// Interfaces with hardware or with packet steering, by name; at most MaxInterfaces.
	Interfaces []Interface `json:"interfaces,omitempty"`
	// Virtual names the hypervisor as the machine's firmware does, "unnamed" if only the CPU
	// shows that there is one; "" on bare metal or if unknown.
	Virtual     string `json:"virtual,omitempty"`
	MemoryBytes uint64 `json:"memory_bytes"`
	// CgroupCPUs is the CPU quota of this process's cgroup, or of the ancestor with the smallest,
	// in cores; 0 if none.
	CgroupCPUs float64 `json:"cgroup_cpus,omitempty"`
	// Sysctls that matter to a load test, by name ("net.core.somaxconn").
	Sysctls map[string]string `json:"sysctls"`
	// Limits of this process: "nofile" (files) and "memlock" (bytes) as
	// "soft/hard".
	Limits map[string]string `json:"limits"`
	// ClockSource of the kernel.
	ClockSource string `json:"clock_source"`
}

// MaxInterfaces bounds Environment.Interfaces.
const MaxInterfaces = 8

// Interface is how a host steers the packets of a network interface. Steering is a list of queues
// with their CPUs, "0-31:0-63" or "0:0 1:1", empty if there is none.
type Interface struct {
	Name   string `json:"name"`
	Driver string `json:"driver,omitempty"`
	// RxQueues and TxQueues are the numbers of queues.
	RxQueues int `json:"rx_queues"`
	TxQueues int `json:"tx_queues"`
	MTU      int `json:"mtu,omitempty"` // bytes
	// RPS by receive queue; RFS is the number of flows per queue ("0-31:1024"); XPS by transmit
	// queue.
	RPS string `json:"rps,omitempty"`
	RFS string `json:"rfs,omitempty"`
	XPS string `json:"xps,omitempty"`
	// IRQs are the queues' interrupts and their CPUs: "eth0-Tx-Rx-0:3".
	IRQs string `json:"irqs,omitempty"`
	// NAPIDefer is napi_defer_hard_irqs, and GROFlushNs gro_flush_timeout in nanoseconds.
	NAPIDefer  int `json:"napi_defer_hard_irqs,omitempty"`
	GROFlushNs int `json:"gro_flush_timeout_ns,omitempty"`
}

// SameMachine reports whether two environments share a kernel, and so its CPUs. If one has no
// boot ID, hosts of the same name count as the same.
func (e *Environment) SameMachine(o *Environment) bool {
	if e.BootID != "" && o.BootID != "" {
		return e.BootID == o.BootID
	}
	return e.Host != "" && e.Host == o.Host
}
