// axe-core's findings against WCAG 2.2, levels A and AA, in the current state of the page: one line each, with the element.
axe.run(document, { resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] })
	.then(r => r.violations.flatMap(v => v.nodes.map(n =>
		`${v.id}: ${v.help}: ${n.html.slice(0, 200)}: ${n.failureSummary.replaceAll("\n", " ")}`)))
