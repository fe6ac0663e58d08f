package verdict

import (
	"ceiling/experiment/spec"
	"ceiling/record"
)

// inUnit sets the unit of the run on all statements if that is not requests: the sentences are
// the same for all kinds of load.
func inUnit(v *record.Verdict, kind spec.LoadKind) {
	if kind == spec.Requests {
		return
	}
	mark := func(list []record.Statement) {
		for i := range list {
			own := with{"counted": kind.Many()}
			for name, value := range list[i].With {
				own[name] = value
			}
			list[i].With = own
		}
	}
	for _, list := range [][]record.Statement{v.Because, v.Missing, v.Caveats, v.Next} {
		mark(list)
	}
	for _, list := range [][]record.Evidence{v.Evidence, v.Against} {
		for i := range list {
			one := []record.Statement{list[i].Says}
			mark(one)
			list[i].Says = one[0]
		}
	}
	if n := v.NextBottleneck; n != nil {
		one := []record.Statement{n.Says}
		mark(one)
		n.Says = one[0]
	}
}
