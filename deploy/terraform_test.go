package deploy

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// group is the part of terraform/aws that needs no provider: its variables, its table of
// machine types and its user data. Terraform plans it without AWS and without a registry;
// aws.tftest.hcl holds the rest, where terraform init can fetch the provider.
type group struct{ dir, terraform string }

func newGroup(t *testing.T) *group {
	t.Helper()
	g := &group{t.TempDir(), tool(t, "terraform")}
	for _, name := range []string{"variables.tf", "types.tf", "user-data.sh.tftpl"} {
		write(t, filepath.Join(g.dir, name), read(t, filepath.Join("terraform/aws", name)), 0o600)
	}
	write(t, filepath.Join(g.dir, "probe.tf"), `output "machines" { value = local.machines }
output "user_data" { value = templatefile("user-data.sh.tftpl", { max_minutes = var.max_minutes }) }
`, 0o600)
	return g
}

func (g *group) run(t *testing.T, args ...string) output {
	t.Helper()
	return run(t, g.dir, []string{"CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1"}, g.terraform, args...)
}

// flat is a message without the frame and the line breaks that Terraform draws
// around it.
func flat(text string) string {
	return strings.Join(strings.Fields(regexp.MustCompile(`[│╷╵]`).ReplaceAllString(text, " ")), " ")
}

func variables(more ...string) []string {
	args := []string{"plan", "-input=false", "-no-color", "-lock=false", "-refresh=false",
		"-var=region=eu-central-1", "-var=admin_cidr=203.0.113.7/32", "-var=public_key=ssh-ed25519 AAAAC3Nza admin"}
	for _, v := range more {
		args = append(args, "-var="+v)
	}
	return args
}

// outputs are what the group gives out.
type outputs struct {
	Machines struct{ Value map[string]any }
	UserData struct{ Value string }  `json:"user_data"`
	Quota    struct{ Value int }     `json:"quota_vcpus"`
	Link     struct{ Value float64 } `json:"slowest_link_gbps"`
}

func (g *group) plan(t *testing.T, more ...string) outputs {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plan")
	if o := g.run(t, append(variables(more...), "-out="+file)...); o.code != 0 {
		t.Fatalf("plan: %s", o)
	}
	o := g.run(t, "show", "-json", file)
	var p struct {
		Planned struct{ Outputs outputs } `json:"planned_values"`
	}
	if err := json.Unmarshal([]byte(o.stdout), &p); err != nil {
		t.Fatalf("%v: %s", err, o)
	}
	return p.Planned.Outputs
}

func TestTerraform(t *testing.T) {
	t.Parallel() // it waits more than it works
	t.Run("format", func(t *testing.T) {
		if o := run(t, "terraform/aws", nil, tool(t, "terraform"), "fmt", "-check", "-recursive", "-diff"); o.code != 0 {
			t.Errorf("terraform fmt would change:\n%s", o)
		}
	})
	g := newGroup(t)
	t.Run("plan", func(t *testing.T) {
		p := g.plan(t)
		if len(p.Machines.Value) != 4 || p.Quota.Value != 3*32+2 || p.Link.Value != 50 {
			t.Errorf("not a controller, a server and two for load of 32 vCPUs and 50 Gbit/s: %+v", p)
		}
		checkUserData(t, p.UserData.Value)
	})
	t.Run("few and slow", func(t *testing.T) {
		if p := g.plan(t, "load_type=c6i.xlarge", "load_machines=1"); p.Link.Value != 1.562 {
			t.Errorf("the load machine's link of 1.562 Gbit/s is the slowest: %+v", p)
		}
	})
	t.Run("refusals", func(t *testing.T) { checkRefusals(t, g) })
}

func checkUserData(t *testing.T, data string) {
	script := filepath.Join(t.TempDir(), "user-data.sh")
	write(t, script, data, 0o600)
	must(t, ".", nil, "bash", "-n", script)
	must(t, ".", nil, "shellcheck", script)
	if strings.Contains(strings.ToLower(data), "token") {
		t.Error("user data speaks of a token, and anybody on the machine can read user data")
	}
	if !strings.Contains(data, `-d "+120 minutes"`) {
		t.Error("no end in user data")
	}
	checkSysctls(t, data)
}

// checkSysctls holds the names against the running kernel's.
func checkSysctls(t *testing.T, data string) {
	names := regexp.MustCompile(`(?m)^([a-z0-9_]+(?:\.[a-z0-9_]+)+) = `).FindAllStringSubmatch(data, -1)
	if len(names) < 5 {
		t.Errorf("%d sysctls in user data", len(names))
	}
	for _, name := range names {
		if _, err := os.Stat("/proc/sys/" + strings.ReplaceAll(name[1], ".", "/")); err != nil {
			t.Errorf("no kernel has %s: %v", name[1], err)
		}
	}
}

func checkRefusals(t *testing.T, g *group) {
	wrong := map[string]string{
		"admin_cidr=0.0.0.0/0":     "the whole internet is not an admin",
		"load_machines=0":          "load_machines: a whole number from 1 to 32",
		"max_minutes=2":            "max_minutes: a whole number from 15",
		"public_key=~/.ssh/id.pub": "public_key: the line of a .pub file",
		"name=My Group":            "name: lower-case letters",
		"load_type=t3.micro":       "load_type: t3.micro is not in the table of types.tf, which has c6i.2xlarge",
		"server_type=t3.nano":      "server_type: t3.nano is not in the table of types.tf",
	}
	o := g.run(t, variables(slices.Collect(maps.Keys(wrong))...)...)
	for set, says := range wrong {
		if o.code == 0 || !strings.Contains(flat(o.String()), says) {
			t.Errorf("%s: exit code %d, and not %q: %s", set, o.code, says, o)
		}
	}
}

// stage is a directory for PATH with scripts that stand in for commands.
func stage(t *testing.T, scripts map[string]string) (env []string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range scripts {
		write(t, filepath.Join(dir, name), "#!/bin/bash\n"+text+"\n", 0o755)
	}
	return []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
}

// TestDestroyIn runs the timer in no time, with a terraform that only writes
// down what it was asked, and without a user's systemd.
func TestDestroyIn(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("terraform/aws")); err != nil {
		t.Fatal(err)
	}
	script, asked := filepath.Join(dir, "destroy-in.sh"), filepath.Join(dir, "asked")
	env := stage(t, map[string]string{
		"systemctl": "exit 1",
		"sleep":     `echo "slept $1" >> ` + asked,
		"terraform": `echo "$*" >> ` + asked,
	})
	o := must(t, ".", env, script, "90", "-var-file=mine.tfvars")
	if !regexp.MustCompile(`terraform destroy in 90 minutes, said to \S+/destroy.log; not yet: kill [0-9]+`).MatchString(o.stdout) {
		t.Error(o)
	}
	want := fmt.Sprintf("slept 5400\n-chdir=%s destroy -auto-approve -input=false -no-color -var-file=mine.tfvars\n", dir)
	eventually(t, "terraform destroy is run", func() bool {
		b, err := os.ReadFile(asked)
		return err == nil && string(b) == want
	})
	for _, args := range [][]string{{}, {"soon"}, {"0"}, {"99999"}} {
		if o := run(t, ".", env, script, args...); o.code != 2 || !strings.Contains(o.stderr, "usage: destroy-in.sh MINUTES") {
			t.Errorf("%v: exit code %d: %s", args, o.code, o)
		}
	}
}

// TestStart runs start.sh with the outputs of a group, over an ssh that carries
// out here what place.sh asks for and writes down the rest.
func TestStart(t *testing.T) {
	t.Parallel() // it waits more than it works
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	env := stage(t, map[string]string{
		"terraform": `case ${!#} in
controller_host) echo -n admin@c ;; agent_hosts) echo -n "admin@s admin@l1" ;; join_address) echo -n nats://127.0.0.1:4222 ;;
server_address) echo -n 10.83.0.9 ;; max_minutes) echo -n 5 ;; *) exit 1 ;; esac`,
		"ssh": fmt.Sprintf(`while [ "$1" = -o ]; do shift 2; done
host=$1; shift
case "$*" in
*ceiling-ready*) ;;
*journalctl*) echo "agents join with: %s" | grep -o 'ceiling fleet agent --join .*' ;;
*"fleet tokens create --expires 5m"*) echo %s ;;
*ceiling-controller*|*install*) cat > /dev/null; echo "$host $*" >> %s ;;
*) exec bash -c "$*" ;;
esac`, joinLine, "SECRET.0123", log),
	})
	calls := t.TempDir()
	binary := actor(t, calls, false)
	write(t, filepath.Join(filepath.Dir(binary), "ceiling-controller"), "the controller", 0o755)
	o := must(t, ".", env, "terraform/aws/start.sh", binary)
	for pid, note := range notes(t, calls, 2) {
		checkCall(t, note, " --allow 10.83.0.9/32 ")
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}
	for _, stop := range regexp.MustCompile(`(?m)^(\S+) runs an agent for 5m; stop it: ssh \S+ '(.*)'$`).FindAllStringSubmatch(o.stdout, -1) {
		run(t, ".", nil, "bash", "-c", stop[2]) // it is gone by now, but for its directory
	}
	if !strings.Contains(o.stdout, "ceiling run http://10.83.0.9:8080/ --agents 1") || strings.Contains(o.String(), "SECRET") {
		t.Error(o)
	}
	said := read(t, log)
	for _, program := range []string{"ceiling", "ceiling-controller"} {
		if !strings.Contains(said, "admin@c cat > /tmp/"+program+" &&") {
			t.Errorf("%s was not copied: %s", program, said)
		}
	}
	if !strings.Contains(said, "admin@c sudo systemctl stop ceiling-controller") ||
		!strings.Contains(said, "--advertise 127.0.0.1:4222") || strings.Contains(said, "SECRET") {
		t.Error(said)
	}
}
