package journal

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"ceiling/internal/lazy"
	"ceiling/record"
	"ceiling/show/chart"
)

// Short names of what people ask for most. Each stands for a path, or for a
// figure that is worked out of a few of them.

// runNames are paths by the short names of a run's figures.
var runNames = map[string]string{
	"rate": "rate.completed_per_s", "sent rate": "rate.sent_per_s",
	"mean": "latency.response.mean_ns", "p50": "latency.response.p50_ns", "p90": "latency.response.p90_ns", "p99": "latency.response.p99_ns",
	"p99.9": "latency.response.p999_ns", "max": "latency.response.max_ns", "min": "latency.response.min_ns",
	"service p50": "latency.service.p50_ns", "service p99": "latency.service.p99_ns", "lag p50": "latency.lag.p50_ns",
	"lag p99":   "latency.lag.p99_ns",
	"completed": "requests.completed", "failed": "requests.failed", "read": "bytes.read", "written": "bytes.written",
	"outcome": "verdict.outcome", "bottleneck": "verdict.bottleneck", "because": "verdict.because", "next": "verdict.next",
	"next bottleneck": "verdict.next_bottleneck.says",
	"caveats":         "verdict.caveats", "headroom": "generator.headroom",
	"server_cpu": "subject.cpu_ns_per_request", "generator_cpu": "generator.cpu_ns_per_request", "busiest_worker": "generator.busiest_worker",
	"run_delay":   "generator.run_delay",
	"connections": "load.connections", "pipelining": "load.pipelining", "threads": "load.threads", "mode": "load.mode",
	"engine": "load.engine", "target rate": "load.target_per_s",
	"duration": "elapsed_s", "warmup": "warmup_s", "target": "target", "started": "started", "id": "id",
	"cores": "environment.cores_allowed", "cpu": "environment.cpu_model", "kernel": "environment.kernel", "host": "environment.host",
} // read-only

// runFigures are worked out of several fields of a run.
var runFigures = map[string]func(*chart.Run) (value, error){
	"errors": errorsOf, "error_share": errorShare, "transfer": transferOf, "bytes_per_request": bytesPerRequest,
} // read-only

// planNames are paths by the short names of a plan's figures.
var planNames = map[string]string{
	"kind": "experiment.kind", "question": "experiment.question", "slo": "experiment.slo", "repeats": "experiment.repeats",
	"seed":     "experiment.seed",
	"duration": "experiment.load.duration", "connections": "experiment.load.connections", "pipelining": "experiment.load.pipelining",
	"ended": "ended", "because": "because", "took": "took_s", "started": "created", "id": "id",
	"capacity": "search.capacity", "limit": "search.limit", "bottleneck": "search.bottleneck",
	"proved": "proof.proved", "passive": "proof.passive", "agrees": "proof.agrees", "sum": "proof.sum",
	"blocks": "comparison.blocks", "noise_blocks": "comparison.noise_blocks", "incomparable": "comparison.incomparable",
	"cores": "environment.cores_allowed", "cpu": "environment.cpu_model", "kernel": "environment.kernel", "host": "environment.host",
} // read-only

// planFigures are worked out of several fields of a plan.
var planFigures = map[string]func(*record.Plan) (value, error){
	"says": planSays, "count": runCount, "invalid": invalidCount,
} // read-only

// planParts are the beginnings of paths that lead to one element of an answer.
var planParts = map[string]string{
	"curve": "sweep.curves", "rate": "search.rates", "resource": "proof.resources", "change": "comparison.changes", "run": "runs",
} // read-only

// pointNames are paths from a point of a curve, or from a run of a plan.
var pointNames = map[string]string{
	"rate": "per_s", "p50": "response.p50_ns", "p90": "response.p90_ns", "p99": "response.p99_ns", "p99.9": "response.p999_ns",
	"max": "response.max_ns", "mean": "response.mean_ns",
	"server_cpu": "server_cpu_ns", "generator_cpu": "generator_cpu_ns", "errors": "bad_share", "outcome": "outcome",
} // read-only

// Fields are all short names of a run, or of a plan.
func Fields(plan bool) []string {
	var names []string
	if plan {
		names = append(keysOf(planNames), keysOf(planFigures)...)
	} else {
		names = append(keysOf(runNames), keysOf(runFigures)...)
	}
	slices.Sort(names)
	return names
}

func keysOf[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

// lookUp finds a field of a record: a short name, or a path.
func (r *Record) lookUp(field string) (value, error) {
	if r.Plan != nil {
		if of := planFigures[field]; of != nil {
			return of(r.Plan)
		}
	} else if of := runFigures[field]; of != nil {
		return of(r.Run)
	}
	steps, err := r.steps(field)
	if err != nil {
		return value{}, err
	}
	at, err := find(r.document, steps)
	if err != nil {
		return value{}, r.missing(field, err)
	}
	v, err := valueAt(&at)
	if err != nil {
		return value{}, fmt.Errorf("%q %w%s", clip(field), err, r.why(field))
	}
	return v, nil
}

// missing says why a field is not there: a short name that nobody knows, an
// answer that was not reached, or a path that leads nowhere.
func (r *Record) missing(field string, err error) error {
	if r.Plan != nil && r.Plan.Ended == "" && strings.HasPrefix(err.Error(), "the record has no") {
		return fmt.Errorf("the plan was interrupted after %d runs and has no such answer; %s", len(r.Plan.Runs), r.Plan.Onward())
	}
	if _, known := runNames[field]; known && r.Run != nil {
		return fmt.Errorf("%q %w%s", field, errNotMeasured, r.why(field))
	}
	if _, known := planNames[field]; known && r.Plan != nil {
		return fmt.Errorf("a plan of kind %s has no %q", r.Plan.Experiment.Kind, field)
	}
	if !strings.ContainsAny(field, ".[") {
		return fmt.Errorf("there is no %q%s", clip(field), nearTo(field, Fields(r.Plan != nil)))
	}
	if strings.HasPrefix(err.Error(), "the record has no") {
		return fmt.Errorf("%w (or a short name: %s)", err, strings.Join(nearest(field, Fields(r.Plan != nil)), ", "))
	}
	return err
}

// why is the reason that the record gives for the lack of a field.
func (r *Record) why(field string) string {
	if r.Run == nil {
		return ""
	}
	subject := map[string]string{"server_cpu": "process", "p50": "latency", "p90": "latency", "p99": "latency", "p99.9": "latency",
		"max": "latency", "mean": "latency"}[field]
	for _, n := range r.Run.NotMeasured {
		if n.What == subject {
			return ", because " + n.Why
		}
	}
	return ""
}

// steps is a field as a path, with short names spelled out.
func (r *Record) steps(field string) ([]step, error) {
	names := runNames
	if r.Plan != nil {
		names = planNames
	}
	return stepsOf(field, names, r.Plan != nil, r.document)
}

// stepsOf spells a field out. Without a document, of a record that is still to
// come, the parts of a curve stay as they are.
func stepsOf(field string, names map[string]string, plan bool, document any) ([]step, error) {
	if path, short := names[field]; short {
		return parsePath(path)
	}
	field, leaf := cutLeaf(field, plan)
	steps, err := parsePath(field)
	if err != nil {
		return nil, err
	}
	if full, short := planParts[steps[0].key]; plan && short && len(steps) > 1 {
		front, err := parsePath(full)
		if err != nil {
			return nil, err
		}
		steps = append(front, steps[1:]...)
	}
	if leaf == "" {
		return steps, nil
	}
	return appendLeaf(steps, leaf, document)
}

// element is a path that goes through an element of a list.
var element = lazy.Regexp(`\[|\.\d+(\.|$)`)

// cutLeaf takes a short name off the end of a path: one of pointNames that is
// no key of its own there.
func cutLeaf(field string, plan bool) (path, leaf string) {
	if !plan {
		return field, ""
	}
	for name := range pointNames {
		if path, ok := strings.CutSuffix(field, "."+name); ok && element().MatchString(path) {
			return path, name
		}
	}
	return field, ""
}

// appendLeaf goes on to a figure of a point: of the only one, where a curve is
// what the path leads to.
func appendLeaf(steps []step, leaf string, document any) ([]step, error) {
	tail, err := parsePath(pointNames[leaf])
	if err != nil {
		return nil, err
	}
	if document != nil {
		at, err := find(document, steps)
		if err != nil {
			return append(steps, tail...), nil // the look-up says what is not there
		}
		object, _ := at.value.(map[string]any)
		if points, isCurve := object["points"].([]any); isCurve {
			if len(points) != 1 {
				return nil, fmt.Errorf("%s has %d points; say which, as in .points[x=64].%s", pathText(steps), len(points), leaf)
			}
			steps = append(steps, step{key: "points"}, step{key: "0"})
		} else if _, itself := object[leaf]; itself && leaf != "rate" {
			tail = []step{{key: leaf}}
		} else if _, run := object["completed_per_s"]; run && leaf == "rate" {
			tail = []step{{key: "completed_per_s"}}
		}
	}
	return append(steps, tail...), nil
}

// couldHave checks a field of a record that is still to come.
func couldHave(field string, plan bool) error {
	names, t := runNames, reflect.TypeFor[record.Run]()
	if plan {
		names, t = planNames, reflect.TypeFor[record.Plan]()
		if planFigures[field] != nil {
			return nil
		}
	} else if runFigures[field] != nil {
		return nil
	}
	if _, leaf := cutLeaf(field, plan); leaf != "" {
		field = strings.TrimSuffix(field, "."+leaf)
		steps, err := stepsOf(field, names, plan, nil)
		if err != nil {
			return err
		}
		return possible(t, steps)
	}
	steps, err := stepsOf(field, names, plan, nil)
	if err != nil {
		return err
	}
	if err := possible(t, steps); err != nil {
		return fmt.Errorf("%w (or a short name: %s)", err, strings.Join(nearest(field, Fields(plan)), ", "))
	}
	return nil
}

// badRequests failed, or were answered with an unexpected status.
func badRequests(r *chart.Run) uint64 {
	n := r.Requests.Failed
	for _, e := range r.Errors {
		if e.Phase == "status" && !e.BeforeWindow {
			n += e.Count
		}
	}
	return n
}

func errorsOf(r *chart.Run) (value, error) {
	if r.Requests.Completed+r.Requests.Failed == 0 {
		return value{}, fmt.Errorf("errors: %w", errNotMeasured)
	}
	return numberValue(kindCount, float64(badRequests(r))), nil
}

func errorShare(r *chart.Run) (value, error) {
	all := r.Requests.Completed + r.Requests.Failed
	if all == 0 {
		return value{}, fmt.Errorf("error_share: %w", errNotMeasured)
	}
	return numberValue(kindShare, float64(badRequests(r))/float64(all)), nil
}

func transferOf(r *chart.Run) (value, error) {
	if !(r.ElapsedS > 0) {
		return value{}, fmt.Errorf("transfer: %w", errNotMeasured)
	}
	return numberValue(kindBytesPS, float64(r.Bytes.Read)/r.ElapsedS), nil
}

// bytesPerRequest is what was read for each answer: head, framing and body.
func bytesPerRequest(r *chart.Run) (value, error) {
	if r.Requests.Completed == 0 {
		return value{}, fmt.Errorf("bytes_per_request: %w", errNotMeasured)
	}
	return numberValue(kindBytes, float64(r.Bytes.Read)/float64(r.Requests.Completed)), nil
}

func planSays(p *record.Plan) (value, error) {
	if p.Sweep != nil && len(p.Sweep.Curves) > 1 {
		return value{}, fmt.Errorf("a sweep of %d curves says something of each; take one, as in curve[server=%s].says", len(p.Sweep.Curves),
			p.Sweep.Curves[0].Server)
	}
	if says := p.Says(); says != "" && p.Sweep != nil || p.Search != nil || p.Proof != nil || p.Comparison != nil {
		return textValue(says), nil
	}
	return value{}, fmt.Errorf("the plan has no answer yet, after %d runs; %s", len(p.Runs), p.Onward())
}

func runCount(p *record.Plan) (value, error) {
	return numberValue(kindCount, float64(len(p.Runs))), nil
}

func invalidCount(p *record.Plan) (value, error) {
	n := 0
	for i := range p.Runs {
		if p.Runs[i].Outcome == record.Invalid {
			n++
		}
	}
	return numberValue(kindCount, float64(n)), nil
}
