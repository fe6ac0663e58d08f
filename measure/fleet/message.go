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

// Protocol is the version of what agents and drivers say to each other. Both
// have to speak the same.
const Protocol = 1

// Verbs of a command. None makes an agent execute anything.
const (
	verbOffer   = "offer"   // order: would it do this?
	verbPrepare = "prepare" // order: connect, and wait
	verbStart   = "start"   // begin
	verbAlive   = "alive"   // the driver is there
	verbFinish  = "finish"  // the others' load is over: nothing is left to observe
	verbStop    = "stop"    // stopping: end the run
	verbRelease = "release" // all that was told has come
)

// order is what an agent is asked to do.
type order struct {
	Protocol int        `json:"protocol"`
	Share    load.Share `json:"share"`
	Load     bool       `json:"load"`
	Observe  bool       `json:"observe"`
	// Spec of the run, or the SHA-256 (hex) of the one kept under the run's ID.
	Spec   *spec.Spec `json:"spec,omitempty"`
	SpecID string     `json:"spec_id,omitempty"`
}

// begin is when the load begins, by the agent's own clock.
type begin struct {
	AtNs int64 `json:"at_ns"`
}

// stopping says why a run ends.
type stopping struct {
	Why string `json:"why"`
}

// reply answers every command.
type reply struct {
	// Error is why the agent does not do it, "" it does.
	Error string `json:"error,omitempty"`
	// NowNs is the agent's clock, WallNs its wall clock, read as it answered.
	NowNs  int64 `json:"now_ns"`
	WallNs int64 `json:"wall_ns"`
	Phase  Phase `json:"phase"`
}

// About is what an agent says of itself to those who may ask.
type About struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"`
	Host     string `json:"host"`
	// Cores it may use, and the machine's memory.
	Cores       float64 `json:"cores"`
	MemoryBytes uint64  `json:"memory_bytes"`
	CPUModel    string  `json:"cpu_model,omitempty"`
	Kernel      string  `json:"kernel,omitempty"`
	// BootID tells agents on one machine from those on several.
	BootID string `json:"boot_id,omitempty"`
	// NIC is the interface of its way to the controller, and its speed where the
	// kernel tells, bits per second; 0 not known.
	NIC              string  `json:"nic,omitempty"`
	NICBitsPerSecond float64 `json:"nic_bits_per_second,omitempty"`
	// Roles it takes.
	Loads    bool     `json:"loads"`
	Observes bool     `json:"observes"`
	Allow    []string `json:"allow"`
	// Caps, as Caps has them; the time in nanoseconds.
	MaxRate        float64 `json:"max_rate,omitempty"`
	MaxTimeNs      int64   `json:"max_time_ns"`
	MaxConnections int     `json:"max_connections,omitempty"`
	// CapacityPerS is what a calibration kept on it promises: requests per second
	// of all its cores, responses of 1 kB, nothing pipelined; 0 none is kept.
	CapacityPerS float64 `json:"capacity_per_s,omitempty"`
	// Phase, and the run it is at since BusyNs.
	Phase  Phase  `json:"phase"`
	Run    string `json:"run,omitempty"`
	BusyNs int64  `json:"busy_ns,omitempty"`
	// Session names this life of the agent, Last the last command it obeyed and
	// NowNs its clock: what a driver needs to seal the next.
	Session string `json:"session"` // 16 bytes, hex
	Last    uint64 `json:"last"`
	NowNs   int64  `json:"now_ns"`
}

// readMessage reads JSON that came over a network: all of it, and no field
// that this version does not know.
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

// check refuses an order that no driver of this version makes.
func (o *order) check() error {
	switch {
	case o.Protocol != Protocol:
		return fmt.Errorf("the driver speaks version %d of the protocol, this agent %d: install the same ceiling on both", o.Protocol, Protocol)
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
