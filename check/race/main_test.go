package race

import (
	"os/exec"
	"path/filepath"
	"testing"

	"ceiling/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// program builds the programs into one directory, whose verbs a race starts.
func program(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", dir, "ceiling/cmd/ceiling-lab", "ceiling/cmd/ceiling-proxy").CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	return filepath.Join(dir, "ceiling-lab")
}
