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

// group is terraform/aws as Terraform sees it here: a copy, with the stand-in in
// the provider's place.
type group struct {
	dir, terraform string
	env            []string
}

func newGroup(t *testing.T) *group {
	t.Helper()
	provider := filepath.Dir(built(t, "terraform-provider-aws"))
	config := filepath.Join(t.TempDir(), "terraform.rc")
	write(t, config, fmt.Sprintf("provider_installation {\n  dev_overrides { \"hashicorp/aws\" = %q }\n}\n", provider), 0o600)
	g := &group{t.TempDir(), tool(t, "terraform"), []string{"TF_CLI_CONFIG_FILE=" + config, "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1"}}
	if err := os.CopyFS(g.dir, os.DirFS("terraform/aws")); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *group) run(t *testing.T, args ...string) output {
	t.Helper()
	return run(t, g.dir, g.env, g.terraform, args...)
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

type planned struct {
	Changes []struct {
		Address, Type string
		Change        struct {
			Actions []string
			After   map[string]any
		}
	} `json:"resource_changes"`
}

func (g *group) plan(t *testing.T, more ...string) (p planned) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plan")
	if o := g.run(t, append(variables(more...), "-out="+file)...); o.code != 0 {
		t.Fatalf("plan: %s", o)
	}
	o := g.run(t, "show", "-json", file)
	if err := json.Unmarshal([]byte(o.stdout), &p); err != nil {
		t.Fatalf("%v: %s", err, o)
	}
	return p
}

func TestTerraform(t *testing.T) {
	t.Parallel() // it waits more than it works
	g := newGroup(t)
	t.Run("format", func(t *testing.T) {
		if o := g.run(t, "fmt", "-check", "-recursive", "-diff"); o.code != 0 {
			t.Errorf("terraform fmt would change:\n%s", o)
		}
	})
	t.Run("valid", func(t *testing.T) {
		if o := g.run(t, "validate", "-no-color"); o.code != 0 {
			t.Error(o)
		}
	})
	t.Run("plan", func(t *testing.T) { checkPlan(t, g.plan(t)) })
	t.Run("arm", func(t *testing.T) {
		p := g.plan(t, "load_type=c8gn.16xlarge", "load_machines=3")
		if n := count(p, "aws_instance"); n != 5 {
			t.Errorf("%d machines, not a controller, a server and three for load", n)
		}
	})
	t.Run("refusals", func(t *testing.T) { checkRefusals(t, g) })
	t.Run("the stand-in refuses what AWS has not", func(t *testing.T) {
		file := filepath.Join(g.dir, "main.tf")
		text := read(t, file)
		// In rounds, since one kind of error keeps Terraform from looking for the next.
		for _, round := range [][]struct{ right, wrong, says string }{{
			{"strategy = \"cluster\"", "strategy = \"heap\"", "expected strategy to be one of"},
		}, {
			{"= \"terminate\"", "= \"end\"", "expected instance_initiated_shutdown_behavior to be one of"},
		}, {
			{"user_data_replace_on_change ", "user_data_replaces ", "Unsupported argument"},
		}, {
			{"aws_placement_group.near.name", "aws_placement_group.nearby.name", "Reference to undeclared resource"},
		}} {
			spoilt := text
			for _, s := range round {
				if !strings.Contains(spoilt, s.right) {
					t.Fatalf("main.tf has no %s to spoil", s.right)
				}
				spoilt = strings.Replace(spoilt, s.right, s.wrong, 1)
			}
			write(t, file, spoilt, 0o600)
			o := g.run(t, "validate", "-no-color")
			for _, s := range round {
				if o.code == 0 || !strings.Contains(flat(o.String()), s.says) {
					t.Errorf("exit code %d, and not %q: %s", o.code, s.says, o)
				}
			}
		}
	})
}

func count(p planned, kind string) (n int) {
	for _, c := range p.Changes {
		if c.Type == kind && slices.Equal(c.Change.Actions, []string{"create"}) {
			n++
		}
	}
	return n
}

func checkPlan(t *testing.T, p planned) {
	if n := count(p, "aws_instance"); n != 4 {
		t.Errorf("%d machines, not a controller, a server and two for load", n)
	}
	for _, c := range p.Changes {
		after := c.Change.After
		switch c.Type {
		case "aws_instance":
			checkMachine(t, c.Address, after)
		case "aws_vpc_security_group_ingress_rule":
			if cidr := after["cidr_ipv4"]; cidr != nil && (cidr != "203.0.113.7/32" || after["from_port"] != 22.0 || after["to_port"] != 22.0) {
				t.Errorf("%s lets %v in at %v to %v", c.Address, cidr, after["from_port"], after["to_port"])
			}
		case "aws_vpc_security_group_egress_rule":
			if after["cidr_ipv4"] != nil || after["cidr_ipv6"] != nil {
				t.Errorf("%s lets traffic out of the group", c.Address)
			}
		}
	}
}

func checkMachine(t *testing.T, address string, after map[string]any) {
	near := after["placement_group"] == "ceiling"
	if controller := strings.Contains(address, `"controller"`); near == controller {
		t.Errorf("%s: placement group %v", address, after["placement_group"])
	}
	if after["instance_initiated_shutdown_behavior"] != "terminate" {
		t.Errorf("%s would outlive its timer: %v", address, after["instance_initiated_shutdown_behavior"])
	}
	data, _ := after["user_data"].(string)
	script := filepath.Join(t.TempDir(), "user-data.sh")
	write(t, script, data, 0o600)
	must(t, ".", nil, "bash", "-n", script)
	must(t, ".", nil, "shellcheck", script)
	if strings.Contains(strings.ToLower(data), "token") {
		t.Errorf("%s: user data speaks of a token, and anybody on the machine can read user data", address)
	}
	if !strings.Contains(data, `-d "+120 minutes"`) {
		t.Errorf("%s: no end in user data", address)
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
	}
	o := g.run(t, variables(slices.Collect(maps.Keys(wrong))...)...)
	for set, says := range wrong {
		if o.code == 0 || !strings.Contains(flat(o.String()), says) {
			t.Errorf("%s: exit code %d, and not %q: %s", set, o.code, says, o)
		}
	}
	o = g.run(t, variables("load_type=t3.micro")...)
	if says := "t3.micro is not in the table of machines.tf"; o.code == 0 || !strings.Contains(flat(o.String()), says) {
		t.Errorf("exit code %d, and not %q: %s", o.code, says, o)
	}
	table := read(t, filepath.Join(g.dir, "machines.tf"))
	const row = `"c6in.8xlarge"  = { vcpus = 32, network_gbps = 50, burst_gbps = 50,`
	for wrong, says := range map[string]string{
		`"c6in.8xlarge"  = { vcpus = 48, network_gbps = 50, burst_gbps = 50,`: "machines.tf gives c6in.8xlarge 48 vCPUs, AWS 32: mend the table.",
		`"c6in.8xlarge"  = { vcpus = 32, network_gbps = 50, burst_gbps = 40,`: "machines.tf gives c6in.8xlarge 40 Gbit/s, AWS says 50 Gigabit: mend the table.",
	} {
		if !strings.Contains(table, row) {
			t.Fatalf("no row %s", row)
		}
		write(t, filepath.Join(g.dir, "machines.tf"), strings.Replace(table, row, wrong, 1), 0o600)
		o = g.run(t, variables()...)
		if o.code == 0 || !strings.Contains(flat(o.String()), says) {
			t.Errorf("a wrong table: exit code %d, and not %q: %s", o.code, says, o)
		}
	}
	write(t, filepath.Join(g.dir, "machines.tf"), table, 0o600)
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
