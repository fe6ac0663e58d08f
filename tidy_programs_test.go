package ceiling

import (
	"os/exec"
	"strings"
	"testing"
)

// leftOut says what each program must not link: what its first run does not need, nobody compiles.
func leftOut() map[string][]string {
	return map[string][]string{
		"ceiling": {"ceiling/proxy", "ceiling/check/race", "ceiling/check/selftest", "ceiling/server/downstream",
			"ceiling/server/planted", "ceiling/server/quorum", "ceiling/server/store", "ceiling/cmd/internal/lab",
			"ceiling/cmd/internal/proxies", "ceiling/cmd/internal/controlling", "ceiling/measure/fleet/controller", "ceiling/show/journal",
			"modernc.org/sqlite", "github.com/nats-io/nats-server", "github.com/yuin/goldmark",
			"github.com/jackc/pgx/v5/pgxpool"},
		"ceiling-proxy": {"ceiling/server", "ceiling/measure", "ceiling/experiment", "ceiling/record", "ceiling/verdict", "ceiling/check",
			"html/template", "github.com/gofiber/fiber", "github.com/nats-io"},
		"ceiling-lab":        {"ceiling/proxy", "ceiling/measure/fleet"},
		"ceiling-controller": {"ceiling/proxy", "ceiling/server", "ceiling/check", "modernc.org/sqlite"},
	}
}

// TestProgramsStayApart: a verb that pulls another program's rooms in would bring their compile time
// and size with it.
func TestProgramsStayApart(t *testing.T) {
	for program, banned := range leftOut() {
		out, err := exec.Command("go", "list", "-deps", "./cmd/"+program).Output()
		if err != nil {
			t.Fatalf("%s: %v", program, err)
		}
		for dep := range strings.Lines(string(out)) {
			dep = strings.TrimSpace(dep)
			for _, b := range banned {
				if dep == b || strings.HasPrefix(dep, b+"/") {
					t.Errorf("%s links %s", program, dep)
				}
			}
		}
	}
}
