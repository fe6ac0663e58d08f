//go:build linux

package run

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"ceiling/experiment/spec"
)

// A body in chunks is the same body to another's parser, without a length; also an empty one.
func TestBodiesInChunks(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "x", strings.Repeat("0123456789", 10_000)} {
		target := spec.Target{Method: "PUT", URL: "http://127.0.0.1:1/up", Body: []byte(body), Weight: 1,
			Header: []spec.Field{{Name: "transfer-encoding", Value: "Chunked"}}}
		mix, err := requests(&spec.Spec{Targets: []spec.Target{target}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(mix[0].Bytes)))
		if err != nil {
			t.Fatal(err)
		}
		read, err := io.ReadAll(got.Body)
		if err != nil || string(read) != body || got.ContentLength != -1 {
			t.Errorf("%d bytes are read as %d, length %d, %v", len(body), len(read), got.ContentLength, err)
		}
	}
}
