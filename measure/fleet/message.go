package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"ceiling/experiment/spec"
	"ceiling/measure/fleet/clock"
	"ceiling/measure/load"
	"ceiling/record"
)

// Protocol is the version of the messages between agents and drivers. Both must use the same.
const Protocol = 4

// Verbs of a command. None makes an agent execute anything but ceiling's own servers, and those only
// if it was started with that.
const (
	verbOffer   = "offer"   // would it follow this order?
	verbPrepare = "prepare" // follow it: connect, and wait
	verbStart   = "start"   // begin
	verbPing    = "ping"    // the heartbeat of a run, and for the clock
	verbFinish  = "finish"  // the others' load is over: nothing is left to observe
	verbStop    = "stop"    // end the run
	verbServe   = "serve"   // start a server
	verbKeep    = "keep"    // it is still needed
	verbDismiss = "dismiss" // end it
)

// command is what a driver tells an agent.
type command struct {
	Protocol int    `json:"protocol"`
	Verb     string `json:"verb"`
	Run      string `json:"run,omitempty"`
	Order    *order `json:"order,omitempty"` // of an offer, and to prepare
	AtNs     int64  `json:"at_ns,omitempty"` // the start, on the agent's clock
	Why      string `json:"why,omitempty"`   // a run ends
	// Server is the driver's name for a server. It is dismissed, or ends some time after the last word
	// of its driver.
	Server string    `json:"server,omitempty"`
	Own    *spec.Own `json:"own,omitempty"`
	CPUs   []int     `json:"cpus,omitempty"` // that it runs on; none: the agent's
}

// order is an agent's part in a run.
type order struct {
	Share   load.Share `json:"share"`
	Load    bool       `json:"load"`
	Observe bool       `json:"observe"`
	Spec    *spec.Spec `json:"spec"`
}

// errServesNone says how an agent comes to start servers.
var errServesNone = errors.New("it starts no servers; start that agent with --serve")

// State is what an agent does.
type State struct {
	// Phase, and the run that it has taken part in since BusyNs.
	Phase  Phase  `json:"phase"`
	Run    string `json:"run,omitempty"`
	BusyNs int64  `json:"busy_ns,omitempty"`
}

// reply answers a ping or a command.
type reply struct {
	// Error is why the agent refuses, "" if it does not.
	Error string `json:"error,omitempty"`
	// NowNs is the agent's clock, WallNs its wall clock, read as it answered.
	NowNs  int64 `json:"now_ns"`
	WallNs int64 `json:"wall_ns"`
	State
	// Address of the server that was started, or its URL if that is not http.
	Address string `json:"address,omitempty"`

	ping clock.Ping // what the exchange says of the clocks; the driver's
}

// About is what an agent offers, as it does from its start to its end.
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
	Caps
	// CapacityPerS is what its calibration predicts: requests per second of all its cores,
	// responses of 1 kB, no pipelining; 0: no calibration.
	CapacityPerS float64 `json:"capacity_per_s,omitempty"`
}

// present is an agent that is present, and its state and clock when it was asked.
type present struct {
	id      string // on the bus
	refuses string // why it would not do a run; "": it would
	Name    string `json:"name"`
	About
	State
	Clock record.AgentClock `json:"clock"` // if the fleet is listed
}

// speaks rejects an agent of another version.
func (a *About) speaks() error {
	if a.Protocol != Protocol {
		return fmt.Errorf("it speaks version %d of the protocol (ceiling %s), this ceiling %d: install the same on both", a.Protocol, a.Version, Protocol)
	}
	return nil
}

// text encodes as JSON what always can be.
func text(of any) []byte {
	b, err := json.Marshal(of)
	if err != nil {
		panic(err) // a type of this package
	}
	return b
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
	switch {
	case o == nil || o.Spec == nil:
		return errors.New("malformed: no spec")
	case !o.Load && !o.Observe:
		return errors.New("malformed: neither load nor observe")
	case o.Load && o.Share == (load.Share{}):
		return errors.New("malformed: no share")
	}
	if err := o.Share.Check(); err != nil {
		return fmt.Errorf("malformed: %w", err)
	}
	return o.Spec.Check()
}
