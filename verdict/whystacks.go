package verdict

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
)

// What the server's CPU goes into, by the stacks that the kernel took of it,
// whatever language it is in.

// stacksFewest is how many samples name a share: of 100, one of 40% has a
// standard error of 5 points.
const stacksFewest = 100

// packagesSaid is how many packages a sentence names; one with less than
// packageMatters is not worth a word.
const (
	packagesSaid   = 4
	packageMatters = 0.05
)

// explainCPU says in a finding that says that the server's CPU is the limit what
// the CPU is spent on.
func explainCPU(f *facts, found *finding) {
	if !slices.Contains([]record.Bottleneck{record.ServerCPU, record.ServerThread, record.SharedCPU, record.Uneven}, found.bottleneck) ||
		found.answer != yes {
		return
	}
	says, top := f.cpuStackEvidence()
	if says == nil {
		return
	}
	found.pro = slices.Insert(found.pro, 0, *says)
	if found.bottleneck != record.SharedCPU {
		found.because += "; " + f.packageShare(top)
		if hint := f.namesHint(); hint != "" {
			found.next += "; " + hint
		}
	}
}

// cpuStackEvidence is what the samples say, and the package with most of them;
// nil where there are too few.
func (f *facts) cpuStackEvidence() (*record.Evidence, *record.StackPackage) {
	s := f.run.Stacks
	if s == nil || s.CPU == nil || s.CPU.Samples < stacksFewest || len(s.CPU.Packages) == 0 {
		return nil, nil
	}
	top := &s.CPU.Packages[0]
	e := record.NewEvidence("stacks.cpu.packages", top.Share, "share", "server CPU by stacks: %s (%s at %d Hz)",
		packagesText(s.CPU.Packages), unit.Plural(s.CPU.Samples, "sample", "samples"), s.CPU.Hz)
	return &e, top
}

// packagesText lists the packages with most of the CPU.
func packagesText(list []record.StackPackage) string {
	var parts []string
	for i := range list[:min(len(list), packagesSaid)] {
		if i > 0 && list[i].Share < packageMatters {
			break
		}
		parts = append(parts, packageText(&list[i]))
	}
	return strings.Join(parts, ", ")
}

// packageShare is the largest share in one sentence.
func (f *facts) packageShare(p *record.StackPackage) string {
	name, where := packageName(p), ""
	switch {
	case p.Entry != "" && p.Name != "kernel" && p.Entry != p.Name:
		where = " (" + at(p.Entry, p) + ")"
	case p.Caller != "":
		where = " (called by " + p.Caller + lineOf(p.File, p.Line) + ")"
	}
	return fmt.Sprintf("%s of server CPU in %s%s", unit.Percent(p.Share), name, where)
}

// at is the function of a package that is called, and who calls it.
func at(entry string, p *record.StackPackage) string {
	if p.Caller == "" {
		return entry
	}
	return fmt.Sprintf("%s, called by %s%s", entry, p.Caller, lineOf(p.File, p.Line))
}

func lineOf(file string, line int) string {
	if file == "" || line <= 0 {
		return ""
	}
	return fmt.Sprintf(" at %s:%d", path.Base(file), line)
}

// packageName is a package as a reader knows it.
func packageName(p *record.StackPackage) string {
	switch {
	case p.Name == "kernel" && p.Entry == "interrupt":
		return "the kernel's interrupts"
	case p.Name == "kernel" && p.Entry != "":
		return "the kernel (mostly " + p.Entry + ")"
	case p.Name == "kernel":
		return "the kernel"
	case p.Name == "garbage collector", p.Name == "just-in-time compiler":
		return "the " + p.Name
	}
	return p.Name
}

func packageText(p *record.StackPackage) string {
	text := unit.Percent(p.Share) + " in " + packageName(p)
	if p.Entry != "" && p.Name != "kernel" && p.Entry != p.Name {
		text += " (" + p.Entry + ")"
	}
	return text
}
