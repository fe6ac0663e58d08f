// The program renders everything that has words, with the blocks of a report: an event named "part" has the place of
// some HTML, and the HTML. Only the points of the charts are JSON.
(() => {
	"use strict";
	const $ = id => document.getElementById(id);
	let source, points = [], axes = {}, failures = 0, due = false;

	const connect = () => {
		source = new EventSource("events");
		source.addEventListener("open", () => link("live", "live"));
		source.addEventListener("part", e => {
			failures = 0;
			document.body.classList.remove("killed");
			const at = e.data.indexOf("\n"), next = document.createElement("template");
			next.innerHTML = e.data.slice(at + 1);
			show($("part-" + e.data.slice(0, at)), next.content);
		});
		source.addEventListener("axes", e => { axes = JSON.parse(e.data); later(); });
		source.addEventListener("history", e => { points = JSON.parse(e.data); later(); });
		source.addEventListener("more", e => { points.push(...JSON.parse(e.data)); later(); });
		source.addEventListener("end", () => {
			source.close();
			if ($("title").className === "killed") link("lost", "killed"); else link("ended", "ended");
		});
		source.addEventListener("error", lost);
	};

	// What stays of a part is the same element as before: what is focused, selected, scrolled or unfolded remains so.
	const show = (box, next) => {
		patch(box, next);
		for (const e of box.querySelectorAll("[data-style]")) if (e.style.cssText !== e.dataset.style) e.style.cssText = e.dataset.style;
		document.title = ($("title")?.className ? "ended: " : "") + document.querySelector("h1").textContent + " · ceiling";
	};
	const patch = (old, next) => {
		const now = [...old.childNodes], wanted = [...next.childNodes];
		wanted.forEach((child, i) => {
			const was = now[i];
			if (!was) old.append(child);
			else if (was.nodeName !== child.nodeName) was.replaceWith(child);
			else if (was.nodeType !== Node.ELEMENT_NODE) { if (was.data !== child.data) was.data = child.data; }
			else {
				for (const { name, value } of child.attributes) if (was.getAttribute(name) !== value) was.setAttribute(name, value);
				for (const { name } of [...was.attributes]) if (!child.hasAttribute(name) && name !== "open" && name !== "style") was.removeAttribute(name);
				patch(was, child);
			}
		});
		for (const was of now.slice(wanted.length)) was.remove();
	};

	// later draws once for all that arrives together, and not while the page is hidden.
	const later = () => {
		if (due || document.hidden) return;
		due = true;
		requestAnimationFrame(() => {
			due = false;
			for (const [id, lines] of [["rate", [2]], ["response", [3, 4, 5]]]) $(id).dispatchEvent(new CustomEvent("grown", { detail: plot => {
				const [g] = plot.groups;
				Object.assign(plot, axes[id], { groups: [g] });
				Object.assign(g, { from: points.map(p => p[0] - p[1]), to: points.map(p => p[0]), says: points.map(p => p[6]), opens: 0, closes: plot.x.max });
				g.late = points.flatMap((p, i) => p[7] ? [i] : []);
				if (id === "response") g.cells = points.map(p => p[8]);
				g.lines.forEach((line, i) => { line.mid = points.map(p => p[lines[i]]); });
			} }));
		});
	};
	document.addEventListener("visibilitychange", later);

	const link = (state, text) => {
		$("connection").dataset.state = state;
		$("connection").textContent = text;
		if (state !== "lost") trouble();
	};
	const trouble = (...what) => {
		$("trouble").replaceChildren(...what);
		$("trouble").hidden = !what.length;
	};

	// The browser reconnects; after 12 failures the page stops and shows a button. What is shown is old from the third
	// on, and grey.
	const lost = () => {
		if (source.readyState === EventSource.CLOSED) failures = 12;
		failures++;
		link("lost", failures < 12 ? "no connection" : "lost");
		document.body.classList.toggle("killed", failures > 2);
		if (failures < 12) return trouble("Connection lost. Reconnecting; no data will be missing.");
		source.close();
		if ($("doing")) $("doing").textContent = "connection to ceiling lost";
		const again = document.createElement("button"), id = $("id")?.textContent;
		again.type = "button";
		again.textContent = "Retry";
		again.addEventListener("click", () => { failures = 0; trouble(); link("connecting", "connecting"); connect(); });
		trouble("Lost connection to ceiling: the run has finished, or its process was killed. To see which: ceiling " + (id ? "show " + id : "list"), again);
	};

	// A link leads to its place. The address stays: it has what is zoomed into.
	document.addEventListener("click", e => {
		const to = e.target.closest('a[href^="#"]')?.getAttribute("href").slice(1);
		if (!to) return;
		e.preventDefault();
		for (const one of document.querySelectorAll(".pointed")) one.classList.remove("pointed");
		$(to)?.classList.add("pointed");
		$(to)?.scrollIntoView({ block: "nearest" });
	});

	connect();
})();
