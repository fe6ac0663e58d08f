// The texts that are only visible by scrolling sideways: outside the window, or beyond the edge of an element that
// scrolls or clips. Ignored: text for screen readers (class unseen) or visible on focus (class skip), the heads of
// tables shown as cards, collapsed content, pictures, and the link row at the top.
[...document.querySelectorAll("body *")].filter(e => {
	if (![...e.childNodes].some(n => n.nodeType === Node.TEXT_NODE && n.textContent.trim())) return false;
	if (e.closest(".unseen, .skip, .plot, .flame-map, svg, nav, script, style") || !e.checkVisibility()) return false;
	const box = e.getBoundingClientRect();
	if (box.width <= 1 || e.closest(".cards thead")) return false;
	for (let at = e; at !== document.body; at = at.parentElement) {
		const edge = at.getBoundingClientRect(), cuts = getComputedStyle(at).overflowX !== "visible";
		if (cuts && (box.right > edge.right + 1 || box.left < edge.left - 1 || at.scrollWidth > at.clientWidth + 1)) return true;
	}
	return box.right > innerWidth + 1 || box.left < -1;
}).map(e => e.tagName.toLowerCase() + " in " + (e.closest("[id]")?.id ?? "the page") + ": " + e.textContent.trim().slice(0, 60))
