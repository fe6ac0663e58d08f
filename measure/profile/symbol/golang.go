package symbol

import (
	"debug/gosym"
)

// lookupGo names addresses by Go's line table, which a stripped program has
// too. The parser is the standard library's; it answers nothing useful of a
// damaged table, and where it panics, what was found until then. parsed is the
// table as the last call returned it, nil before the first.
func lookupGo(parsed *gosym.Table, table []byte, text uint64, addrs []uint64, found map[uint64]place) (t *gosym.Table) {
	defer func() {
		// debug/gosym guards its own parser this way, but not every path of it
		// (debug/gosym/pclntab.go, disableRecover).
		_ = recover()
	}()
	if t = parsed; t == nil {
		var err error
		if t, err = gosym.NewTable(nil, gosym.NewLineTable(table, text)); err != nil {
			return nil
		}
	}
	for _, a := range addrs {
		file, line, f := t.PCToLine(a)
		if f == nil || f.Name == "" {
			continue
		}
		found[a] = place{name: f.Name[:min(len(f.Name), nameMax)], file: file, line: line}
	}
	return t
}
