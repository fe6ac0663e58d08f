// Replaces the pictures of figures by ones that can be zoomed, and keeps what
// they show of time the same on all of them. What is drawn was worked out
// beforehand: each point covers from[i] to to[i], and no other is made up.
(() => {
	"use strict";

	const family = () => getComputedStyle(document.body).fontFamily;
	const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

	// Three significant digits, as the rest of the page has them.
	const three = x => {
		for (const decimals of [2, 1]) {
			const text = x.toFixed(decimals);
			if (text.length <= 4) return text;
		}
		return x.toFixed(0);
	};
	const prefixed = (x, units, step) => {
		let i = 0;
		while (i < units.length - 1 && Number(three(x)) >= step) { x /= step; i++; }
		return three(x) + units[i];
	};
	const show = (unit, v) => {
		if (v === null || v === undefined) return "–";
		if (v < 0) return "-" + show(unit, -v);
		if (unit === "" && Number.isInteger(v)) return v.toLocaleString("en");
		switch (unit) {
		case "ns": return v < 1e12 ? prefixed(v, [" ns", " µs", " ms", " s"], 1000) : three(v / 6e10) + " min";
		case "bit/s": return prefixed(v, [" bit/s", " kbit/s", " Mbit/s", " Gbit/s", " Tbit/s"], 1000);
		default: return (v === 0 ? "0" : prefixed(v, ["", "k", "M", "G", "T"], 1000)) + unit;
		}
	};

	const clock = (s, step) => {
		if (s === 0) return "0";
		if (step >= 3600) return +(s / 3600).toFixed(2) + " h";
		if (step >= 60) return +(s / 60).toFixed(2) + " min";
		if (step >= .1) return +s.toFixed(2) + " s";
		if (step >= 1e-3) return +(s * 1e3).toFixed(2) + " ms";
		return +(s * 1e6).toFixed(2) + " µs";
	};
	const timeTicks = (min, max, wanted) => {
		const least = (max - min) / Math.max(wanted, 2), power = 10 ** Math.floor(Math.log10(least));
		let step = [1, 2, 5, 10].map(m => m * power).find(s => s >= least * (1 - 1e-9));
		if (least > .5) step = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400].find(s => s >= least) || least;
		const list = [];
		for (let i = Math.ceil(min / step - 1e-9); i * step <= max + step * 1e-9 && list.length < 50; i++) list.push(i * step);
		return { list, step };
	};

	// The place of the point that covers x, or -1.
	const find = (group, x) => {
		let low = 0, high = group.to.length;
		while (low < high) {
			const middle = (low + high) >> 1;
			if (group.to[middle] < x) low = middle + 1; else high = middle;
		}
		return low < group.to.length && group.from[low] <= x ? low : -1;
	};

	const figures = [], heats = [];
	let full = [Infinity, -Infinity], moving = false;

	const zoom = (min, max) => {
		const whole = full[1] - full[0], least = whole / 1e4;
		if (max - min < least) max = min + least;
		if (max - min >= whole) [min, max] = full;
		if (min < full[0]) [min, max] = [full[0], full[0] + max - min];
		if (max > full[1]) [min, max] = [full[1] - (max - min), full[1]];
		moving = true;
		for (const f of figures) f.u.setScale("x", { min, max });
		for (const h of heats) h(min, max);
		moving = false;
		clearTimeout(telling);
		telling = setTimeout(() => address(min, max), 150);
	};

	// What is zoomed into is in the address, so that a link shows the same:
	// #t=1.5,3 in seconds. An address that a browser does not let change stays.
	let telling;
	const filled = () => figures.some(f => f.plot.groups[0].to.length);
	const address = (min, max) => {
		const whole = min <= full[0] && max >= full[1];
		if (!filled() || whole && !location.hash.startsWith("#t=")) return;
		try {
			history.replaceState(null, "", whole ? location.pathname + location.search : "#t=" + +min.toFixed(4) + "," + +max.toFixed(4));
		} catch { /* a document without an address */ }
	};
	const addressed = () => {
		const [min, max] = (location.hash.match(/^#t=(-?[\d.]+),(-?[\d.]+)$/) || []).slice(1).map(Number);
		if (filled() && max > min) zoom(min, max);
	};

	// The cells of a run that goes on: each point has its first step and the counts from it on (hist.StepNs).
	const cells = (ctx, g, x, y) => {
		const usual = g.to.map((to, i) => to - g.from[i]).sort((a, b) => a - b)[g.to.length >> 1];
		const shade = (i, n) => Math.log1p(n * usual / (g.to[i] - g.from[i]));
		const most = Math.max(Math.log1p(1), ...g.cells.map(([, ...counts], i) => shade(i, Math.max(0, ...counts))));
		ctx.fillStyle = colour("--density");
		g.cells.forEach(([first, ...counts], i) => {
			const left = x(g.from[i]), width = Math.max(x(g.to[i]) - left, 1);
			counts.forEach((n, step) => {
				if (!n) return;
				const top = y(2 ** ((first + step + 1) / 4));
				ctx.globalAlpha = .12 + .88 * shade(i, n) / most;
				ctx.fillRect(left, top, width, y(2 ** ((first + step) / 4)) - top);
			});
		});
		ctx.globalAlpha = 1;
	};

	// The heat map is the picture that is there without script, cut to what is shown.
	const density = (ctx, plot, image, x, y) => {
		const d = plot.density;
		if (plot.groups[0]?.cells) cells(ctx, plot.groups[0], x, y);
		if (!d || !image?.complete) return;
		ctx.imageSmoothingEnabled = false;
		ctx.drawImage(image, x(d.from), y(d.high), x(d.to) - x(d.from), y(d.low) - y(d.high));
	};

	const spans = (ctx, plot, x, top, height, ratio) => {
		let free = -Infinity; // where the room for the next label begins
		for (const s of plot.spans || []) {
			ctx.globalAlpha = .13;
			ctx.fillStyle = colour("--tone-" + s.tone);
			ctx.fillRect(x(s.from), top, Math.max(x(s.to) - x(s.from), ratio), height);
			ctx.globalAlpha = 1;
			ctx.textAlign = "center";
			ctx.textBaseline = "top";
			ctx.font = 12 * ratio + "px " + family();
			ctx.fillStyle = colour("--soft");
			const middle = (x(s.from) + x(s.to)) / 2, half = ctx.measureText(s.name).width / 2 + 2 * ratio;
			if (middle - half < free) continue;
			ctx.fillText(s.name, middle, top + 2 * ratio);
			free = middle + half;
		}
	};

	const draw = (u, plot, image) => {
		const ctx = u.ctx, x = v => u.valToPos(v, "x", true), y = v => u.valToPos(plot.y.log ? Math.max(v, plot.y.min) : v, "y", true);
		const { left, top, width, height } = u.bbox, { min, max } = u.scales.x, ratio = devicePixelRatio;
		ctx.save();
		ctx.beginPath();
		ctx.rect(left, top - 4 * ratio, width, height + 5 * ratio);
		ctx.clip();
		density(ctx, plot, image, x, y);
		spans(ctx, plot, x, top, height, ratio);
		if (plot.groups.length === 1) {
			const g = plot.groups[0];
			ctx.fillStyle = colour("--outside");
			ctx.fillRect(left, top, x(g.opens || 0) - left, height);
			ctx.fillRect(x(g.closes), top, left + width - x(g.closes), height);
		}
		let drawn = 0;
		for (const g of plot.groups) for (const line of g.lines) {
			const tone = colour("--tone-" + line.tone);
			if (line.low) {
				ctx.globalAlpha = .22;
				ctx.fillStyle = tone;
				line.low.forEach((low, i) => {
					if (low === null || g.to[i] < min || g.from[i] > max) return;
					ctx.fillRect(x(g.from[i]), y(line.high[i]), Math.max(x(g.to[i]) - x(g.from[i]), 1), y(low) - y(line.high[i]));
				});
				ctx.globalAlpha = 1;
			}
			ctx.beginPath();
			let open = false;
			line.mid.forEach((v, i) => {
				if (v === null || g.to[i] < min || g.from[i] > max) { open = false; return; }
				if (open && g.from[i] - g.to[i - 1] > .5 * (g.to[i] - g.from[i])) open = false;
				if (open) ctx.lineTo(x(g.from[i]), y(v)); else ctx.moveTo(x(g.from[i]), y(v));
				ctx.lineTo(x(g.to[i]), y(v));
				open = true;
				drawn++;
			});
			if (plot.density || g.cells) {
				ctx.strokeStyle = colour("--paper");
				ctx.globalAlpha = .7;
				ctx.lineWidth = 4 * ratio;
				ctx.setLineDash([]);
				ctx.stroke();
				ctx.globalAlpha = 1;
			}
			ctx.strokeStyle = tone;
			ctx.lineWidth = 1.6 * ratio;
			ctx.setLineDash(line.dashed ? [5 * ratio, 4 * ratio] : []);
			ctx.stroke();
		}
		ctx.setLineDash([2 * ratio, 3 * ratio]);
		ctx.strokeStyle = ctx.fillStyle = colour("--limit");
		for (const l of plot.limits || []) {
			ctx.beginPath();
			ctx.moveTo(left, y(l.at));
			ctx.lineTo(left + width, y(l.at));
			ctx.stroke();
			ctx.textAlign = "right";
			ctx.textBaseline = "bottom";
			ctx.font = "600 " + 12 * ratio + "px " + family();
			ctx.fillText(l.name, left + width - 4 * ratio, y(l.at) - 2 * ratio);
		}
		for (const g of plot.groups) for (const i of g.late || []) {
			const v = g.lines[0].mid[i];
			if (v === null || g.to[i] < min || g.from[i] > max) continue;
			ctx.beginPath();
			ctx.arc(x((g.from[i] + g.to[i]) / 2), y(v), 3.5 * ratio, 0, 2 * Math.PI);
			ctx.fill();
		}
		ctx.restore();
		return drawn;
	};

	// What the lines have at the time that is pointed at, with their names.
	const tell = (figure, plot, x) => {
		const values = figure.querySelectorAll(".legend .now");
		let n = 0;
		for (const g of plot.groups) {
			const i = x === null ? -1 : find(g, x);
			for (const line of g.lines) {
				let text = "";
				if (i >= 0 && line.mid[i] !== null) {
					text = show(plot.y.unit, line.mid[i]);
					if (line.low && line.low[i] !== line.high[i]) text += " (" + show(plot.y.unit, line.low[i]) + " to " + show(plot.y.unit, line.high[i]) + ")";
				}
				if (values[n]) values[n].textContent = text;
				n++;
			}
		}
	};

	// The arrow keys step from point to point, and read out the one that is chosen.
	const keys = (box, plot) => {
		const said = box.appendChild(document.createElement("p"));
		said.className = "unseen";
		said.setAttribute("role", "status");
		box.tabIndex = 0;
		box.setAttribute("role", "group");
		box.setAttribute("aria-label", plot.title + ". Arrow keys select points, + and − zoom, 0 shows the whole run.");
		let at = -1;
		box.addEventListener("blur", () => { at = -1; point(null); });
		box.addEventListener("keydown", event => {
			if (event.ctrlKey || event.altKey || event.metaKey) return;
			const g = plot.groups[0], last = g.to.length - 1;
			const step = { ArrowLeft: at < 0 ? last : at - 1, ArrowRight: at + 1, Home: 0, End: last, Escape: -1 }[event.key];
			const scale = { "+": .5, "-": 2, 0: Infinity }[event.key];
			if (scale) scaled(scale);
			if (step === undefined) return;
			event.preventDefault();
			at = step < 0 ? -1 : Math.min(step, last);
			point(at < 0 ? null : (g.from[at] + g.to[at]) / 2);
			said.textContent = at < 0 ? "" : [clock(g.to[at], .1), ...g.lines.map(l => l.name + " " + show(plot.y.unit, l.mid[at])), g.says?.[at],
				g.late?.includes(at) && "late"].filter(Boolean).join(", ");
		});
	};
	const point = x => {
		for (const f of figures) f.u.setCursor({ left: x === null ? -10 : f.u.valToPos(x, "x"), top: 0 }, true, false);
	};
	const now = () => [figures[0].u.scales.x.min, figures[0].u.scales.x.max];
	const scaled = by => {
		const [a, b] = now(), half = Math.min((b - a) / 2 * by, full[1] - full[0]);
		zoom((a + b) / 2 - half, (a + b) / 2 + half);
	};

	// A figure of a run that goes on: the event says how its plot has changed.
	const grow = (figure, plot, u) => figure.addEventListener("grown", event => {
		const first = !plot.groups[0].to.length, [min, max] = now(), whole = first || min <= full[0] && max >= full[1];
		event.detail(plot);
		if (first && !plot.groups[0].to.length) return;
		full = [Math.min(...figures.map(f => f.plot.x.min)), Math.max(...figures.map(f => f.plot.x.max))];
		figure.dataset.points = plot.groups[0].to.length;
		u.setData([[plot.x.min, plot.x.max], [plot.y.min, plot.y.min]], false);
		moving = true;
		u.setScale("x", whole ? { min: full[0], max: full[1] } : { min, max });
		moving = false;
		if (first) addressed();
	});

	const mount = figure => {
		const plot = JSON.parse(figure.querySelector(".points").textContent), box = figure.querySelector(".live");
		full = [Math.min(full[0], plot.x.min), Math.max(full[1], plot.x.max)];
		let image = null;
		if (plot.density) {
			image = new Image();
			image.addEventListener("load", () => u.redraw(false, true));
			image.src = figure.querySelector("image.density").getAttribute("href");
		}
		figure.classList.add("zooming");
		const size = () => ({ width: Math.max(box.clientWidth, 120), height: figure.querySelector(".plot-size").offsetHeight });
		const narrow = matchMedia("(max-width: 34rem)").matches, font = (narrow ? 11 : 12) + "px " + family();
		const axis = { font, stroke: () => colour("--soft"), ticks: { show: false }, grid: { stroke: () => colour("--rule"), width: 1 } };
		const u = new uPlot({
			...size(),
			legend: { show: false },
			padding: [8, 12, 0, 0],
			cursor: { drag: { x: true, y: false, dist: 5 }, sync: { key: "time" }, y: false, points: { show: false } },
			scales: {
				x: { time: false, range: (_, min, max) => [min, max] },
				y: { distr: plot.y.log ? 3 : 1, range: () => [plot.y.min, plot.y.max] },
			},
			axes: [
				{ ...axis, size: 26, gap: 4, grid: { show: false }, splits: (u, _, min, max) => timeTicks(min, max, u.width / 90).list,
					values: (u, list) => { const { step } = timeTicks(u.scales.x.min, u.scales.x.max, u.width / 90); return list.map(v => clock(v, step)); } },
				{ ...axis, size: narrow ? 58 : 70, gap: 6, splits: () => plot.y.ticks.map(t => t.at), filter: (_, list) => list, values: () => plot.y.ticks.map(t => t.label) },
			],
			series: [{}, { show: true, paths: () => null, points: { show: false } }],
			hooks: {
				draw: [u => { figure.dataset.drawn = draw(u, plot, image); }],
				setScale: [(u, key) => { if (key === "x" && !moving) zoom(u.scales.x.min, u.scales.x.max); }],
				setCursor: [u => tell(figure, plot, u.cursor.left >= 0 ? u.posToVal(u.cursor.left, "x") : null)],
			},
		}, [[plot.x.min, plot.x.max], [plot.y.min, plot.y.min]], box);
		u.root.setAttribute("role", "img");
		u.root.setAttribute("aria-label", plot.title + ". " + plot.says);
		figures.push({ u, plot });
		let wide = box.clientWidth;
		new ResizeObserver(() => {
			if (box.clientWidth && box.clientWidth !== wide) { wide = box.clientWidth; u.setSize(size()); }
		}).observe(box);
		buttons(figure, plot);
		keys(box, plot);
		grow(figure, plot, u);
	};

	const buttons = (figure, plot) => {
		const row = document.createElement("div");
		row.className = "zoom";
		row.setAttribute("role", "group");
		row.setAttribute("aria-label", "Zoom " + plot.title.toLowerCase());
		const moved = by => { const [a, b] = now(), d = (b - a) * by; zoom(a + d, b + d); };
		for (const [sign, name, act] of [["◀", "Earlier", () => moved(-.5)], ["▶", "Later", () => moved(.5)], ["+", "Zoom in", () => scaled(.5)],
			["−", "Zoom out", () => scaled(2)], ["Whole", "The whole run", () => zoom(...full)]]) {
			const b = document.createElement("button");
			b.type = "button";
			b.textContent = sign;
			b.title = name;
			if (sign !== name) b.setAttribute("aria-label", sign.length > 1 ? sign + ": " + name.toLowerCase() : name);
			b.addEventListener("click", act);
			row.append(b);
		}
		figure.querySelector("figcaption").append(row);
	};

	// A heat map is a picture with a pixel for each column: it is stretched, and
	// moved behind its frame.
	const heat = box => {
		const from = +box.dataset.from, to = +box.dataset.to, images = box.querySelectorAll(".heat-map img"), across = box.querySelector(".plot-across");
		heats.push((min, max) => {
			for (const img of images) {
				img.style.width = 100 * (to - from) / (max - min) + "%";
				img.style.marginLeft = 100 * (from - min) / (max - min) + "%";
			}
			const { list, step } = timeTicks(min, max, across.clientWidth / 90);
			across.replaceChildren(...list.map(v => {
				const s = document.createElement("span");
				s.textContent = clock(v, step);
				s.style.left = 100 * (v - min) / (max - min) + "%";
				return s;
			}));
		});
	};

	for (const figure of document.querySelectorAll("figure[data-zoom]")) mount(figure);
	for (const box of document.querySelectorAll(".heat-rows")) heat(box);
	addressed();
	addEventListener("hashchange", addressed);
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { for (const f of figures) f.u.redraw(false, true); });
})();
