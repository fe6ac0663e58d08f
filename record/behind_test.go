package record

import "testing"

func TestDatabaseIsALine(t *testing.T) {
	d := Database{Product: "SQLite 3", Settings: []DatabaseSetting{{"journal_mode", "wal"}, {"synchronous", "FULL"}}}
	if got := d.String(); got != "SQLite 3: journal_mode wal, synchronous FULL" {
		t.Error(got)
	}
	d.Use = &DatabaseUse{Pool: 4, Cached: true}
	if got := d.String(); got != "SQLite 3, pool of 4, statements not prepared, rows cached: journal_mode wal, synchronous FULL" {
		t.Error(got)
	}
	if got := d.Brief(); got != "SQLite 3, pool of 4, statements not prepared, rows cached" {
		t.Error(got)
	}
	if s := (&Downstream{Slots: 4, WorkNs: 1e7}); s.CapacityPerS() != 400 || (*Downstream)(nil).CapacityPerS() != 0 {
		t.Error(s.CapacityPerS())
	}
}
