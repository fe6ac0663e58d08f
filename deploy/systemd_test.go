package deploy

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestUnits: systemd says of a key that it does not know only that it ignores
// it, so that anything said is a failure. The binary is one that is there.
func TestUnits(t *testing.T) {
	units, err := filepath.Glob("systemd/*.service")
	if err != nil || len(units) != 2 {
		t.Fatalf("%d units, %v", len(units), err)
	}
	verify := func(text, name string) string {
		file := filepath.Join(t.TempDir(), name)
		write(t, file, strings.NewReplacer("/usr/local/bin/ceiling-controller", "/bin/true", "/usr/local/bin/ceiling", "/bin/true").Replace(text), 0o644)
		return run(t, ".", nil, "systemd-analyze", "verify", "--man=no", file).String()
	}
	for _, unit := range units {
		text := read(t, unit)
		if said := verify(text, filepath.Base(unit)); said != "" {
			t.Errorf("%s: %s", unit, said)
		}
		if said := verify(strings.Replace(text, "UMask=", "UMusk=", 1), filepath.Base(unit)); !strings.Contains(said, "UMusk") {
			t.Errorf("a key that systemd does not know went through: %q", said)
		}
		// A token that is refused stays so: the unit does not try for ever.
		if strings.Contains(text, "bin/ceiling fleet agent ") && !strings.Contains(text, "\nRestartPreventExitStatus=2\n") {
			t.Errorf("%s starts an agent again whose token is refused", unit)
		}
		for _, quota := range []string{"\nCPUQuota=", "\nCPUWeight=", "\nMemoryMax=", "\nNice="} {
			if strings.Contains(text, quota) {
				t.Errorf("%s: %s would be what is measured", unit, strings.TrimSpace(quota))
			}
		}
	}
}
