//go:build linux

package tune

import (
	"context"
	"fmt"
	"os"
)

// Apply makes the changes, each noted on disk before it is made. If one fails, or reads back as
// another value, it undoes those before and returns an error. undo reverts all of them; it may be
// called twice.
func (p *Plan) Apply(ctx context.Context, by Owner) (undo func() error, err error) {
	err = p.host.inside(func(h *Host) error {
		unlock, err := h.lock()
		if err != nil {
			return err
		}
		defer unlock()
		file, made, err := h.begin(p, by)
		if err != nil {
			return err
		}
		defer file.Close() // every line was synced
		if err = h.applyAll(ctx, file, made, p.Changes); err == nil {
			return nil
		}
		if _, failed := h.undo(made); failed != nil {
			return fmt.Errorf("%w; and not all could be undone: %w; ceiling tune revert tries again", err, failed)
		}
		return fmt.Errorf("%w; nothing is changed: what was set before it is undone", err)
	})
	if err != nil {
		return nil, err
	}
	return func() error {
		_, err := p.host.Revert()
		return err
	}, nil
}

// applyAll makes one change after another, then checks all of them again: otherwise the measurement
// would be of a program that overwrites one (tuned, irqbalance, a second manual tuning).
func (h *Host) applyAll(ctx context.Context, journal *os.File, made *Tuning, changes []Change) error {
	for i := range changes {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := h.note(journal, entry{Change: &changes[i]}); err != nil {
			return err
		}
		made.Changes = changes[:i+1]
		if err := h.apply(&changes[i]); err != nil {
			return err
		}
	}
	for i := range changes {
		c := &changes[i]
		instead, err := h.instead(c)
		if err != nil {
			return err
		}
		if instead != "" {
			return fmt.Errorf("%s is %s again and was set to %s: another program changes it back; find it (tuned, irqbalance, a sysctl unit) and stop it first",
				c, instead, shown(c.After))
		}
	}
	return h.note(journal, entry{Applied: true})
}

// apply writes one value and reads it back.
func (h *Host) apply(c *Change) error {
	if err := h.write(c, c.After); err != nil {
		return err
	}
	instead, err := h.instead(c)
	if err == nil && instead != "" {
		err = fmt.Errorf("%s: the kernel set %s instead of %s; give a value that it accepts", c, instead, shown(c.After))
	}
	return err
}
