package deploy

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

const chart = "kubernetes/chart"

// versions of Kubernetes whose schemas the manifests have to fit: the oldest
// that Chart.yaml admits, and the newest there is.
func versions() []string { return []string{"v1.27.0", "v1.37.0"} }

// schemas reads the strict schemas of one version out of the package that
// tools.sh fetches: what they do not name is an error.
type schemas struct {
	zip     *zip.ReadCloser
	version string
}

func (s schemas) open(name string) (any, error) {
	f, err := s.zip.Open("kubernetes_validate/kubernetes-json-schema/" + s.version + "-local-strict/" + name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return jsonschema.UnmarshalJSON(f)
}

// Load is called for what the schemas refer to: the definitions they share.
func (s schemas) Load(url string) (any, error) {
	return s.open(path.Base(url))
}

func openSchemas(t *testing.T, version string) schemas {
	t.Helper()
	z, err := zip.OpenReader(tool(t, "schemas.zip"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { z.Close() })
	return schemas{z, version}
}

// checker compiles each kind's schema once.
func checker(s schemas) func(manifest map[string]any) error {
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(s)
	known := map[string]*jsonschema.Schema{}
	return func(manifest map[string]any) error {
		kind := fmt.Sprintf("%s-%s.json", manifest["kind"], strings.ReplaceAll(fmt.Sprint(manifest["apiVersion"]), "/", "-"))
		if known[kind] == nil {
			doc, err := s.open(strings.ToLower(kind))
			if err != nil {
				return fmt.Errorf("no schema for %s: %w", kind, err)
			}
			url := doc.(map[string]any)["$id"].(string)
			if err := compiler.AddResource(url, doc); err != nil {
				return err
			}
			if known[kind], err = compiler.Compile(url); err != nil {
				return err
			}
		}
		return known[kind].Validate(manifest)
	}
}

// manifests renders the chart, and reads what came out as JSON types.
func manifests(t *testing.T, set ...string) (list []map[string]any) {
	t.Helper()
	args := []string{"template", "c", chart, "--namespace", "lab"}
	for _, s := range set {
		args = append(args, "--set", s)
	}
	text := must(t, ".", helmEnv(t), tool(t, "helm"), args...).stdout
	for document := range strings.SplitSeq(text, "\n---\n") {
		b, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		var m map[string]any
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		if m != nil {
			list = append(list, m)
		}
	}
	return list
}

// helmEnv keeps helm from reading and writing the home directory.
func helmEnv(t *testing.T) []string {
	dir := t.TempDir()
	return []string{"HELM_CACHE_HOME=" + dir, "HELM_CONFIG_HOME=" + dir, "HELM_DATA_HOME=" + dir, "KUBECONFIG=" + dir + "/none"}
}

// at walks into decoded JSON: names, and numbers for the elements of a list.
func at(v any, steps ...any) any {
	for _, step := range steps {
		switch step := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[step]
		case int:
			l, _ := v.([]any)
			if step >= len(l) {
				return nil
			}
			v = l[step]
		}
	}
	return v
}

// everything is all that the chart can render at once.
func everything() []string {
	return []string{"image=registry.example/ceiling:1", "controller.enabled=true", "controller.existingClaim=state",
		"controller.nodeSelector.lab=here",
		"token.existingSecret=ceiling-token", "imagePullSecrets[0].name=pull",
		"agents.count=3", "agents.allow={10.0.0.0/24,web:8080}", "agents.maxRate=1M", "agents.maxConnections=20000",
		"agents.nodeSelector.role=load", "agents.tolerations[0].operator=Exists",
		"observers.enabled=true", "observers.nodeSelector.role=server", "observers.tolerations[0].operator=Exists"}
}

func sets() map[string][]string {
	return map[string][]string{
		"everything": everything(),
		"controller": {"image=i", "controller.enabled=true", "controller.service.type=LoadBalancer"},
		"agents of a controller elsewhere": {"image=i", "join=nats://203.0.113.9:4222", "token.value=secret", "agents.count=2",
			"agents.allow={10.0.0.0/8}",
			"agents.hostNetwork=true", "agents.sysctls=null", "agents.seccomp=RuntimeDefault"},
	}
}

func TestChart(t *testing.T) {
	t.Parallel() // it waits more than it works
	t.Run("lint", func(t *testing.T) {
		for name, set := range sets() {
			args := []string{"lint", "--strict", chart}
			for _, s := range set {
				args = append(args, "--set", s)
			}
			if o := run(t, ".", helmEnv(t), tool(t, "helm"), args...); o.code != 0 {
				t.Errorf("%s: %s", name, o)
			}
		}
	})
	rendered := map[string][]map[string]any{}
	for name, set := range sets() {
		rendered[name] = manifests(t, set...)
	}
	for _, version := range versions() {
		t.Run("schema of "+version, func(t *testing.T) {
			check := checker(openSchemas(t, version))
			for name, list := range rendered {
				for _, m := range list {
					if err := check(m); err != nil {
						t.Errorf("%s: %v: %v", name, m["kind"], err)
					}
				}
			}
			spoilt := manifests(t, everything()...)
			for _, m := range spoilt {
				m["spec"].(map[string]any)["replicaz"] = 1
				if check(m) == nil {
					t.Errorf("%v: a field that Kubernetes has not went through", m["kind"])
				}
			}
		})
	}
	t.Run("promises", func(t *testing.T) {
		kinds := map[any]map[string]any{}
		for _, m := range rendered["everything"] {
			kinds[m["kind"]] = m
			if at(m, "metadata", "name") == nil {
				t.Errorf("%v has no name", m["kind"])
			}
		}
		if len(kinds) != 4 {
			t.Fatalf("%d kinds of manifests, not 4", len(kinds))
		}
		for _, kind := range []string{"Job", "DaemonSet", "Deployment"} {
			checkPod(t, kind, at(kinds[kind], "spec", "template", "spec"))
		}
		checkJob(t, kinds["Job"])
		if at(kinds["DaemonSet"], "spec", "template", "spec", "hostPID") != true {
			t.Error("the observers do not see their node's processes")
		}
	})
	t.Run("refusals", checkChartRefusals)
}

// checkPod: whole CPUs, requests as limits, no way into the API, no token where
// ps could see it.
func checkPod(t *testing.T, kind string, pod any) {
	if at(pod, "automountServiceAccountToken") != false {
		t.Errorf("%s: the service account's token is mounted", kind)
	}
	for i := 0; at(pod, "containers", i) != nil; i++ {
		c := at(pod, "containers", i)
		limits, requests := at(c, "resources", "limits"), at(c, "resources", "requests")
		if limits == nil || !reflect.DeepEqual(limits, requests) {
			t.Errorf("%s: not Guaranteed: limits %v, requests %v", kind, limits, requests)
		}
		if cpu := fmt.Sprint(at(limits, "cpu")); strings.Trim(cpu, "0123456789") != "" {
			t.Errorf("%s: %s CPUs are no whole number", kind, cpu)
		}
		if at(c, "securityContext", "readOnlyRootFilesystem") != true ||
			!reflect.DeepEqual(at(c, "securityContext", "capabilities", "drop"), []any{"ALL"}) {
			t.Errorf("%s: %v", kind, at(c, "securityContext"))
		}
		for j := 0; at(c, "args", j) != nil; j++ {
			if arg := fmt.Sprint(at(c, "args", j)); strings.HasPrefix(arg, "--token=") {
				t.Errorf("%s: the token is an argument", kind)
			}
		}
	}
}

func checkJob(t *testing.T, job map[string]any) {
	spec := at(job, "spec")
	if at(spec, "completionMode") != "Indexed" || at(spec, "parallelism") != 3.0 || at(spec, "completions") != 3.0 ||
		at(spec, "activeDeadlineSeconds") != 7200.0 {
		t.Errorf("%v", spec)
	}
	term := at(spec, "template", "spec", "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution", 0)
	if at(term, "topologyKey") != "kubernetes.io/hostname" {
		t.Errorf("nothing keeps two agents off one node: %v", term)
	}
	for name, value := range at(term, "labelSelector", "matchLabels").(map[string]any) {
		if at(spec, "template", "metadata", "labels", name) != value {
			t.Errorf("the rule against two agents on a node looks for %s=%v, which the pods are not", name, value)
		}
	}
}

func checkChartRefusals(t *testing.T) {
	agents := []string{"image=i", "join=nats://h:4222", "token.existingSecret=t", "agents.count=1", "agents.allow={10.0.0.0/8}"}
	for _, test := range []struct {
		says string
		set  []string
	}{
		{"/image", []string{"controller.enabled=true"}},
		{"agents.allow: name what the agents may load", []string{"image=i", "join=nats://h:4222", "token.existingSecret=t", "agents.count=1"}},
		{"token.existingSecret: name the Secret", []string{"image=i", "join=nats://h:4222", "agents.count=1", "agents.allow={10.0.0.0/8}"}},
		{"existingSecret or value, not both", append(agents, "token.value=v")},
		{"join: say where the agents join", append(agents, "join=")},
		{"/join", append(agents, "join=http://h")},
		{"with hostNetwork they would be the node's", append(agents, "agents.hostNetwork=true")},
		{"/agents/cpus", append(agents, "agents.cpus=1.5")},
		{"/observers/nodeSelector", append(agents, "observers.enabled=true")},
		{"agnets", append(agents, "agnets.count=2")},
	} {
		args := []string{"template", "c", chart}
		for _, s := range test.set {
			args = append(args, "--set", s)
		}
		if o := run(t, ".", helmEnv(t), tool(t, "helm"), args...); o.code == 0 || !strings.Contains(o.stderr, test.says) {
			t.Errorf("%v: exit code %d, and not %q: %s", test.set, o.code, test.says, o.stderr)
		}
	}
}
