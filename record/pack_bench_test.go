package record

import (
	"bytes"
	"io"
	"os"
	"testing"
)

// BenchmarkPack compresses the record of a run of some seconds, as it is done when
// the run is closed.
func BenchmarkPack(b *testing.B) {
	text, err := os.ReadFile("../show/live/testdata/run.ndjson")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if err := pack(io.Discard, bytes.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	}
}
