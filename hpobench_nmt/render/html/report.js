"use strict";
// Sorting, hiding methods, choosing a table, tooltips, replays, the theme. Data only ever becomes text nodes.
(() => {
  const root = document.documentElement;
  const $ = (id) => document.getElementById(id);
  const all = (query, from = document) => [...from.querySelectorAll(query)];
  const { figures, methods } = JSON.parse($("data").textContent);
  const hidden = new Set();
  const element = (name, text, parent) => {
    const made = document.createElement(name);
    if (text) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  };

  // Theme: the system's until the reader chooses.
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const theme = $("theme");
  const label = () => { theme.textContent = isDark() ? "Light" : "Dark"; };
  theme.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; label(); });
  system.addEventListener("change", label);
  theme.hidden = false;
  label();

  // Tables: one at a time.
  const blocks = all("[data-table]");
  const choose = (table) => {
    for (const block of blocks) block.hidden = block.dataset.table !== table;
  };
  for (const radio of all("input[name=table]")) {
    radio.addEventListener("change", () => choose(radio.value));
    if (radio.checked) choose(radio.value);
  }
  $("controls").hidden = false;

  // Methods: a class on the root hides one everywhere; the style sheet has a rule for each.
  const toggles = all("[data-toggle]");
  const show = (place, shown) => {
    if (shown) hidden.delete(place); else hidden.add(place);
    root.classList.toggle(`hide-${place}`, !shown);
  };
  const refresh = () => {
    for (const button of toggles) {
      button.setAttribute("aria-pressed", String(!hidden.has(Number(button.dataset.toggle))));
    }
    leave();
  };
  for (const button of toggles) {
    const place = Number(button.dataset.toggle);
    button.addEventListener("click", () => { show(place, hidden.has(place)); refresh(); });
    for (const [event, on] of [["pointerenter", true], ["pointerleave", false], ["focus", true], ["blur", false]]) {
      button.addEventListener(event, () => {
        if (event === "focus" && !button.matches(":focus-visible")) return;
        root.classList.toggle(`lift-${place}`, on);
      });
    }
  }
  $("all-methods").addEventListener("click", () => {
    for (const place of [...hidden]) show(place, true);
    refresh();
  });

  // Sorting: what has no value comes last, either way.
  for (const button of all("[data-sort]")) {
    button.addEventListener("click", () => {
      const header = button.closest("th");
      const table = button.closest("table");
      const first = button.dataset.first || "ascending";
      const other = first === "ascending" ? "descending" : "ascending";
      const order = header.getAttribute("aria-sort") === first ? other : first;
      for (const th of all("th[aria-sort]", table)) th.removeAttribute("aria-sort");
      header.setAttribute("aria-sort", order);
      const column = Number(button.dataset.sort);
      const key = (row) => all("[data-v]", row)[column].dataset.v;
      const sign = order === "ascending" ? 1 : -1;
      const body = table.tBodies[0];
      const rows = [...body.rows].map((row) => [key(row), row]);
      rows.sort(([a], [b]) => {
        if (a === "" || b === "") return (a === "") - (b === "");
        return sign * (column ? Number(a) - Number(b) : a.localeCompare(b));
      });
      body.append(...rows.map(([, row]) => row));
      $("say").textContent = `sorted by ${button.textContent}, ${order}`;
    });
  }

  // Tooltips: the values of all methods at the nearest point, or the nearest row of a table.
  const tip = $("tip");
  const svgns = "http://www.w3.org/2000/svg";
  let marks = null;
  let current = null;
  const leave = () => {
    tip.hidden = true;
    if (marks) marks.remove();
    marks = current = null;
  };
  const shape = (parent, name, attributes) => {
    const made = document.createElementNS(svgns, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    parent.append(made);
    return made;
  };
  const draw = (name, attributes) => shape(marks, name, attributes);
  const place = (svg, x, y) => {
    const spot = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
    const box = tip.getBoundingClientRect();
    const left = spot.x + 14 + box.width > innerWidth ? spot.x - 14 - box.width : spot.x + 14;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, Math.min(spot.y - 20, innerHeight - box.height - 4))}px`;
  };
  const start = (plot) => {
    leave();
    marks = shape(plot.firstElementChild, "g", {});
    tip.replaceChildren();
    tip.hidden = false;
  };
  const lines = (plot, found, i, y) => {
    start(plot);
    const [, top, , bottom] = found.frame;
    draw("path", { class: "cross", d: `M${found.x[i]} ${top}V${bottom}` });
    element("b", found.at[i], tip);
    const shown = found.lines.filter((line) => !hidden.has(line.m) && line.y[i] !== null);
    shown.sort((a, b) => a.y[i] - b.y[i]);
    for (const line of shown) {
      const row = element("div", "", tip);
      const swatch = document.querySelector(`[data-swatch="${line.m}"]`);
      row.append(swatch.cloneNode(true));
      element("span", methods[line.m], row);
      const value = element("span", line.v[i], row);
      if (line.q && line.q[i]) element("i", line.q[i], value);
      if (line.y[i] >= top - 1 && line.y[i] <= bottom + 1) {
        const dot = draw("circle", { class: "point", cx: found.x[i], cy: line.y[i], r: 3.5 });
        dot.style.fill = `var(--m${line.m})`;
      }
    }
    place(plot.firstElementChild, found.x[i], y === undefined ? (top + bottom) / 3 : y);
    current = [plot, i];
  };
  const point = (plot, found, i) => {
    start(plot);
    const [x, y, row, ...values] = found.points[i];
    draw("circle", { class: "cross", cx: x, cy: y, r: 6, fill: "none" });
    element("b", `row ${row}`, tip);
    found.labels.forEach((name, j) => element("span", `${j ? ", " : ""}${name} ${values[j]}`, tip));
    place(plot.firstElementChild, x, y);
    current = [plot, i];
  };
  const nearest = (distances) => distances.reduce((best, d, i) => (d < distances[best] ? i : best), 0);
  for (const plot of all("[data-hover]")) {
    const found = figures[plot.id];
    const show = found.lines ? lines : point;
    const count = (found.x || found.points).length;
    const svg = plot.firstElementChild;
    if (!count) continue;
    plot.addEventListener("pointermove", (event) => {
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      const [left, top, right, bottom] = found.frame;
      if (at.x < left - 8 || at.x > right + 8 || at.y < top - 8 || at.y > bottom + 8) return leave();
      if (found.lines) return show(plot, found, nearest(found.x.map((x) => Math.abs(x - at.x))), at.y);
      return show(plot, found, nearest(found.points.map(([x, y]) => (x - at.x) ** 2 + (y - at.y) ** 2)));
    });
    plot.addEventListener("pointerleave", leave);
    plot.addEventListener("blur", leave);
    plot.addEventListener("keydown", (event) => {
      if (event.key === "Escape") return leave();
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return undefined;
      event.preventDefault();
      const order = found.x ? found.x.map((x, i) => [x, i]).sort((a, b) => a[0] - b[0]).map(([, i]) => i) : null;
      const before = current && current[0] === plot ? (order ? order.indexOf(current[1]) : current[1]) : step > 0 ? -1 : count;
      const next = Math.max(0, Math.min(count - 1, before + step));
      show(plot, found, order ? order[next] : next);
      $("say").textContent = [...tip.children].map((child) => child.textContent).join(", ");
      return undefined;
    });
  }
  // Replays: the look-ups of a trial, one after another, on the figure above the controls.
  const replay = (box, plot, { frame: [left, top, right, bottom], labels, replay: found }) => {
    const layer = shape(plot.firstElementChild, "g", {});
    const within = (value, low, high) => Math.max(low, Math.min(high, value));
    plot.classList.add("moves");
    const label = element("label", "Trial of ", box);
    const choice = element("select", "", label);
    found.trials.forEach((trial, i) => { element("option", methods[trial.m], choice).value = i; });
    const button = element("button", "Play", box);
    button.type = "button";
    const slider = element("input", "", box);
    slider.type = "range";
    slider.min = 1;
    slider.setAttribute("aria-label", "Look-ups");
    const told = element("output", "", box);
    let timer = null;
    const show = () => {
      const trial = found.trials[choice.value];
      const step = Number(slider.value);
      const colour = `var(--m${trial.m})`;
      const taken = trial.rows.slice(0, step).map((place, i) => {
        const [row, x, y, first, second, best, ...config] = found.rows[place];
        const at = x === null || y === null ? null : [within(x, left, right), within(y, top, bottom)];
        return { row, at, outside: at && (at[0] !== x || at[1] !== y), values: [first, second], best, config, held: trial.last[i] >= step };
      });
      layer.replaceChildren();
      layer.dataset.m = trial.m;
      const held = taken.filter((each) => each.held && each.at);
      const corners = held.map((each) => each.at).sort((a, b) => a[0] - b[0] || b[1] - a[1]);
      if (found.up !== null && corners.length > 1) {
        const d = corners.map(([x, y], i) => (i === 0 ? `M${x} ${y}` : found.up ? `V${y}H${x}` : `H${x}V${y}`)).join("");
        shape(layer, "path", { class: "stairs", d }).style.stroke = colour;
      }
      taken.forEach((each, i) => {
        if (!each.at) return;
        const dot = shape(layer, "circle", { class: each.held ? "held" : "taken", cx: each.at[0], cy: each.at[1], r: each.held ? 4.5 : 3 });
        dot.style.fill = each.outside ? "var(--paper)" : colour;
        if (!each.held) dot.style.opacity = 0.25 + (0.6 * (i + 1)) / step;
        if (each.outside) dot.style.stroke = colour;
      });
      const now = taken[step - 1];
      if (now.at) shape(layer, "circle", { class: "now", cx: now.at[0], cy: now.at[1], r: 8 });
      const config = found.names.map((name, i) => `${name} ${now.config[i]}`).filter((text, i) => now.config[i] !== "");
      const values = labels.map((name, i) => `${name} ${now.values[i]}`).join(", ");
      const best = held.filter((each) => each.best).length;
      told.replaceChildren();
      element("b", `Look-up ${step} of ${trial.rows.length}: row ${now.row}, ${values}${now.outside ? " (outside of the figure)" : ""}`, told);
      element("span", `${config.join(", ")}. Front so far: ${held.length} ${held.length === 1 ? "row" : "rows"}, ${best} of them on the table’s front of ${found.front}.`, told);
      slider.setAttribute("aria-valuetext", `${step} of ${trial.rows.length}, row ${now.row}`);
    };
    const pause = () => {
      clearInterval(timer);
      timer = null;
      button.textContent = "Play";
      told.setAttribute("aria-live", "polite");
    };
    const begin = () => {
      pause();
      slider.max = found.trials[choice.value].rows.length;
      slider.value = slider.max;
      show();
    };
    button.addEventListener("click", () => {
      if (timer) return pause();
      const last = Number(slider.max);
      if (Number(slider.value) === last) slider.value = 1;
      told.setAttribute("aria-live", "off");
      button.textContent = "Pause";
      show();
      timer = setInterval(() => {
        if (Number(slider.value) >= last) return pause();
        slider.value = Number(slider.value) + 1;
        return show();
      }, Math.max(80, Math.min(600, 15000 / last)));
      return undefined;
    });
    slider.addEventListener("input", () => { pause(); show(); });
    choice.addEventListener("change", begin);
    choice.value = Math.max(0, found.trials.findIndex((trial) => trial.m === found.first));
    begin();
    box.hidden = false;
  };
  for (const box of all("[data-replay]")) replay(box, $(box.dataset.replay), figures[box.dataset.replay]);
  // A tooltip of the keyboard's stays with its figure, the pointer's has lost its place.
  addEventListener("scroll", () => {
    if (!current) return;
    const [plot, i] = current;
    if (plot !== document.activeElement) return leave();
    const found = figures[plot.id];
    return (found.lines ? lines : point)(plot, found, i);
  }, { passive: true });
})();
