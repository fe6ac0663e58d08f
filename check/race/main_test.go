package race

import (
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// program builds the program, whose verbs a race starts.
func program(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "ceiling")
	if out, err := exec.Command("go", "build", "-o", name, "ceiling/cmd/ceiling").CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	return name
}
