package verdict

import (
	"path"
	"slices"

	"ceiling/record"
)

// What the server spends its CPU on, by stacks sampled in the kernel, in any language.

// stacksFewest is the fewest samples for a share: of 100, a share of 40% has a standard error of
// 5 points.
const stacksFewest = 100

// packagesSaid is how many packages a sentence names; one below packageMatters is not worth
// mentioning.
const (
	packagesSaid   = 4
	packageMatters = 0.05
)

// explainCPU adds what the CPU is spent on to a finding that the server's CPU is the limit.
func explainCPU(f *serverSide, found *finding) {
	if !slices.Contains([]record.Bottleneck{record.ServerCPU, record.ServerThread, record.SharedCPU, record.Uneven},
		found.bottleneck) ||
		found.answer != matched {
		return
	}
	says, top := f.base.cpuStackEvidence()
	if says == nil {
		return
	}
	found.pro = slices.Insert(found.pro, 0, *says)
	if found.bottleneck != record.SharedCPU {
		found.because = append(found.because, say("package.most", packageOf(top)))
		found.next = append(found.next, f.namesHint()...)
	}
}

// cpuStackEvidence returns what the samples show, and the package with the most of them; nil if
// there are too few.
func (f *runFacts) cpuStackEvidence() (*record.Evidence, *record.StackPackage) {
	s := f.run.Stacks
	if s == nil || s.CPU == nil || s.CPU.Samples < stacksFewest || len(s.CPU.Packages) == 0 {
		return nil, nil
	}
	top := &s.CPU.Packages[0]
	e := record.NewEvidence("stacks.cpu.packages", top.Share, "share",
		say("packages", with{"packages": packagesOf(s.CPU.Packages), "samples": s.CPU.Samples, "hz": s.CPU.Hz}))
	return &e, top
}

// packagesOf lists the packages that use the most CPU.
func packagesOf(list []record.StackPackage) []record.Statement {
	var most []record.Statement
	for i := range list[:min(len(list), packagesSaid)] {
		if i > 0 && list[i].Share < packageMatters {
			break
		}
		most = append(most, say("package", packageOf(&list[i])))
	}
	return most
}

// packageOf describes a package with its called function and the caller.
func packageOf(p *record.StackPackage) with {
	of := with{"share": p.Share, "package": p.Name, "entry": p.Entry, "caller": p.Caller, "file": path.Base(p.File), "line": p.Line}
	if p.Entry == p.Name {
		of["entry"] = ""
	}
	if p.File == "" {
		of["line"] = 0
	}
	return of
}
