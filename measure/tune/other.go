//go:build !linux

// Package tune tunes the host by profiles, on Linux.
package tune

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
)

// errLinux is the reason why nothing is tuned.
var errLinux = fmt.Errorf("hosts are tuned only on Linux, and this is %s", runtime.GOOS) // read-only

// Host cannot be tuned here.
type Host struct{ Namespace string }

// Restore has nothing to undo.
func (*Host) Restore() error { return nil }

// Interface fails.
func (*Host) Interface(*Target) (string, error) { return "", errLinux }

// Plan fails.
func (*Host) Plan(Profile, Options) (*Plan, error) { return nil, errLinux }

// Options of a Plan.
type Options struct{ Interface string }

// Target is what a load goes to.
type Target struct {
	URL    string
	Server netip.AddrPort
	Here   bool
}

// Profile is a file with settings.
type Profile struct {
	Name     string
	Settings []Setting
}

// Load fails.
func Load(string) (Profile, error) { return Profile{}, errLinux }

// Setting sets one knob.
type Setting struct{ Set, To, Why string }

// Check fails.
func (*Setting) Check() error { return errLinux }

// Change is one setting to change, of which there is none.
type Change struct{ Before, After string }

// String is empty.
func (*Change) String() string { return "" }

// Leaves reports false.
func (*Change) Leaves(string) bool { return false }

// Owner is who requests a change.
type Owner struct{ Who string }

// Plan has no changes.
type Plan struct{ Changes, Already []Change }

// Reaches fails.
func (*Plan) Reaches(*Target) error { return errLinux }

// Apply fails.
func (*Plan) Apply(context.Context, Owner) (undo func() error, err error) { return nil, errLinux }

// Watch fails.
func (*Plan) Watch() (done func(*Target) ([]Seen, error), err error) { return nil, errLinux }

// Seen is a change with its evidence.
type Seen struct {
	Change   Change
	Evidence struct{ Effect, What string }
}
