// A box that scrolls sideways can be reached with the keyboard; one that has
// nothing to scroll is passed over.
(() => {
	"use strict";
	const look = () => {
		for (const box of document.querySelectorAll(".scroll")) {
			if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0; else box.removeAttribute("tabindex");
		}
	};
	look();
	addEventListener("resize", look);
	addEventListener("toggle", look, true);
})();

// A flame graph: a click on a box makes it as wide as the graph, the search marks
// the boxes whose text has a word and says what share of all they hold.
(() => {
	"use strict";
	for (const figure of document.querySelectorAll("figure.flame")) {
		const map = figure.querySelector(".flame-map");
		if (!map) continue;
		const tools = figure.querySelector(".flame-tools");
		const [search, all, status] = [tools.querySelector("input"), tools.querySelector("button"), tools.querySelector("[role=status]")];
		const boxes = [...map.children].map((el) => ({ el, left: parseFloat(el.style.left), width: parseFloat(el.style.width), text: el.title.toLowerCase() }));
		const whole = { left: 0, width: 100 };
		const zoom = (to) => {
			const end = to.left + to.width, near = 1e-4 * Math.max(to.width, 0.01);
			for (const b of boxes) {
				const from = Math.max(b.left, to.left), until = Math.min(b.left + b.width, end);
				const covers = b.left <= to.left + near && b.left + b.width >= end - near;
				b.el.classList.toggle("gone", until - from <= near);
				b.el.classList.toggle("below", to !== whole && covers && b.width > to.width + near);
				b.el.style.left = 100 * (from - to.left) / to.width + "%";
				b.el.style.width = 100 * Math.max(until - from, 0) / to.width + "%";
			}
			all.hidden = to === whole;
		};
		const find = () => {
			const word = search.value.trim().toLowerCase();
			let share = 0, until = -1, largest = null;
			const found = boxes.filter((b) => word !== "" && b.text.includes(word));
			for (const b of boxes) b.el.classList.remove("found");
			for (const b of found) {
				b.el.classList.add("found");
				if (largest === null || b.width > largest.width) largest = b;
			}
			for (const b of found.sort((a, b) => a.left - b.left || b.width - a.width)) {
				const from = Math.max(b.left, until);
				share += Math.max(b.left + b.width - from, 0);
				until = Math.max(until, b.left + b.width);
			}
			status.textContent = word === "" ? "" : found.length === 0 ? "not found" : share.toFixed(1) + "% is in it or in what it calls";
			return largest;
		};
		map.classList.add("zoomable");
		tools.hidden = false;
		map.addEventListener("click", (event) => {
			const b = boxes.find((one) => one.el === event.target);
			if (b) zoom(b.width >= 99.999 ? whole : b);
		});
		all.addEventListener("click", () => zoom(whole));
		search.addEventListener("input", find);
		search.addEventListener("keydown", (event) => {
			if (event.key === "Enter") { const b = find(); if (b) zoom(b); }
			if (event.key === "Escape") { search.value = ""; find(); zoom(whole); }
		});
	}
})();

// Panels share an axis: what all of them say of the load that is pointed at is above
// them, and a click goes to its first run.
(() => {
	"use strict";
	for (const panels of document.querySelectorAll(".panels")) {
		const loads = JSON.parse(panels.querySelector("script.loads").textContent) || [];
		if (loads.length === 0) continue;
		const says = panels.querySelector(".panel-says");
		const crosses = [...panels.querySelectorAll(".plot-area")].map((area) => {
			const cross = area.appendChild(document.createElement("span"));
			cross.className = "panel-cross";
			cross.hidden = true;
			return cross;
		});
		panels.classList.add("pointed");
		says.textContent = "Point at a load to read it in all panels.";
		const nearest = (event) => {
			const area = event.target.closest(".plot-area");
			if (!area) return null;
			const box = area.getBoundingClientRect();
			const at = 100 * (event.clientX - box.left) / box.width;
			return loads.reduce((best, l) => Math.abs(l.at - at) < Math.abs(best.at - at) ? l : best);
		};
		panels.addEventListener("pointermove", (event) => {
			const load = nearest(event);
			for (const cross of crosses) {
				cross.hidden = !load;
				if (load) cross.style.left = load.at + "%";
			}
			if (load) says.textContent = load.says;
		});
		panels.addEventListener("click", (event) => {
			const load = nearest(event);
			if (!load || !load.run) return;
			const row = document.getElementById(load.run);
			const fold = row && row.closest("details");
			if (fold) fold.open = true;
			location.hash = load.run;
		});
	}
})();

// A command is copied where the browser allows it.
(() => {
	"use strict";
	if (!navigator.clipboard) return;
	document.documentElement.classList.add("copies");
	document.addEventListener("click", async (event) => {
		const button = event.target.closest("button.copy");
		if (!button) return;
		await navigator.clipboard.writeText(button.previousElementSibling.textContent);
		button.textContent = "Copied";
	});
})();
