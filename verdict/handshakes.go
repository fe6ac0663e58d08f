package verdict

import "ceiling/record"

// handshakeEvidence returns what TLS handshakes cost the generator, if that matters.
func (f *runFacts) handshakeEvidence() []record.Evidence {
	t, g := f.run.Load.TLS, &f.run.Generator
	cpuNs := positive(float64(g.UserNs + g.SystemNs))
	if t == nil || t.Count() == 0 || cpuNs == 0 {
		return nil
	}
	share := positive(float64(t.CPUNs)) / cpuNs
	if share < handshakesMatter || share > 1 {
		return nil
	}
	return []record.Evidence{record.NewEvidence("load.tls.handshake_cpu_ns", share, "share",
		say("generator.handshakes", with{"share": share, "each_ns": float64(t.CPUNs) / float64(t.Count())}))}
}

// ofTheHandshakes adds that the run measured handshakes as much as requests.
func (d *caveats) ofTheHandshakes(run *record.Run) {
	t := run.Load.TLS
	if t == nil || run.Requests.Completed == 0 || float64(t.Count()) < handshakesMatter*float64(run.Requests.Completed) {
		return
	}
	d.add("caveat.handshakes", with{"handshakes": t.Count(), "requests": run.Requests.Completed, "asked": run.Spec.NewConnections > 0})
}
