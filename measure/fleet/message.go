package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"ceiling/experiment/spec"
	"ceiling/measure/load"
)

// Protocol is the version of the messages between agents and drivers. Both must use the same.
const Protocol = 2

// Verbs of a command. None makes an agent execute anything but ceiling's own servers, and those only
// if it was started with that.
const (
	verbOffer   = "offer"   // order: would it do this?
	verbPrepare = "prepare" // order: connect, and wait
	verbStart   = "start"   // begin
	verbAlive   = "alive"   // heartbeat
	verbFinish  = "finish"  // the others' load is over: nothing is left to observe
	verbStop    = "stop"    // stopping: end the run
	verbRelease = "release" // the driver has received all reports
	verbServe   = "serve"   // serveOrder: start a server
	verbKeep    = "keep"    // server: it is still needed
	verbDismiss = "dismiss" // server: end it
)

// order tells an agent what to do.
type order struct {
	Protocol int        `json:"protocol"`
	Share    load.Share `json:"share"`
	Load     bool       `json:"load"`
	Observe  bool       `json:"observe"`
	// Spec of the run, or SpecID, the SHA-256 (hex) of the one stored under the run's ID.
	Spec   *spec.Spec `json:"spec,omitempty"`
	SpecID string     `json:"spec_id,omitempty"`
}

// begin is when the load begins, on the agent's clock.
type begin struct {
	AtNs int64 `json:"at_ns"`
}

// stopping says why a run ends.
type stopping struct {
	Why string `json:"why"`
}

// serveOrder tells an agent to start a server. It ends when it is dismissed, or some time after the
// last word of its driver.
type serveOrder struct {
	Protocol int `json:"protocol"`
	// ID is the driver's name for it.
	ID string `json:"id"`
	spec.Own
	// CPUs that it runs on; none: the agent's.
	CPUs []int `json:"cpus,omitempty"`
}

// server names one that an agent has started.
type server struct {
	ID string `json:"id"`
}

// errServesNone says how an agent comes to start servers.
var errServesNone = errors.New("it starts no servers; start that agent with --serve")

// reply answers a command.
type reply struct {
	// Error is why the agent refuses, "" if it does not.
	Error string `json:"error,omitempty"`
	// NowNs is the agent's clock, WallNs its wall clock, read as it answered.
	NowNs  int64 `json:"now_ns"`
	WallNs int64 `json:"wall_ns"`
	Phase  Phase `json:"phase"`
	// Address of the server that was started, or its URL if that is not http.
	Address string `json:"address,omitempty"`
}

// About is what an agent says about itself to those who may ask.
type About struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"`
	Host     string `json:"host"`
	// Cores it may use, and the machine's memory.
	Cores       float64 `json:"cores"`
	MemoryBytes uint64  `json:"memory_bytes"`
	CPUModel    string  `json:"cpu_model,omitempty"`
	Kernel      string  `json:"kernel,omitempty"`
	// BootID shows whether agents share a machine.
	BootID string `json:"boot_id,omitempty"`
	// NIC is its interface towards the controller, and its speed if the kernel reports one, bits
	// per second; 0: unknown.
	NIC              string  `json:"nic,omitempty"`
	NICBitsPerSecond float64 `json:"nic_bits_per_second,omitempty"`
	// Roles that it accepts.
	Loads    bool `json:"loads"`
	Observes bool `json:"observes"`
	// Serves is the address that it starts servers on; "": it starts none.
	Serves string   `json:"serves,omitempty"`
	Allow  []string `json:"allow"`
	// Caps, as Caps has them; the time in nanoseconds.
	MaxRate        float64 `json:"max_rate,omitempty"`
	MaxTimeNs      int64   `json:"max_time_ns"`
	MaxConnections int     `json:"max_connections,omitempty"`
	// CapacityPerS is what its calibration predicts: requests per second of all its cores,
	// responses of 1 kB, no pipelining; 0: no calibration.
	CapacityPerS float64 `json:"capacity_per_s,omitempty"`
	// Phase, and the run that it has taken part in since BusyNs.
	Phase   Phase   `json:"phase"`
	Run     string  `json:"run,omitempty"`
	BusyNs  int64   `json:"busy_ns,omitempty"`
	Session Session `json:"session"`
}

// Session identifies one life of an agent: what a driver needs to seal the next command.
type Session struct {
	Nonce string `json:"nonce"` // 16 bytes, hex
	// Last is the last command that it obeyed, NowNs its clock.
	Last  uint64 `json:"last"`
	NowNs int64  `json:"now_ns"`
}

// speaks rejects an agent of another version.
func (a *About) speaks() error {
	if a.Protocol != Protocol {
		return fmt.Errorf("it speaks version %d of the protocol (ceiling %s), this ceiling %d: install the same on both", a.Protocol, a.Version, Protocol)
	}
	return nil
}

// checkDriver rejects a driver of another version.
func checkDriver(protocol int) error {
	if protocol != Protocol {
		return fmt.Errorf("the driver speaks version %d of the protocol, this agent %d: install the same ceiling on both", protocol, Protocol)
	}
	return nil
}

// readMessage decodes JSON from the network: all of it, and no field that this version does not
// know.
func readMessage(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("malformed: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("malformed: something follows")
	}
	return nil
}

// check rejects an order that no driver of this version makes.
func (o *order) check() error {
	if err := checkDriver(o.Protocol); err != nil {
		return err
	}
	switch {
	case !o.Load && !o.Observe:
		return errors.New("malformed: neither load nor observe")
	case o.Spec == nil:
		return errors.New("malformed: no spec")
	}
	if err := o.Share.Check(); err != nil {
		return fmt.Errorf("malformed: %w", err)
	}
	if o.Load && o.Share == (load.Share{}) {
		return errors.New("malformed: no share")
	}
	return o.Spec.Check()
}
