//go:build !linux

package tune

import (
	"context"
	"errors"
)

// Restore has nothing to undo.
func (*Host) Restore() error { return nil }

// Interface fails.
func (h *Host) Interface(*Target) (string, error) { return "", h.inside(nil) }

// Reaches fails.
func (p *Plan) Reaches(*Target) error { return p.host.inside(nil) }

// Apply fails.
func (p *Plan) Apply(context.Context, Owner) (undo func() error, err error) {
	return nil, p.host.inside(nil)
}

func nicParam(string, *string) (string, error) { return "", errors.ErrUnsupported }
