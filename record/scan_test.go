package record

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRowsNeedTheMemoryOfOne: a long series passes through a buffer of its
// longest row; what is no row is counted, and a last line that is cut off told.
func TestRowsNeedTheMemoryOfOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.ndjson")
	w := begin(t, path)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	head, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	row := `{"kind":"load","host":"a","t_ns":1,"width_ns":1,"completed":7}` + "\n"
	var series strings.Builder
	series.Write(head)
	const n = 100_000
	for i := range n {
		series.WriteString(row)
		if i == n/2 {
			series.WriteString("{\"kind\":\"x\",\"text\":\"" + strings.Repeat("y", lineMax) + "\"}\n\n  \n[1]\n{}\nnonsense\n")
		}
	}
	series.WriteString(row[:20])
	if err := os.WriteFile(path, []byte(series.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	rows, err := OpenRows(File{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	read := 0
	for ; ; read++ {
		kind, _, err := rows.Next()
		if err == io.EOF {
			break
		}
		if err != nil || kind != KindLoad {
			t.Fatalf("kind %q, %v", kind, err)
		}
	}
	if read != n || rows.Bad != 4 || !rows.Truncated || len(rows.Problems) != 5 {
		t.Errorf("%d rows, %d bad, truncated %v: %v", read, rows.Bad, rows.Truncated, rows.Problems)
	}
	if c := cap(rows.run.lines.text); c > 2*lineMax {
		t.Errorf("the buffer of a row has grown to %d bytes", c)
	}
	if _, _, err := rows.Next(); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
}
