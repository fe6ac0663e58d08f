// Filters the entries while the reader chooses: labels together with AND, and words. Without
// script a label is an anchor, and the style sheet hides the rest.
(() => {
	const entries = [...document.querySelectorAll(".entries > li")];
	const chips = [...document.querySelectorAll(".find a[data-kind]")];
	const all = document.querySelector(".find a[href='#entries']");
	const words = document.querySelector("#words");
	const count = document.querySelector("#count");
	if (!entries.length) return;
	document.querySelector("#by-target").remove();
	for (const e of [words, document.querySelector("label[for=words]")]) e.hidden = false;
	const name = a => a.getAttribute("href").slice(1);
	const kind = Object.fromEntries(chips.map(a => [name(a), a.dataset.kind]));
	let chosen = [];

	function show() {
		const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
		let seen = 0;
		for (const li of entries) {
			const text = li.textContent.toLowerCase();
			li.hidden = !chosen.every(c => li.classList.contains(c)) || !wanted.every(w => text.includes(w));
			seen += !li.hidden;
		}
		for (const a of chips) a.toggleAttribute("aria-current", chosen.includes(name(a)));
		for (const a of chips) if (a.hasAttribute("aria-current")) a.setAttribute("aria-current", "true");
		count.textContent = seen === entries.length ? "" : seen ? `${seen} of ${entries.length} entries` : "No entry has all of these.";
	}

	function fromAddress() {
		chosen = location.hash.slice(1).split("+").filter(c => c in kind);
		show();
	}

	function choose(of) {
		const others = chosen.filter(c => c !== of && !(kind[of] !== "tag" && kind[c] === kind[of]));
		chosen = chosen.includes(of) ? others : [...others, of];
		history.replaceState(null, "", "#" + (chosen.join("+") || "entries"));
		show();
	}

	for (const a of chips) a.addEventListener("click", event => { event.preventDefault(); choose(name(a)); });
	all.addEventListener("click", event => {
		event.preventDefault();
		chosen = [];
		words.value = "";
		history.replaceState(null, "", "#entries");
		show();
	});
	words.addEventListener("input", show);
	addEventListener("hashchange", fromAddress);
	fromAddress();
})();
