package verdict

import "ceiling/record"

// nextBottleneck returns the resource that would be full next, and at what multiple of this run's
// rate; nil if unknown, and of a rate of errors. If both sides compete for the same cores, neither
// side's CPU is a separate bottleneck.
func nextBottleneck(f *cpuFacts, bottleneck record.Bottleneck, all []finding) *record.NextBottleneck {
	var upcoming *record.NextBottleneck
	for _, found := range all {
		switch {
		case found.times < 1 || found.times > timesMost || found.bottleneck == bottleneck, bottleneck == record.Failures:
			continue
		case bottleneck == record.SharedCPU && (found.bottleneck == record.LoadGenerator || found.bottleneck == record.ServerCPU ||
			found.bottleneck == record.ServerThread):
			continue
		case found.bottleneck == record.ServerThread && sameThing(bottleneck, found.bottleneck):
			continue
		case found.bottleneck == record.ServerCPU && bottleneck == record.ServerThread && f.together:
			continue // there the generator uses part of the cores
		}
		if upcoming == nil || found.times < upcoming.Times {
			upcoming = &record.NextBottleneck{Bottleneck: found.bottleneck, Times: found.times,
				Says: say("next-bottleneck", with{"bottleneck": found.bottleneck, "times": found.times, "nearly": found.nearly})}
		}
	}
	return upcoming
}
