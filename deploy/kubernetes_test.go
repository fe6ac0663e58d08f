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

// versions of Kubernetes whose schemas the manifests must fit: the oldest that has
// what they use, and the newest there is.
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

// manifests are the page's documents, as JSON types.
func manifests(t *testing.T) (list []map[string]any) {
	t.Helper()
	for document := range strings.SplitSeq(read(t, "kubernetes/ceiling.yaml"), "\n---\n") {
		b, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		var m map[string]any
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		list = append(list, m)
	}
	return list
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

func TestKubernetes(t *testing.T) {
	t.Parallel() // it waits more than it works
	for _, version := range versions() {
		t.Run("schema of "+version, func(t *testing.T) {
			check := checker(openSchemas(t, version))
			for _, m := range manifests(t) {
				if err := check(m); err != nil {
					t.Errorf("%v: %v", m["kind"], err)
				}
				m["spec"].(map[string]any)["replicaz"] = 1
				if check(m) == nil {
					t.Errorf("%v: a field that Kubernetes does not have went through", m["kind"])
				}
			}
		})
	}
	t.Run("promises", func(t *testing.T) {
		kinds := map[any]map[string]any{}
		for _, m := range manifests(t) {
			kinds[m["kind"]] = m
		}
		if len(kinds) != 4 {
			t.Fatalf("%d kinds of manifests, not 4", len(kinds))
		}
		for _, kind := range []string{"Job", "DaemonSet", "Deployment"} {
			checkPod(t, kind, at(kinds[kind], "spec", "template", "spec"))
			checkLabels(t, kind, kinds[kind])
		}
		checkJob(t, kinds["Job"])
		if at(kinds["DaemonSet"], "spec", "template", "spec", "hostPID") != true {
			t.Error("the observers do not see their node's processes")
		}
	})
}

// checkLabels: what a selector looks for are labels that its pods have.
func checkLabels(t *testing.T, kind string, m map[string]any) {
	selector, _ := at(m, "spec", "selector", "matchLabels").(map[string]any)
	for name, value := range selector {
		if at(m, "spec", "template", "metadata", "labels", name) != value {
			t.Errorf("%s selects %s=%v, which its pods are not", kind, name, value)
		}
	}
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
	if at(spec, "completionMode") != "Indexed" || at(spec, "parallelism") == nil || at(spec, "completions") != at(spec, "parallelism") ||
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
